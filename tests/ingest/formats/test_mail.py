"""E-mail: single messages and mailboxes."""

from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.formats.mail import NO_DATE

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

    assert [one.text.split()[-1] for one in contents.texts] == ["kept", "undated", "\ufffd"]
    assert contents.notes[:4] == [
        "message 2 has no headers, so it is not an e-mail",
        "message 3 has no text (likewise 7)",
        "message 4 has the id of an earlier message",
        f"message 5 {NO_DATE} (likewise 6)",
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
    with pytest.raises(UnusableFile) as refused:
        load("n/x.eml", data)

    assert str(refused.value) == reason
