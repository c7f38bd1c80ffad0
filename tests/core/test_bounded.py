"""What an answer may take, read and parsed."""

import json

import pytest

from mcp_server_qdrant.core.bounded import SMALL, TooLarge, check_weight

VECTORS = json.dumps([{"id": n, "vector": [n / 7] * 3_072} for n in range(64)]).encode()
TEXTS = json.dumps([{"text": "a text, {of} [code]; " * 100} for n in range(300)]).encode()


@pytest.mark.parametrize("answer", [VECTORS, TEXTS, b"{" * SMALL], ids=["vectors", "texts", "few"])
def test_answers_as_servers_give_them_are_light_enough(answer):
    check_weight([answer])


@pytest.mark.parametrize("sign", [b"{},", b"[],", b"0,"])
def test_what_would_take_much_memory_is_refused_in_whatever_pieces_it_comes(sign):
    pieces = [sign] * 1_100_000

    with pytest.raises(TooLarge):
        check_weight(pieces)
    with pytest.raises(TooLarge):
        check_weight([b"".join(pieces)])
