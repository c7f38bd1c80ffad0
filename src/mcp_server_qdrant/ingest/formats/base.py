"""The parts that all formats share: texts of a file, decoding, metadata, tags and times."""

import codecs
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import CALENDAR, SURROGATE, impossible, moment

FEWEST, MOST = -(2**63), 2**63 - 1  # beyond, engines make a rounded float of an integer
MAX_DEPTH = 32
MAX_VALUES = 10_000
SHOWN = 5
KINDS = 50
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings that files without a mark are likely to be in; more of them make more wrong guesses.
WESTERN = "cp1252"
ENCODINGS = [
    *(WESTERN, "cp1250", "cp1251", "cp1253", "cp1254", "koi8_r"),
    *("cp932", "euc_jp", "cp949", "gb18030", "big5"),
]
VERSION = re.compile(r"\W{0,9}(?:version|release|v)?\W{0,9}(\d+(?:\.\d+)+)", re.IGNORECASE)
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Mark:
    """The start of a section: its name, and how deep it lies (1 is the outermost).

    Without a name those as deep end there. Level 0 is a page: the text flows on across its start.
    """

    start: int
    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """One text of a file.

    `id` is the one it came with; None means that the file is its id. `offset` is where the text
    begins in the file, in characters; `marks` are sorted by where they are in the text.
    """

    text: str
    title: str
    id: str | None = None
    metadata: Mapping[str, Any] | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    marks: tuple[Mark, ...] = ()
    offset: int = 0


@dataclass(slots=True)
class Contents:
    """The texts of a file, and sentences on what could not be taken from it.

    So many secrets were `masked` in the texts.
    """

    texts: list[Loaded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    masked: int = 0


def fault_notes(unit: str, faults: Iterable[tuple[str, int]]) -> list[str]:
    """A sentence per fault, with the first of the lines, or messages, that have it.

    Of many kinds only the first are told apart.
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


def collected(
    unit: str,
    items: Iterable[tuple[int, Any]],
    loaded: Callable[[Any], tuple[Loaded, list[str]]],
) -> Contents:
    """The texts of many items, which come with their numbers. A bad one is left out, with a note.

    `loaded` makes a text of one and sentences on it, and raises UnusableFile.
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


def decode(data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """The text, and a sentence where its encoding was guessed. Raises UnusableFile.

    A byte order mark says which it is, or `declared`; else it is UTF-8 if it can be.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return strictly(data[len(bom) :], encoding), []
    if b"\0" in data:
        raise UnusableFile("is binary")
    for encoding in filter(None, (declared, "utf-8")):
        try:
            return data.decode(encoding), []
        except UnicodeDecodeError as error:
            fault = error
    return _guessed(data, fault)


def strictly(data: bytes, encoding: str = "utf-8") -> str:
    """The text in this encoding. Raises UnusableFile naming the byte that it does not have."""
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
    return data.decode(encoding, "replace"), [f"is not UTF-8: it was read as {_called(encoding)}"]


def _called(encoding: str) -> str:
    """An encoding's usual name."""
    return encoding.upper().replace("CP", "Windows-").replace("_", "-")


def readable(text: str) -> str:
    """The text without halves of characters, and without NUL."""
    return SURROGATE.sub("\ufffd", text).replace("\0", "")


def parsed(text: str) -> Any:
    """The value of a file in JSON. Raises UnusableFile."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableFile("is not JSON: is it complete?") from error


def storable(value: Any) -> Any:
    """Values of JSON or YAML as every engine can hold them.

    Dates and numbers beyond 64 bits become text. Raises UnusableFile where there is too much.
    """
    return _storable(value, 0, iter(range(MAX_VALUES)))


def _storable(value: Any, depth: int, left: Iterator[int]) -> Any:
    # Aliases of YAML make much out of little: what is counted is what would be stored.
    if next(left, None) is None:
        raise UnusableFile(f"has metadata of more than {MAX_VALUES:,} values")
    if depth > MAX_DEPTH:
        raise UnusableFile(f"has metadata nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_text(key): _storable(one, depth + 1, left) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_storable(one, depth + 1, left) for one in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and FEWEST <= value <= MOST:
        return value
    return _text(value)


def _text(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return SURROGATE.sub("\ufffd", text)


def created(times: Mapping[str, Any]) -> tuple[datetime | None, list[str]]:
    """The first time among the values, and on each that can be none a sentence with its name."""
    found = next((when for when in map(moment, times.values()) if when), None)
    faults = [f"has {name!r} that is {CALENDAR}" for name in times if impossible(times[name])]
    return found, faults


def tags_of(value: Any) -> tuple[str, ...]:
    """Tags as people write them: a list, or names separated by commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    names = (_text(one).strip() for one in value if isinstance(one, str | int | float))
    return tuple(dict.fromkeys(name for name in names if name))


def dublin_core(archive: ZipFile, name: str) -> dict[str, str]:
    """What a document says of itself in that file: a term of Dublin Core -> its first value."""
    from lxml import etree

    if name not in archive.namelist():
        return {}
    terms = (f"{{http://purl.org/dc/{kind}/}}*" for kind in ("elements/1.1", "terms"))
    found = reversed([*etree.fromstring(archive.read(name)).iter(*terms)])
    about = {etree.QName(one).localname: " ".join((one.text or "").split()) for one in found}
    return {term: value for term, value in about.items() if value}


def document(text: Loaded, about: Mapping[str, str], notes: Sequence[str] = ()) -> Contents:
    """A document with the author and the date that it says it has."""
    known = {"author": about.get("creator"), "language": about.get("language")}
    when = about.get("modified") or about.get("date") or about.get("created")
    metadata = {name: value for name, value in known.items() if value}
    return Contents([replace(text, metadata=metadata or None, created_at=moment(when))], [*notes])


def titled(path: str, marks: Sequence[Mark], given: str = "") -> tuple[str, tuple[Mark, ...]]:
    """The title of a text, and its marks, of which the one that repeats the title has no name.

    It is what was given, or the heading above all others, or else the file's name: a heading beside
    others is a section's, and so is the version above older ones in a changelog.
    """
    level = min((mark.level for mark in marks), default=0)
    outermost = [mark for mark in marks if mark.level == level]
    versions = [mark for mark in marks if VERSION.match(mark.name)]
    alone = len(outermost) == 1 and (len(versions) < 2 or outermost[0] not in versions)
    title = given or (outermost[0].name if alone else _file(path))
    if not outermost or f" {_words(outermost[0].name)} " not in f" {_words(title)} ":
        return title, tuple(marks)
    return title, tuple(replace(one, name="") if one is outermost[0] else one for one in marks)


def _words(text: str) -> str:
    return " ".join(WORD.findall(text.casefold()))


def _file(path: str) -> str:
    """The name of a file without its ending, behind that of its folder."""
    return "/".join(PurePosixPath(name_of(path)).with_suffix("").parts[-2:])


def content_id(path: str, text: str) -> str:
    """The id of a text of a file that has none of its own."""
    return f"{path}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def name_of(path: str) -> str:
    """The place of a file in its source."""
    return path.partition("/")[2] or path
