"""Regions of a map: which points are together, and by which words."""

import numpy as np
import pytest

from mcp_server_qdrant.projection.regions import FEWEST, regions, telling
from mcp_server_qdrant.projection.words import Words

TOPICS = ("wing lift aerodynamics", "compiler grammar parsing", "protein gene expression")


def scattered(count: int) -> tuple[np.ndarray, Words]:
    """Points around three corners, each with the words of its corner among common ones."""
    chance = np.random.default_rng(3)
    corner = np.arange(count) % 3
    vectors = np.eye(3)[corner] + chance.normal(scale=0.05, size=(count, 3))
    texts = [f"The study number {n} of {TOPICS[at]}" for n, at in enumerate(corner)]
    return vectors.astype(np.float32), Words(texts)


def test_three_regions_are_the_three_topics_named_by_their_own_words():
    found = regions(*scattered(90))

    shown = found.shown(3)
    assert sorted(one.size for one in shown) == [30, 30, 30]
    assert {frozenset(one.words[:3]) for one in shown} == {
        frozenset(topic.split()) for topic in TOPICS
    }
    for one in shown:
        inside = (found.leaves >= one.first) & (found.leaves < one.last)
        assert inside.sum() == one.size
        assert len(set((np.flatnonzero(inside) % 3).tolist())) == 1


@pytest.mark.parametrize("count", [2, 3, 5])
def test_however_many_are_shown_they_share_all_points(count):
    found = regions(*scattered(90))

    shown = found.shown(count)
    assert sum(one.size for one in shown) == 90
    assert len(shown) == count
    assert sorted(leaf for one in shown for leaf in range(one.first, one.last)) == sorted(
        set(found.leaves.tolist())
    )


def test_the_same_points_make_the_same_regions():
    first, second = (regions(*scattered(90)) for _ in range(2))

    assert first.found == second.found
    assert (first.leaves == second.leaves).all()


def test_few_points_and_equal_ones_have_no_regions_to_tell():
    vectors, words = scattered(FEWEST - 1)
    assert regions(vectors, words).found == ()
    alike = regions(np.ones((50, 3), np.float32), Words(["the same text"] * 50))
    assert [one.words for one in alike.shown(8)] in ([], [()])


def test_any_points_are_told_by_their_words():
    _, words = scattered(90)

    assert set(telling(np.array([0, 3, 6]), words)) >= set(TOPICS[0].split())


def test_forms_of_a_word_are_one_and_stop_words_none():
    words = Words(["The wings of this bird", "Wings and more wings", "A wing"])

    assert sorted(words.spelled.values()) == ["bird", "wings"]
    assert sorted(words.texts_with.values()) == [1, 3]


def test_stop_words_are_those_of_the_texts_languages():
    german = "Der Speicher und die Festplatte sind voll, weil niemand aufgeräumt hat"
    words = Words([german, "The disk is full because nobody tidied up the storage room"])

    assert {"speicher", "festplatte", "disk"} <= set(words.spelled.values())
    assert not {"der", "und", "die", "the", "sind"} & set(words.spelled.values())


def test_texts_without_spaces_are_read_in_pairs():
    assert "北京" in Words(["北京大学", "北京"]).spelled.values()
