"""E-mail: single messages and mailboxes."""

import base64
from base64 import b64encode
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.formats.mail import NO_DATE
from tests.ingest.formats.archives import refused

DATE = "Mon, 02 Nov 2026 10:30:00 +0100"


def message(text: str | None = "The key hangs in the shed.", **headers: str) -> EmailMessage:
    made = EmailMessage()
    given = {"From": "Ada <ada@x.org>", "To": "bob@x.org", "Subject": "Key", "Date": DATE}
    for name, value in (given | headers).items():
        if value:
            made[name.replace("_", "-")] = value
    if text is not None:
        made.set_content(text)
    return made


def box(*messages: EmailMessage | bytes) -> bytes:
    each = [bytes(one) for one in messages]
    return b"\n".join(b"From ada@x.org Mon Nov  2 10:30:00 2026\n" + one for one in each)


def test_a_message_is_a_text_with_its_people_subject_and_date():
    (one,) = load("n/key.eml", bytes(message(X_Gmail_Labels="home,Keys"))).texts

    assert one.text == "From: Ada <ada@x.org>\nTo: bob@x.org\n\nThe key hangs in the shed.\n"
    assert (one.id, one.title, one.tags) == ("n/key.eml", "Key", ("home", "Keys"))
    assert one.metadata == {"from": "Ada <ada@x.org>", "to": "bob@x.org"}
    assert one.created_at == datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def test_a_mailbox_is_a_text_per_message():
    first = message("one\n\n>From here it is quoted\nFrom there not", Message_ID="<1@x>")
    one, other = load("n/in.mbox", box(first, message("two"))).texts

    assert one.text.endswith("one\n\nFrom here it is quoted\nFrom there not\n\n")
    assert one.id == "n/in.mbox#1@x"
    assert other.id.startswith("n/in.mbox#")
    assert other.text.endswith("\n\ntwo\n")


def test_html_is_read_where_there_is_no_plain_text():
    both, only = message("plain"), message(None)
    both.add_alternative("<p>rich</p>", subtype="html")
    only.set_content("<meta charset=utf-16><p>Grüße</p>", subtype="html")
    texts = [load("n/x.eml", bytes(one)).texts[0].text for one in (both, only)]

    assert [text.split("\n\n", 1)[1].strip() for text in texts] == ["plain", "Grüße"]


def mixed(*parts: tuple[str, str], kind: str = "mixed", **headers: str) -> bytes:
    """A message in several parts, each with its headers and what it says."""
    made = message(None, **headers)
    head = bytes(made).strip() + f"\nContent-Type: multipart/{kind}; boundary=cut\n\n".encode()
    each = "".join(
        f"--cut\n{about}\n\n{text}\n".replace("cut\n\n\n", "cut\n\n") for about, text in parts
    )
    return head + f"{each}--cut--\n".encode("utf-8", "surrogateescape")


PLAIN, HTML = "Content-Type: text/plain; charset=utf-8", "Content-Type: text/html; charset=utf-8"


def body(data: bytes, name: str = "n/x.eml") -> str:
    (one,) = load(name, data).texts
    return one.text.partition("\n\n")[2].strip()


def test_all_texts_of_a_message_are_read_in_their_order():
    inner = "Content-Type: multipart/alternative; boundary=in\n"
    both = f"--in\n{PLAIN}\n\ntwo\n--in\n{HTML}\n\n<p>two</p>\n--in--"
    data = mixed(
        (PLAIN, "one"),
        (inner, both),
        ("Content-Type: image/png\nContent-Disposition: inline; filename=shed.png", "x"),
        (HTML, "<p>three</p>"),
        ("Content-Type: text/x-patch\nContent-Disposition: inline; filename=a.patch", "+four"),
        ("Content-Type: text/plain\nContent-Disposition: attachment; filename=a.txt", "not"),
        ("Content-Type: text/plain\nContent-Disposition: attachment", "five"),
    )
    (one,) = load("n/x.eml", data).texts

    assert body(data).split("\n\n") == ["one", "two", "three", "+four", "five"]
    assert one.metadata["attachments"] == ["shed.png", "a.patch", "a.txt"]


def test_a_forwarded_message_is_a_section_with_its_subject_and_sender():
    inner = message("The lift is closed.", Subject="Lift", From="Cleo <cleo@x.org>")
    outer = message("See below.", Subject="Fwd: Lift")
    outer.add_attachment(inner)
    outer.add_attachment("Bye.", disposition="inline")
    (one,) = load("n/x.eml", bytes(outer)).texts
    lift = one.text.index("Subject: Lift")

    assert one.text.index("See below.") < lift < one.text.index("The lift is closed.")
    assert [(mark.level, mark.name) for mark in one.marks] == [
        (1, "Forwarded: Lift, from Cleo <cleo@x.org>"),
        (1, ""),
    ]
    assert one.text[one.marks[0].start :].startswith("Subject: Lift\nFrom: Cleo <cleo@x.org>\n")
    assert one.text[one.marks[1].start :].strip() == "Bye."


def test_a_digest_has_each_of_its_messages():
    data = mixed(("", "Subject: One\n\nfirst"), ("", "Subject: Two\n\nsecond"), kind="digest")
    (one,) = load("n/x.eml", data).texts

    assert "first" in one.text
    assert "second" in one.text
    assert [mark.name for mark in one.marks] == ["Forwarded: One", "Forwarded: Two"]


def test_what_became_of_a_message_is_told():
    about = "Final-Recipient: rfc822; bob@x.org\nDiagnostic-Code: smtp; 550 no mailbox here"
    data = mixed(
        (PLAIN, "It was not delivered."),
        ("Content-Type: message/delivery-status", f"Reporting-MTA: dns; x\n\n{about}"),
        kind="report",
    )

    assert "550 no mailbox here" in body(data)


FEW = "View this mail in a browser: https://x.org/a/very/long/address?with=parameters"
MANY = "<p>The committee moved the regatta to Sunday. Bring oars, vests and two ropes.</p>"


@pytest.mark.parametrize(
    ("plain", "rich", "found"),
    [
        (FEW, MANY, "The committee moved the regatta"),
        (" ", MANY, "The committee moved the regatta"),
        ("The regatta is on Sunday.", "<b>The regatta is on Sunday.</b>", "The regatta is on"),
        ("Bring the oars.", "<img src=x><a href=y>unsubscribe</a>", "Bring the oars."),
        ("word " * 200, MANY, "word word"),
    ],
)
def test_html_is_read_where_the_plain_text_only_hints_at_it(plain, rich, found):
    data = mixed((PLAIN, plain), (HTML, rich), kind="alternative")

    assert body(data).startswith(found)


INVITATION = """\
BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19700329T020000
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID=Europe/Berlin:20261104T100000
SUMMARY:Boat lift\\, spring
LOCATION:Pier 3
ORGANIZER;CN="Doe: Ada":mailto:ada@x.org
ATTENDEE;CN=Bob:mailto:bob@x.org
ATTENDEE:mailto:cleo@x.org
DESCRIPTION:Bring the long
  rope.\\nAnd vests.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_invitation_is_a_line_for_each_thing_it_says(ending):
    data = mixed(
        (PLAIN, "You are invited."),
        (HTML, "<p>You are invited.</p>"),
        ("Content-Type: text/calendar; method=REQUEST", INVITATION),
        kind="alternative",
    ).replace(b"\n", ending.encode())

    assert body(data).split("\n\n")[-1] == (
        "Dtstart: 20261104T100000\nSummary: Boat lift, spring\nLocation: Pier 3\n"
        "Organizer: Doe: Ada <mailto:ada@x.org>\n"
        "Attendee: Bob <mailto:bob@x.org>, mailto:cleo@x.org\n"
        "Description: Bring the long rope.\nAnd vests."
    )


@pytest.mark.parametrize(
    ("charset", "raw", "text", "note"),
    [
        ("martian", "Grüße aus Köln".encode("cp1252"), "Grüße aus Köln", "read as Windows-1252"),
        ("martian", "Grüße".encode(), "Grüße", None),
        ("rot13", b"plain", "plain", None),
        ("us-ascii", "Grüße".encode(), "Grüße", None),
        ("iso-8859-1", "“quoted” €".encode("cp1252"), "“quoted” €", None),
        ("utf-8", "Grüße aus Köln".encode("cp1252"), "Grüße aus Köln", "read as Windows-1252"),
        ("utf-16-le", "Grüße".encode("utf-16-le"), "Grüße", None),
        ("gb2312", "合同".encode("gb2312"), "合同", None),
    ],
)
def test_a_character_set_that_is_unknown_or_wrong_is_guessed(charset, raw, text, note):
    encoded = base64.encodebytes(raw)
    head = f"From: a@x\nDate: {DATE}\nContent-Type: text/plain; charset={charset}\n"
    contents = load("n/x.eml", head.encode() + b"Content-Transfer-Encoding: base64\n\n" + encoded)

    assert contents.texts[0].text.split("\n\n")[1] == text
    assert [note in one for one in contents.notes] == ([True] if note else [])


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_header_that_nobody_encoded_is_read(encoding):
    data = f"From: Jürgen <j@x>\nSubject: Grüße aus Köln\nDate: {DATE}\n\nbody".encode(encoding)
    (one,) = load("n/x.eml", data).texts

    assert (one.title, one.metadata["from"]) == ("Grüße aus Köln", "Jürgen <j@x>")


@pytest.mark.parametrize(
    "about", ["=?utf-8?q?J=C3=BCrgen=0A?= <j@x>", "=?utf-8?q?J=C3=BCrgen?=, a: b: c@x;;"]
)
def test_a_name_is_read_where_the_header_is_not_as_it_should_be(about):
    (one,) = load("n/x.eml", f"From: {about}\nDate: {DATE}\n\nbody".encode()).texts

    assert one.metadata["from"].startswith("Jürgen")


FIRST = b"From ada@x.org Mon Nov  2 10:30:00 2026\n"


@pytest.mark.parametrize(
    ("before", "between"),
    [
        (b"", b"\n"),
        (b"\xef\xbb\xbf", b"\n"),
        (b"\n\r\n\n", b"\n"),
        (b"", b""),  # no blank line between messages
    ],
)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_mailbox_is_parted_at_its_messages_alone(before, between, ending):
    prose = (
        "Hello.\n\nFrom tomorrow on the lift is closed.\nFrom: us.\nFrom -\nNote: end\n\n"
        "From Monday\nNote: ok"
    )
    first, second = bytes(message(prose)), bytes(message("second"))
    data = before + FIRST + first + between + FIRST + second
    contents = load("n/in.mbox", data.replace(b"\n", ending))

    assert len(contents.texts) == 2
    assert contents.notes == []
    assert "Note: ok" in contents.texts[0].text
    assert contents.texts[1].text.strip().endswith("second")


@pytest.mark.parametrize("line", [b"From -", b"From a@x Mon, 2 Nov 2026 10:30:00 +0100"])
def test_a_mailbox_is_parted_without_times_and_by_other_ones(line):
    data = b"From \n\n" + bytes(message("one")) + b"\n" + line + b"\n" + bytes(message("two"))

    assert [one.text.split()[-1] for one in load("n/in.mbox", data).texts] == ["one", "two"]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\r\n\n", b" \n"])
def test_a_message_may_begin_with_a_mark_or_blank_lines(before):
    assert load("n/x.eml", before + bytes(message("body"))).texts[0].title == "Key"


def test_a_message_of_any_depth_is_read_as_far_as_it_goes():
    data = b"lamp"
    for number in range(60):
        data = b"Subject: s%d\nContent-Type: message/rfc822\n\n" % number + data
    contents = load("n/x.eml", data)

    assert any("nested deeper" in note for note in contents.notes)


def test_attachments_are_named():
    made = message()
    made.add_attachment(b"\0\1", maintype="image", subtype="png", filename="shed.png")
    (one,) = load("n/x.eml", bytes(made)).texts

    assert one.metadata["attachments"] == ["shed.png"]
    assert "shed.png" not in one.text


def test_bad_messages_of_a_mailbox_are_left_out_and_named():
    nested = b"Content-Type: multipart/mixed; boundary=a\n\n--a\n" * 1_000
    data = box(
        message("kept", Message_ID="<1@x>"),
        b"\nno headers at all\n",
        message(""),
        message("again", Message_ID="<1@x>"),
        message("undated", Date=""),
        b"Subject: odd\nDate: yesterday\nContent-Type: text/plain; charset=martian\n\nodd \xff\n",
        nested,
    )
    contents = load("n/in.mbox", data)

    assert [one.text.split()[-1] for one in contents.texts] == ["kept", "undated", "ÿ"]
    assert contents.notes == [
        "message 2 has no headers, so it is not an e-mail",
        "message 3 has no text (likewise 7)",
        "message 4 has the id of an earlier message",
        f"message 5 {NO_DATE} (likewise 6)",
        "message 6 is not UTF-8: it was read as Windows-1252",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"just some text", "has no headers, so it is not an e-mail"),
        (b"\x89PNG\0\0", "has no headers, so it is not an e-mail"),
        (bytes(message("")), "has no text"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(data, reason):
    assert refused("n/x.eml", data) == reason


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("gb2312", "gb18030", "漢字"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("x-mac-roman", "mac_roman", "déjà"),
        ("iso-8859-8-i", "iso-8859-8", "שלום"),
        ("shift_jis", "cp932", "①"),
        ("iso-8859-1", "cp1252", "“gull”"),
        ("utf-16", "utf-16", "gull"),
        ("hex", "utf-8", "grüße"),
    ],
)
def test_a_declared_encoding_is_read_as_browsers_read_it(charset, codec, text):
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n"
    (one,) = load("n/x.eml", head.encode() + b64encode(text.encode(codec))).texts

    assert one.text.strip() == text


def test_a_forwarded_message_may_be_in_base64_and_a_file_of_apple_mail_has_its_size():
    inner = b64encode(b"Subject: inner\n\nthe gull").decode()
    mail = (
        "Content-Type: multipart/mixed; boundary=A\n\n--A\nContent-Type: message/rfc822\n"
        f"Content-Transfer-Encoding: base64\n\n{inner}\n--A--\n"
    )
    plist = "<?xml version='1.0'?><plist/>"
    (one,) = load("n/x.emlx", f"{len(mail)}\n{mail}{plist}".encode()).texts

    assert one.text.strip() == "Subject: inner\n\nthe gull"


def test_a_text_file_among_the_variants_of_a_text_is_read():
    mail = (
        "Content-Type: multipart/alternative; boundary=A\n\n--A\n\nthe gull\n--A\n"
        "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/html\n\n"
        "<p>the gull</p>\n--B\n\nthe list\n--B--\n--A--\n"
    )
    (one,) = load("n/x.eml", mail.encode()).texts

    assert one.text.split() == ["the", "gull", "the", "list"]
