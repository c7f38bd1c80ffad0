"""What all encoders do alike: prefixes, and the room that they take."""

from mcp_server_qdrant.encoders.prefixes import Prefixes
from tests.fakes import FakeEncoder


async def test_each_text_is_read_after_its_prefix_for_which_room_is_kept():
    encoder = FakeEncoder()
    assert encoder.token_limit() == 128
    encoder.prefixes = Prefixes("query: ", "passage: ")

    await encoder.encode_query("roses")
    await encoder.encode_documents(["moss", "fern"])

    assert encoder.token_limit() == 128 - 3
    assert (encoder.queries, encoder.documents) == (
        ["query: roses"],
        ["passage: moss", "passage: fern"],
    )
