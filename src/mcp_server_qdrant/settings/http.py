"""The settings of a server over HTTP, and of its logs: a part of `Settings`, which reads them."""

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator


def _variable(name: str, default: Any, description: str, *others: str) -> Any:
    """A field read from the environment variable `name`, or one of `others`."""
    alias = AliasChoices(name, *others)
    return Field(default=default, validation_alias=alias, description=description)


class HttpSettings(BaseModel):
    """Where a server over HTTP listens, how much it takes on, how it ends, and what is logged."""

    host: str = _variable(
        "FASTMCP_HOST", "127.0.0.1", "Address to listen on over HTTP.", "FASTMCP_SERVER_HOST"
    )
    port: int = _variable(
        "FASTMCP_PORT", 8000, "Port to listen on over HTTP.", "FASTMCP_SERVER_PORT"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = _variable(
        "FASTMCP_LOG_LEVEL",
        "WARNING",
        "How much is logged, to stderr.",
        "FASTMCP_SERVER_LOG_LEVEL",
    )

    stateless: bool = _variable(
        "FASTMCP_STATELESS_HTTP",
        default=False,
        description="Keep no sessions, so that any of several servers can answer any request.",
    )
    max_body: int = _variable(
        "HTTP_MAX_BODY", 4_194_304, "Bytes that a request may have; 413 beyond."
    )
    max_calls: int = _variable(
        "HTTP_MAX_CALLS", 64, "Requests worked on at the same time; 429 beyond."
    )
    max_streams: int = _variable(
        "HTTP_MAX_STREAMS", 1000, "Event streams open at the same time; 429 beyond."
    )
    max_sessions: int = _variable(
        "HTTP_MAX_SESSIONS", 1000, "Sessions open at the same time; 429 beyond."
    )
    caller_share: float = _variable(
        "HTTP_CALLER_SHARE",
        0.5,
        "Share of each of these three that one caller may have: a token, or without tokens an "
        "address. 1: all, as where a proxy gives all callers one address.",
    )
    drain_seconds: float = _variable(
        "HTTP_DRAIN_SECONDS", 10.0, "Seconds that calls under way get to finish after SIGTERM."
    )
    metrics_collections: int = _variable(
        "METRICS_COLLECTIONS",
        20,
        "Collections that /metrics names, where they failed; the rest are `other`.",
    )
    log_format: Literal["text", "json"] = _variable(
        "LOG_FORMAT", "text", "`json`: one object a line, with request ids."
    )
    otel_traces_exporter: str | None = _variable(
        "OTEL_TRACES_EXPORTER",
        None,
        "Sends spans, to `otlp` say. Needs the extra `otel`, whose SDK reads all other OTEL_* "
        "variables itself, from the environment alone.",
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("port")
    @classmethod
    def _port(cls, value: int) -> int:
        if not 0 <= value <= 65_535:
            raise ValueError("must be between 0 and 65535")
        return value

    @field_validator("max_body", "max_calls", "max_streams", "max_sessions")
    @classmethod
    def _room_for_one(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be at least 1")
        return value

    @field_validator("caller_share")
    @classmethod
    def _a_share(cls, value: float) -> float:
        if not 0 < value <= 1:
            raise ValueError("must be above 0 and at most 1")
        return value

    @field_validator("drain_seconds", "metrics_collections")
    @classmethod
    def _nothing_or_more(cls, value: float) -> float:
        if value < 0:
            raise ValueError("must be 0 or more")
        return value

    @property
    def traced(self) -> bool:
        """Whether spans go anywhere."""
        return self.otel_traces_exporter not in (None, "none")
