"""Calendars and contacts (iCalendar, vCard): one text per event, task, journal entry or card."""

import quopri
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.notation import parse_time
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, collect, content_id, tags_of
from mcp_server_qdrant.ingest.formats.text import read as plain

KINDS = ("VEVENT", "VTODO", "VJOURNAL", "VCARD")
PEOPLE = ("ORGANIZER", "ATTENDEE")
LISTS = ("N", "ORG", "ADR")  # their values are lists
# Properties for programs, and data.
SKIPPED = re.compile(
    "VERSION|PRODID|UID|REV|DTSTAMP|CREATED|LAST-MODIFIED|SEQUENCE|TRANSP|CLASS|PRIORITY|PHOTO"
    "|LOGO|SOUND|KEY|CLIENTPIDMAP|RECURRENCE-ID|X-.*"
)
FOLD = re.compile(r"\r?\n[ \t]")
# In vCard 2.1.
QUOTED = re.compile(r"ENCODING=QUOTED-PRINTABLE", re.IGNORECASE)
BROKEN = re.compile(
    rf"^(?=[^\n:]{{0,200}}?{QUOTED.pattern})[^\n:]*+:(?:[^\n]*=\r?\n)+", re.I | re.M
)
SOFT_BREAK = re.compile(r"=\r?\n")
# In vCard a group may precede the name.
PROPERTY = re.compile(
    r'^(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"\n]*"|[^":;\n])*+)*+):([^\n]*)', re.MULTILINE
)
CHARSET = re.compile(r"CHARSET=([\w-]+)", re.IGNORECASE)
NAME = re.compile(r'CN="?([^";]+)')
ZONE = re.compile(r'TZID="?([^";:]+)')
PARTED = re.compile(r"(?<!\\);")
ESCAPED = re.compile(r"\\([nN,;:\\])")


class Card(NamedTuple):
    """The properties of an entry: what is shown by name, its id and its time."""

    shown: Mapping[str, str]
    id: str
    when: datetime | None

    @property
    def text(self) -> str:
        """One line per property."""
        return "".join(f"{name.capitalize()}: {value}\n" for name, value in self.shown.items())


def read(path: str, text: str) -> Contents:
    """One text per entry; of a file without entries, the file as it is.

    Entries without a text are left out with a note.
    """
    cards = [*list_cards(text)]
    return (
        collect("entry", enumerate(cards, 1), partial(_load, path)) if cards else plain(path, text)
    )


def _load(path: str, card: Card) -> tuple[Loaded, list[str]]:
    if not card.shown:
        raise UnusableFile("has no text")
    title = next((card.shown[one] for one in ("SUMMARY", "FN", "ORG") if one in card.shown), "")
    own = f"{path}#{card.id}" if card.id else content_id(path, card.text)
    tags = tags_of(card.shown.get("CATEGORIES"))
    return Loaded(card.text, title, own, tags=tags, created_at=card.when), []


def list_cards(text: str) -> Iterator[Card]:
    """The entries, without their parts, such as alarms."""
    properties: list[tuple[str, str, str]] = []
    kinds: list[str] = []
    text = FOLD.sub("", BROKEN.sub(lambda found: SOFT_BREAK.sub("", found[0]), text))
    for name, about, value in PROPERTY.findall(text):
        match name.upper(), value.strip().upper():
            case "BEGIN", kind:
                kinds.append(kind)
                properties = [] if kind in KINDS else properties
            case "END", kind if kinds and kinds[-1] == kind:
                if kind in KINDS:
                    yield _card(properties)
                kinds = kinds[:-1]
            case key, _ if kinds and kinds[-1] in KINDS:
                properties.append((key, about, value.strip()))


def _card(properties: list[tuple[str, str, str]]) -> Card:
    shown: dict[str, list[str]] = {}
    names, moments = dict[str, str](), dict[str, datetime | None]()
    for name, about, value in properties:
        names.setdefault(name, value)
        if name in ("DTSTART", "DUE"):
            moments.setdefault(name, _moment(about, value))
        if not SKIPPED.fullmatch(name) and (said := _show(name, about, value)):
            shown.setdefault(name, []).append(said)
    known = (names.get(one) for one in ("UID", "RECURRENCE-ID"))
    lines = {name: ", ".join(said) for name, said in shown.items()}
    return Card(lines, "@".join(filter(None, known)), next(iter(moments.values()), None))


def _show(name: str, about: str, value: str) -> str:
    """The value of a property as text."""
    if QUOTED.search(about):
        charset = CHARSET.search(about)
        with suppress(LookupError):
            value = quopri.decodestring(value.encode()).decode(
                charset[1] if charset else "utf-8", "replace"
            )
    if name in LISTS:
        value = ", ".join(filter(None, map(str.strip, PARTED.split(value))))
    value = ESCAPED.sub(lambda one: "\n" if one[1] in "nN" else one[1], value)
    who = NAME.search(about) if name in PEOPLE else None
    return f"{who[1]} <{value}>" if who else value


def _moment(about: str, value: str) -> datetime | None:
    """The time of an entry, in its zone, or else the person's."""
    zone = ZONE.search(about)
    with suppress(KeyError, ValueError, OSError):  # an unknown zone, or a time that has one
        when = datetime.fromisoformat(value)
        if zone and not when.tzinfo:
            return parse_time(when.replace(tzinfo=ZoneInfo(zone[1])))
    return parse_time(value)
