"""The settings of who may connect over HTTP: a part of `Settings`."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, SecretStr, model_validator

from mcp_server_qdrant.core.fields import variable
from mcp_server_qdrant.settings.sources import WholePath
from mcp_server_qdrant.settings.values import Names, Url

# RFC 6750's alphabet of tokens; shorter ones could be guessed.
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")


def _unguessable(value: SecretStr) -> SecretStr:
    if not TOKEN.fullmatch(value.get_secret_value()):
        raise ValueError(
            "must be at least 16 letters, digits and signs of -._~+/; "
            "mcp-server-qdrant token makes one"
        )
    return value


def _with_host(value: str) -> str:
    if not urlsplit(value).hostname:
        raise ValueError("must be a URL such as https://login.example.com")
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


Site = Annotated[Url, AfterValidator(_with_host)]


class AuthSettings(BaseModel):
    """Authentication, and the hosts and pages that may connect."""

    auth_mode: Literal["none", "token", "oauth"] | None = variable(
        "AUTH_MODE",
        None,
        "Who may call over HTTP: holders of a `token`, holders of a token from an `oauth` "
        "issuer, or, with `none`, everyone who can connect. Required beyond loopback.",
    )
    auth_token: Annotated[SecretStr, AfterValidator(_unguessable)] | None = variable(
        "AUTH_TOKEN", None, "With `token`: one token that may do everything."
    )
    auth_tokens_file: WholePath | None = variable(
        "AUTH_TOKENS_FILE",
        None,
        "With `token`: file of named tokens in YAML; read again when it changes.",
    )
    auth_issuer: Site | None = variable(
        "AUTH_ISSUER", None, "With `oauth`: URL of the issuer, exactly as in its tokens."
    )
    auth_audience: Names = variable(
        "AUTH_AUDIENCE", (), "With `oauth`: accepted values of `aud`, separated by commas."
    )
    auth_jwks_url: Site | None = variable(
        "AUTH_JWKS_URL", None, "The issuer's keys. Default: discovered from AUTH_ISSUER."
    )
    auth_resource_url: Site | None = variable(
        "AUTH_RESOURCE_URL",
        None,
        "URL that clients connect to, such as `https://mcp.example.com/mcp`. Default: "
        "AUTH_AUDIENCE if that is a URL, else this server's address.",
    )
    auth_scope_claims: Names = variable(
        "AUTH_SCOPE_CLAIMS",
        ("scope", "scp"),
        "Claims that may hold a token's scopes; the first present is used.",
    )
    auth_scope_prefix: str = variable(
        "AUTH_SCOPE_PREFIX", "", "Prefix of `read`, `write` and `admin` there, such as `qdrant:`."
    )
    allowed_hosts: Annotated[Names, AfterValidator(_hosts)] = variable(
        "FASTMCP_ALLOWED_HOSTS",
        (),
        "Names by which clients may call this server: `mcp.example.com`, `*.internal`, "
        "`mcp:8000`. IP addresses, localhost and the names in FASTMCP_HOST and "
        "AUTH_RESOURCE_URL are always allowed.",
    )
    allowed_origins: Annotated[Names, AfterValidator(_origins)] = variable(
        "FASTMCP_ALLOWED_ORIGINS",
        (),
        "Web pages that may call this server: `https://app.example.com`, or `*`.",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Refuse a token that is never checked: it would look like protection."""
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
