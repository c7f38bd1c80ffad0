"""Saved web pages: the page, where it was, and when."""

from datetime import UTC, datetime

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.load import load

PAGE = """\
From: <Saved by Blink>
Snapshot-Content-Location: https://x.org/boats
Subject: =?utf-8?Q?Boats=20for=20hire?=
Date: Mon, 02 Nov 2026 09:30:00 -0000
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="cut"

--cut
Content-Type: text/html
Content-Transfer-Encoding: quoted-printable
Content-Location: https://x.org/boats

<html><head><meta http-equiv=3D"Content-Type" content=3D"text/html; charset=3DUTF-8">
TITLE</head><body><h2>Prices</h2><p>A day costs =E2=82=AC30.</p></body></html>
--cut
Content-Type: text/css
Content-Location: https://x.org/a.css

p { color: red }
--cut
Content-Type: image/png
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--cut--
"""


@pytest.mark.parametrize(
    ("title", "called"), [("", "Boats for hire"), ("<title>Hire</title>", "Hire")]
)
@pytest.mark.parametrize("name", ["boats.mhtml", "BOATS.MHT"])
def test_a_saved_page_is_read_with_its_address_title_and_day(title, called, name):
    (one,) = load(f"n/{name}", PAGE.replace("TITLE", title).encode()).texts

    assert one.text == "## Prices\n\nA day costs €30."
    assert one.title == called
    assert one.metadata == {"url": "https://x.org/boats"}
    assert one.created_at == datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
    assert [mark.name for mark in one.marks] == ["Prices"]


@pytest.mark.parametrize("data", [b"words", b"From: a\n\ntext", b"\0\xff"])
def test_a_file_without_a_page_is_refused(data):
    with pytest.raises(UnusableFile, match="holds no page"):
        load("n/x.mhtml", data)
