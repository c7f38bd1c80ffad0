"""Texts that carry a tag that the query names."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.relevance import Hit, folded_tag, named_tags
from mcp_server_qdrant.search.relevance import lift_tags as lifted_by_tags
from mcp_server_qdrant.search.words.tags import TagMatch
from mcp_server_qdrant.search.words.terms import Terms, Words

APOLLO = TagMatch((("tags", "Apollo"),), frozenset({"apollo"}))
WORDS = {"apollo": 1, "plan": 2, "home": 3, "lab": 4}


def tokens(text: str) -> list[int]:
    return [WORDS[word] for word in text.split() if word in WORDS]


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("Home-Lab", "home lab"),
        ("home_lab", "home lab"),
        ("  HOME / lab ", "home lab"),
        ("C++", "c++"),
        ("c#", "c#"),
        ("node.js", "node js"),
        ("Straße", "strasse"),
        ("cafe\u0301", "caf\u00e9"),
        ("café", "café"),  # accents are as they are: not cafe
        ("会议", "会议"),
        ("!?", ""),
    ],
)
def test_a_tag_is_compared_by_its_words_in_lower_case(tag, name):
    assert folded_tag(tag) == name


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({"tags": "Apollo"}, ("Apollo",)),
        ({"tags": ["zeus", "apollo", 7, None]}, ("apollo",)),
        ({"metadata": {"tags": ["APOLLO"]}, "tags": "apollo"}, ("apollo", "APOLLO")),
        ({"tags": {"apollo": 1}, "metadata": ["apollo"]}, ()),
        ({"tags": ["apollo-2"]}, ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_a_point_carries_a_tag_in_either_place_as_text_or_list(payload, found):
    assert named_tags(payload, APOLLO) == found


def lift_tags(hits, matches, terms: Terms, alpha: float) -> list[Hit]:
    return lifted_by_tags(hits, matches, Words(terms, lambda _: tokens), alpha)


def hit(value: float, *tags: str, point: int = 1, collection: str = "c") -> Hit:
    return Hit(collection, point, value, value, 0.01, 0.6, 1.0, {"tags": list(tags)})


def test_a_tag_lifts_by_the_part_of_the_query_that_its_words_are():
    terms = Terms("apollo plan", {1: 3.0, 2: 1.0}, {})

    (raised,) = lift_tags([hit(0.1, "Apollo")], {"c": APOLLO}, terms, 0.5)

    assert raised.relevance == pytest.approx(0.6625)  # 0.1 + 0.5 * 1.5 * 3/4
    assert raised.gains == (("tags", pytest.approx(0.5625)),)
    assert raised.tags == ("Apollo",)


def test_the_boost_of_three_words_counts_there_too():
    terms = Terms("home lab plan apollo", {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}, {})
    three = TagMatch((), frozenset({"home lab", "plan"}), 1.5)

    (two,) = lift_tags([hit(0.1, "plan")], {"c": replace(three, boost=1.0)}, terms, 0.5)
    (one,) = lift_tags([hit(0.1, "plan")], {"c": three}, terms, 0.5)
    (both,) = lift_tags([hit(0.1, "plan", "home-lab")], {"c": three}, terms, 0.5)

    assert two.relevance == pytest.approx(0.2875)  # 0.1 + 0.5 * 1.5 * 1/4
    assert one.relevance == pytest.approx(0.38125)  # 1.5 times that
    # 0.1 + 3 * 0.28125, bent at 0.8: what is beyond that counts in the order alone.
    assert (both.relevance, both.score) == pytest.approx((0.8, 0.902528))
    assert both.factors == (("tags", pytest.approx(0.902528 / 0.8)),)


def test_hits_without_the_tag_or_of_other_collections_stay_as_they_are():
    hits = [hit(0.5, "zeus"), hit(0.4, "apollo", collection="d")]

    assert lift_tags(hits, {"c": APOLLO}, Terms("apollo", {1: 1.0}, {}), 0.5) == hits
    assert lift_tags(hits[::-1], {}, Terms("apollo", {1: 1.0}, {}), 0.5) == hits[::-1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.8), st.booleans()), max_size=9), st.floats(0, 1))
def test_nothing_is_lost_and_the_tagged_overtake_only_upwards(made, alpha):
    hits = [hit(v, *(["apollo"] if t else []), point=n) for n, (v, t) in enumerate(made)]
    terms = Terms("apollo plan", {1: 3.0, 2: 1.0}, {})

    after = {h.id: h for h in lift_tags(hits, {"c": APOLLO}, terms, alpha)}

    assert sorted(after) == [h.id for h in hits]
    for before in hits:
        assert 0 <= before.relevance <= after[before.id].relevance <= 1
        assert after[before.id].relevance == before.relevance or before.payload == {
            "tags": ["apollo"]
        }
