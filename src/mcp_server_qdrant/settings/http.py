"""The settings of a server over HTTP: access, limits and logs. Parts of `Settings`."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    model_validator,
)

from mcp_server_qdrant.settings.values import AbsolutePath, Names, Url

# The token characters of RFC 6750; shorter tokens could be guessed.
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")


def _unguessable(value: SecretStr) -> SecretStr:
    if not TOKEN.fullmatch(value.get_secret_value()):
        raise ValueError(
            "must be at least 16 letters, digits and signs of -._~+/; "
            "mcp-server-qdrant token makes one"
        )
    return value


def _origins(value: tuple[str, ...]) -> tuple[str, ...]:
    for origin in value:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}"):
            raise ValueError("must be origins such as https://app.example.com, without a path")
    return value


def _hosts(value: tuple[str, ...]) -> tuple[str, ...]:
    if any("/" in host for host in value):
        raise ValueError("must be names such as mcp.example.com, without https:// or a path")
    return value


class AuthSettings(BaseModel):
    """Authentication, and the hosts and pages that may connect."""

    auth_mode: Literal["none", "token", "oauth"] | None = None
    """Who may call over HTTP: holders of a `token`, holders of a token from an `oauth` issuer, or,
    with `none`, everyone who can connect. Required beyond loopback."""
    auth_token: Annotated[SecretStr, AfterValidator(_unguessable)] | None = None
    """With `token`: a single token with all permissions."""
    auth_tokens_file: AbsolutePath | None = None
    """With `token`: YAML file of named tokens; reloaded when it changes."""
    auth_issuer: Url | None = None
    """With `oauth`: URL of the issuer, exactly as in its tokens."""
    auth_audience: Names = ()
    """With `oauth`: accepted values of `aud`, separated by commas. Clients are told the first URL
    among them as this server's address; without one, the address that it listens on."""
    auth_jwks_url: Url | None = None
    """URL of the issuer's keys. Default: discovered from AUTH_ISSUER."""
    fastmcp_allowed_hosts: Annotated[Names, AfterValidator(_hosts)] = ()
    """Host names that clients may use: `mcp.example.com`, `*.internal`, `mcp:8000`. IP
    addresses, localhost and the names in FASTMCP_HOST and AUTH_AUDIENCE are always allowed."""
    fastmcp_allowed_origins: Annotated[Names, AfterValidator(_origins)] = ()
    """Origins of web pages that may call this server: `https://app.example.com`, or `*`."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Refuse a token that would never be checked: it would look like protection."""
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


class HttpSettings(BaseModel):
    """Address, limits and logs of a server over HTTP."""

    fastmcp_host: str = Field(
        "127.0.0.1", validation_alias=AliasChoices("FASTMCP_HOST", "FASTMCP_SERVER_HOST")
    )
    """Address to listen on over HTTP."""
    fastmcp_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        8000, validation_alias=AliasChoices("FASTMCP_PORT", "FASTMCP_SERVER_PORT")
    )
    """Port to listen on over HTTP."""
    fastmcp_log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(str.upper)
    ] = Field(
        "WARNING", validation_alias=AliasChoices("FASTMCP_LOG_LEVEL", "FASTMCP_SERVER_LOG_LEVEL")
    )
    """Level of the log on stderr."""
    fastmcp_stateless_http: bool = False
    """Keep no sessions, so that any replica can answer any request."""
    log_format: Literal["text", "json"] = "text"
    """`json`: one object per line, with request ids."""
