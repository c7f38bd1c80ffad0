"""Words of texts, and those spelled almost alike."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein

from mcp_server_qdrant.search.words import vocabulary
from mcp_server_qdrant.search.words.vocabulary import (
    Vocabulary,
    derived,
    most_edits,
    nearest,
    similarity,
    tally,
    words,
)

few = settings(max_examples=60, deadline=None)
some_words = st.text("abcdé", min_size=1, max_size=9)


def near(word: str, *counts: dict[str, int], most: int = 9) -> list[tuple[str, float]]:
    return nearest(word, [Vocabulary.of(one) for one in counts], most)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The boundary layer, again: BOUNDARY.", {"boundary", "layer", "again"}),
        ("Straße naïve café", {"straße", "naïve", "café"}),
        ("cafe\u0301s \ufb01nal", {"cafés", "final"}),  # composed, and the ligature taken apart
        ("two-stage engine's", {"stage", "engine"}),
        ("get_user_name utf8mb4 v1.word word.method 3rd", set()),
        ("end of one.\nNext sentence", {"next", "sentence"}),
        ("備份資料庫 резервная копия", set()),
        ("a an the " + "x" * 31, set()),
        ("", set()),
    ],
)
def test_words_are_those_of_prose_in_the_latin_alphabet(text, expected):
    assert words(text) == expected


def test_a_word_counts_once_per_text():
    counts = Counter(layer=1)
    tally(counts, ["layer layer flow", "flow heat", ""])

    assert counts == {"layer": 2, "flow": 2, "heat": 1}


def test_words_seen_once_are_dropped_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(vocabulary, "CROWDED", 3)
    counts: Counter[str] = Counter()
    tally(counts, ["heat flow", "heat layer"])
    assert len(counts) == 3

    tally(counts, ["wing"])
    assert counts == {"heat": 2}


def test_the_most_frequent_words_are_kept(monkeypatch):
    monkeypatch.setattr(vocabulary, "MOST_WORDS", 2)
    kept = Vocabulary.of({"rare": 1, "common": 9, "usual": 5})

    assert len(kept) == 2
    assert "rare" not in kept
    assert ("common" in kept, "usual" in kept) == (True, True)


def test_an_empty_vocabulary_has_no_words():
    empty = Vocabulary.of({})

    assert len(empty) == 0
    assert "" not in empty
    assert "word" not in empty
    assert nearest("word", [empty], 1) == []


@pytest.mark.parametrize(("letters", "edits"), [(2, 0), (3, 1), (5, 1), (6, 2), (9, 3), (12, 4)])
def test_a_word_of_so_many_letters_bears_so_many_edits(letters, edits):
    """After as many letters more it is still 75 % the same, and not after one more."""
    assert most_edits("a" * letters) == edits
    assert similarity("a" * letters, "a" * letters + "b" * edits) > 0
    assert similarity("a" * letters, "a" * letters + "b" * (edits + 1)) == 0


def test_the_nearest_word_has_the_fewest_edits_whatever_its_length():
    assert near("recieve", {"receive": 2, "relieve": 1, "received": 90}, most=3) == [
        ("receive", pytest.approx(1 - 1 / 7)),  # two letters swapped
        ("relieve", pytest.approx(1 - 1 / 7)),
        ("received", pytest.approx(1 - 2 / 8)),
    ]


def test_the_more_frequent_of_equally_near_words_wins_over_all_collections():
    assert near("bondary", {"bondarq": 5, "boundary": 3}, {"boundary": 3}, most=1) == [
        ("boundary", 0.875)
    ]
    assert near("layyr", {"layer": 4, "layar": 4}, most=1) == [("layar", 0.8)]  # then by name


def test_what_is_not_similar_is_not_near():
    assert near("abcd", {"wxyz": 1, "abxy": 1}) == []
    assert near("abcdef", {"abcdxyz": 1}) == []


def test_a_word_is_not_its_own_neighbour():
    assert near("layer", {"layer": 3, "layers": 1}) == [("layers", pytest.approx(5 / 6))]


@pytest.mark.parametrize(
    ("word", "other", "is_derived"),
    [
        ("unassociated", "associated", True),
        ("associated", "unassociated", True),
        ("citation", "citations", False),
        ("layer", "layre", False),
    ],
)
def test_a_prefix_is_no_misspelling(word, other, is_derived):
    assert derived(word, other) == is_derived
    assert bool(near(word, {other: 1})) != is_derived


@few
@given(st.dictionaries(some_words, st.integers(1, 99), max_size=30), some_words, st.integers(0, 3))
def test_words_within_some_edits_are_those_that_comparing_all_would_find(counts, word, edits):
    found = dict(Vocabulary.of(counts).within(word, edits))

    assert found == {
        other: count
        for other, count in counts.items()
        if DamerauLevenshtein.distance(word, other) <= edits
    }


@few
@given(st.dictionaries(some_words, st.integers(1, 99), max_size=30))
def test_a_vocabulary_is_read_back_as_it_was(counts):
    made = Vocabulary.of(counts)
    again = Vocabulary.read(made.text, made.counts)

    assert len(again) == len(counts)
    assert all(dict(again.within(word, 0)) == {word: count} for word, count in counts.items())


@pytest.mark.parametrize("counts", [[1], [1, 2, 3], [[1, 2]]])
def test_counts_that_do_not_fit_the_words_are_refused(counts):
    with pytest.raises(ValueError, match="differ"):
        Vocabulary.read("one\ntwo", np.array(counts, np.int32))
