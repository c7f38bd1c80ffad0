"""How names, ids, times and payload paths are written, parsed and shown."""

import json
import math
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from mcp_server_qdrant.core.context import current_zone, from_local_time
from mcp_server_qdrant.core.datatypes import Document, PointId

NAMESPACE = uuid.UUID("6f1ca6a5-6dd5-5d1b-9f0e-4b1f3cf0a2a7")
MAX_NAME = 255
LINE = 120
SLIPS = 2
NEAR, NEAR_NAMES = 0.7, 3  # similar names: the least similarity, and the most names
OWN = 60  # longest caller-given id that is shown as it is
HISTORY = "mcp-server-qdrant-history"  # the hidden collection of earlier versions

Identify = Callable[[str, str, int], str]
Place = tuple[str, str]  # of a text: its collection and the id of its first part
CALENDAR = "no day of the calendar, or not between the years 1 and 9999"
_DATED = re.compile(
    r"[+-]?\d{4,}-\d\d-\d\d([T ]\d\d(:\d\d){0,2}(\.\d+)?( ?[+-]\d\d(:?\d\d)?|Z)?)?", re.IGNORECASE
)
_SPACED_ZONE = re.compile(r" (?=[+-]\d\d:?\d\d\Z)")
_NIL = "00000000-0000-0000-0000-000000000000"
_REST = 25  # characters that a short id omits; the other 40 bits suffice for ten million points
_SHORT = re.compile("[0-9a-f]{8}-[0-9a-f]{2}")
_PART = re.compile(r"(.+):([1-9]\d{0,5})/([1-9]\d{0,5})", re.DOTALL)
_FIXED_BITS = 0xF << 76 | 0b11 << 62  # of a UUID: its version and its variant
_FROM_5_TO_8 = (5 ^ 8) << 76
# Terminal and bidirectional controls, and characters that a model reads but a person cannot see:
# Unicode's Default_Ignorable_Code_Point, annotations and hieroglyph controls.
_UNSEEN = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Except the selectors and joiners of emoji, and joiners that shape the letters of a word.
_EMOJI = r"[\xa9\xae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_SHAPED = r"[\u0620-\u06d3\u0750-\u077f\u0900-\u109f\u1780-\u17b3\u1820-\u18aa]"
_SEEN = (
    rf"{_EMOJI}[\ufe0e\ufe0f]?(?:\u200d{_EMOJI}\ufe0f?)*|[#*0-9]\ufe0f\u20e3"
    rf"|(?<={_SHAPED})[\u200c\u200d](?={_SHAPED})"
)
_INVISIBLE = re.compile(f"({_SEEN})|[{_UNSEEN}]")
_STEERING = re.compile(rf"({_SEEN})|[\n\r{_UNSEEN}]")  # and line ends
_SUSPECT = re.compile(rf"[\n\r{_UNSEEN}]")
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\t\ud800-\udfff]')
SURROGATE = re.compile(r"[\ud800-\udfff]")  # invalid in UTF-8
_JOINER = re.compile(r"(?<!\\)\\u200[cd]")  # as `repr` writes it
_WORD = re.compile(r"\w(?:[\w.~@+/#:=%-]*\w)?")


def name_fault(name: str) -> str | None:
    """Why this cannot be a collection's name; None if it can.

    Qdrant and file systems must accept it; invisible and bidirectional characters are refused.
    """
    forbidden = _FORBIDDEN.search(name) or name != without_controls(name) or name in (".", "..")
    if 0 < len(name) <= MAX_NAME and not forbidden:
        return None
    return (
        f"{name[:40]!r} cannot be a collection's name: use 1 to {MAX_NAME} characters "
        'without control characters, invisible ones and < > : " / \\ | ? *'
    )


def listed_in(patterns: Collection[str], name: str) -> bool:
    """True if a pattern is this name, or a glob matches it and no `-glob` excludes it."""
    if name in patterns:
        return True
    left_out = (pattern[1:] for pattern in patterns if pattern.startswith("-"))
    if any(fnmatchcase(name, glob) for glob in left_out):
        return False
    return any(fnmatchcase(name, glob) for glob in patterns)


def visible_in(allowed: Collection[str], name: str) -> bool:
    """True if the collection may be read and named; `allowed` empty: all except HISTORY."""
    return name != HISTORY and (not allowed or listed_in(allowed, name))


def without_controls(text: str) -> str:
    """The text without terminal controls, bidirectional controls and line ends."""
    return _STEERING.sub(_seen, text) if _SUSPECT.search(text) else text


def visible(value: Any) -> Any:
    """The value without invisible characters, at any depth; line ends are kept."""
    if isinstance(value, str):
        return _INVISIBLE.sub(_seen, value) if _SUSPECT.search(value) else value
    if isinstance(value, dict):
        return {visible(key): visible(one) for key, one in value.items()}
    return [visible(one) for one in value] if isinstance(value, list) else value


def _seen(found: re.Match[str]) -> str:
    return found[1] or ""


def printable(text: str, mark: str = "\ufffd") -> str:
    """The text with a mark for each unprintable character."""
    return "".join(one if one.isprintable() else mark for one in text)


def escaped(data: str) -> str:
    """The text (or JSON) with control and invisible characters written as JSON escapes."""
    return _STEERING.sub(lambda found: found[1] or json.dumps(found[0])[1:-1], data)


def one_line(text: str, length: int | None = LINE) -> str:
    """The text on one line of at most `length` characters."""
    folded = without_controls(" ".join(text.split()))
    return folded if length is None else clipped(folded, length)


def clipped(text: str, length: int) -> str:
    """As many words as fit, with an ellipsis; a single long word is cut."""
    if len(text) <= length:
        return text
    kept = text[: max(length - 1, 1)]
    words = kept if text[len(kept)].isspace() else kept.rpartition(" ")[0]
    return f"{(words if len(words) > len(kept) // 2 else kept).rstrip()}…"


def shortened_path(path: str, length: int) -> str:
    """Shorten a path of headings to about `length` characters, dropping its middle first."""
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


def cite(name: str | int) -> str:
    """A name or id for a sentence, quoted unless it is a single word."""
    whole = str(name)
    short = whole if len(whole) <= MAX_NAME else f"{whole[: MAX_NAME - 1]}…"
    if visible(short) != short:
        return _STEERING.sub(lambda found: found[1] or ascii(found[0])[1:-1], repr(short))
    if _WORD.fullmatch(short):
        return short
    return _JOINER.sub(lambda found: chr(int(found[0][2:], 16)), repr(short))


def cite_all(names: Iterable[str]) -> str:
    """Several names for a sentence, separated by commas."""
    return ", ".join(map(cite, names))


def first_few(things: Sequence[Any], most: int = 3, shown: Callable[[Any], str] = str) -> str:
    """The first `most` items, and the number of the others."""
    more = len(things) - most
    return ", ".join(map(shown, things[:most])) + (f" and {more} more" if more > 0 else "")


def near_names(name: str, names: Iterable[str], least: float = NEAR) -> list[str]:
    """The names most similar to `name`, nearest first: what was probably meant."""
    from rapidfuzz import process  # needed for unknown names only
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
    """True if they differ by at most two typos, ignoring case and the signs between words."""
    from rapidfuzz.distance import OSA

    alike = (re.sub(r"[\W_]+", "-", name.casefold()) for name in (one, other))
    return OSA.distance(*alike) <= SLIPS


def plural(number: int, noun: str) -> str:
    """A number with its noun, which gets a plural s: `1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def point_id(collection: str, document: str, chunk: int, namespace: uuid.UUID = NAMESPACE) -> str:
    """uuid5 of (collection, document id, chunk index): the id of a document's first part."""
    return str(uuid.uuid5(namespace, f"{collection}\x00{document}\x00{chunk}"))


def part_id(first: str, version: str, chunk: int) -> str:
    """The id of a further part: the first part's id XOR a hash of version and number.

    The function is its own inverse: from a further part's id it computes the first part's. UUID
    version 8 (RFC 9562, custom use) tells these ids from others.
    """
    noise = int.from_bytes(blake2b(f"{version}\0{chunk}".encode(), digest_size=16).digest())
    text = f"{_number(first) ^ (noise & ~_FIXED_BITS | _FROM_5_TO_8):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_part_id(point: PointId | None) -> bool:
    """True for the id of a further part, of any version."""
    number = _number(point) if isinstance(point, str) else 0
    return number >> 76 & 0xF == 8 and number >> 62 & 0b11 == 0b10


def _number(text: str) -> int:
    """A UUID as a number; much faster than `uuid.UUID`."""
    return int(text.replace("-", ""), 16)


def sibling_id(one: Document, chunk: int) -> PointId:
    """The id of another part of the same document and version."""
    first = one.head or one.id
    return part_id(str(first), one.version, chunk) if chunk and one.version else first


def point_ids_of(tenant: str) -> Identify:
    """`point_id` for one tenant: the same text or id of two tenants gives two points."""
    return partial(point_id, namespace=uuid.uuid5(NAMESPACE, tenant))


def short_id(point: PointId) -> str:
    """The start of a UUID, which `Lookup.complete_ids` completes; numbers are not shortened."""
    return str(point)[: len(_NIL) - _REST] if isinstance(point, str) else str(point)


def first_id(beginning: str) -> str | None:
    """The smallest UUID with this prefix; None if it is not a short id."""
    return f"{beginning}{_NIL[-_REST:]}" if _SHORT.fullmatch(beginning) else None


def is_tool_id(text: str) -> bool:
    """True for a short id made by a tool, also with a part number or a time."""
    own, _, when = text.rpartition("@")
    own = own if own and parse_time(when) else text
    return first_id((part_of(own) or (own,))[0]) is not None


@lru_cache(1024)
def own_id(collection: str, point: PointId, document: str | None) -> str:
    """The id that all tools show for a text: the caller's own if it is short and unambiguous."""
    if (
        document
        and len(document) <= OWN
        and document == without_controls(document)
        and as_point_id(document) is None
        and first_id(document) is None
        and point_id(collection, document, 0) == point
    ):
        return document
    return short_id(point)


def place_of(document: Document) -> Place:
    """The place of a text, or of the text that this is a part of."""
    return document.collection, str(document.head or document.id)


def key_of(document: Document) -> tuple[str, str]:
    """The key of a document, which all its parts share."""
    return document.collection, document.document or str(document.id)


def document_id(document: Document) -> str:
    """The id of a whole text, as all tools show and accept it."""
    return own_id(document.collection, document.head or document.id, document.document)


def shown_id(document: Document) -> str:
    """The id of a text; for a single part, with its number: `id:2/9`."""
    if document.chunks == 1 or has_start(document) or document.document is None:
        return document_id(document)
    return f"{document_id(document)}:{document.chunk + 1}/{document.chunks}"


def has_start(document: Document) -> bool:
    """True if the document is joined from its first chunks."""
    return document.chunk == 0 and document.last is not None


def is_numbered(document: Document) -> bool:
    """True for a single part of a text, whose id is shown with its number."""
    return document.document is not None and document.last is None


def heir_id(document: Document) -> str | None:
    """The id of the text that superseded this one; None if there is none, or it was deleted."""
    if document.heir is None:
        return None
    place = document.superseded_in or document.collection
    return own_id(place, document.heir, document.superseded_by)


def part_of(text: str) -> tuple[str, int, int] | None:
    """Parse `id:2/9`: the document's id, the part's number from 1, the number of parts."""
    found = _PART.fullmatch(text)
    return (found[1], int(found[2]), int(found[3])) if found else None


def as_point_id(text: str) -> PointId | None:
    """The text as a Qdrant id: an unsigned integer or a UUID; None if it is neither."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64:
        return int(text)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def parse_time(value: Any) -> datetime | None:
    """Parse a time to UTC: ISO 8601, or epoch seconds or milliseconds.

    None if it is neither, or out of range. A time without a zone is local.
    """
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        return _moment_in(value, current_zone())
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


@lru_cache(4096)  # a search reads the same dates for several steps
def _moment_in(text: str, _: tzinfo | None) -> datetime | None:
    try:
        when = datetime.fromisoformat(_SPACED_ZONE.sub("", text))
        return when.astimezone(UTC) if when.tzinfo else from_local_time(when)
    except (ValueError, OverflowError):
        return None


def date_paths(fields: Iterable[str]) -> list[str]:
    """The payload paths of these fields; a name without a dot may also be in `metadata`."""
    paths: list[str] = []
    for field in fields:
        paths += [field] if "." in field else [field, f"metadata.{field}"]
    return paths


def time_of(payload: Any, paths: Iterable[Sequence[str]]) -> datetime | None:
    """The first time found in a payload at one of the paths."""
    for path in paths:
        value = payload
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and (when := parse_time(value)) is not None:
            return when
    return None


def impossible_time(value: Any) -> bool:
    """True for a value that looks like a time but does not exist."""
    dated = isinstance(value, str) and _DATED.fullmatch(value) is not None
    return (dated or isinstance(value, date | int | float)) and parse_time(value) is None


def iso(when: datetime) -> str:
    """A time as it is stored: ISO 8601 in UTC, in seconds."""
    return stamp(when.replace(microsecond=0))


def stamp(when: datetime) -> str:
    """A write time, which distinguishes versions: ISO 8601 in UTC, in microseconds."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
