"""How far the encoding of a long text is."""

import pytest

from mcp_server_qdrant.ingest.encoding import PARTS, encoded
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
