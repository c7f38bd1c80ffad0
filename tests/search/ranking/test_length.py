"""A long message does not rank first only because it has many parts."""

from mcp_server_qdrant.search.ranking import LENGTH, by_length
from mcp_server_qdrant.search.relevance import Hit
from tests.support import read_hit


def hit(own: str, relevance: float, chunks: int = 1) -> Hit:
    payload = {"document": own, "doc": {"id": own, "chunk": 0, "chunks": chunks}}
    return read_hit(Hit("a", own, relevance, relevance, 0.0, relevance, None, payload))


def test_of_two_messages_that_fit_alike_the_shorter_one_ranks_first():
    long, short = hit("B1:3", 0.6, chunks=13), hit("B1:2", 0.5)

    ranked = by_length([long, short])

    assert [one.own for one in ranked] == ["B1:2", "B1:3"]
    assert ranked[1].factors == (("length", 13**-LENGTH),)
    assert ranked[1].relevance == 0.6


def test_a_message_that_fits_much_better_stays_first():
    assert [one.own for one in by_length([hit("B1:3", 0.7, 13), hit("B1:2", 0.5)])] == [
        "B1:3",
        "B1:2",
    ]


def test_notes_and_files_lose_nothing_by_their_length():
    hits = [hit("manual.md", 0.6, chunks=100), hit("note", 0.5), hit("B1:2", 0.4)]

    assert by_length(hits) == hits
