"""How far the encoding of a long text is."""

import pytest

from mcp_server_qdrant.ingest.encoding import HEAD, PARTS, encoded, shortened
from tests.fakes import FakeEncoder


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, []),
        (PARTS, []),
        (PARTS + 1, [(PARTS, PARTS + 1), (PARTS + 1, PARTS + 1)]),
        (2 * PARTS, [(PARTS, 2 * PARTS), (2 * PARTS, 2 * PARTS)]),
    ],
)
async def test_texts_of_many_parts_are_told_of_as_they_are_encoded(count, told):
    encoder, reports = FakeEncoder(), []

    async def progress(done: int, of: int) -> None:
        reports.append((done, of))

    texts = [f"part {number}" for number in range(count)]
    vectors = await encoded(encoder, texts, progress)

    assert vectors == await FakeEncoder().encode_documents(texts)
    assert encoder.documents == texts
    assert reports == told


@pytest.mark.parametrize("title", ["a" * 200, "ä" * 200, "题" * 200, f"题 > {'节' * 90} > 末"])
def test_a_long_title_is_shortened_in_bytes(title):
    assert HEAD - 4 <= len(shortened(title).encode()) <= HEAD or shortened(title) == "题 > … > 末"


def test_of_a_long_path_the_innermost_heading_is_read():
    path = f"Shed > {'Of the key ' * 20}> Nail"

    assert shortened(path) == "Shed > … > Nail"
