"""CSV: a text per row."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.core.rows import RowTemplate
from mcp_server_qdrant.ingest.formats.load import load


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_a_row_without_a_column_of_text_is_a_line_per_column(sign):
    rows = 'name,price,code,note\r\nshears,12.5,007,\r\n\r\nspade,30,x,"long\nhandle"\r\n'
    one, other = load("n/x.csv", rows.replace(",", sign).encode("utf-8-sig")).texts

    assert one.text == "name: shears\nprice: 12.5\ncode: 007"
    assert one.metadata == {"name": "shears", "price": 12.5, "code": "007"}
    assert other.text == "name: spade\nprice: 30\ncode: x\nnote: long\nhandle"
    assert one.id.startswith("n/x.csv#")


def test_columns_are_named_as_in_json_lines():
    rows = b'id,title,text,tags,date,price\n7,1984,42,"a,b",2026-01-02,nan\n'
    (one,) = load("n/x.csv", rows).texts

    assert (one.id, one.title, one.text, one.tags) == ("7", "1984", "42", ("a", "b"))
    assert one.created_at == datetime(2026, 1, 2, tzinfo=UTC)


def test_columns_without_a_name_of_their_own_get_their_number():
    (one,) = load("n/x.csv", b"a, a,,\n1,2,3,\n").texts

    assert one.metadata == {"a": 1, "a 2": 2, "column 3": 3}


def test_bad_rows_are_left_out_and_named():
    rows = 'id,text\n1,kept\n2\n3,a,b\n1,again\n4,kept too\n5,"' + "open\n" * 40_000
    contents = load("n/x.csv", rows.encode())

    assert [one.text for one in contents.texts] == ["kept", "kept too"]
    assert contents.notes == [
        "row 3 has no text",
        "row 4 has 3 cells for 2 columns",
        "row 5 has the id of an earlier row",
        "row 7 and those below cannot be read: is a quote left open? "
        "(field larger than field limit (131072))",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"name,price\n", "has no text"),
        (b'"' + b"open\n" * 40_000, "has no first row that can be read: is a quote left open?"),
        (b"\0", "is binary"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(data, reason):
    with pytest.raises(UnusableFile) as refused:
        load("n/x.csv", data)

    assert str(refused.value) == reason


TICKETS = b"""no,subject,body,sent,labels,team
17,Pump,It hums.,2026-05-31,"heat,noise",north
18,,Silent since.,31.5.2026,,south
"""


def test_a_template_says_what_rows_become_and_names_of_columns_the_rest():
    parts = {
        "text": r"{subject} ({no})\n{body}",
        "title": "{subject}",
        "id": "ticket-{no}",
        "date": "{sent}",
        "tags": "{labels}",
    }
    contents = load("n/x.csv", TICKETS, RowTemplate.of(parts))
    one, other = contents.texts

    assert (one.text, one.title, one.id) == ("Pump (17)\nIt hums.", "Pump", "ticket-17")
    assert (one.created_at, one.tags) == (datetime(2026, 5, 31, tzinfo=UTC), ("heat", "noise"))
    assert one.metadata == {"no": 17, "team": "north"}
    assert (other.text, other.title, other.tags) == ("(18)\nSilent since.", "", ())
    assert contents.notes == ["row 3 has the date '31.5.2026', which is not written as 2026-05-31"]


def test_a_template_without_a_text_leaves_it_to_the_columns():
    (one, _) = load("n/x.csv", TICKETS, RowTemplate.of({"title": "{body}"})).texts

    assert (one.text, one.title) == ("It hums.", "It hums.")
    assert one.metadata["subject"] == "Pump"


def test_a_table_without_a_column_of_the_template_is_refused_with_its_columns():
    with pytest.raises(UnusableFile) as refused:
        load("n/x.csv", b"a,b\n1,2\n", RowTemplate.of({"text": "{a} {name}"}))

    assert str(refused.value) == ("has no column 'name', which the template names: it has 'a', 'b'")


def test_other_formats_are_read_as_ever():
    (one,) = load("n/x.md", b"# Pump", RowTemplate.of({"text": "{body}"})).texts

    assert one.title == "Pump"
