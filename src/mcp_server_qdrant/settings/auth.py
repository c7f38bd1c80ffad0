"""The settings of who may connect over HTTP: a part of `Settings`, which reads them."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from mcp_server_qdrant.settings.sources import WholePath

Names = Annotated[tuple[str, ...], NoDecode]
# RFC 6750's alphabet of tokens; shorter ones could be guessed.
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
MAX_LEEWAY = 300


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class AuthSettings(BaseModel):
    """Who may connect, from where, and what for."""

    auth_mode: Literal["none", "token", "oauth"] | None = _variable(
        "AUTH_MODE",
        None,
        "Who may call over HTTP: who has a `token`, who has one of an `oauth` issuer, or, with "
        "`none`, everyone who can connect. Beyond loopback it must be set.",
    )
    auth_token: SecretStr | None = _variable(
        "AUTH_TOKEN", None, "With `token`: one token that may do everything."
    )
    auth_tokens_file: WholePath | None = _variable(
        "AUTH_TOKENS_FILE",
        None,
        "With `token`: file of named tokens, YAML or JSON; read again when it changes.",
    )
    auth_issuer: str | None = _variable(
        "AUTH_ISSUER", None, "With `oauth`: URL of the issuer, exactly as its tokens have it."
    )
    auth_audience: Names = _variable(
        "AUTH_AUDIENCE", (), "With `oauth`: what tokens must be for, as in their `aud`; by comma."
    )
    auth_jwks_url: str | None = _variable(
        "AUTH_JWKS_URL", None, "The issuer's keys. Default: found out from AUTH_ISSUER."
    )
    auth_resource_url: str | None = _variable(
        "AUTH_RESOURCE_URL",
        None,
        "URL that clients connect to, such as `https://mcp.example.com/mcp`. Default: "
        "AUTH_AUDIENCE if that is a URL, else this server's address.",
    )
    auth_scope_claims: Names = _variable(
        "AUTH_SCOPE_CLAIMS",
        ("scope", "scp"),
        "Claims that may hold a token's scopes; the first present is used.",
    )
    auth_scope_prefix: str = _variable(
        "AUTH_SCOPE_PREFIX", "", "What precedes `read`, `write` and `admin` there: `qdrant:`, say."
    )
    auth_leeway: float = _variable(
        "AUTH_LEEWAY", 30.0, "Seconds that the issuer's clock and this one may differ."
    )
    allowed_hosts: Names = _variable(
        "FASTMCP_ALLOWED_HOSTS",
        (),
        "Names that clients may call this server by: `mcp.example.com`, `*.internal`, `mcp:8000`. "
        "IP addresses, localhost and the names in FASTMCP_HOST and AUTH_RESOURCE_URL always may.",
    )
    allowed_origins: Names = _variable(
        "FASTMCP_ALLOWED_ORIGINS",
        (),
        "Web pages that may call this server: `https://app.example.com`, or `*`.",
    )

    @field_validator(
        "auth_audience", "auth_scope_claims", "allowed_hosts", "allowed_origins", mode="before"
    )
    @classmethod
    def _names(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())

    @field_validator("auth_token")
    @classmethod
    def _unguessable(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError(
                "must be at least 16 letters, digits and signs of -._~+/; "
                "mcp-server-qdrant token makes one"
            )
        return value

    @field_validator("auth_issuer", "auth_jwks_url", "auth_resource_url")
    @classmethod
    def _web(cls, value: str | None) -> str | None:
        if value and not (value.startswith(("http://", "https://")) and urlsplit(value).hostname):
            raise ValueError("must be a URL such as https://login.example.com")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            parts = urlsplit(one)
            if one != "*" and (not parts.hostname or one != f"{parts.scheme}://{parts.netloc}"):
                raise ValueError("must be origins such as https://app.example.com, without a path")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("/" in one for one in value):
            raise ValueError("must be names such as mcp.example.com, without https:// or a path")
        return value

    @field_validator("auth_leeway")
    @classmethod
    def _short(cls, value: float) -> float:
        if not 0 <= value <= MAX_LEEWAY:
            raise ValueError(f"must be between 0 and {MAX_LEEWAY}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Nothing half said: a token that nobody asks for would look like protection."""
        tokens = self.auth_token or self.auth_tokens_file
        if self.auth_mode in (None, "none") and (tokens or self.auth_issuer):
            given = "AUTH_ISSUER" if self.auth_issuer else "AUTH_TOKEN"
            given = "AUTH_TOKENS_FILE" if self.auth_tokens_file else given
            raise ValueError(f"{given} does nothing without AUTH_MODE: set it to token or oauth")
        if self.auth_mode == "token" and not tokens:
            raise ValueError("AUTH_MODE=token needs AUTH_TOKEN or AUTH_TOKENS_FILE")
        if self.auth_mode == "oauth" and not (self.auth_issuer and self.auth_audience):
            raise ValueError("AUTH_MODE=oauth needs AUTH_ISSUER and AUTH_AUDIENCE")
        return self
