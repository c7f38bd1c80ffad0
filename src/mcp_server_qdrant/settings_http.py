"""The settings of a server over HTTP, and of its logs: a part of `Settings`, which reads them."""

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class HttpSettings(BaseModel):
    """How much a server over HTTP takes on, and how it ends."""

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

    @field_validator("max_body", "max_calls", "max_streams")
    @classmethod
    def _room_for_one(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be at least 1")
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
