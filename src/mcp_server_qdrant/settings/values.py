"""Types of settings, and how their values are written in a variable."""

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from mcp_server_qdrant.core.fields import from_json

RELATIVE = (
    "{} is relative to the folder that the server happens to be started in: write the whole path, "
    "or one from ~/"
)


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


def _web(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as https://host:8080/path")
    return value


def revealed(secret: SecretStr | None) -> str | None:
    """What a secret hides, without the line end of the file that it was read from."""
    return secret.get_secret_value().strip() if secret else None


# No path depends on the folder that the server is started in: it may be a stranger's.
WholePath = Annotated[Path, AfterValidator(_whole)]
Folder = Annotated[WholePath, AfterValidator(_folder)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Url = Annotated[str, AfterValidator(_web)]
