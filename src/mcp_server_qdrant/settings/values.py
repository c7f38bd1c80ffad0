"""The types of settings, and the notation of their values."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from mcp_server_qdrant.core.notation import name_fault

RELATIVE = (
    "{} is relative to the folder that the server happens to be started in: write an absolute "
    "path, or one from ~/"
)


def from_json(value: Any, kinds: tuple[type, ...], wanted: str) -> Any:
    """Parse a JSON string; other values are returned unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, kinds):
        raise ValueError(wanted)  # noqa: TRY004
    return read


def parse_pairs(value: Any) -> Any:
    """Parse `name=value,name=value` or a JSON object to pairs. Raises ValueError."""
    wanted = "must be name=value pairs separated by commas, or a JSON object"
    if not isinstance(value, str) or value.lstrip().startswith("{"):
        read = from_json(value, (dict,), wanted)
        return tuple(read.items()) if isinstance(read, dict) else read
    split = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() and text.strip() for name, _, text in split):
        raise ValueError(wanted)
    return tuple((name.strip(), text.strip()) for name, _, text in split)


def from_home(path: str | Path) -> Path:
    """The path with ~ expanded."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser raises if there is no home


def _absolute(path: Path) -> Path:
    full = from_home(path)
    if not full.is_absolute():
        raise ValueError(RELATIVE.format(path))
    return full


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError("is not a folder")
    return path


def parse_names(value: Any) -> Any:
    """Parse names separated by commas or a JSON list. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return from_json(value, (list,), "must be names separated by commas, or a JSON list")
    return tuple(part.strip() for part in value.split(",") if part.strip())


def is_http_url(value: str) -> bool:
    """True for an http(s) URL with a host, a valid port and no spaces."""
    try:
        parts = urlsplit(value)
        sound = bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", value)
    except ValueError:  # an invalid port
        return False
    return sound and parts.scheme in ("http", "https")


def _check_url(value: str) -> str:
    if not is_http_url(value):
        raise ValueError("must be a URL such as https://host:8080/path")
    return value


def _collection(value: str) -> str:
    if fault := name_fault(value):
        raise ValueError(fault)
    return value


def reveal(secret: SecretStr | None) -> str | None:
    """The secret's value, without a trailing newline from a file."""
    return secret.get_secret_value().strip() if secret else None


# Paths never depend on the working directory, which may be untrusted.
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Folder = Annotated[AbsolutePath, AfterValidator(_folder)]
Names = Annotated[tuple[str, ...], BeforeValidator(parse_names)]
Url = Annotated[str, AfterValidator(_check_url)]
Collection = Annotated[str, AfterValidator(_collection)]
