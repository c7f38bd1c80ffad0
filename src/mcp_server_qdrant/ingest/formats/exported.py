"""The file formats of `export`, which `ingest` reads again: Markdown, or JSON lines.

What people may read and edit is in the keys of the Open Knowledge Format. The rest is a line of
JSON under our own key.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import (
    Loaded,
    Mark,
    choose_title,
    find_date,
    readable,
    storable,
    tags_of,
)

KEY = "mcp_server_qdrant"
RECORD = re.compile(rf"^{KEY}: (\{{.*\}})[ \t]*\r?\n", re.MULTILINE)
KEPT = ("expires", "superseded_by", "superseded_in")  # restored unchanged
INSIDE = ("id", "text", "metadata")  # further keys of a JSON line
SHOWN = ("title", "tags", "timestamp", "resource", "type")
NAME = 50  # characters of a title in the name of a file


def record_of(text: Document, *, sections: bool) -> dict[str, Any]:
    """The fields of a whole text beside the shown ones; `sections`: whether it has any."""
    elsewhere = text.superseded_in if text.superseded_in != text.collection else None
    record = {
        "id": text.document or str(text.id),
        "expires": text.expires,
        "superseded_by": text.superseded_by,
        "superseded_in": elsewhere,
        "stored_by": dict(text.stored_by or {}) or None,
        "sections": sections or None,
        "metadata": text.metadata,
    }
    return {key: value for key, value in record.items() if value is not None}


def _shown(text: Document) -> dict[str, Any]:
    """The editable fields of a text, by the keys of the Open Knowledge Format."""
    shown = {
        "type": "text",
        "title": text.title,
        "tags": list(text.tags),
        "timestamp": text.created_at,
        "resource": text.source,
    }
    return {key: value for key, value in shown.items() if value}


def markdown_of(text: Document, record: Mapping[str, Any]) -> bytes:
    """The text as a Markdown file."""
    import yaml

    front = yaml.safe_dump(_shown(text), allow_unicode=True, sort_keys=False, width=float("inf"))
    body = f"---\n{front}{KEY}: {json.dumps(record)}\n---\n{readable(text.text)}"
    return body.encode("utf-8", "replace")


def line_of(text: Document, record: Mapping[str, Any]) -> bytes:
    """The text as a JSON line; its metadata can be edited there too."""
    rest = {key: value for key, value in record.items() if key != "metadata"}
    row = {"id": record["id"], "text": text.text, **_shown(text)}
    if "metadata" in record:
        row["metadata"] = record["metadata"]
    line = json.dumps({**row, KEY: rest}, ensure_ascii=False)
    return line.encode("utf-8", "replace") + b"\n"


def name_of(text: Document, record: Mapping[str, Any]) -> str:
    """The file name of a text: valid on all systems, and the same at every export."""
    named = unicodedata.normalize("NFC", text.title or " ".join(text.text[:200].split()))
    words = re.sub(r"[^\w.]+|\.+(?=\W|$)", "-", named).strip("-._")[:NAME].rstrip("-._")
    mark = hashlib.sha256(str(record["id"]).encode("utf-8", "replace")).hexdigest()[:12]
    return f"{words or 'text'}-{mark}.md"


def split_record(front: str) -> tuple[Mapping[str, Any] | None, str]:
    """(record in front matter or None, front matter without the record's line)."""
    if found := RECORD.search(front):
        with suppress(ValueError, RecursionError):
            if is_record(record := json.loads(found[1])):
                return record, front[: found.start()] + front[found.end() :]
    return None, front


def is_record(value: Any) -> bool:
    """True for a record as `record_of` makes it."""
    return isinstance(value, dict) and isinstance(value.get("id"), str) and bool(value["id"])


def restore(
    path: str,
    record: Mapping[str, Any],
    text: str,
    fields: Mapping[str, Any],
    headings: Iterable[Mark] = (),
    offset: int = 0,
) -> tuple[Loaded, list[str]]:
    """The text of a record, with the edited fields, and notes on an invalid date."""
    record = storable(record)
    title, tags, held = fields.get("title"), fields.get("tags"), record.get("metadata")
    if not isinstance(tags, list) or not all(isinstance(one, str) for one in tags):
        tags = tags_of(tags)  # edited by a person
    when, notes = find_date({"timestamp": fields.get("timestamp")})
    metadata = dict(held) if isinstance(held, Mapping) else {}
    metadata |= {key: value for key, value in fields.items() if key not in SHOWN}
    kept = {key: _string(record, key) for key in KEPT}
    made = Loaded(
        text=text,
        title=title if isinstance(title, str) else "",
        id=record["id"],
        metadata=metadata or (None if held is None else {}),
        tags=tuple(dict.fromkeys(tags)),
        created_at=when,
        offset=offset,
        kept={**kept, "source": _string(fields, "resource")},
    )
    if record.get("sections"):
        made = replace(made, marks=choose_title(path, tuple(headings), made.title or " ")[1])
    return made, notes


def restore_row(
    path: str, row: Mapping[str, Any], headings: Callable[[str], Iterable[Mark]]
) -> tuple[Loaded, list[str]]:
    """The text of a JSON line made by `line_of`. Raises UnusableFile if it has none."""
    record, text = {**row[KEY], "metadata": row.get("metadata")}, row.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UnusableFile("has no text")
    fields = {key: value for key, value in row.items() if key not in (KEY, *INSIDE)}
    return restore(path, record, readable(text), storable(fields), headings(text))


def _string(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if value and isinstance(value, str) else None
