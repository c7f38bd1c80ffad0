"""The sentences of a text that answer."""

import re

import pytest

from mcp_server_qdrant.core.datatypes import Terms
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.passage import SHORT, WHOLE, Part, Words, passage

BM25 = Bm25Encoder()
ROOM = 200

FILLER = "The quick brown fox jumps over the lazy dog while it rains. "
ANSWER = "Restic prunes the repository on Sundays because the uplink is slow."
LONG = FILLER * 8 + ANSWER + " " + FILLER * 8
CHINESE = (
    "今天天气很好我们去公园散步。" * 20
    + "备份每天晚上两点自动运行。"
    + "明天可能会下雨所以带上雨伞。" * 20
)


def words_of(query: str, **weights: float) -> Words:
    """Every term of the query weighs 1; words given by name weigh that much."""
    idf = dict.fromkeys(BM25.tokens(query), 1.0)
    for word, weight in weights.items():
        idf |= dict.fromkeys(BM25.tokens(word), weight)
    return Words(Terms(query, idf, {}), BM25.reader)


def shown(text: str, query: str, room: int = ROOM, **weights: float) -> str:
    cut = passage([Part(text)], words_of(query, **weights), room).text
    assert len(cut) <= max(room, WHOLE) + 2  # the ellipses
    assert [run for run in cut.strip("…").split(" … ") if run not in " ".join(text.split())] == []
    return cut


def test_a_short_text_that_has_room_is_shown_whole_with_its_white_space_folded():
    text = "one\n\n two\tthree  " * 21

    assert shown(text, "nothing", WHOLE) == " ".join(text.split())
    assert len(" ".join(text.split())) == 293 < WHOLE


def test_one_sentence_is_shown_where_the_words_decide():
    assert shown(LONG, "pruning the repository") == f"…{ANSWER}…"


@pytest.mark.parametrize("place", [0, 1, 5, 9])
def test_the_sentence_is_found_wherever_it_stands(place):
    sentences = [FILLER.strip()] * 10
    sentences[place] = ANSWER
    cut = shown(" ".join(sentences), "restic uplink")

    assert cut == ("…" if place > 0 else "") + ANSWER + ("…" if place < 9 else "")


def test_several_sentences_are_shown_where_each_has_a_share():
    text = f"{FILLER * 4}Red paint dries. {FILLER * 4}Blue paint sticks. {FILLER * 4}"

    assert shown(text, "red blue") == "…Red paint dries. … Blue paint sticks.…"


def test_a_rare_word_outweighs_two_common_ones():
    text = f"{FILLER * 4}Red and blue paint. {FILLER * 4}Only vermilion here. {FILLER * 4}"

    assert shown(text, "red blue vermilion", 30, vermilion=3.0) == "…Only vermilion here.…"
    assert shown(text, "red blue vermilion", 30, vermilion=1.5) == "…Red and blue paint.…"


def test_a_repeated_word_counts_once():
    text = f"Paint paint paint paint. {FILLER * 8}Red paint dries. {FILLER * 4}"

    assert shown(text, "red paint", 30) == "…Red paint dries.…"


def test_a_word_counts_by_the_letters_that_it_shares():
    text = f"{FILLER * 4}Die Kaffeemaschine tropft. {FILLER * 4}"

    assert shown(text, "Kaffeemaschinen") == "…Die Kaffeemaschine tropft.…"
    assert words_of("abcdefgh").share("abcdefxx", BM25.tokens) == pytest.approx((4 / 6) ** 2)
    assert words_of("abcdefgh").share("abcdefgh", BM25.tokens) == 1


def test_a_text_without_any_of_the_words_shows_its_beginning():
    assert shown(LONG, "zeppelin", 400) == (FILLER * 3).strip() + "…"
    assert 3 * len(FILLER) <= SHORT


def test_the_answer_may_stand_in_another_part_that_was_found():
    parts = [Part(FILLER * 6, 0.6, 0), Part(FILLER * 6 + ANSWER, 0.5, 900)]

    assert passage(parts, words_of("restic uplink"), ROOM).text == f"…{ANSWER}"


def test_parts_that_overlap_are_one_text():
    text = f"{FILLER * 6}{ANSWER} {FILLER * 6}"
    middle = text.index("prunes")
    parts = [Part(text[middle - 20 :], 0.6, middle - 20), Part(text[: middle + 9], 0.5, 0)]

    assert passage(parts, words_of("restic uplink"), ROOM).text == f"…{ANSWER}…"


def test_of_sentences_alike_that_of_the_more_relevant_part_is_shown():
    parts = [
        Part(f"{FILLER * 4}Blue one.", 0.9, 500),
        Part(f"Blue two. {FILLER * 4}", 0.4, 0),
    ]

    assert passage(parts, words_of("blue"), 20).text == "…Blue one."


def test_parts_whose_place_is_not_known_are_not_joined():
    parts = [Part(FILLER * 6, 0.6), Part(ANSWER, 0.5)]

    assert "Restic" not in passage(parts, words_of("restic"), ROOM).text


def test_a_row_is_shown_with_the_head_of_its_table_and_code_with_what_leads_to_it():
    text = (
        f"{FILLER * 4}\n\n## Plans\n\nThese are the plans.\n\n| name | keep |\n|---|---|\n"
        f"| home | 7 |\n| work | 30 |\n\nPrune by hand:\n\n```sh\nrestic prune\n```\n\n{FILLER * 4}"
    )
    rows = "…## Plans These are the plans. | name | keep | … | work | 30 |…"

    assert passage([Part(text)], words_of("work"), ROOM).text == rows
    assert passage([Part(text)], words_of("restic"), ROOM).text == "…Prune by hand: restic prune…"


def test_rules_and_fences_alone_are_shown_as_they_are():
    found = passage([Part("```\n" + "---\n" * 200)], words_of("restic"), ROOM)

    assert found.text.startswith("``` ---")


def test_a_long_sentence_is_cut_where_it_has_most_of_the_query():
    text = ", ".join(["fox and dog"] * 60) + ", then restic, " + ", ".join(["cat and cow"] * 60)
    cut = shown(text, "restic dog")

    assert "restic" in cut
    assert "dog" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")


def test_words_are_not_cut():
    text = ", ".join(f"word{n}" for n in range(200)) + ", restic, tail " * 40
    found = set(re.findall(r"\w+", text))

    assert set(re.findall(r"\w+", shown(text, "restic"))) <= found


def test_a_word_deep_in_an_unspaced_text_is_shown():
    unspaced = CHINESE.replace("。", "")

    assert "备份每天晚上两点自动运行。" in shown(CHINESE, "备份")
    for tail in range(0, 120, 10):
        place = unspaced.index("备份") + 2 + tail
        assert "备份" in shown(f"{unspaced[:place]} {unspaced[place:]}", "备份")


def test_a_text_without_spaces_is_cut_to_length():
    assert shown("a" * 500, "b") == "a" * ROOM + "…"
    assert len(shown("x" * 10_000, "x" * 10_000)) <= ROOM + 2


def test_a_very_long_text_is_read_at_its_beginning_only():
    assert shown(FILLER * 2000 + ANSWER, "restic").startswith("The quick brown fox")


@pytest.mark.parametrize("text", ["", " ", "\n\n", "…", "?!.", "." * 500, "\n" * 500 + "x" * 400])
@pytest.mark.parametrize("room", [1, 2, 10, ROOM])
def test_odd_texts_do_no_harm(text, room):
    shown(text, "restic", room)
    shown(LONG, "restic", room)


def test_as_much_as_has_room_is_given_where_that_is_wanted():
    text = passage([Part(LONG)], words_of("restic"), 600, enough=1.0).text

    assert ANSWER in text
    assert 500 < len(text) <= 602


@pytest.mark.parametrize(
    ("query", "section"),
    [("restic uplink", "Backup > Prune"), ("roof", "House"), ("nothing", "Shed"), ("loose", None)],
)
def test_a_passage_is_of_the_section_of_its_best_sentence(query, section):
    first = FILLER * 6 + "The roof leaks. "
    place = first.index("The roof")
    loose = "A loose end. "
    second = f"{FILLER * 6}{ANSWER} {FILLER * 4}{loose}"
    parts = [
        Part(first, 0.5, 0, ((0, "Shed"), (place, "House"))),
        Part(
            second,
            0.5,
            len(first),
            ((0, "House"), (len(FILLER) * 5, "Backup > Prune"), (second.index(loose), "")),
        ),
    ]

    assert passage(parts, words_of(query), ROOM).section == section


def test_words_in_the_name_of_a_section_count_half_for_its_sentences():
    first, second = FILLER * 5 + "Seven paint pots. ", "Eight paint pots. " + FILLER * 5
    parts = [Part(first + second, 0.5, 0, ((0, "Shed"), (len(first), "House roof")))]

    assert passage(parts, words_of("roof paint"), 20).text == "…Eight paint pots.…"


@pytest.mark.parametrize("filler", ["", FILLER * 6])
def test_a_heading_that_is_shown_as_the_section_is_not_repeated(filler):
    text = f"## Backup\n\n### Prune\n\n{ANSWER} {filler}"
    prune = ((0, "Backup"), (text.index("###"), "Backup > Prune"))

    cut = passage([Part(text, 0.5, 0, prune)], words_of("restic"), ROOM)
    assert cut == (ANSWER + ("…" if filler else ""), "Backup > Prune")
    cut = passage([Part(text, 0.5, 0)], words_of("restic"), ROOM)
    assert cut == (f"## Backup ### Prune {ANSWER}" + ("…" if filler else ""), None)
