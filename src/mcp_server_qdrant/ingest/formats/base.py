"""Shared by all formats: the texts of a file, decoding, metadata, tags and times."""

import codecs
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile

from mcp_server_qdrant.core.dates import parse_date
from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import CALENDAR, SURROGATE, impossible_time
from mcp_server_qdrant.ingest.secrets import Span, without

FEWEST, MOST = -(2**63), 2**63 - 1  # engines convert larger integers to rounded floats
MAX_DEPTH = 32  # levels of nesting
MAX_VALUES = 10_000  # values in metadata
SHOWN = 5  # items listed in a note
KINDS = 50  # faults listed separately
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Likely encodings of files without a byte order mark; more of them cause more wrong guesses.
WESTERN = "cp1252"
# Declared encodings -> supersets that programs write instead, as browsers read them.
SUPERSETS = {"iso8859-1": WESTERN, "iso8859-9": "cp1254", "shift_jis": "cp932", "tis-620": "cp874"}
SUPERSETS |= {"gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "big5": "big5hkscs"}
ENCODINGS = [
    *(WESTERN, "cp1250", "cp1251", "cp1253", "cp1254", "koi8_r"),
    *("cp932", "euc_jp", "cp949", "gb18030", "big5"),
]
VERSION = re.compile(r"\W{0,9}(?:version|release|v)?\W{0,9}(\d+(?:\.\d+)+)", re.IGNORECASE)
NO_WORDS = re.compile(r"[\W\d_]*|\S+\.\w{2,4}|data:.*|\S+://.*")
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Mark:
    """The start of a section, with its level (1 is the outermost) and name.

    A mark without a name ends sections of its level. Level 0 is a page, across which text flows.
    """

    start: int
    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """One text of a file.

    Without an `id` the file's path is the id. `offset` is the start of the text in the file, in
    characters; `marks` are sorted by position. `kept` has the Document fields to restore of an
    exported text.
    """

    text: str
    title: str
    id: str | None = None
    metadata: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    marks: tuple[Mark, ...] = ()
    offset: int = 0
    kept: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Contents:
    """The texts of a file, and notes on what could not be read.

    `masked` is the number of secrets masked in the texts.
    """

    texts: list[Loaded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    masked: int = 0


def fault_notes(unit: str, faults: Iterable[tuple[str, int]]) -> list[str]:
    """One note per fault, with the first lines, or messages, that have it.

    Beyond `KINDS`, faults are combined.
    """
    numbers: dict[str, list[int]] = {}
    for fault, number in faults:
        new = fault not in numbers and len(numbers) >= KINDS
        numbers.setdefault("has another fault" if new else fault, []).append(number)
    notes = []
    for fault, (first, *others) in numbers.items():
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        shown = ", ".join(f"{number:,}" for number in others[:SHOWN])
        likewise = f" (likewise {shown}{more})" if others else ""
        notes.append(f"{unit} {first:,} {fault}{likewise}")
    return notes


def collect(
    unit: str, items: Iterable[tuple[int, Any]], loaded: Callable[[Any], tuple[Loaded, list[str]]]
) -> Contents:
    """The texts of numbered items. A bad item is left out with a note.

    `loaded` turns an item into a text and notes, or raises UnusableFile.
    """
    texts: dict[str | None, Loaded] = {}
    faults: list[tuple[str, int]] = []
    for number, item in items:
        try:
            with contained(lambda fault: UnusableFile(f"cannot be read: an unexpected {fault}")):
                text, notes = loaded(item)
        except UnusableFile as error:
            faults.append((str(error), number))
            continue
        faults += [(note, number) for note in notes]
        if text.id in texts:
            faults.append((f"has the id of an earlier {unit}", number))
        texts.setdefault(text.id, text)
    return Contents([*texts.values()], fault_notes(unit, faults))


def find_codec(name: str) -> str | None:
    """Python's name of the encoding to use for a declared one; None if it is unknown."""
    for label in (name, re.sub(r"^x-|-[ei]$", "", name)):
        with suppress(LookupError, ValueError):
            codec = codecs.lookup(label).name
            return SUPERSETS.get(codec, codec)
    return None


def decode(data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """The text, and a note if its encoding was guessed. Raises UnusableFile.

    The encoding is that of a byte order mark, else `declared`, else UTF-8 if it is valid.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return readable(strictly(data[len(bom) :], encoding)), []
    if b"\0" in data:
        raise UnusableFile("is binary")
    with suppress(LookupError, ValueError):  # also of codecs that are no encodings, such as hex
        if declared:
            return data.decode(declared), []
    try:
        return data.decode(), []
    except UnicodeDecodeError as error:
        return _guessed(data, error)


def strictly(data: bytes, encoding: str = "utf-8") -> str:
    """The text in this encoding. Raises UnusableFile naming the first invalid byte."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnusableFile(_fault(data, error)) from error


def _fault(data: bytes, error: UnicodeDecodeError) -> str:
    return f"is not {error.encoding.upper()}: byte {error.start:,} is 0x{data[error.start]:02x}"


def _guessed(data: bytes, error: UnicodeDecodeError) -> tuple[str, list[str]]:
    from charset_normalizer import from_bytes

    if error.reason == "unexpected end of data":
        raise UnusableFile("ends in the middle of a character: is it complete?") from error
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) > 2 * broken:  # most of it is UTF-8
        return text, ["is not UTF-8 throughout: \ufffd stands where it is not"]
    found = from_bytes(data, cp_isolation=ENCODINGS, enable_fallback=False)
    best = found.best()
    if best is None:
        raise UnusableFile(f"{_fault(data, error)}, and no other encoding fits") from error
    alike = [one for one in found if (one.chaos, one.coherence) == (best.chaos, best.coherence)]
    western = any(WESTERN in one.could_be_from_charset for one in alike)
    encoding = WESTERN if western else best.encoding
    usual = encoding.upper().replace("CP", "Windows-").replace("_", "-")
    return data.decode(encoding, "replace"), [f"is not UTF-8: it was read as {usual}"]


def readable(text: str) -> str:
    """The text without surrogates and NUL."""
    return SURROGATE.sub("\ufffd", text).replace("\0", "")


def parse_json(text: str) -> Any:
    """The value of a JSON file. Raises UnusableFile."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableFile("is not JSON: is it complete?") from error


def storable(value: Any) -> Any:
    """Values of JSON or YAML in a form that every engine can store.

    Dates and numbers beyond 64 bits become text. Raises UnusableFile if there are too many values.
    """
    return _storable(value, 0, iter(range(MAX_VALUES)))


def _storable(value: Any, depth: int, left: Iterator[int]) -> Any:
    # Count values after expansion, because YAML aliases can multiply them.
    if next(left, None) is None:
        raise UnusableFile(f"has metadata of more than {MAX_VALUES:,} values")
    if depth > MAX_DEPTH:
        raise UnusableFile(f"has metadata nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_text(key): _storable(one, depth + 1, left) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_storable(one, depth + 1, left) for one in value]
    plain = (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, float) and math.isfinite(value))
        or (isinstance(value, int) and FEWEST <= value <= MOST)
    )
    return value if plain else _text(value)


def _text(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return SURROGATE.sub("\ufffd", text)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Metadata with a function applied to each string value."""
    if isinstance(value, Mapping):
        return {key: map_strings(one, change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map_strings(one, change) for one in value)
    return change(value) if isinstance(value, str) else value


def describe(words: str) -> str:
    """A picture's description; "" if it is a file name or has no words."""
    words = " ".join(words.split())
    return "" if NO_WORDS.fullmatch(words) else words


def note_unread(count: int, what: str) -> list[str]:
    """A note on things that were left out, if there are any."""
    return [f"{count:,} {what}{'s were' if count > 1 else ' was'} not read"] if count else []


def find_date(times: Mapping[str, Any]) -> tuple[datetime | None, list[str]]:
    """The first valid time among the values, and a note on each impossible one."""
    found = next((when for when in map(parse_date, times.values()) if when), None)
    faults = [f"has {name!r} that is {CALENDAR}" for name in times if impossible_time(times[name])]
    return found, faults


def tags_of(value: Any) -> tuple[str, ...]:
    """Tags from a list or a comma-separated string."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    names = (_text(one).strip() for one in value if isinstance(one, str | int | float))
    return tuple(dict.fromkeys(name for name in names if name))


def dublin_core(archive: ZipFile, name: str) -> dict[str, str]:
    """The Dublin Core metadata in that file: term -> first value."""
    from lxml import etree

    if name not in archive.namelist():
        return {}
    terms = (f"{{http://purl.org/dc/{kind}/}}*" for kind in ("elements/1.1", "terms"))
    found = reversed([*etree.fromstring(archive.read(name)).iter(*terms)])
    about = {etree.QName(one).localname: " ".join((one.text or "").split()) for one in found}
    return {term: value for term, value in about.items() if value}


def as_document(text: Loaded, about: Mapping[str, str], notes: Sequence[str] = ()) -> Contents:
    """A document with its declared author, language and date."""
    known = {"author": about.get("creator"), "language": about.get("language")}
    when = about.get("modified") or about.get("date") or about.get("created")
    metadata = {name: value for name, value in known.items() if value}
    return Contents(
        [replace(text, metadata=metadata or None, created_at=parse_date(when))], [*notes]
    )


def choose_title(path: str, marks: Sequence[Mark], given: str = "") -> tuple[str, tuple[Mark, ...]]:
    """The title of a text, and its marks; the one that repeats the title loses its name.

    The title is the given one, else the only outermost heading, else the file's name with its
    folder. If several headings are versions, as in a changelog, none of them is the title.
    """
    level = min((mark.level for mark in marks), default=0)
    outermost = [mark for mark in marks if mark.level == level]
    versions = [mark for mark in marks if VERSION.match(mark.name)]
    alone = len(outermost) == 1 and (len(versions) < 2 or outermost[0] not in versions)
    file = "/".join(PurePosixPath(name_of(path)).with_suffix("").parts[-2:])
    title = given or (outermost[0].name if alone else file)
    if not outermost or f" {_words(outermost[0].name)} " not in f" {_words(title)} ":
        return title, tuple(marks)
    return title, tuple(replace(one, name="") if one is outermost[0] else one for one in marks)


def _words(text: str) -> str:
    return " ".join(WORD.findall(text.casefold()))


def replace_spans(text: Loaded, spans: Sequence[Span], put: str = "") -> Loaded:
    """The text with these spans replaced by `put`, and its marks moved accordingly."""
    marks, at, moved, last = [], 0, 0, 0
    for mark in text.marks:
        while at < len(spans) and spans[at][0] < mark.start:
            start, last = spans[at]
            at, moved = at + 1, moved + len(put) - (last - start)
        marks.append(replace(mark, start=max(mark.start, last) + moved))
    return replace(text, text=without(text.text, spans, put), marks=tuple(marks))


def content_id(path: str, text: str) -> str:
    """The id of a text without one, derived from its contents."""
    return f"{path}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def name_of(path: str) -> str:
    """The path of a file relative to its source."""
    return path.partition("/")[2] or path
