"""Which differences between two readings of a text count, and for what."""

import pytest

from mcp_server_qdrant.core.datatypes import Document

ONE = Document("1", "c", "the lamp", document="x", created_at="2026-01-01", updated_at="2026-01-02")
LONG = ONE._replace(chunks=2, version="abc")


@pytest.mark.parametrize(
    ("old", "new", "same", "changed"),
    [
        (ONE, ONE._replace(text="a bulb"), False, True),
        (ONE, ONE._replace(updated_at="2026-01-03"), True, True),
        (ONE, ONE._replace(expires="2027-01-01", superseded_by="y"), True, False),
        (ONE, ONE._replace(metadata={"a": 0.1}), False, False),
        (ONE, ONE._replace(title="Lamps"), False, False),
        (ONE, ONE._replace(created_at="2025-01-01"), False, False),
        (ONE, LONG, False, True),
        (LONG, LONG._replace(chunk=1, text="of another part"), True, False),
        (LONG, LONG._replace(version="abd"), False, True),
        (LONG, LONG._replace(updated_at="2026-01-03"), True, True),
        # Of another tool's point nothing but its content tells.
        (ONE._replace(document=None), ONE._replace(document=None), True, False),
        (ONE._replace(document=None), ONE._replace(document=None, title="Lamps"), False, True),
    ],
)
def test_the_same_content_and_a_change_since_are_two_questions(old, new, same, changed):
    assert new.revision.same_content(old.revision) is same
    assert new.revision.changed_since(old.revision) is changed
    assert (new.revision == old.revision) is (str(new.revision) == str(old.revision))
