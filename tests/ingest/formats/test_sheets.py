"""Spreadsheets: a text per row of each sheet."""

import io
from datetime import UTC, datetime
from typing import Any

import xlsxwriter

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused


def book(**sheets: list[list[Any]]) -> bytes:
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"default_date_format": "yyyy-mm-dd"}) as made:
        for name, rows in sheets.items():
            sheet = made.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return out.getvalue()


TOOLS = [["name", "price", "bought"], ["shears", 12.5, datetime(2026, 1, 2)], [], ["spade", 30, ""]]


def test_rows_are_read_as_those_of_csv():
    one, other = load("n/x.xlsx", book(Tools=TOOLS)).texts

    assert one.text == "name: shears\nprice: 12.5\nbought: 2026-01-02"
    assert one.metadata == {
        "name": "shears",
        "price": 12.5,
        "bought": "2026-01-02",
        "sheet": "Tools",
    }
    assert other.text == "name: spade\nprice: 30"
    assert other.metadata["price"] == 30


def test_columns_mean_what_they_mean_in_csv():
    rows = [["id", "text", "date"], [7, "lamp", datetime(2026, 1, 2)]]
    (one,) = load("n/x.xlsx", book(A=rows)).texts

    assert (one.id, one.text) == ("7", "lamp")
    assert one.created_at == datetime(2026, 1, 2, tzinfo=UTC)


def test_a_sheet_that_is_no_table_and_ids_that_recur_are_named():
    listed = [["id", "text"], [1, "lamp"]]
    contents = load("n/x.xlsx", book(A=listed, B=listed, C=[], D=[["a note"]]))

    assert [(one.id, one.metadata["sheet"]) for one in contents.texts] == [("1", "A")]
    assert contents.notes == [
        "sheet 'B' has ids of earlier sheets: those rows are left out",
        "sheet 'D' has no row below its first",
    ]


def test_one_without_text_is_refused_with_the_reason():
    assert refused("n/x.xlsx", book(A=[])) == "has no text"
