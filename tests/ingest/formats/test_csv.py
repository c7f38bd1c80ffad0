"""CSV: a text per row."""

import csv
from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused


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
    rows = 'id,text\n1,kept\n2\n3,a,b\n1,again\n4,kept too\n5,"open\n6,below\n7\n'
    contents = load("n/x.csv", rows.encode())

    assert [one.text for one in contents.texts] == ["kept", "a", "kept too", "below"]
    assert contents.texts[1].metadata == {"column 3": "b"}
    assert contents.notes == [
        "row 3 has no text (likewise 9)",
        "row 5 has the id of an earlier row",
        "row 7 has a quote that is left open",
    ]


@pytest.mark.parametrize(
    "above", ["Tools of May\n", "Tools;;\n\n", "# Tools\n# May\n\n", "sep=;\n"]
)
def test_lines_above_the_header_are_texts_and_not_the_names_of_columns(above):
    contents = load("n/x.csv", f"{above}name;price\nshears;12.5\nspade;30;used\n".encode())

    *titles, one, other = [one.text for one in contents.texts]
    assert "".join(titles).replace("\n", "") == above.strip(";\n").replace("\n", "")
    assert (one, other) == ("name: shears\nprice: 12.5", "name: spade\nprice: 30\ncolumn 3: used")
    assert contents.notes == []


def test_a_header_without_rows_is_a_text():
    assert [one.text for one in load("n/x.csv", b"name,price\n").texts] == ["name price"]


def test_a_cell_may_be_as_long_as_its_file():
    long, limit = "a harbour, " * 20_000, csv.field_size_limit()
    contents = load("n/x.csv", f'id,text\n1,"{long}"\n2,lamp\n'.encode())

    assert ([one.text for one in contents.texts], contents.notes) == ([long, "lamp"], [])
    assert csv.field_size_limit() == limit, "other readers of CSV keep theirs"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b",\n", "has no text"),
        (b'"' + b"open\n" * 40_000, "has no first row that can be read: is a quote left open?"),
        (b"\0", "is binary"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(data, reason):
    assert refused("n/x.csv", data) == reason
