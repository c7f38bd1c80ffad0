"""The settings of a server over HTTP, and of its logs: a part of `Settings`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from mcp_server_qdrant.core.fields import Group, variable


class HttpLimits(Group):
    """Limits of a server over HTTP."""

    body: int = Field(4_194_304, ge=1, description="bytes of a request, beyond which it gets 413")
    calls: int = Field(64, ge=1, description="requests at a time, beyond which: 429")
    streams: int = Field(1000, ge=1, description="open event streams, likewise")
    sessions: int = Field(1000, ge=1, description="open sessions, likewise")
    share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="part of calls, streams and sessions that one caller may take: a token, "
        "or without tokens an address; 1 where a proxy gives all callers one address",
    )
    drain: float = Field(
        10.0, ge=0, allow_inf_nan=False, description="seconds for calls to finish after SIGTERM"
    )


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
    http_limits: HttpLimits = variable("HTTP_LIMITS", HttpLimits(), "Limits of a server over HTTP.")
    log_format: Literal["text", "json"] = variable(
        "LOG_FORMAT", "text", "`json`: one object per line, with request ids."
    )
    otel_traces_exporter: str | None = variable(
        "OTEL_TRACES_EXPORTER",
        None,
        "Where spans are sent, such as `otlp`. Needs the extra `otel`; its SDK reads all other "
        "OTEL_* variables itself, from the environment only.",
    )

    @property
    def traced(self) -> bool:
        """True if spans are sent anywhere."""
        return self.otel_traces_exporter not in (None, "none")
