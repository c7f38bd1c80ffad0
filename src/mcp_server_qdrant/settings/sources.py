"""The settings file, and paths in settings: a part of `Settings`.

A client starts the server in the folder that it has open, which may be a stranger's. So nothing is
read there unasked, and no path in a setting depends on it.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from platformdirs import user_config_path
from pydantic import AfterValidator

from mcp_server_qdrant.core.disk import others_may_write
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.notation import printable

ENV_FILE = ".env"
RELATIVE = (
    "{} is relative to the folder that the server happens to be started in: write the whole path, "
    "or one from ~/"
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
