"""The settings file, and paths in settings: a part of `Settings`.

A client starts the server in the folder that it has open, which may be a stranger's. So nothing is
read there unasked, and no path in a setting depends on it.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

from platformdirs import user_config_path
from pydantic import AfterValidator

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.notation import printable
from mcp_server_qdrant.core.ownership import others_may_write

ENV_FILE = ".env"
RELATIVE = (
    "{} is relative to the folder that the server happens to be started in: write the whole path, "
    "or one from ~/"
)
# What OpenSSL, gRPC and requests trust, or write a session's keys to.
CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "SSLKEYLOGFILE"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
)
ASSIGNMENT = re.compile(
    rb"^\s*(?:export\s+)?[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*=", re.MULTILINE
)
LOOKED_AT = 65_536  # bytes of a file that is not ours to read


def whole(path: Path) -> Path:
    """The path, where ~ is the home folder. Raises ValueError where it is relative."""
    full = _from_home(path)
    if not full.is_absolute():
        raise ValueError(RELATIVE.format(path))
    return full


def _from_home(path: str | Path) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path's own raises where there is no home


WholePath = Annotated[Path, AfterValidator(whole)]


def paths_below(
    folder: Path, values: Mapping[str, str | None], paths: Collection[str]
) -> dict[str, str | None]:
    """The values of a file in that folder, whose relative `paths`, as variables, are below it.

    Names are in lower case in `values`.
    """
    resolved = dict(values)
    for name in paths:
        if path := values.get(name.lower()):
            resolved[name.lower()] = _below(folder, path)
    if sources := values.get("sync_sources"):
        resolved["sync_sources"] = _sources_below(folder, sources)
    return resolved


def _below(folder: Path, path: str) -> str:
    return str(folder / _from_home(path))


def _sources_below(folder: Path, text: str) -> str:
    """The sources with whole paths; what cannot be read is left to its validator."""
    try:
        sources = json.loads(text)
    except ValueError:
        return text
    if isinstance(sources, dict):
        sources = [{"path": path, "collection": name} for path, name in sources.items()]
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            source["path"] = _below(folder, source["path"])
    return json.dumps(sources)


def settings_file(named: Path | None) -> Path | None:
    """The file that was named, else the one in the user's configuration folder, if there is one.

    Raises ConfigError where it cannot be read, or where others may write it.
    """
    own = user_config_path("mcp-server-qdrant", appauthor=False) / ENV_FILE
    path = _from_home(named or own).absolute()
    if named is None and not path.is_file():
        return None
    try:
        fault = others_may_write(path)
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"The settings file {path} cannot be read: {error.strerror}.") from error
    if fault:
        raise ConfigError(f"The settings file {path} is not read: {fault}.")
    return path


def check_certificates(environment: Mapping[str, str]) -> None:
    """Raise ConfigError where a library would look for certificates where the server started."""
    for name in CERTIFICATES:
        for part in filter(None, environment.get(name, "").split(os.pathsep)):
            if not Path(part).is_absolute():
                raise ConfigError(f"{name}: {RELATIVE.format(part)}.")


def left_alone(file: Path | None, names: Collection[str]) -> str | None:
    """A warning about settings in a .env where the server started, unless that is the `file`.

    The names of its variables are looked at, their values are not.
    """
    try:
        path = Path.cwd() / ENV_FILE
        if not path.is_file() or (file and path.samefile(file)):
            return None
        with path.open("rb") as opened:
            text = opened.read(LOOKED_AT)
    except OSError:
        return None
    assigned = {name.decode().upper() for name in ASSIGNMENT.findall(text)}
    if assigned.isdisjoint(names):
        return None
    shown = printable(str(path))
    return (
        f"{shown} is not read, since the folder may be a stranger's: "
        f"if its settings are yours, start with --env-file {shown}"
    )
