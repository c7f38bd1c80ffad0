"""What encoders read of a text."""

from datetime import date

import pytest

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.ingest.encoding import HEAD, day_of, shortened


@pytest.mark.parametrize("title", ["a" * 200, "ä" * 200, "题" * 200, f"题 > {'节' * 90} > 末"])
def test_a_long_title_is_shortened_in_bytes(title):
    assert HEAD - 4 <= len(shortened(title).encode()) <= HEAD or shortened(title) == "题 > … > 末"


def test_of_a_long_path_the_innermost_heading_is_read():
    path = f"Shed > {'Of the key ' * 20}> Nail"

    assert shortened(path) == "Shed > … > Nail"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"metadata": {"date": "2026-03-08", "created_at": "2026-04-01"}}, date(2026, 3, 8)),
        ({"metadata": {"date": "soon", "created_at": "2026-04-01T10:00Z"}}, date(2026, 4, 1)),
        ({"metadata": {"date": 2026}}, None),
        ({"created_at": "2026-05-01T00:00:00Z", "dated": True}, date(2026, 5, 1)),
        ({"created_at": "2026-05-01T00:00:00Z"}, None),  # when it was stored
        ({}, None),
    ],
)
def test_the_day_of_a_text_is_what_its_caller_says(said, expected):
    assert day_of(Document(id=1, collection="notes", text="roses", **said)) == expected
