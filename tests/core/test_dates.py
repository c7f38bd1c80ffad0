"""The date of a text is what it says of itself."""

import pytest

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.dates import date_of

STORED = {"created_at": "2026-04-01T00:00:00Z", "updated_at": "2026-05-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ({"metadata": {"date": "2023-05-08"}}, "2023-05-08"),
        ({"metadata": {"created_at": "2023-05-08T10:00Z"}}, "2023-05-08"),
        ({"dated": True}, "2026-04-01"),
        ({"dated": True, "file": {}}, "2026-04-01"),
        ({}, "2026-05-01"),  # a note: when it was stored or corrected
        ({"metadata": {"date": 2023}}, "2026-05-01"),
        ({"document": None}, "2026-04-01"),  # another tool's, which may have been told
        ({"file": {}}, None),
    ],
)
def test_it_is_the_texts_own_and_a_file_without_one_has_none(said, day):
    text = Document(**{"id": 1, "collection": "c", "text": "t", "document": "d"} | STORED | said)
    when = date_of(text)

    assert (when and when.date().isoformat()) == day
