"""Whether two short texts are about the same subject."""

import pytest

from mcp_server_qdrant.core.subjects import (
    differ_in_one_passage,
    same_subject,
    tells_of_change,
)


@pytest.mark.parametrize(
    "text",
    [
        "The billing database was moved to Postgres 16.",
        "Ben no longer flies Lufthansa.",
        "Since June the fee is 15 euros.",
        "Carla took over the release checklist.",
        "Das Treffen findet jetzt dienstags um neun statt.",
        "Die Miete wurde auf 980 Euro erhöht.",
        "La boulangerie ouvre désormais à six heures.",
        "Paul n'habite plus à Lyon.",
        "La contraseña ha cambiado a tormenta.",
        "Ya no vivo en Madrid.",
    ],
)
def test_a_text_that_says_that_something_changed_is_known_by_its_words(text):
    assert tells_of_change(text)


@pytest.mark.parametrize(
    "text",
    [
        "Billing uses SQLite.",
        "Das Treffen findet dienstags um neun statt.",
        "Raisins and a lower shelf.",
        "Le pain est bon.",
    ],
)
def test_a_text_that_only_states_a_fact_tells_of_no_change(text):
    assert not tells_of_change(text)


def test_a_change_needs_a_lower_cosine_than_a_fact():
    first, second = {1, 2, 3}, {1, 4, 5}

    assert same_subject(0.5, first, second, change=True)
    assert not same_subject(0.5, first, second, change=False)
    assert same_subject(0.6, first, second, change=False)
    assert same_subject(0.5, first, {1, 2}, change=False)
    assert not same_subject(0.49, first, second, change=True)
    assert not same_subject(0.9, first, {6}, change=True)


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("My favourite tea is Earl Grey.", "My favourite tea is Lapsang Souchong.", True),
        ("I use bash as my shell.", "I use fish as my shell", True),
        ("The library has the MIT license.", "The library has the Apache 2.0 license.", False),
        ("The library has the MIT license.", "The library has 140 stars.", False),
        ("Our dog is called Bella.", "Our dog eats twice a day.", False),
        ("Tea is green.", "Tea is black.", False),
        ("Our dog is called Bella.", "our dog is called Bella", False),
        ("a b a", "a b", False),
        ("", "", False),
    ],
)
def test_texts_that_differ_in_one_passage_have_the_same_words_around_it(first, second, differ):
    assert differ_in_one_passage(first, second) == differ
    assert differ_in_one_passage(second, first) == differ
