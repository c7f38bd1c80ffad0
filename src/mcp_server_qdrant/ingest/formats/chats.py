"""Exported chats of Claude and ChatGPT: one text per conversation."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mcp_server_qdrant.core.context import to_local
from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import one_line, parse_time
from mcp_server_qdrant.ingest.formats import code
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    collect,
    mapping,
    parse_json,
    readable,
)

NAMES = "conversations.json conversations-*.json"
USER = "User"
SECTION = 60  # characters of its name
RUN = (None, "all", "python")  # recipients of code that was shown
NO_DATE = "has no date: it is stored without one"
# Marks that ChatGPT shows as a picture, a source or a link; some contain a name.
MARK = re.compile(r"\ue200(?P<kind>[a-z_]+)\ue202(?P<rest>[^\ue200\ue201]*+)\ue201")
NAMED = ("entity", "url", "link_title")
PLACEHOLDER = re.compile(
    r"(?<![ \t])[ \t]*+(?:"
    r"\ue200[^\ue200\ue201]*+\ue201"
    r"|<<ImageDisplayed>>"
    r"|【\d[\d:]*+†[^【】\n]{0,300}+】"
    r"|:contentReference\[oaicite[^\[\]\n]{0,99}+\](?:\{[^{}\n]{0,99}+\})?"
    r")"
    r"|[\ue200-\ue206]"
    r"|^[ \t]*+\[image\](?=[ \t\r]*+$)|\A\[image\](?=\s)|(?<=\s)\[image\]\Z",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation."""

    speaker: str
    text: str
    when: datetime | None

    @property
    def day(self) -> str:
        """The local date; "" if the time is unknown."""
        return to_local(self.when).date().isoformat() if self.when else ""


def read(path: str, text: str) -> Contents:
    """The chats of an export; another file with this name is one plain text."""
    rows = parse_json(text)
    objects = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if any("chat_messages" in row or "mapping" in row for row in objects):
        return collect("conversation", enumerate(rows, 1), partial(_load_chat, path))
    return code.read(path, text)


def _load_chat(path: str, row: Any) -> tuple[Loaded, list[str]]:
    """The text of a conversation, and a note if it has no date. Raises UnusableFile."""
    with contained(lambda _: UnusableFile("is not as Claude or ChatGPT export it")):
        claude = "chat_messages" in row
        turns = list(_claude(row["chat_messages"]) if claude else _chatgpt(row))
        if not turns:
            raise UnusableFile("has no text")
        given = next(row[key] for key in ("uuid", "conversation_id", "id") if row.get(key))
        text = join_turns(turns, readable(str(row.get("name" if claude else "title") or "")))
        when = parse_time(row.get("created_at" if claude else "create_time")) or text.created_at
        metadata = {"chat": "Claude" if claude else "ChatGPT"}
        text = replace(text, id=readable(f"{path}#{given}"), created_at=when, metadata=metadata)
        return text, [] if when else [NO_DATE]


def _claude(messages: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
    for message in messages:
        blocks = [*map(mapping, message.get("content") or ())]
        made = (mapping(one.get("input")).get("content") for one in blocks)  # artifacts
        said = (one.get("text") or text for one, text in zip(blocks, made, strict=True))
        parts = [one for one in said if isinstance(one, str) and one]
        files = [one.get("extracted_content") for one in message.get("attachments") or ()]
        text = "\n\n".join([*(parts or [message.get("text") or ""]), *filter(None, files)])
        speaker = USER if message.get("sender") == "human" else "Claude"
        if text := readable(text).strip():
            yield Turn(speaker, text, parse_time(message.get("created_at")))


def _chatgpt(row: Mapping[str, Any]) -> Iterator[Turn]:
    """The turns on the path from the last one shown to the first, without regenerated answers."""
    nodes: Mapping[Any, Any] = row["mapping"]
    place, way = row.get("current_node"), dict[Any, Any]()
    while place in nodes and place not in way:
        way[place] = nodes[place]
        place = nodes[place].get("parent")
    for node in reversed(way.values()) if way else nodes.values():
        message = node.get("message") or {}
        role = (message.get("author") or {}).get("role")
        content = message.get("content") or {}
        ran = content.get("content_type") == "code" and message.get("recipient") in RUN
        parts = content.get("parts") or ([content.get("text")] if ran else ())
        said = (_transcribe(part) for part in parts)
        if role in ("user", "assistant") and (text := "\n\n".join(filter(None, said))):
            speaker = USER if role == "user" else "ChatGPT"
            yield Turn(speaker, text, parse_time(message.get("create_time")))


def _transcribe(part: Any) -> str:
    """The text or transcription of a message's part; "" for pictures and sounds."""
    if isinstance(part, Mapping) and part.get("content_type") == "audio_transcription":
        part = part.get("text")
    text = readable(part).strip() if isinstance(part, str) else ""
    return PLACEHOLDER.sub("", MARK.sub(_find_name, text)).strip()


def _find_name(mark: re.Match[str]) -> str:
    """The name in a mark, or else the mark unchanged."""
    with suppress(ValueError, RecursionError, TypeError, KeyError, IndexError):
        if mark["kind"] in NAMED:
            names = mark["rest"].split("\ue202")
            return str(json.loads(mark["rest"])[1] if mark["kind"] == "entity" else names[0])
    return mark[0]


def join_turns(turns: Sequence[Turn], title: str) -> Loaded:
    """The turns in order; each question begins a section, each day a level-0 mark."""
    pieces, marks, days = list[str](), list[Mark](), set[str]()
    length, before = 0, ""
    for turn in turns:
        if turn.speaker == USER != before:
            day = turn.day
            if day and day not in days:
                marks.append(Mark(length, 0, day))
                days.add(day)
            name = one_line(turn.text, SECTION)
            marks.append(Mark(length, 1, "" if name == one_line(title, SECTION) else name))
        pieces.append(f"{'' if turn.speaker == before else f'{turn.speaker}: '}{turn.text}\n\n")
        length, before = length + len(pieces[-1]), turn.speaker
    began = min((turn.when for turn in turns if turn.when), default=None)
    return Loaded("".join(pieces), title, created_at=began, marks=tuple(marks))
