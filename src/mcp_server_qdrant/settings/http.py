"""The settings of a server over HTTP, and of its logs: a part of `Settings`."""

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator

from mcp_server_qdrant.core.fields import variable
from mcp_server_qdrant.settings.values import Names


def _networks(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        for one in value:
            ipaddress.ip_network(one)
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.0.0.0/8") from None
    return value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class HttpSettings(BaseModel):
    """Address, limits and logs of a server over HTTP."""

    host: str = variable(
        "FASTMCP_HOST", "127.0.0.1", "Address to listen on over HTTP.", "FASTMCP_SERVER_HOST"
    )
    port: int = variable(
        "FASTMCP_PORT", 8000, "Port to listen on over HTTP.", "FASTMCP_SERVER_PORT", ge=0, le=65_535
    )
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)
    ] = variable(
        "FASTMCP_LOG_LEVEL", "WARNING", "Level of the log on stderr.", "FASTMCP_SERVER_LOG_LEVEL"
    )
    stateless: bool = variable(
        "FASTMCP_STATELESS_HTTP",
        False,
        "Keep no sessions, so that any of several servers can answer any request.",
    )
    forwarded_allow_ips: Annotated[Names, AfterValidator(_networks)] = variable(
        "FORWARDED_ALLOW_IPS",
        ("127.0.0.1",),
        "Proxies that tell a client's address in `X-Forwarded-For`, for the log and the limits: "
        "`10.0.0.7`, or a network such as `10.0.0.0/8`.",
    )
    http_max_calls: int = variable(
        "HTTP_MAX_CALLS",
        64,
        "Requests that are served at a time, half of them for one caller; more get 429.",
        ge=1,
    )
    log_format: Literal["text", "json"] = variable(
        "LOG_FORMAT", "text", "`json`: one object per line, with request ids."
    )
