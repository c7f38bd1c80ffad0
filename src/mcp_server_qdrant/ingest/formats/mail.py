"""E-mail: a message, or a mailbox with a text per message."""

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import moment
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    collected,
    readable,
    tags_of,
)

if TYPE_CHECKING:
    from email.message import EmailMessage

BOX = b"From "
START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n")
QUOTED = re.compile(rb"^>(?=>*From )", re.MULTILINE)
NO_DATE = "has no date that can be read: it is stored without one"


def read(path: str, data: bytes) -> Contents:
    """The message, or one text per message of a mailbox. A broken one is left out, with a note."""
    if data.startswith(BOX):
        return collected(
            "message", _messages(data), lambda message: _loaded(path, message, boxed=True)
        )
    text, notes = _loaded(path, data)
    return Contents([text], notes)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a mailbox: each begins below a line `From …` that follows a blank one."""
    starts = [(found.start(), found.end()) for found in START.finditer(data)]
    ends = [start for start, _ in starts[1:]] + [len(data)]
    for number, ((_, start), end) in enumerate(zip(starts, ends, strict=True), 1):
        yield number, QUOTED.sub(b"", data[start:end])


def _loaded(path: str, data: bytes, *, boxed: bool = False) -> tuple[Loaded, list[str]]:
    """The text of a message, and a sentence where it has no date. Raises UnusableFile."""
    with contained(lambda _: UnusableFile("is not an e-mail that can be read")):
        from email import message_from_bytes, policy

        message = message_from_bytes(data, policy=policy.default)
        if not message.keys():
            raise UnusableFile("has no headers, so it is not an e-mail")
        body = _body(path, message)
        if not body.strip():
            raise UnusableFile("has no text")
        when = moment(getattr(message["Date"], "datetime", None))
        people = {name: _header(message, name) for name in ("From", "To", "Cc")}
        names = [part.get_filename() for part in message.iter_attachments()]
        head = "".join(f"{name}: {who}\n" for name, who in people.items() if who)
        metadata = {name.lower(): who for name, who in people.items() if who}
        attached = [readable(name) for name in names if name]
        given = _header(message, "Message-ID").strip("<>")
        loaded = Loaded(
            text=f"{head}\n{body}",
            title=_header(message, "Subject"),
            id=f"{path}#{given or hashlib.sha256(data).hexdigest()[:16]}" if boxed else path,
            metadata=metadata | ({"attachments": attached} if attached else {}),
            tags=tags_of(_header(message, "X-Gmail-Labels")),
            created_at=when,
        )
        return loaded, [] if when else [NO_DATE]


def _header(message: "EmailMessage", name: str) -> str:
    return " ".join(readable(str(message[name] or "")).split())


def _body(path: str, message: "EmailMessage") -> str:
    """The text of a message as it was written, or else of its HTML."""
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        if part is None:
            continue
        try:
            text = readable(part.get_content())
        except LookupError:  # an unknown character set
            raw = part.get_payload(decode=True)
            text = readable(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else "")
        if kind == "html":
            text = html.loaded(path, html.parsed(text)).text
        if text.strip():
            return text
    return ""
