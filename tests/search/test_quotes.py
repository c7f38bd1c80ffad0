"""What is shown of a part: one contiguous quote, and its section."""

import pytest

from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search.present import BEGINNING, dedented, quote
from mcp_server_qdrant.search.words.terms import Terms, Words

BM25 = Bm25Encoder()
ROOM = 200

FILLER = "The quick brown fox jumps over the lazy dog while it rains. "
ANSWER = "Restic prunes the repository on Sundays because the uplink is slow."
LONG = FILLER * 8 + ANSWER + " " + FILLER * 8


def words_of(query: str, **weights: float) -> Words:
    """Every term of the query weighs 1; words given by name weigh that much."""
    idf = dict.fromkeys(BM25.tokens(query), 1.0)
    for word, weight in weights.items():
        idf |= dict.fromkeys(BM25.tokens(word), weight)
    return Words(Terms(query, idf, {}), BM25.term_reader)


def shown(text: str, query: str, room: int = ROOM, **weights: float) -> str:
    cut = quote(text, (), words_of(query, **weights), room)[0]
    assert len(cut) <= room
    assert "".join(cut.split()) in "".join(text.split()), "one stretch of the text"
    return cut


def test_a_part_that_has_room_is_quoted_whole_line_by_line():
    assert shown("one two \nthree\n\n\n\n\nfour  five\n", "x") == "one two\nthree\n\n\nfour  five"
    assert shown(f"  {FILLER.strip()}\n  {ANSWER}", "x") == f"{FILLER.strip()}\n{ANSWER}"


@pytest.mark.parametrize("place", [0, 1, 5, 9])
def test_the_sentences_around_the_match_are_quoted_wherever_it_stands(place):
    sentences = [FILLER.strip()] * 10
    sentences[place] = ANSWER

    assert ANSWER in shown(" ".join(sentences), "restic uplink")


def test_the_sentence_after_a_match_belongs_to_it():
    text = f"{FILLER * 3}Restic has a switch. It defaults to eight. {FILLER * 3}"

    assert shown(text, "restic switch", 100).startswith(
        "Restic has a switch. It defaults to eight."
    )


def test_a_rare_word_outweighs_two_common_ones():
    text = f"{FILLER * 4}Red and blue paint. {FILLER * 4}Only vermilion here. {FILLER * 4}"

    assert shown(text, "red blue vermilion", 30, vermilion=3.0) == "Only vermilion here."
    assert shown(text, "red blue vermilion", 30, vermilion=1.5) == "Red and blue paint."


def test_a_word_counts_by_the_letters_that_it_shares():
    text = f"{FILLER * 4}Die Kaffeemaschine tropft. {FILLER * 4}"

    assert shown(text, "Kaffeemaschinen", 60) == "Die Kaffeemaschine tropft."
    assert words_of("abcdefgh").share("abcdefxx", BM25.tokens) == pytest.approx((4 / 6) ** 2)
    assert words_of("abcdefgh").share("abcdefgh", BM25.tokens) == 1


def test_a_text_without_any_of_the_words_shows_its_beginning():
    assert shown(LONG, "zeppelin", 400) == (FILLER * 3).strip()
    assert 3 * len(FILLER) <= BEGINNING


RETURN = "returnitem = heap[0]  # the smallest item of all, which is what a caller waits for"
PYTHON = f"""
def heappop(heap):
    \'\'\'Pop the smallest. Maintains the invariant of the heap.\'\'\'
    lastelt = heap.pop()    # raises appropriate IndexError if heap is empty. Callers catch it
    if heap:
        {RETURN}

        heap[0] = lastelt
        _siftup(heap, 0)
        return returnitem
    return lastelt
"""
YAML = """
services:
  web:
    description: the public site of the harbour office with all of its berths
    owner: Tom. Ask him before noon
    command: >
      serve --port 80
  mail:
    image: postfix
"""
SHELL = """
sudo systemctl restart nginx postgresql redis memcached rabbitmq
reboot
FROM debian with everything that a harbour office needs on its machines
RUN apt-get install build-essential
"""
TABLE = """
berth   owner            paid
12      Tom Miller       until the end of October, in cash at the office
13      Ana. Ask twice   never
"""
POEM = """
Shall I compare thee to a summer's day, when all the boats are out?
    Thou art more lovely and more temperate.
Rough winds do shake the darling buds of May
"""


@pytest.mark.parametrize("room", [120, 200, 350, 700])
@pytest.mark.parametrize("margin", ["", "    ", "\t"])
@pytest.mark.parametrize("text", [PYTHON, YAML, SHELL, TABLE, POEM])
def test_a_line_of_a_quote_is_a_line_of_the_text_whatever_it_answers(text, margin, room):
    lines = [f"{margin}{line}" if line else "" for line in text.splitlines()]
    stored = f"{FILLER * 3}\n\n" + "\n".join([*lines, "", FILLER])
    spread = sorted({word for word in text.split() if word.isalnum()})

    for query in spread:
        quoted = shown(stored, query, room).splitlines()
        own = [one for one in quoted if one and one.strip() not in stored.replace(text, "")]
        for one in own:
            fitting = [line for line in lines if line.endswith(one.strip())]
            assert fitting, (query, quoted)
    assert dedented("\n".join(lines)) == text.strip("\n")


def test_a_quote_from_within_a_block_of_code_keeps_its_lines():
    for before, after in [("```python", "```"), ("<pre>", "</pre>"), ("Code::\n", "")]:
        stored = f"{FILLER * 4}\n{before}{PYTHON}{after}\n{FILLER * 4}"

        assert shown(stored, "smallest waits", 160).splitlines() == [
            *("if heap:", f"    {RETURN}", "", "    heap[0] = lastelt", "    _siftup(heap, 0)"),
        ]


def test_rules_and_fences_alone_are_shown_as_they_are():
    assert shown("```\n" + "---\n" * 200, "restic").startswith("```\n---")


def test_a_long_sentence_is_cut_between_words_where_it_has_most_of_the_query():
    text = ", ".join(["fox and dog"] * 60) + ", then restic, " + ", ".join(["cat and cow"] * 60)
    cut = shown(text, "restic dog")

    assert "restic" in cut
    assert set(cut.replace(",", "").split()) <= set(text.replace(",", "").split())


def test_a_text_without_spaces_is_cut_to_length():
    assert shown("a" * 500, "b") == "a" * ROOM
    assert len(shown("x" * 10_000, "x" * 10_000)) <= ROOM


def test_a_very_long_text_is_read_at_its_beginning_only():
    assert shown(FILLER * 2000 + ANSWER, "restic").startswith("The quick brown fox")


@pytest.mark.parametrize("text", ["", " ", "\n\n", "…", "?!.", "." * 500, "\n" * 500 + "x" * 400])
@pytest.mark.parametrize("room", [1, 2, 10, ROOM])
def test_odd_texts_do_no_harm(text, room):
    shown(text, "restic", room)
    shown(LONG, "restic", room)


def test_the_section_is_that_of_the_quote():
    text = f"{FILLER * 6}{ANSWER} {FILLER * 6}The roof leaks. "
    sections = (
        (0, "Shed"),
        (text.index("Restic"), "Backup > Prune {: #prune }"),
        (text.index("The roof"), ""),
    )

    def section(query: str, room: int) -> str | None:
        return quote(text, sections, words_of(query), room)[1]

    assert section("restic uplink", 80) == "Backup > Prune"
    assert section("fox", 60) == "Shed"
    assert section("roof", 20) is None


@pytest.mark.parametrize("filler", ["", FILLER * 6])
def test_a_heading_that_is_shown_as_the_section_is_not_repeated(filler):
    text = f"## Backup\n\n### Prune\n\n{ANSWER} {filler}"
    prune = ((0, "Backup"), (text.index("###"), "Backup > Prune"))

    shown, section = quote(text, prune, words_of("restic"), ROOM)
    assert section == "Backup > Prune"
    assert shown.startswith(ANSWER)
    assert quote(text, (), words_of("restic"), ROOM)[0].startswith("## Backup")


def test_an_underlined_heading_is_not_repeated_either():
    text = f"Pruning\n-------\n\n{ANSWER}"

    found = quote(text, ((0, "Backup > Pruning"),), words_of("restic"), ROOM)
    assert found == (ANSWER, "Backup > Pruning")


def test_a_quote_begins_at_the_section_that_answers():
    text = "They hang on a nail.\n\n## Doors\n\nThe green door opens at six."
    sections = [(0, "Keys"), (22, "Doors")]

    doors = quote(text, sections, words_of("green door"), 500)
    keys = quote(text, sections, words_of("hang on a nail"), 500)

    assert doors == ("The green door opens at six.", "Doors")
    assert keys == ("They hang on a nail.\n\n## Doors\n\nThe green door opens at six.", "Keys")
