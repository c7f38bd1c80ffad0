"""Whether two short texts are about the same subject."""

import pytest

from mcp_server_qdrant.core.subjects import Statement, same_subject


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
    assert Statement(text, frozenset()).changed


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
    assert not Statement(text, frozenset()).changed


def said(text: str) -> Statement:
    """A statement whose terms are its words, without small ones."""
    small = {"the", "of", "is", "at", "does", "not", "any", "more", "no", "longer", "to"}
    return Statement(text, frozenset(map(hash, {*text.lower().strip(".").split()} - small)))


def test_a_change_needs_a_lower_cosine_than_a_fact():
    old, moved = said("Alpha beta gamma."), said("Alpha moved to delta.")
    fact, half, other = said("Alpha is epsilon zeta."), said("Alpha beta."), said("Moved to delta.")
    asked = said("alpha").terms

    assert same_subject(old, moved, 0.5)
    assert not same_subject(old, fact, 0.5)
    assert same_subject(old, fact, 0.6)
    assert same_subject(old, half, 0.5)
    assert not same_subject(old, moved, 0.49)
    assert not same_subject(old, other, 0.9)
    assert not same_subject(old, moved, 0.6, asked)
    assert same_subject(old, moved, 0.65, asked)
    assert not same_subject(old, fact, 0.9, asked)
    assert same_subject(old, said("Alpha beta moved."), 0.5, asked)
    assert same_subject(old, moved, 0.5, asked, fits=True)
    assert same_subject(old, said("Alpha beta moved."), 0.1, said("alpha beta").terms)
    assert not same_subject(old, moved, 0.1, said("alpha beta").terms)


@pytest.mark.parametrize(
    ("old", "new", "corrected"),
    [
        ("The key of the boat is at home.", "The key of the boat does not fit any more.", False),
        ("The key of the boat is at home.", "The key of the boat is no longer at home.", True),
        ("Tom eats fish.", "Tom no longer eats fish.", True),
    ],
)
def test_what_ends_corrects_only_a_text_that_says_it(old, new, corrected):
    asked = said(new).terms & said("key of the boat tom eats fish").terms

    assert same_subject(said(old), said(new), 0.7, asked) == corrected


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("My favourite tea is Earl Grey.", "My favourite tea is Lapsang Souchong.", True),
        ("I use bash as my shell.", "I use fish as my shell", True),
        ("The library has the MIT license.", "The library has the Apache 2.0 license.", False),
        ("The library has the MIT license.", "The library has 140 stars.", False),
        ("Our dog is called Bella.", "Our dog eats twice a day.", False),
        ("The tests use SQLite in memory.", "The tests use Postgres in Docker.", True),
        ("The key of the van is in box one.", "The key of the boat is in box two.", False),
        ("Tea is green.", "Tea is black.", False),
        ("Our dog is called Bella.", "our dog is called Bella", False),
        ("a b a", "a b", False),
        ("", "", False),
    ],
)
def test_texts_that_differ_in_one_passage_have_the_same_words_around_it(first, second, differ):
    assert same_subject(said(first), said(second), 0.0) == differ
    assert same_subject(said(second), said(first), 0.0) == differ
