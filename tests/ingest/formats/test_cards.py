"""Calendars and contacts: a text per entry."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.ingest.formats.load import load

CALENDAR = """\
BEGIN:VCALENDAR
PRODID:-//program//EN
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
UID:lift
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
DTSTART;TZID=Europe/Berlin:20261104T100000
SUMMARY:Boat li
 ft\\, spring
CATEGORIES:harbour,lift
DESCRIPTION:Bring rope.\\nAnd vests.
X-ALT-DESC:<p>Bring rope</p>
END:VEVENT
BEGIN:VEVENT
UID:lift
RECURRENCE-ID:20271104T090000Z
DTSTART:20271105T090000Z
SUMMARY:Boat lift a day later
END:VEVENT
BEGIN:VTODO
DUE;TZID=Mars/Base:20261101
SUMMARY:Grease the winch
END:VTODO
BEGIN:VEVENT
UID:empty
END:VEVENT
END:VCALENDAR
"""
CONTACTS = """\
BEGIN:VCARD
VERSION:3.0
UID:ada
N:Lovelace;Ada;;;
FN:Ada Lovelace
ORG:Boats\\; Ropes;Yard
item1.EMAIL;TYPE=work:ada@example.org
EMAIL:ada@example.com
NOTE:Knows the wi
 nch\\nand the pier
PHOTO;ENCODING=b:AAA=
TEL:12
END:VCARD
BEGIN:VCARD
VERSION:2.1
FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:Ren=E9 of the=
 harbour
END:VCARD
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_entry_of_a_calendar_is_a_text_with_its_day_and_without_its_alarms(ending):
    found = load("n/x.ics", CALENDAR.replace("\n", ending).encode())
    first, moved, task = found.texts

    assert first.text == (
        "Dtstart: 20261104T100000\nSummary: Boat lift, spring\nCategories: harbour,lift\n"
        "Description: Bring rope.\nAnd vests.\n"
    )
    assert (first.title, first.tags) == ("Boat lift, spring", ("harbour", "lift"))
    assert [one.id for one in (first, moved)] == ["n/x.ics#lift", "n/x.ics#lift@20271104T090000Z"]
    assert first.created_at == datetime(2026, 11, 4, 9, tzinfo=UTC)
    assert moved.created_at == datetime(2027, 11, 5, 9, tzinfo=UTC)
    assert (task.title, task.text) == (
        "Grease the winch",
        "Due: 20261101\nSummary: Grease the winch\n",
    )
    assert found.notes == ["entry 4 has no text"]


def test_a_contact_is_a_text_with_all_that_is_known_of_a_person():
    ada, rene = load("n/x.vcf", CONTACTS.encode()).texts

    assert ada.text == (
        "N: Lovelace, Ada\nFn: Ada Lovelace\nOrg: Boats; Ropes, Yard\n"
        "Email: ada@example.org, ada@example.com\nNote: Knows the winch\nand the pier\nTel: 12\n"
    )
    assert (ada.title, ada.id) == ("Ada Lovelace", "n/x.vcf#ada")
    assert rene.text == "Fn: René of the harbour\n"


@pytest.mark.parametrize(
    "data", [b"words", b"END:VEVENT\nBEGIN:VEVENT\nSUMMARY:cut", b"BEGIN:\n:\n"]
)
def test_a_file_without_entries_is_kept_as_it_is(data):
    assert [one.text for one in load("n/x.ics", data).texts] == [data.decode()]
