"""Unknown words and what is searched instead."""

import zlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import process

from mcp_server_qdrant.core.datatypes import Correction, DenseLeg, SparseLeg, Target
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.words import spelling
from mcp_server_qdrant.search.words.spelling import (
    CORRECTED_WORDS,
    Speller,
    is_slip,
    nearest,
    prose,
)
from mcp_server_qdrant.search.words.terms import Terms

DENSE = DenseLeg("d", 4, "cosine", "m")
BOTH = Target("notes", 9, DENSE, SparseLeg("bm25", idf=True))
UNPROBED = Target("plain", 9, DENSE, None)
NOTES = {"receive": 4, "boundary": 9, "layer": 7, "packet": 2, "layers": 2}


def tokens(text: str) -> list[int]:
    """A term per word; "the" has none."""
    return [zlib.crc32(w.encode()) for w in text.lower().split() if w != "the"]


class Words:
    """The vocabularies that are there."""

    def __init__(self, **collections: dict[str, int]) -> None:
        self.there = {name: Counter(counts) for name, counts in collections.items()}
        self.asked: list[list[str]] = []

    async def vocabularies(self, targets):
        self.asked.append([target.collection for target in targets])
        return self.there


def unknown(query: str, *wrong: str, **fields) -> Terms:
    """The terms of a query of which these words are in no collection."""
    ids = frozenset(token for word in wrong for token in tokens(word))
    return Terms(query, dict.fromkeys(tokens(query), 1.0), {}, unknown=ids, **fields)


async def corrected(query: str, *wrong: str, targets=(BOTH,), words=None, **fields) -> str:
    speller = Speller(tokens, words or Words(notes=NOTES))
    return (await speller.correct(unknown(query, *wrong, **fields), targets))[0]


async def test_an_unknown_word_becomes_the_nearest_and_the_answer_can_say_so():
    speller = Speller(tokens, Words(notes=NOTES))
    terms = unknown("why do we recieve the packett twice", "recieve", "packett")

    assert await speller.correct(terms, [BOTH]) == (
        "why do we receive the packet twice",
        (Correction("recieve", "receive"), Correction("packett", "packet")),
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("(bondary)", "(boundary)"),
        ('a "bondary", again', 'a "boundary", again'),
        ("Bondary", "Boundary"),
        ("bondary bondary", "boundary boundary"),
        ("bondary-layer", "boundary-layer"),
        ("the bondary's end?", "the boundary's end?"),
        ("  bondary\tof\nit ", "  boundary\tof\nit "),
    ],
)
async def test_only_the_word_itself_changes(query, expected):
    assert await corrected(query, "bondary", "Bondary") == expected


@pytest.mark.parametrize(
    "query",
    [
        "layyr1",
        "layyr_x",
        "layyr.py",
        "src/layyr",
        "my-layyr-name",
        "fooLayyr",
        "LAYYR",
        "`layyr`",
        "--layyr",
        "layyr=1",
        "user@layyr",
        "#layyr",
        "layr",
        "слоййй",
        "layyrй",
        "層層層層層",
        "12345",
        "",
    ],
)
async def test_identifiers_numbers_short_words_and_other_alphabets_are_left_alone(query):
    words = Words(notes=NOTES)

    assert await corrected(query, query, "layyr", "layr", words=words) == query
    assert words.asked == []


async def test_what_a_collection_knows_is_left_alone():
    words = Words(notes=NOTES)

    assert await corrected("the bondary", words=words) == "the bondary"
    assert words.asked == []


async def test_a_word_that_a_vocabulary_has_is_known_though_no_probe_found_it():
    words = Words(notes=NOTES, plain={"bondary": 1})

    assert await corrected("bondary", "bondary", targets=[BOTH, UNPROBED], words=words) == "bondary"


@pytest.mark.parametrize(
    ("query", "wrong", "languages", "expected"),
    [
        ("schreibe", "schreibe", (), "schreibe"),
        ("schreibe", "schreibe", ("german",), "schreibe"),
        ("wie schreibe ich einen Brief", "schreibe", (), "wie schreibe ich einen Brief"),
        ("wie screibe ich einen Brief", "screibe", (), "wie screibe ich einen Brief"),
        ("wie screibe ich einen Brief", "screibe", ("german",), "wie scribe ich einen Brief"),
        ("wie speichert man eine Datei", "speichert", ("german",), "wie speichert man eine Datei"),
        ("recieve", "recieve", (), "receive"),  # which looks Spanish
        ("how do we recieve it", "recieve", ("german",), "how do we receive it"),
    ],
)
async def test_a_query_in_a_language_that_the_collections_lack_is_left_alone(
    query, wrong, languages, expected
):
    words = Words(notes={"scribe": 3, "speicher": 5, "receive": 9})
    speller = Speller(tokens, words, language=Bm25Encoder("auto").language_of)

    assert (await speller.correct(unknown(query, wrong, languages=languages), [BOTH]))[
        0
    ] == expected


async def test_a_word_of_the_language_is_known_though_no_collection_has_it():
    async def common(words):
        return {"broken"} & set(words)

    speller = Speller(tokens, Words(notes={"broke": 3, "boundary": 1}), common)
    terms = unknown("broken bondary", "broken", "bondary")

    assert (await speller.correct(terms, [BOTH]))[0] == "broken boundary"


async def test_a_word_like_none_is_left_alone():
    assert await corrected("zeppelin bondary", "zeppelin", "bondary") == "zeppelin boundary"


async def test_nothing_is_corrected_where_no_vocabulary_is_there_yet():
    assert await corrected("bondary", "bondary", words=Words()) == "bondary"


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        (UNPROBED, {}),
        (Target("plain", 9, DENSE, SparseLeg("bm25", idf=False)), {}),
        (Target("plain", 9, DENSE, SparseLeg("bm25", idf=True)), {"failures": {"plain": "down"}}),
    ],
)
async def test_a_collection_that_nobody_asked_may_know_the_word(other, fields):
    words = Words(notes=NOTES)
    both = [BOTH, other]
    assert await corrected("bondary", "bondary", targets=both, words=words, **fields) == "bondary"

    words = Words(notes=NOTES, plain={"wing": 1})
    assert await corrected("bondary", "bondary", targets=both, words=words, **fields) == "boundary"


async def test_a_collection_that_is_not_searched_is_not_waited_for():
    skipped = Target("skipped", 9, None, None, note="no legs")

    assert await corrected("bondary", "bondary", targets=[BOTH, skipped]) == "boundary"


async def test_so_many_words_are_corrected_at_most():
    fixed = await corrected(" ".join(["bondary"] * (CORRECTED_WORDS + 2)), "bondary")

    assert fixed.split().count("boundary") == CORRECTED_WORDS


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("abcDéй1_.- '\"/備"), max_size=40))
def test_each_plain_word_stands_where_it_is_said_to(query):
    for start, word in prose(query):
        assert query[start : start + len(word)] == word
        assert word.isalpha()
        before, after = query[:start], query[start + len(word) :]
        assert not (before and (before[-1].isalnum() or before[-1] in "_/."))
        assert not (after and (after[0].isalnum() or after[0] in "_/"))


@pytest.mark.parametrize(
    ("word", "near", "slip"),
    [
        ("screibe", "schreibe", True),
        ("verfügabr", "verfügbar", False),
        ("einstelung", "einstellung", True),
        ("speichert", "speicher", False),
        ("abstellen", "erstellen", False),
        ("bestellen", "gestellen", False),
    ],
)
def test_another_ending_or_prefix_is_no_slip(word, near, slip):
    assert is_slip(word, near) == slip


def near(word: str, *counts: dict[str, int]) -> str | None:
    return nearest(word, [Counter(one) for one in counts])


def test_the_nearest_word_has_the_fewest_edits_whatever_its_length():
    assert near("recieve", {"receive": 2, "received": 90}) == "receive"  # two letters swapped


def test_the_more_frequent_of_equally_near_words_wins_over_all_collections():
    assert near("bondary", {"bondarq": 5, "boundary": 3}, {"boundary": 3}) == "boundary"
    assert near("layyr", {"layer": 4, "layar": 4}) == "layar"  # then by name


def test_what_is_not_similar_is_not_near_nor_is_the_word_itself():
    assert near("abcd", {"wxyz": 1, "abxy": 1}) is None
    assert near("abcdefghijkl", {"xyzdefghijkl": 1}) is None  # three edits
    assert near("layer", {"layer": 3, "layers": 1}) == "layers"
    assert near("unassociated", {"associated": 9}) is None  # a prefix is no misspelling
    assert near("citation", {"citations": 1}) == "citations"
    assert near("word") is None


async def test_after_the_deadline_nothing_is_corrected():
    speller = Speller(tokens, Words(notes=NOTES))
    terms = unknown("recieve packet", "recieve")

    late, _ = await speller.correct(terms, [BOTH], -1)
    early, _ = await speller.correct(terms, [BOTH], 60)

    assert (late, early) == ("recieve packet", "receive packet")


def test_a_large_vocabulary_is_compared_in_slices_that_hold_up_nobody(monkeypatch):
    sizes = []
    inner = process.extract_iter

    def counted(word, choices, **how):
        sizes.append(len(choices))
        return inner(word, choices, **how)

    monkeypatch.setattr(spelling.process, "extract_iter", counted)
    words = Counter({f"word{n}": 1 for n in range(9_999)}) + Counter(NOTES)

    assert nearest("recieve", [words]) == "receive"
    assert sum(sizes) == len(words)
    assert max(sizes) <= 2_000
