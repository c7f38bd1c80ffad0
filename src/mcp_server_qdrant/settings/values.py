"""Types of settings, and how their values are written in a variable."""

import json
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from mcp_server_qdrant.settings.sources import WholePath


def _names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return tuple(json.loads(value))
        except ValueError:
            raise ValueError("must be names separated by commas, or a JSON list") from None
    return tuple(part.strip() for part in value.split(",") if part.strip())


def pairs(value: Any) -> Any:
    """A mapping from `name=value,name=value`, or from a JSON object. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be name=value pairs, or a JSON object") from None
    split = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() and text.strip() for name, _, text in split):
        raise ValueError("must be name=value pairs separated by commas, or a JSON object")
    return {name.strip(): text.strip() for name, _, text in split}


def revealed(secret: SecretStr | None) -> str | None:
    """What a secret hides."""
    return secret.get_secret_value() if secret else None


def _web(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must be a URL such as http://host:8080/path")
    return value


def _folder(path: WholePath) -> WholePath:
    if not path.is_dir():
        raise ValueError("is not a folder")
    return path


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Url = Annotated[str, AfterValidator(_web)]
Folder = Annotated[WholePath, AfterValidator(_folder)]


class Group(BaseModel):
    """Settings that share one variable: `name=value,name=value`, or a JSON object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        return pairs(value)

    def __str__(self) -> str:
        """As the variable would be written; what has no value is left out."""
        return ",".join(f"{name}={value}" for name, value in self if value is not None)
