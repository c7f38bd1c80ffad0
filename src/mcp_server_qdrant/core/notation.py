"""The notation of names, ids, times and parts of payloads."""

import json
import math
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from mcp_server_qdrant.core.datatypes import Document, PointId

NAMESPACE = uuid.UUID("6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7")
MAX_NAME = 255
LINE = 120
SLIPS = 2
NEAR, NEAR_NAMES = 0.7, 3  # names that look like another one: how much, and how many
OWN = 60  # characters of an id that is shown as its caller gave it
HISTORY = "mcp-server-qdrant-history"  # the collection of earlier versions

Identify = Callable[[str, str, int], str]
CALENDAR = "no time between the years 1 and 9999 in UTC"
_DATED = re.compile(
    r"[+-]?\d{4,}-\d\d-\d\d([T ]\d\d(:\d\d){0,2}(\.\d+)?( ?[+-]\d\d(:?\d\d)?|Z)?)?", re.IGNORECASE
)
_SPACED_ZONE = re.compile(r" (?=[+-]\d\d:?\d\d\Z)")
_NIL = "00000000-0000-0000-0000-000000000000"
_REST = 25  # characters of an id that a short one leaves out: 40 bits tell ten million points apart
_SHORT = re.compile("[0-9a-f]{8}-[0-9a-f]{2}")
_PART = re.compile(r"(.+):([1-9]\d{0,5})/([1-9]\d{0,5})", re.DOTALL)
_FIXED_BITS = 0xF << 76 | 0b11 << 62  # of a UUID: its version and its variant
_FROM_5_TO_8 = (5 ^ 8) << 76
# Controls of a terminal and of the direction of writing, and what a model reads and a person cannot
# see: Unicode's Default_Ignorable_Code_Point, annotations and controls of hieroglyphs.
_UNSEEN = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# But not the selector and the joiners of an emoji, nor joiners that shape the letters of a word.
_EMOJI = r"[\xa9\xae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_SHAPED = r"[\u0620-\u06d3\u0750-\u077f\u0900-\u109f\u1780-\u17b3\u1820-\u18aa]"
_SEEN = (
    rf"{_EMOJI}[\ufe0e\ufe0f]?(?:\u200d{_EMOJI}\ufe0f?)*|[#*0-9]\ufe0f\u20e3"
    rf"|(?<={_SHAPED})[\u200c\u200d](?={_SHAPED})"
)
_INVISIBLE = re.compile(f"({_SEEN})|[{_UNSEEN}]")
_STEERING = re.compile(rf"({_SEEN})|[\n\r{_UNSEEN}]")  # and what ends a line
_SUSPECT = re.compile(rf"[\n\r{_UNSEEN}]")
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\t\ud800-\udfff]')
SURROGATE = re.compile(r"[\ud800-\udfff]")  # half a character, which no UTF-8 holds
_JOINER = re.compile(r"(?<!\\)\\u200[cd]")  # as `repr` writes it
_WORD = re.compile(r"\w(?:[\w.~@+/#:=%-]*\w)?")


def name_fault(name: str) -> str | None:
    """Why Qdrant or a file system would not take a collection of this name; None if they would.

    Nor may a name look like another one, or change the direction of the text around it.
    """
    forbidden = _FORBIDDEN.search(name) or name != plain(name) or name in (".", "..")
    if 0 < len(name) <= MAX_NAME and not forbidden:
        return None
    return (
        f"{name[:40]!r} cannot be a collection's name: use 1 to {MAX_NAME} characters "
        'without control characters, invisible ones and < > : " / \\ | ? *'
    )


def listed_in(patterns: Collection[str], name: str) -> bool:
    """True where one of them is this name, or a glob for it and no `-glob` leaves it out."""
    if name in patterns:
        return True
    left_out = (pattern[1:] for pattern in patterns if pattern.startswith("-"))
    if any(fnmatchcase(name, glob) for glob in left_out):
        return False
    return any(fnmatchcase(name, glob) for glob in patterns)


def visible_in(allowed: Collection[str], name: str) -> bool:
    """True for a collection that may be read and named: any but HISTORY where none is `allowed`."""
    return name != HISTORY and (not allowed or listed_in(allowed, name))


def plain(text: str) -> str:
    """The text without what would steer a terminal, turn the writing or end the line."""
    return _STEERING.sub(_seen, text) if _SUSPECT.search(text) else text


def visible(value: Any) -> Any:
    """A value of an answer, at any depth, without what nobody sees; lines stay lines."""
    if isinstance(value, str):
        return _INVISIBLE.sub(_seen, value) if _SUSPECT.search(value) else value
    if isinstance(value, dict):
        return {visible(key): visible(one) for key, one in value.items()}
    return [visible(one) for one in value] if isinstance(value, list) else value


def _seen(found: re.Match[str]) -> str:
    return found[1] or ""


def printable(text: str, mark: str = "\ufffd") -> str:
    """The text on one line, with a mark for each character that a terminal may not show."""
    return "".join(one if one.isprintable() else mark for one in text)


def escaped(data: str) -> str:
    """The text, which may be JSON, with all of that written as escapes of JSON."""
    return _STEERING.sub(lambda found: found[1] or json.dumps(found[0])[1:-1], data)


def line(text: str, length: int | None = LINE) -> str:
    """The text on one line of at most `length` characters."""
    folded = plain(" ".join(text.split()))
    return folded if length is None else clipped(folded, length)


def clipped(text: str, length: int) -> str:
    """As many of its words as have room; of one long word the beginning."""
    if len(text) <= length:
        return text
    kept = text[: max(length - 1, 1)]
    words = kept if text[len(kept)].isspace() else kept.rpartition(" ")[0]
    return f"{(words if len(words) > len(kept) // 2 else kept).rstrip()}…"


def chain(path: str, length: int) -> str:
    """A path of headings in about `length` characters: its ends say most, the middle goes first."""
    first, *inner = path.split(" > ")
    if len(path) <= length or not inner:
        return path
    room, last = length - len(first) - 4, list[str]()
    for name in reversed(inner):
        room -= len(name) + 3
        if room < 0:
            break
        last.append(name)
    if last:
        return " > ".join([first, "…", *reversed(last)])
    end = clipped(inner[-1], max(length // 2, length - len(first) - 3))
    return f"{clipped(first, length - len(end) - 3)} > {end}"


def called(name: str | int) -> str:
    """A name or an id in a sentence: quoted unless it is one word, so that it reads as no more."""
    whole = str(name)
    short = whole if len(whole) <= MAX_NAME else f"{whole[: MAX_NAME - 1]}…"
    if visible(short) != short:
        return _STEERING.sub(lambda found: found[1] or ascii(found[0])[1:-1], repr(short))
    if _WORD.fullmatch(short):
        return short
    return _JOINER.sub(lambda found: chr(int(found[0][2:], 16)), repr(short))


def every(names: Iterable[str]) -> str:
    """Several of them."""
    return ", ".join(map(called, names))


def some(things: Sequence[Any], most: int = 3, shown: Callable[[Any], str] = str) -> str:
    """The first of them, and how many more there are."""
    more = len(things) - most
    return ", ".join(map(shown, things[:most])) + (f" and {more} more" if more > 0 else "")


def near_names(name: str, names: Iterable[str], least: float = NEAR) -> list[str]:
    """Those that look like `name`, nearest first: what may have been meant."""
    from rapidfuzz import process  # only where a name is not there
    from rapidfuzz.distance import OSA

    found = process.extract(
        name,
        [*names],
        scorer=OSA.normalized_similarity,
        processor=str.casefold,
        score_cutoff=least,
        limit=NEAR_NAMES,
    )
    return [near for near, _, _ in found]


def misspelled(one: str, other: str) -> bool:
    """True where two typing errors at most, or other signs between words, make one of the other."""
    from rapidfuzz.distance import OSA

    alike = (re.sub(r"[\W_]+", "-", name.casefold()) for name in (one, other))
    return OSA.distance(*alike) <= SLIPS


def amount(number: int, noun: str) -> str:
    """So many of a noun whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def point_id(collection: str, document: str, chunk: int, namespace: uuid.UUID = NAMESPACE) -> str:
    """uuid5 of (collection, document id, chunk index): the id of a document's first part.

    Further parts had such ids too before texts had versions.
    """
    return str(uuid.uuid5(namespace, f"{collection}\x00{document}\x00{chunk}"))


def part_id(first: str, version: str, chunk: int) -> str:
    """The id of a further part: the first part's id XOR a hash of version and number.

    Its own inverse: given a further part's id, it is the id of the first. UUID version 8 (RFC 9562,
    for an application's own use) tells such an id from others.
    """
    noise = int.from_bytes(blake2b(f"{version}\0{chunk}".encode(), digest_size=16).digest())
    text = f"{_number(first) ^ (noise & ~_FIXED_BITS | _FROM_5_TO_8):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_part_id(point: PointId | None) -> bool:
    """True for the id of a further part, of any version."""
    number = _number(point) if isinstance(point, str) else 0
    return number >> 76 & 0xF == 8 and number >> 62 & 0b11 == 0b10


def _number(text: str) -> int:
    """A UUID as a number, in a fraction of the time that `uuid.UUID` takes."""
    return int(text.replace("-", ""), 16)


def sibling_id(one: Document, chunk: int, identify: Identify = point_id) -> str:
    """The id of another part of the same document and version."""
    if one.version is None or chunk == 0:
        return identify(one.collection, one.document or "", chunk)
    return part_id(str(one.head or one.id), one.version, chunk)


def point_ids_of(tenant: str) -> Identify:
    """`point_id` within one tenant: a text or an id of two tenants makes two points."""
    return partial(point_id, namespace=uuid.uuid5(NAMESPACE, tenant))


def short_id(point: PointId) -> str:
    """How a point's id begins, which `Lookup.full` completes; a number is short as it is."""
    return str(point)[: len(_NIL) - _REST] if isinstance(point, str) else str(point)


def first_id(beginning: str) -> str | None:
    """The least id that begins so; None for what `short_id` does not make."""
    return f"{beginning}{_NIL[-_REST:]}" if _SHORT.fullmatch(beginning) else None


def made_here(text: str) -> bool:
    """True for what tools alone make: a short id, also with the number of a part or a time."""
    own = (at_time(text) or (text,))[0]
    return first_id((part_of(own) or (own,))[0]) is not None


@lru_cache(1024)
def own_id(collection: str, point: PointId, document: str | None) -> str:
    """The id of a text that all tools show: its caller's, where it is short and surely finds it."""
    if (
        document
        and len(document) <= OWN
        and document == plain(document)
        and as_point_id(document) is None
        and first_id(document) is None
        and point_id(collection, document, 0) == point
    ):
        return document
    return short_id(point)


def document_id(document: Document) -> str:
    """The id of a whole text as all tools show and take it."""
    return own_id(document.collection, document.head or document.id, document.document)


def shown_id(document: Document) -> str:
    """The id of a text; of one part of it, that of the whole and its number."""
    if document.chunks == 1 or begins(document) or document.document is None:
        return document_id(document)
    return f"{document_id(document)}:{document.chunk + 1}/{document.chunks}"


def begins(document: Document) -> bool:
    """True if these are the first of its chunks, joined."""
    return document.chunk == 0 and document.last is not None


def is_numbered(document: Document) -> bool:
    """True for one part of a text, whose id is shown with its number."""
    return document.document is not None and document.last is None


def heir_id(document: Document) -> str | None:
    """The id of the text that superseded this one."""
    if document.heir is None:
        return document.superseded_by
    place = document.superseded_in or document.collection
    return own_id(place, document.heir, document.superseded_by)


def part_of(text: str) -> tuple[str, int, int] | None:
    """The id of a document, the number of a part from 1, and that of all, from `id:2/9`."""
    found = _PART.fullmatch(text)
    return (found[1], int(found[2]), int(found[3])) if found else None


def at_time(text: str) -> tuple[str, datetime] | None:
    """The id of a text and a time, from `ID@TIME`; None for any other text."""
    own, _, said = text.rpartition("@")
    when = moment(said) if own else None
    return None if when is None else (own, when)


def as_point_id(text: str) -> PointId | None:
    """Qdrant's id behind a caller's: an unsigned integer or a UUID; None where it is neither."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64:
        return int(text)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def moment(value: Any) -> datetime | None:
    """A time as people and tools write it, in UTC: ISO 8601, or epoch in seconds or milliseconds.

    None where it is neither, or where UTC has no such moment. A time without a zone is UTC.
    """
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        return _moment_in(value)
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


@lru_cache(4096)  # a search reads the same dates for several steps
def _moment_in(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(_SPACED_ZONE.sub("", text))
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def date_paths(fields: Iterable[str]) -> list[str]:
    """The paths into a payload where these fields may be: without a dot also below `metadata`."""
    paths: list[str] = []
    for field in fields:
        paths += [field] if "." in field else [field, f"metadata.{field}"]
    return paths


def time_of(payload: Any, paths: Iterable[Sequence[str]]) -> datetime | None:
    """The first time in a payload at one of the paths."""
    for path in paths:
        value = payload
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and (when := moment(value)) is not None:
            return when
    return None


def impossible(value: Any) -> bool:
    """True for a value that looks like a time but is none that exists."""
    dated = isinstance(value, str) and _DATED.fullmatch(value) is not None
    return (dated or isinstance(value, date | int | float)) and moment(value) is None


def iso(when: datetime) -> str:
    """A moment as it is stored: ISO 8601 in UTC, to the second."""
    return stamp(when.replace(microsecond=0))


def stamp(when: datetime) -> str:
    """A moment of writing, by which two versions of a text differ: to the microsecond."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
