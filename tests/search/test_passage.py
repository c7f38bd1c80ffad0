"""The stretch of a text that answers."""

import re

import pytest

from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.passage import PASSAGE, passage

BM25 = Bm25Encoder()

FILLER = "The quick brown fox jumps over the lazy dog while it rains. "
ANSWER = "Restic prunes the repository on Sundays because the uplink is slow."
LONG = FILLER * 8 + ANSWER + " " + FILLER * 8
CHINESE = (
    "今天天气很好我们去公园散步。" * 20
    + "备份每天晚上两点自动运行。"
    + "明天可能会下雨所以带上雨伞。" * 20
)


def tokens(text: str) -> tuple[int, ...]:
    return BM25.encode_query(text).indices


def idf_of(query: str, **weights: float) -> dict[int, float]:
    """Every term of the query weighs 1; words given by name weigh that much."""
    idf = dict.fromkeys(tokens(query), 1.0)
    for word, weight in weights.items():
        idf |= dict.fromkeys(tokens(word), weight)
    return idf


def shown(text: str, query: str, length: int = PASSAGE, **weights: float) -> str:
    cut = passage(text, idf_of(query, **weights), tokens, length)
    assert len(cut) <= length + 2  # the ellipses
    assert cut.strip("…") in " ".join(text.split())
    return cut


def test_a_short_text_is_shown_whole_with_its_white_space_folded():
    assert shown("  one\n\n two\tthree ", "nothing") == "one two three"


def test_the_sentence_that_answers_is_shown_with_what_follows():
    cut = shown(LONG, "pruning the repository")

    assert cut.startswith("…" + ANSWER)
    assert cut.endswith("…")


@pytest.mark.parametrize("place", [0, 1, 5, 9])
def test_the_sentence_is_found_wherever_it_stands(place):
    sentences = [FILLER.strip()] * 10
    sentences[place] = ANSWER
    cut = shown(" ".join(sentences), "restic uplink")

    assert ANSWER in cut
    assert cut.startswith("…") == (place > 0)
    assert cut.endswith("…") == (place < 9)


def test_a_rare_word_outweighs_two_common_ones():
    text = f"{FILLER * 4}Red and blue paint. {FILLER * 4}Only vermilion here. {FILLER * 4}"

    assert "vermilion" in shown(text, "red blue vermilion", vermilion=3.0)
    assert "Red and blue" in shown(text, "red blue vermilion", vermilion=1.5)


def test_a_repeated_word_counts_once():
    text = f"Paint paint paint paint. {FILLER * 4}Red paint dries. {FILLER * 4}"

    assert "Red paint dries." in shown(text, "red paint")


def test_the_first_of_equal_sentences_is_shown():
    text = f"{FILLER * 4}Blue one. {FILLER * 4}Blue two. {FILLER * 4}"

    assert "Blue one." in shown(text, "blue")


def test_a_text_without_any_of_the_words_shows_its_beginning():
    cut = shown(LONG, "zeppelin")

    assert cut.startswith("The quick brown fox")
    assert cut.endswith("…")


def test_a_long_sentence_is_cut_around_the_first_word_of_the_query():
    text = ", ".join(["fox and dog"] * 60) + ", then restic, " + ", ".join(["cat and cow"] * 60)
    cut = shown(text, "restic")

    assert "restic" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")


def test_words_are_not_cut():
    text = ", ".join(f"word{n}" for n in range(200)) + ", restic, tail " * 40
    words = set(re.findall(r"\w+", text))

    assert set(re.findall(r"\w+", shown(text, "restic"))) <= words


@pytest.mark.parametrize("name", ["renew.sh", "0.18", "example.org"])
def test_a_stop_inside_a_word_ends_no_sentence(name):
    text = f"{FILLER * 4}Before {name} after it comes restic. {FILLER * 4}"

    assert f"Before {name} after it comes restic." in shown(text, "restic")


def test_chinese_sentences_are_told_apart_by_their_stops():
    assert "备份每天晚上两点自动运行。" in shown(CHINESE, "备份")


def test_chinese_without_stops_is_cut_to_length():
    assert shown(CHINESE.replace("。", ""), "天气")


def test_a_word_deep_in_an_unspaced_text_is_shown():
    assert "备份" in shown(CHINESE.replace("。", ""), "备份")


def test_a_word_deep_in_an_unspaced_text_is_shown_though_a_space_follows():
    unspaced = CHINESE.replace("。", "")

    for tail in range(0, 120, 10):
        place = unspaced.index("备份") + 2 + tail
        assert "备份" in shown(f"{unspaced[:place]} {unspaced[place:]}", "备份")


def test_a_text_without_spaces_is_cut_to_length():
    assert shown("a" * 500, "b") == "a" * PASSAGE + "…"
    assert len(shown("x" * 10_000, "x" * 10_000)) <= PASSAGE + 2


def test_lines_are_sentences_too():
    text = (
        "\n".join(f"- item number {n}" for n in range(60)) + "\n- restic here\n" + "- more\n" * 60
    )

    assert "- restic here" in shown(text, "restic")


def test_a_very_long_text_is_read_at_its_beginning_only():
    text = FILLER * 2000 + ANSWER

    assert shown(text, "restic").startswith("The quick brown fox")


@pytest.mark.parametrize("text", ["", " ", "\n\n", "…", "?!.", "." * 500, "\n" * 500 + "x" * 400])
def test_odd_texts_do_no_harm(text):
    shown(text, "restic")


@pytest.mark.parametrize("length", [1, 2, 10, 50])
def test_any_length_is_kept_to(length):
    shown(LONG, "restic", length)
