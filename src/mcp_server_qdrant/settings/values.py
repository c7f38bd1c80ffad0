"""Types of settings, and how their values are written in a variable."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from mcp_server_qdrant.core.notation import name_fault

RELATIVE = (
    "{} is relative to the folder that the server happens to be started in: write the whole path, "
    "or one from ~/"
)


def from_json(value: Any, kinds: tuple[type, ...], wanted: str) -> Any:
    """A value from its text in JSON; as it is where it is no text. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, kinds):
        raise ValueError(wanted)  # noqa: TRY004
    return read


def pairs(value: Any) -> Any:
    """A mapping from `name=value,name=value`, or from a JSON object. Raises ValueError."""
    wanted = "must be name=value pairs separated by commas, or a JSON object"
    if not isinstance(value, str) or value.lstrip().startswith("{"):
        return from_json(value, (dict,), wanted)
    split = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() and text.strip() for name, _, text in split):
        raise ValueError(wanted)
    return {name.strip(): text.strip() for name, _, text in split}


def from_home(path: str | Path) -> Path:
    """The path, where ~ is the home folder."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path's own raises where there is no home


def _whole(path: Path) -> Path:
    full = from_home(path)
    if not full.is_absolute():
        raise ValueError(RELATIVE.format(path))
    return full


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError("is not a folder")
    return path


def _names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return from_json(value, (list,), "must be names separated by commas, or a JSON list")
    return tuple(part.strip() for part in value.split(",") if part.strip())


def is_web(value: str) -> bool:
    """True of a URL of the web: with a host, a port that there can be, and no space."""
    try:
        parts = urlsplit(value)
        sound = bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", value)
    except ValueError:  # a port beyond 65535, or none
        return False
    return sound and parts.scheme in ("http", "https")


def _web(value: str) -> str:
    if not is_web(value):
        raise ValueError("must be a URL such as https://host:8080/path")
    return value


def _collection(value: str) -> str:
    if fault := name_fault(value):
        raise ValueError(fault)
    return value


def revealed(secret: SecretStr | None) -> str | None:
    """What a secret hides, without the line end of the file that it was read from."""
    return secret.get_secret_value().strip() if secret else None


# No path depends on the folder that the server is started in: it may be a stranger's.
WholePath = Annotated[Path, AfterValidator(_whole)]
Folder = Annotated[WholePath, AfterValidator(_folder)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Url = Annotated[str, AfterValidator(_web)]
Collection = Annotated[str, AfterValidator(_collection)]
