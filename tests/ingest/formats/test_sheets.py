"""Spreadsheets: a text per row of each sheet."""

import io
from datetime import UTC, datetime
from typing import Any

import xlsxwriter

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused, zipped


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


def test_ids_that_recur_name_their_sheet_and_a_single_row_is_a_text():
    listed = [["id", "text"], [1, "lamp"]]
    contents = load("n/x.xlsx", book(A=listed, B=listed, C=[], D=[["a note"]]))

    found = [(one.text, one.metadata["sheet"]) for one in contents.texts]
    assert found == [("lamp", "A"), ("lamp", "B"), ("a note", "D")]
    assert [one.id for one in contents.texts][:2] == ["1", "n/x.xlsx#B#1"]
    assert contents.notes == []


def test_comments_charts_and_text_boxes_are_a_text_of_their_own():
    out = io.BytesIO()
    with xlsxwriter.Workbook(out) as made:
        sheet = made.add_worksheet("Tools")
        sheet.write_row(0, 0, ["name", "price"])
        sheet.write_row(1, 0, ["shears", 12.5])
        sheet.write_comment("A2", "lent to Ada")
        sheet.insert_textbox("D4", "sharpen in May")
        chart = made.add_chart({"type": "bar"})
        chart.add_series({"values": "=Tools!$B$2:$B$2"})
        chart.set_title({"name": "Costs"})
        sheet.insert_chart("D9", chart)
    _, beside = load("n/x.xlsx", out.getvalue()).texts

    assert {"lent to Ada", "sharpen in May", "Costs"} <= {*beside.text.split("\n")}


def test_one_without_text_is_refused_with_the_reason():
    assert refused("n/x.xlsx", book(A=[])) == "has no text"


def test_comments_and_charts_of_ods_are_read():
    office = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    text = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    table = 'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    note = "<office:annotation><text:p>lent to Ada</text:p></office:annotation>"
    cell = f"{note}<text:p>lamp</text:p>"
    cell = f'<table:table-cell office:value-type="string">{cell}</table:table-cell>'
    content = (
        f"<office:document-content {office} {text} {table}><office:body><office:spreadsheet>"
        f'<table:table table:name="A"><table:table-row>{cell}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = b"application/vnd.oasis.opendocument.spreadsheet"
    manifest = b'<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    chart = b'<c xmlns:chart="urn:x"><chart:title>Harvest</chart:title></c>'
    members = {"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content.encode()}
    data = zipped(**members, **{"Object 1/content.xml": chart})

    assert [one.text for one in load("n/x.ods", data).texts][1:] == ["lent to Ada\nHarvest"]
