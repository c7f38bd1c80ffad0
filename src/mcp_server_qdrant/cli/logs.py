"""Log lines for people or for machines, on stderr, without what was asked for or stored."""

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from mcp_server_qdrant.core.context import request_id
from mcp_server_qdrant.core.notation import escaped

LogFormat = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Libraries whose DEBUG lines hold whole messages, and with them queries and texts.
TALKATIVE = ("mcp", "sse_starlette", "httpx", "httpcore", "openai", "urllib3")


def configure(level: str, style: LogFormat) -> None:
    """Set up the root logger, before any library does. stdout stays free for the transport."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines(TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLevelName(level)))


def configure_for_command() -> None:
    """Warnings on stderr as a command's own sentences, but for what it says of models itself."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines("mcp-server-qdrant: %(message)s"))
    handler.addFilter(lambda record: ".encoders." not in record.name)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class TextLines(logging.Formatter):
    """As `logging` writes them, with the fields of a line at its end."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever a caller sent: the characters that steer a terminal are escaped."""
        fields = "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
        return escaped(super().formatMessage(record) + fields)

    @override
    def formatException(self, ei: Any) -> str:
        """Indented, so that no line of it looks like one of the log."""
        return "\n".join(f"  {escaped(one)}" for one in super().formatException(ei).split("\n"))


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request id, fields, error.

    Of an error only its class and stack are logged: its message may quote a stored text.
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
    """A field's value; in quotes where it would look like several fields."""
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r'[\s"]', text) else text


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a line: those of `extra={"fields": {...}}`, and the request id."""
    fields: dict[str, object] = getattr(record, "fields", {})
    request = request_id()
    return fields if request is None else {**fields, "request_id": request}
