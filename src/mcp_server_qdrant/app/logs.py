"""Log lines as text or JSON, sent to the client whose call caused them.

They never contain queries or stored texts.
"""

import json
import logging
import re
import sys
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from mcp_server_qdrant.core.context import current_connection, request_id
from mcp_server_qdrant.core.notation import escaped

MOST_PENDING = 20  # records
LogFormat = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Libraries whose DEBUG lines contain whole messages, with queries and texts.
TALKATIVE = ("mcp", "sse_starlette", "httpx", "httpcore", "openai", "urllib3")


def configure(level: str, style: LogFormat) -> None:
    """Set up the root logger before any library does; stdout is left to the transport."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines(TEXT))
    handler.setLevel(level)  # other clients of the service may want a lower level
    logging.basicConfig(handlers=[handler])
    set_level(level)


def set_level(level: str) -> None:
    """Set the lowest level of records that reach the handlers."""
    logging.getLogger().setLevel(level)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLevelName(level)))


def configure_for_command() -> None:
    """Print warnings on stderr, each as a sentence of the command."""
    logging.basicConfig(
        level=logging.WARNING, handlers=[set_up_command_handler(logging.StreamHandler())]
    )


def set_up_command_handler(handler: logging.Handler) -> logging.Handler:
    """Set up a command's log handler; the command itself reports on models."""
    handler.setFormatter(TextLines("mcp-server-qdrant: %(message)s"))
    handler.setLevel(logging.WARNING)
    handler.addFilter(lambda record: ".encoders." not in record.name)
    return handler


class TextLines(logging.Formatter):
    """The standard format, with the record's fields at the end of the line."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line; control characters that a caller sent are escaped."""
        fields = "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
        return escaped(super().formatMessage(record) + fields)

    @override
    def formatException(self, ei: Any) -> str:
        """An indented traceback, so that none of its lines looks like a log line."""
        return "\n".join(f"  {escaped(one)}" for one in super().formatException(ei).split("\n"))


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request id, fields, error.

    Only the class and stack of an error are logged: its message may quote a stored text.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            line["error"] = record.exc_info[0].__name__
            line["stack"] = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        return escaped(json.dumps(line, ensure_ascii=False, default=str))


def _value(value: object) -> str:
    """A field's value, quoted if it contains a space or a quote."""
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r'[\s"]', text) else text


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a record: those of `extra={"fields": {...}}`, and the request id."""
    fields: dict[str, object] = getattr(record, "fields", {})
    request = request_id()
    return fields if request is None else {**fields, "request_id": request}


class Router(logging.Handler):
    """Sends a record to the clients whose call caused it, by `current_connection`.

    `concerned` returns the handlers of a connection, or all handlers for None. Records that come
    while no client is connected are kept for the next one.
    """

    def __init__(self, concerned: Callable[[Hashable | None], Sequence[logging.Handler]]) -> None:
        super().__init__()
        self._handlers_of = concerned
        self._pending = deque[logging.LogRecord](maxlen=MOST_PENDING)

    def catch_up(self, handler: logging.Handler) -> None:
        """Send the kept records to this handler."""
        self.acquire()  # a thread may be between finding no client and keeping its record
        try:
            while self._pending:
                self._send(handler, self._pending.popleft())
        finally:
            self.release()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Send the record to the handlers concerned; each has its own level."""
        who = current_connection()
        if who is None and request_id() is not None:  # of a call over HTTP, which no pipe may see
            return
        there = self._handlers_of(who)
        if who is None and not there:
            self._pending.append(record)
        for handler in there:
            self._send(handler, record)

    @staticmethod
    def _send(handler: logging.Handler, record: logging.LogRecord) -> None:
        if record.levelno >= handler.level:
            handler.handle(record)


class Sink(logging.Handler):
    """Passes each log line to a function."""

    def __init__(self, level: str, style: LogFormat, tell: Callable[[str], None]) -> None:
        super().__init__(level)
        self.setFormatter(JsonLines() if style == "json" else TextLines(TEXT))
        self._send_line = tell

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the line with its newline."""
        self._send_line(self.format(record) + "\n")
