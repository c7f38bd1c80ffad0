"""The same passage once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.ranking import merge_copies, plain_words
from mcp_server_qdrant.search.relevance import Hit
from tests.support import read_hit

few = settings(max_examples=60, deadline=None)

LONG = (
    "The backup of the database runs every night on the primary host and is copied to the second "
    "site before the office opens. It holds every table but the sessions, which nobody needs the "
    "next day. Whoever restores it stops the writers first, checks that the replica has caught up, "
    "and tells the others in the channel. The whole takes less than an hour when the network is "
    "well, and an evening when it is not; the slow part is the index, not the copy itself."
)


def hit(text, collection="a", point=1, score=0.5, **payload) -> Hit:
    payload = {"document": text, **payload}
    return read_hit(Hit(collection, point, score, score, 0.01, score, None, payload))


def folded(hits):
    return merge_copies(hits, len(hits))


def same(one: str, other: str, **payload) -> bool:
    found = folded([hit(one), hit(other, "b", 2, **payload)])
    assert len(found) in (1, 2)
    assert [h.id for h in found] == [1, 2][: len(found)]
    return len(found) == 1


def places(hits):
    return [(one.collection, one.id) for one in hits]


def test_the_best_of_equal_passages_stays_and_names_the_other_places():
    hits = [
        hit(LONG, "notes", 1, 0.9),
        hit("moss needs shade", "garden", 2, 0.8),
        hit(LONG, "wiki", 3, 0.7),
        hit(LONG, "notes", "x-4", 0.6),
    ]

    first, second = folded(hits)

    assert first.id == 1
    assert places(first.also) == [("wiki", 3), ("notes", "x-4")]
    assert (first.relevance, first.score) == (0.9, 0.9)
    assert second == hits[1]


@pytest.mark.parametrize(
    "copy",
    [
        LONG,
        f"  {LONG}\n",
        LONG.replace(" ", "\n"),
        LONG.replace(". ", ".\n\n- "),
        LONG.replace("backup", "**backup**").replace("hour", "`hour`"),
        LONG.replace(",", "").replace(";", ","),
        LONG.replace("It holds", "it holds"),
        LONG.replace("checks", "„checks“"),
    ],
)
def test_a_copy_may_differ_in_what_does_not_matter(copy):
    assert same(LONG, copy)
    assert same(copy, LONG)


def test_texts_in_other_scripts_are_compared_too():
    text = "备份每晚在主机上运行。" * 12

    assert same(text, f"{text}\n")
    assert not same(text, text.replace("主机", "从机", 1))


@pytest.mark.parametrize(
    "other",
    [
        LONG.replace("primary", "secondary"),
        LONG.replace("runs", "never runs"),
        LONG.replace("every night", "every 2 nights"),
        LONG.replace("the index, not the copy", "the index, the copy"),
        LONG.replace("an hour", "a hour"),
        f"DEPRECATED {LONG}",
        f"{LONG} This is not so any more.",
        f"{LONG} 这不再有效",
        f"Alice: {LONG}",
        " ".join(LONG.split()[:-20]),
        f"{LONG} {LONG}",
    ],
)
def test_what_may_matter_makes_another_passage(other):
    base = f"Bob: {LONG}" if other.startswith("Alice") else LONG

    assert not same(base, other)
    assert not same(other, base)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("meeting 2024-05-01", "meeting 2024-05-02"),
        ("version 1.2.3", "version 1.2.4"),
        ("version 1.2", "version 12"),
        ("the host is 10.0.0.1", "the host is 10.0.0.2"),
        ("it is -5 degrees", "it is 5 degrees"),
        ("x > 5", "x < 5"),
        ("we use C++ here", "we use C here"),
        ("a == b", "a != b"),
        ("5 MB", "5 Mb"),
        ("userID", "userId"),
        ("Is it done?", "Is it done"),
        ("costs $5", "costs €5"),
        ("never", "ever"),
        ("...", "???"),
        ("", ""),
        (" ", " "),
    ],
)
def test_short_texts_are_the_same_only_word_by_word(one, other):
    assert not same(one, other)
    for text in (one, other):
        filled = f"{LONG} {text} {LONG}"
        assert same(filled, filled)
    assert plain_words(one) != plain_words(other) or not plain_words(one)
    assert one.strip() == other.strip() or not same(
        f"{LONG} {one} {LONG}", f"{LONG} {other} {LONG}"
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Report of May", "Report of May", True),
        ("Report of May", "Copy of a report", True),
        ("Report 2023", "Report 2024", False),
        ("Report v1.2", "Report", False),
        ("Report 2023", None, True),
    ],
)
def test_titles_must_agree_in_their_numbers_where_both_have_one(one, other, expected):
    hits = [hit(LONG, title=one), hit(LONG, "b", 2, title=other)]

    assert (len(folded(hits)) == 1) is expected


def test_points_without_a_text_are_not_taken_for_copies():
    bare = [read_hit(Hit("a", n, 0.5, 0.5, 0.01, 0.5, None, {"pixels": n})) for n in range(3)]

    assert folded(bare) == bare
    assert {one.document.text for one in bare} == {bare[0].document.text}


texts = st.text(alphabet="ab1 -.\n*", max_size=40).filter(str.strip)  # blank ones are no texts


@few
@given(st.lists(texts, max_size=8))
def test_folding_keeps_the_order_names_every_place_once_and_is_done_once(found):
    hits = [hit(text, "abc"[n % 3], n, 1 - n / 10) for n, text in enumerate(found)]
    kept = folded(hits)

    assert [one.id for one in kept] == sorted(one.id for one in kept)
    shown = places(kept) + [place for one in kept for place in places(one.also)]
    assert sorted(shown) == sorted(places(hits))
    assert folded(kept) == kept
    assert len(
        {one.payload["document"] for one in kept if plain_words(one.payload["document"])}
    ) == len([one for one in kept if plain_words(one.payload["document"])])


def test_hits_that_could_not_be_lifted_to_the_page_are_left_as_they_are():
    best, second = hit("text one", point=1, score=1.0), hit("text two", point=2, score=0.9)
    near, far = hit("text one", point=3, score=0.8), hit("text one", point=4, score=0.7)

    # 0.8 could become 0.96, and 0.7 0.84.
    kept = merge_copies([best, second, near, far], 2, gain=1.2)

    assert [one.id for one in kept] == [1, 2, 4]
    assert places(kept[0].also) == [("a", 3)]
