"""Spans for OpenTelemetry, where its SDK is installed and its environment names an exporter.

The SDK reads its own variables (OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_SERVICE_NAME, ...); this server reads none of them.
"""

from contextlib import AbstractContextManager

from opentelemetry import trace

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.extras import lacking
from mcp_server_qdrant.core.telemetry import Phase, request_id

NAME = "mcp_server_qdrant"
FLUSH_MILLISECONDS = 2000
UNKNOWN = "OTEL_TRACES_EXPORTER names an exporter that is not installed."


def phase(name: Phase) -> AbstractContextManager[object]:
    """A span of a search, below the one that the MCP SDK makes of the call.

    It does not quote what fails inside: an error may hold a text.
    """
    return trace.get_tracer(NAME).start_as_current_span(
        f"search {name}", record_exception=False, set_status_on_exception=False
    )


def mark() -> None:
    """Put the request's id on the span of the call."""
    if (request := request_id()) is not None:
        trace.get_current_span().set_attribute("http.request.header.x-request-id", request)


def start() -> None:
    """Let the SDK set itself up by its environment.

    Does nothing where a provider is set already, as by `opentelemetry-instrument`. Raises
    ConfigError where the SDK, or the exporter that is named, is not installed.
    """
    try:
        from opentelemetry.sdk._configuration import _OTelSDKConfigurator
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError as error:
        raise ConfigError(lacking("otel")) from error
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    try:
        _OTelSDKConfigurator().configure()  # type: ignore[no-untyped-call]
    except (RuntimeError, ImportError) as error:
        raise ConfigError(UNKNOWN) from error


def flush() -> None:
    """Send the spans that were not sent yet; the process ends without its exit handlers."""
    flushing = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flushing is not None:
        flushing(FLUSH_MILLISECONDS)
