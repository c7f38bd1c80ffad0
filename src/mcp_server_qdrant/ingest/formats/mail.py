"""E-mail: a message, or a mailbox with one text per message."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import SURROGATE, parse_time
from mcp_server_qdrant.ingest.formats import cards, html
from mcp_server_qdrant.ingest.formats.base import (
    BOMS,
    MAX_DEPTH,
    WORD,
    Contents,
    Loaded,
    Mark,
    collect,
    decode,
    find_codec,
    readable,
    tags_of,
)

if TYPE_CHECKING:
    from email.message import Message

BOX = b"From "
# The line above a message in a mailbox: an address and a time; some programs omit both.
DAY = rb"(?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} +[A-Z][a-z]{2} +\d{4})"
DATED = rb"From [^\n]{0,300}?\b[A-Z][a-z]{2},? +%b +\d\d?:\d\d[^\n]*\n" % DAY
START = re.compile(
    rb"^(?:(?P<dated>%b)|From (?:-|\S+@\S+)?[ \t\r]*\n(?=[!-9;-~]+:))" % DATED, re.MULTILINE
)
HEADER = re.compile(rb"[!-9;-~]+:")
QUOTED = re.compile(rb"^>(?=>*From )", re.MULTILINE)
SIZE = re.compile(rb"(\d{1,10})[ \t]*\r?\n(?=[!-9;-~]+:)")
PEOPLE = ("From", "To", "Cc")
CALENDAR = "text/calendar"
NO_DATE = "has no date that can be read: it is stored without one"
FORWARDED = ("message/rfc822", "message/global", "message/news")
UNREAD = ("text/css", "text/javascript", "text/x-amp-html")  # parts without prose
STUB = 150  # words; a longer plain part is never a mere pointer to the HTML part
ADDRESS = re.compile(r"https?://\S+")


class Piece(NamedTuple):
    """A text of a message, forwarded `deep` times; one with a `name` begins a forwarded message."""

    text: str
    kind: str = "text/plain"
    deep: int = 0
    name: str = ""


def read(path: str, data: bytes) -> Contents:
    """The message, or one text per message of a mailbox. A broken one is left out with a note."""
    data = skip_to_headers(data)
    if data.startswith(BOX):
        return collect("message", _split(data), partial(_load_message, path, boxed=True))
    text, notes = _load_message(path, data)
    return Contents([text], notes)


def skip_to_headers(data: bytes) -> bytes:
    """The bytes from the first header on, without a byte order mark or the size in Apple Mail."""
    if sized := SIZE.match(data):
        data = data[sized.end() : sized.end() + int(sized[1])]
    if data.startswith(tuple(bom for bom, _ in BOMS)):
        data = decode(data)[0].encode("utf-8", "surrogateescape")
    return data.lstrip()


def _split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a mailbox: each begins after a line `From …` with a time.

    If the blank line before it or the time is missing, a header must follow; otherwise the line is
    a sentence of a message.
    """
    starts = [(0, data.find(b"\n") + 1 or len(data))]
    for found in START.finditer(data, starts[0][1]):
        begin, end = found.span()
        parted = data.endswith((b"\n\n", b"\n\r\n"), starts[-1][1], begin)
        if parted or (found["dated"] and HEADER.match(data, end)):
            starts.append((begin, end))
    ends = [start for start, _ in starts[1:]] + [len(data)]
    for number, ((_, start), end) in enumerate(zip(starts, ends, strict=True), 1):
        yield number, QUOTED.sub(b"", data[start:end].lstrip(b"\r\n"))


def _load_message(path: str, data: bytes, *, boxed: bool = False) -> tuple[Loaded, list[str]]:
    """The text of a message, and notes on what it lacks. Raises UnusableFile."""
    with contained(lambda _: UnusableFile("is not an e-mail that can be read")):
        message = parse(data)
        if not message.keys():
            raise UnusableFile("has no headers, so it is not an e-mail")
        parts = Parts(path)
        pieces = [parts.as_plain(piece) for piece in parts.find_texts(message)]
        people = {name: header(message, name) for name in PEOPLE}
        head = _list_headers(message, PEOPLE)
        text, marks = _join(f"{head}\n", (piece for piece in pieces if piece.text.strip()))
        if not text[len(head) :].strip():
            raise UnusableFile("has no text")
        when = date_of(message)
        metadata: dict[str, Any] = {name.lower(): who for name, who in people.items() if who}
        given = header(message, "Message-ID").strip("<>")
        loaded = Loaded(
            text=text,
            title=header(message, "Subject"),
            id=f"{path}#{given or hashlib.sha256(data).hexdigest()[:16]}" if boxed else path,
            metadata=metadata | ({"attachments": parts.attached} if parts.attached else {}),
            tags=tags_of(header(message, "X-Gmail-Labels")),
            created_at=when,
            marks=marks,
        )
        return loaded, [*dict.fromkeys(parts.notes)] + ([] if when else [NO_DATE])


def parse(data: bytes) -> "Message":
    """The parts of a message; headers are decoded only on demand."""
    from email import message_from_bytes, policy

    return message_from_bytes(data, policy=policy.compat32)


def _decode_header(message: "Message", name: str) -> Any:
    """A decoded header; "" if there is none, the plain value if it is malformed."""
    from email import policy

    raw = next((str(one) for key, one in message.raw_items() if key.lower() == name.lower()), "")
    if SURROGATE.search(raw):  # raw bytes, not encoded as headers must be
        raw, _ = _guess(raw.encode("utf-8", "surrogateescape"))
    try:
        with contained(UnusableFile):
            return policy.default.header_factory(name, " ".join(raw.split()))
    except UnusableFile:  # nested groups, a name in two lines
        return _decode_words(raw)


def _decode_words(raw: str) -> str:
    """A name, decoded if it is an encoded word."""
    from email.header import decode_header, make_header

    with suppress(LookupError, ValueError):
        return str(make_header(decode_header(raw)))
    return raw


def header(message: "Message", name: str) -> str:
    """The text of a header, on one line."""
    return " ".join(readable(str(_decode_header(message, name))).split())


def date_of(message: "Message") -> datetime | None:
    """The declared date of a message."""
    return parse_time(getattr(_decode_header(message, "Date"), "datetime", None))


@dataclass(slots=True)
class Parts:
    """Reads the parts of a message; collects names of `attached` files, and `notes`."""

    path: str
    attached: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def find_texts(self, part: "Message", deep: int = 0, level: int = 0) -> Iterator[Piece]:
        """All texts of a part, in order; `deep` is its level of forwarding."""
        kind = part.get_content_type()
        inside: Any = part.get_payload() if part.is_multipart() else ()
        if kind in FORWARDED and inside and not inside[0].keys():  # encoded, which is not allowed
            inside[0]["Content-Transfer-Encoding"] = part.get("Content-Transfer-Encoding", "")
            inside = [parse(inside[0].get_payload(decode=True))]
        if inside and level > MAX_DEPTH:
            self.notes.append(f"is nested deeper than {MAX_DEPTH} levels: the rest is left out")
        elif kind in FORWARDED and inside:
            about = (header(inside[0], "Subject"), header(inside[0], "From"))
            section = f"Forwarded: {', from '.join(filter(None, about))}"
            head = _list_headers(inside[0], ("Subject", *PEOPLE, "Date"))
            yield Piece(head, deep=deep, name=section)
            yield from self.find_texts(inside[0], deep + 1, level + 1)
        elif kind.startswith("message/") and inside:  # a delivery report
            yield Piece("\n".join(_list_headers(one, one.keys()) for one in inside), deep=deep)
        elif inside and kind == "multipart/related":  # a page with its resources
            first = str(part.get_param("start"))
            root = next((one for one in inside if one.get("Content-ID") == first), inside[0])
            self.attached += (_name(one) for one in inside if one is not root and _name(one))
            yield from self.find_texts(root, deep, level + 1)
        elif inside:
            found = [[*self.find_texts(one, deep, level + 1)] for one in inside]
            yield from self._choose(found) if kind == "multipart/alternative" else chain(*found)
        else:
            yield from self._read_leaf(part, kind, deep)

    def _read_leaf(self, part: "Message", kind: str, deep: int) -> Iterator[Piece]:
        """The text of a leaf part; attachments are only named, except invitations."""
        attached, name = part.get_content_disposition() == "attachment", _name(part)
        if name or (attached and not kind.startswith("text/")):
            self.attached.append(name or kind)
        wanted = kind not in UNREAD and not (attached and name)
        # A multipart message without parts is read as text.
        if kind == CALENDAR or (wanted and kind.startswith(("text/", "multipart/"))):
            text, notes = decode_part(part)
            self.notes += notes
            if kind == CALENDAR:
                text = "\n".join(card.text for card in cards.list_cards(text))
            if text.strip():
                yield Piece(text, kind, deep)

    def _choose(self, variants: Sequence[Sequence[Piece]]) -> Iterable[Piece]:
        """The plain variant of a text, unless it is only a pointer to the HTML variant."""
        invitations = [piece for one in variants for piece in one if piece.kind == CALENDAR]
        texts = [[piece for piece in one if piece.kind != CALENDAR] for one in variants]
        rich = [one for one in texts if any(piece.kind == html.TYPE for piece in one)]
        plain = next((one for one in texts if one and one not in rich), [])
        brief = len(_words(plain)) <= STUB
        seen = [self.as_plain(piece) for piece in rich[-1]] if rich and brief else []
        said, shown = {*_words(plain)}, {*_words(seen)}
        if len(shown) > len(said) and 2 * len(said & shown) < len(shown):
            plain = seen
        others = [piece for one in rich if plain is not seen for piece in one]
        files = [
            one for one in others if one.kind != html.TYPE and not said.issuperset(_words([one]))
        ]
        return [*plain, *files, *invitations]

    def as_plain(self, piece: Piece) -> Piece:
        """A piece as plain text."""
        if piece.kind != html.TYPE:
            return piece
        page = html.load_page(self.path, html.parse_page(piece.text))
        return piece._replace(text=page.text, kind="text/plain")


def _list_headers(message: "Message", names: Iterable[str]) -> str:
    known = ((name, header(message, name)) for name in dict.fromkeys(names))
    return "".join(f"{name}: {value}\n" for name, value in known if value)


def _name(part: "Message") -> str:
    """The file name of a part."""
    return readable(_decode_words(part.get_filename() or ""))


def decode_part(part: "Message") -> tuple[str, list[str]]:
    """The text of a part, and a note if its encoding was guessed."""
    raw: Any = part.get_payload(decode=True) or b""
    named = find_codec(part.get_content_charset() or "")
    if not named and part.get_content_type() == html.TYPE:
        named = html.find_encoding(raw)
    # In these encodings guessing would not help: the text is also ASCII, or has zeros.
    if named and named.startswith(("iso2022", "utf-16", "utf-32")):
        return readable(raw.decode(named, "replace")), []
    return _guess(raw, named)


def _guess(raw: bytes, named: str | None = None) -> tuple[str, list[str]]:
    """The text of bytes in the named encoding, or else guessed as for files."""
    try:
        text, notes = decode(raw, named)
    except UnusableFile:
        text, notes = raw.decode("utf-8", "replace"), ["has characters of an unknown encoding"]
    return readable(text), notes


def _join(head: str, pieces: Iterable[Piece]) -> tuple[str, tuple[Mark, ...]]:
    """The pieces joined; a forwarded message is a section."""
    text, marks, above = head, list[Mark](), 0
    for piece in pieces:
        if text != head:
            text = f"{text.rstrip()}\n\n"
        if piece.name or piece.deep < above:
            marks.append(Mark(len(text), piece.deep + 1, piece.name))
        text, above = text + piece.text, piece.deep
    return text, tuple(marks)


def _words(pieces: Iterable[Piece]) -> list[str]:
    return WORD.findall(ADDRESS.sub("", "\n".join(one.text for one in pieces)).casefold())
