"""Sessions of Claude Code, Codex and Gemini CLI: a text per session, of what was said.

Left out are what tools got and gave, thoughts, sub-agents, and what the client itself told the
model. None of the forms is promised by its maker: a line of an unknown kind is none of ours.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.notation import line, moment
from mcp_server_qdrant.ingest.formats import jsonl
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    decode,
    fault_notes,
    name_of,
    parsed,
    readable,
)
from mcp_server_qdrant.ingest.formats.chats import USER, Turn, conversation
from mcp_server_qdrant.ingest.secrets import masked

ID = "-".join("?" * size for size in (8, 4, 4, 4, 12))
NAMES = f"{ID}.jsonl agent-*.jsonl rollout-*.jsonl session-*.jsonl session-*.json"
TITLE = 100  # characters
LONGEST = 8_000  # characters of a turn: of one with a log in it the middle is left out
KINDS = ("text", "input_text", "output_text")  # of blocks of text; others are tools, images
TITLES = ("summary", "aiTitle", "customTitle")  # the last of these decides
# The marks of messages that nobody wrote.
MADE = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
# What a client puts around, or in the place of, the words of its user.
TOLD = re.compile(r"\s*<([a-z]+[-_ ][\w -]*)>.*?</\1>", re.DOTALL)
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
FRAMES = ("Caveat: The messages below", "# AGENTS.md instructions", "[Request interrupted")
IDE = "## My request for Codex:"

Row = dict[str, Any]


@dataclass(slots=True)
class Session:
    """What was said in a session, and where; `titles` by where they are from.

    So many secrets were `masked`: at once, for what is cut after that could be a part of one.
    """

    client: str
    id: str = ""
    project: str = ""
    branch: str = ""
    turns: list[Turn] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    masked: int = 0

    def say(self, speaker: str, content: Any, when: Any) -> None:
        """Take in what somebody said, if it is more than the client's own words."""
        text = _said(content)
        if speaker == USER:
            text = _asked(text)
        text, secrets = masked(readable(text.strip()))
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]}\n[…]\n{text[-LONGEST // 2 :]}"
        if text:
            self.turns.append(Turn(speaker, text, moment(when)))
            self.masked += secrets


def read(path: str, data: bytes) -> Contents:
    """The session of a file; one of the same name that holds none is read as JSON lines, or text.

    A line that is no JSON is left out, with a note, but for the last: it may be being written.
    """
    faults, lines = list[tuple[str, int]](), path.endswith(".jsonl")
    found = list(_rows(data, faults)) if lines else [parsed(decode(data)[0])]
    rows = [row for row in found if isinstance(row, dict)]
    session = next(filter(None, (reader(rows) for reader in READERS)), None)
    if session is None and lines:
        return jsonl.read(path, data)
    if session is None:
        return Contents([Loaded(decode(data)[0], name_of(path))])
    if not session.turns:
        raise UnusableFile("holds no conversation")
    return Contents([_loaded(session)], fault_notes("line", faults), session.masked)


def _rows(data: bytes, faults: list[tuple[str, int]]) -> Iterator[Any]:
    for number, row in jsonl.lines(data):
        try:
            yield json.loads(row)
        except (ValueError, RecursionError):
            if row.endswith(b"\n"):
                faults.append(("is not JSON", number))


def _claude(rows: Sequence[Row]) -> Session | None:
    """One line per message; older versions name sessions by a summary, which may be another's."""
    keys = {key for row in rows for key in row}
    if not keys & {"sessionId", "leafUuid", "snapshot"} or "projectHash" in keys:
        return None
    session, seen = Session("claude-code"), set[str]()
    here = {_text(row.get("uuid")) for row in rows}
    for row in rows:
        uuid, leaf = _text(row.get("uuid")), _text(row.get("leafUuid"))
        person = _object(row.get("origin")).get("kind", "human") == "human"
        if row.get("isSidechain") or uuid in seen or not person:
            continue
        seen |= {uuid} if uuid else set()
        session.id = _text(row.get("sessionId")) or session.id
        session.project = session.project or _text(row.get("cwd"))
        session.branch = _text(row.get("gitBranch")) or session.branch
        if not leaf or leaf in here:
            session.titles |= {name: _text(row[name]) for name in TITLES if row.get(name)}
        queued, kind = _object(row.get("attachment")), row.get("type")
        if queued.get("type") == "queued_command":
            session.say(USER, queued.get("prompt"), row.get("timestamp"))
        elif kind in ("user", "assistant") and not any(map(row.get, MADE)):
            speaker, message = USER if kind == "user" else "Claude", _object(row.get("message"))
            session.say(speaker, message.get("content"), row.get("timestamp"))
    return session


def _codex(rows: Sequence[Row]) -> Session | None:
    """What was sent to the model and came back, each in an envelope."""
    meta = next((_object(r.get("payload")) for r in rows if r.get("type") == "session_meta"), None)
    if meta is None:
        return None
    session = Session("codex", id=_text(meta.get("id")), project=_text(meta.get("cwd")))
    session.branch = _text(_object(meta.get("git")).get("branch"))
    if isinstance(meta.get("source"), dict):  # a sub-agent's
        return session
    for row in rows:
        item = _object(row.get("payload"))
        if item.get("type") == "message" and item.get("role") in ("user", "assistant"):
            speaker = USER if item["role"] == "user" else "Codex"
            session.say(speaker, item.get("content"), row.get("timestamp"))
    return session


def _gemini(rows: Sequence[Row]) -> Session | None:
    """One object, or lines that add to it; a message of a known id replaces that one."""
    if not any("projectHash" in row for row in rows):
        return None
    whole: Row = {}
    said: dict[str, Row] = {}
    for row in rows:
        if "$rewindTo" in row:
            names, first = list(said), _text(row["$rewindTo"])
            place = names.index(first) if first in said else 0
            said = {name: said[name] for name in names[:place]}
        elif "id" in row:
            said[str(row["id"])] = row
        else:
            whole |= _object(row["$set"]) if "$set" in row else row
    session = Session("gemini-cli", id=_text(whole.get("sessionId")))
    session.titles["summary"] = _text(whole.get("summary"))
    if whole.get("kind") == "subagent":
        return session
    messages = whole.get("messages")
    for message in map(_object, messages if isinstance(messages, list) else said.values()):
        kind, shown = message.get("type"), message.get("displayContent")
        if kind in ("user", "gemini"):
            speaker = USER if kind == "user" else "Gemini"
            session.say(speaker, shown or message.get("content"), message.get("timestamp"))
    return session


READERS: tuple[Callable[[Sequence[Row]], Session | None], ...] = (_claude, _codex, _gemini)


def _object(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return line(readable(value), None) if isinstance(value, str) else ""


def _said(content: Any) -> str:
    """The texts of a message, which is one, or blocks of several kinds."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    blocks = [one if isinstance(one, dict) else {"text": one} for one in parts]
    told = (one for one in blocks if one.get("type", "text") in KINDS and not one.get("thought"))
    return "\n\n".join(one["text"] for one in told if isinstance(one.get("text"), str))


def _asked(text: str) -> str:
    """The user's own words: a command with what was given to it, and without what is injected.

    It takes time in proportion to the text, whatever is repeated or left open in it.
    """
    _, _, rest = text.partition("<command-name>")
    name, _, rest = rest.partition("</command-name>")
    _, _, rest = rest.partition("<command-args>")
    given, closed, _ = rest.partition("</command-args>")
    if closed:
        return f"{name} {given}" if given.strip() else ""
    # Where none is closed any more, each that is open would be searched to the end in vain.
    reminders, closed, rest = text.rpartition("</system-reminder>")
    text, at = REMINDER.sub("", reminders + closed) + rest, 0
    while told := TOLD.match(text, at):
        at = told.end()
    text = text[at:].rpartition(IDE)[2].strip()
    return "" if text.startswith(FRAMES) else text


def _loaded(session: Session) -> Loaded:
    """The session as one text, titled by its name or the first prompt."""
    first = next((turn.text for turn in session.turns if turn.speaker == USER), "")
    titles, _ = masked([session.titles.get(name) for name in reversed(TITLES)])
    title = line(next(filter(None, [*titles, first]), ""), TITLE)
    names = ("client", "session", "project", "branch")
    known = (session.client, session.id, session.project, session.branch)
    metadata: dict[str, Any] = {name: one for name, one in zip(names, known, strict=True) if one}
    if days := sorted({turn.day for turn in session.turns if turn.day}):
        metadata |= {"days": days, "date": days[-1]}  # taken up again it is found by its last day
    return replace(conversation(session.turns, title), metadata=masked(metadata)[0])
