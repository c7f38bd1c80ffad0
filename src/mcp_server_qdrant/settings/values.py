"""Types of settings, and how their values are written in a variable."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr

from mcp_server_qdrant.core.fields import from_json
from mcp_server_qdrant.settings.sources import WholePath


def _names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return from_json(value, (list,), "must be names separated by commas, or a JSON list")
    return tuple(part.strip() for part in value.split(",") if part.strip())


def revealed(secret: SecretStr | None) -> str | None:
    """What a secret hides, without the line end of the file that it was read from."""
    return secret.get_secret_value().strip() if secret else None


def _web(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be a URL such as http://host:8080/path")
    return value


def _folder(path: WholePath) -> WholePath:
    if not path.is_dir():
        raise ValueError("is not a folder")
    return path


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Url = Annotated[str, AfterValidator(_web)]
Folder = Annotated[WholePath, AfterValidator(_folder)]
