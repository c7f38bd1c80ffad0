"""What an agent reads of a text: everything, and nothing twice."""

from mcp_server_qdrant.datatypes import Document
from mcp_server_qdrant.tool_text import details


def test_metadata_leaves_out_what_stands_beside_it():
    metadata = {
        "title": "The shed",
        "tags": ["garden", "keys"],
        "source": "notes/shed.md",
        "date": "2026-04-05",
    }
    text = Document(
        *(7, "notes", "The key hangs inside.", "The shed", "notes/shed.md"),
        metadata=metadata,
        tags=("garden", "keys"),
    )

    assert details(text) == [
        'metadata: {"date":"2026-04-05"}',
        "tags: garden, keys",
        "source: notes/shed.md",
    ]


def test_metadata_that_says_otherwise_stays():
    text = Document(7, "notes", "text", "Shed", metadata={"title": "Barn", "tags": "x"})

    assert details(text) == ['metadata: {"title":"Barn","tags":"x"}']


def test_nothing_is_said_where_metadata_has_no_more():
    assert details(Document(7, "notes", "text", "Shed", metadata={"title": "Shed"})) == []
