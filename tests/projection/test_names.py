"""Names of groups of texts: phrases that tell a group from every other, as they stand there."""

import numpy as np
import pytest

from mcp_server_qdrant.projection.names import Phrases, name_cluster

WINGS = [f"The lift of a boundary layer, study {n}" for n in range(9)]
PARSERS = [f"The grammar is parsed, report {n}" for n in range(9)]


@pytest.fixture(autouse=True)
def sklearn() -> None:
    """Here and not above: to import it takes a second in each process that collects tests."""
    pytest.importorskip("sklearn")


def names(groups: list[list[str]]) -> list[list[str]]:
    """The names of groups of texts."""
    numbers = [number for number, group in enumerate(groups) for _ in group]
    return Phrases([text for group in groups for text in group]).names(np.array(numbers))


def test_each_group_is_named_by_the_phrases_that_it_alone_has():
    wings, parsers = names([WINGS, PARSERS])

    assert wings[0] == "boundary layer"
    assert "grammar" in parsers
    assert not set(wings) & set(parsers)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(
            ["the flow in a layer of the boundary"] * 5,
            {"flow", "layer", "boundary"},
            id="no phrase goes across a stop word",
        ),
        pytest.param(
            [f"word {letter * 5}" for letter in "abcdefghijklmnopqrst"],
            {"word"},
            id="what few texts have is no name",
        ),
        pytest.param(
            [f"Country sourdough\nflour and {letter * 4}" for letter in "abcdefghijk"],
            {"flour"},
            id="a title that the parts of a document repeat counts once",
        ),
        pytest.param(
            ["Icarus had wings", "the wings", "Wings of Icarus", "ICARUS"],
            {"wings", "Icarus"},
            id="as it is written most often",
        ),
    ],
)
def test_a_group_has_the_names_that_stand_in_its_texts(texts, expected):
    assert set(names([texts, PARSERS])[0]) == expected


def test_what_another_group_has_half_as_often_tells_nothing():
    both = [f"{text} grammar" for text in WINGS[:5]] + WINGS[5:]

    assert "grammar" not in names([PARSERS, both])[0]
    assert names([WINGS, WINGS]) == [[], []]


def test_a_title_that_the_parts_of_another_group_repeat_stands_in_all_of_them():
    parts = [f"The compiler book\nchapter on {letter * 4}" for letter in "abcdefghijk"]
    few = [f"A compiler of {letter * 5}" for letter in "abc"] + WINGS

    assert "compiler" not in names([few, parts])[0]


def test_words_of_titles_come_before_those_of_the_text_alone():
    texts = [f"Wing number {letter * 3}\nis shown here" for letter in "abcdefghij"]

    assert names([texts, PARSERS])[0][0].split()[0] == "Wing"


def test_stop_words_are_those_of_each_texts_language():
    german = ["Der Speicher und die Festplatte sind voll, weil niemand aufgeräumt hat"] * 5
    found = {word for one in names([german, WINGS])[0] for word in one.lower().split()}

    assert {"speicher", "festplatte"} <= found
    assert not {"der", "und", "die", "sind", "weil"} & found


def test_an_everyday_word_is_no_name_but_a_part_of_one():
    talk = ["Thanks, Ana, the home network works", "Thanks for the home network, Ben"] * 3
    german = ["Der Speicher wurde voll", "Es wurde ein Speicher der Platte"] * 3

    found = names([talk, WINGS])[0]
    assert any("home network" in one for one in found)
    assert not {"thanks", "home"} & {one.lower() for one in found}
    assert "wurde" not in names([german, WINGS])[0]


def test_a_few_texts_of_another_language_have_their_own_stop_words_too():
    french = ["Vous avez les clés de la maison et nous avons celles du jardin"] * 6
    many = [f"{text}, {letter * 4}" for text in WINGS for letter in "abcdefghijklmnopqrstuvwxyz"]
    found = {word for one in names([french, many])[0] for word in one.lower().split()}

    assert {"maison", "jardin"} <= found
    assert not {"vous", "les", "nous", "avez"} & found


def test_what_a_cluster_of_another_language_has_in_common_is_the_language():
    topics = ("Speicher", "Garten", "Wetter", "Bahnhof", "Kuchen", "Fahrrad", "Schule", "Urlaub")
    german = [f"Wir haben gestern noch lange über {one} gesprochen" for one in topics]

    spanish = [f"Ayer hablamos mucho tiempo con los vecinos sobre la casa {n}" for n in "abcdefgh"]

    assert name_cluster(names([german, WINGS, PARSERS])[0]) == "German texts"
    both = name_cluster(names([german + spanish, WINGS * 2, PARSERS])[0])
    assert set(both.split(", ")) == {"German texts", "Spanish texts"}
    beside = name_cluster(names([german[:4] + spanish[:4], german[4:], WINGS, PARSERS])[0])
    assert set(beside.split(", ")) == {"German texts", "Spanish texts"}
    mixed = names([german[:3] + WINGS, german[3:] + PARSERS])
    assert not [one for phrases in mixed for one in phrases if one.endswith("texts")]


def test_texts_without_spaces_have_phrases_without_particles():
    (found, _) = names([["北京大学的学生", "他们在北京大学", "北京大学是大学"], PARSERS])

    assert found[0] == "北京大学"
    assert not any("的" in one or "他们" in one for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "notes.md apple",
        "speaker: apple",
        "https://example.com/x apple",
        "OBJECTIVE Apple",
        "log-26-D1-7 apple",
        "def apple(self) -> str",
    ],
)
def test_fields_suffixes_and_addresses_are_no_words_of_a_text(text):
    found = " ".join(names([[text] * 5, WINGS])[0]).lower()

    assert "apple" in found
    assert not {"md", "speaker", "example", "objective", "log", "self"} & {*found.split()}


@pytest.mark.parametrize(
    ("phrases", "name"),
    [
        (["boundary layer", "flow"], "boundary layer"),
        (["flow", "boundary layer", "lift"], "flow, boundary layer"),
        (["北京大学", "学生"], "北京大学"),
        ([], ""),
    ],
)
def test_a_group_is_called_by_its_best_phrase_or_two_words(phrases, name):
    assert name_cluster(phrases) == name


def test_no_texts_and_one_group_have_names_too():
    assert names([[], PARSERS])[0] == []
    assert names([["zebra crossing"] * 3]) == [["zebra crossing"]]
    assert names([["1", "2"], ["3"]]) == [[], []]
