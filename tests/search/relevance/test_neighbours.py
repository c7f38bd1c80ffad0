"""Texts beside a better one rank higher."""

import pytest

from mcp_server_qdrant.search.relevance import Hit, lift_neighbours


def hit(own: str | None, relevance: float, collection: str = "talks") -> Hit:
    payload = {"doc": {"id": own, "chunk": 0, "chunks": 1}}
    point = own or str(relevance)
    return Hit(collection, point, relevance, relevance, 0.0, relevance, relevance, payload)


def ranked(*hits: Hit) -> list[tuple[str, float]]:
    found = lift_neighbours(hits)
    return [(str(one.id), round(one.relevance, 6)) for one in found]


def test_a_text_gains_half_of_what_a_better_neighbour_has_more():
    found = lift_neighbours([hit("D1:3", 0.8), hit("other", 0.5), hit("D1:5", 0.4)])

    assert [one.id for one in found] == ["D1:3", "D1:5", "other"]
    assert [one.relevance for one in found] == pytest.approx([0.8, 0.6, 0.5])
    assert [one.score for one in found] == pytest.approx([0.8, 0.6, 0.5])
    assert found[1].gains == (("neighbours", pytest.approx(0.2)),)
    assert found[0].gains == found[2].gains == ()


def test_of_several_neighbours_the_best_counts_by_what_it_had_itself():
    assert ranked(hit("a#1", 0.9), hit("a#2", 0.4), hit("a#4", 0.2)) == [
        ("a#1", 0.9),
        ("a#2", 0.65),
        ("a#4", 0.3),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("D1:3", "D1:6"),  # too far
        ("D1:3", "D2:3"),
        ("D1:3", "D1:3:4"),
        ("ticket-101", "ticket-102"),  # a number that counts, not a place
        ("notes/1", "notes/2"),
        ("17", "18"),
        ("a#" + "1" * 16, "a#" + "1" * 15 + "2"),  # a hash of digits
    ],
)
def test_texts_that_are_no_neighbours_gain_nothing(one: str, other: str):
    assert ranked(hit(one, 0.8), hit(other, 0.4)) == [(one, 0.8), (other, 0.4)]


def test_texts_of_other_collections_and_without_an_id_are_no_neighbours():
    hits = [hit("a:1", 0.8), hit("a:2", 0.4, "others")]

    assert lift_neighbours(hits) == hits
    nameless = [hit(None, 0.8), hit(None, 0.4)]
    assert lift_neighbours(nameless) == nameless


def test_the_numbers_are_read_with_leading_zeros():
    assert ranked(hit("log:009", 0.8), hit("log:010", 0.4)) == [("log:009", 0.8), ("log:010", 0.6)]
