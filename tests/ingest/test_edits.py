"""What a text is after an edit, and which of its parts are split again."""

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.edits import Edited, apply_edit, check, choose_kept

PLAN = """# Plan

Intro.

## Costs

Ten.

### Crane

Four.

## Time

```
## Costs
```

Two weeks.
"""


@pytest.mark.parametrize(
    ("text", "edit", "new"),
    [
        ("a", {"append": "b"}, "a\nb"),
        ("a\n", {"append": "b"}, "a\nb"),
        ("a", {"append": " b"}, "a b"),
        ("a", {"prepend": "b"}, "b\na"),
        ("a", {"prepend": "b\n\n"}, "b\n\na"),
        ("a b c", {"replace": "b", "with": "x"}, "a x c"),
        ("a b c", {"replace": " b", "with": ""}, "a c"),
        ("one\n  two three", {"replace": "one two", "with": "1 2"}, "1 2 three"),
        ("b  c, b c", {"replace": "b c", "with": "x"}, "b  c, x"),
        ("# A\n\nold\n\n# B\n", {"section": "A", "with": "new"}, "# A\n\nnew\n\n# B\n"),
        ("# A\nold\n# B\n", {"section": "a", "with": "new\n"}, "# A\nnew\n# B\n"),
        ("# A\n# B\n", {"section": "# A", "with": "new"}, "# A\nnew\n# B\n"),
        ("# A\n\n# B\n", {"section": "A", "with": "new"}, "# A\nnew\n\n# B\n"),
        ("# A", {"section": "A", "with": "new"}, "# A\nnew"),
        ("# A\nold", {"section": "A", "with": ""}, "# A\n"),
        ("# A\nold", {"section": "A", "with": "# A\n\nnew"}, "# A\nnew"),
        ("A\n===\n\nold\n", {"section": "A", "with": "new"}, "A\n===\n\nnew\n"),
        ("---\na: b\n---\n# A\nx", {"section": "A", "with": "y"}, "---\na: b\n---\n# A\ny"),
        (PLAN, {"section": "Time", "with": "Now."}, f"{PLAN[: PLAN.index('```')]}Now.\n"),
        ("# A\n## C\n# B\n## C\n2", {"section": "B > C", "with": "3"}, "# A\n## C\n# B\n## C\n3"),
    ],
)
def test_an_edit_changes_what_it_says_and_nothing_else(text, edit, new):
    done = apply_edit(text, check(edit))

    assert done.text == new
    assert text.startswith(new[: done.start])
    assert text.endswith(new[done.end :])


def test_a_section_ends_at_the_next_heading_as_high_and_has_those_below_it():
    deep = apply_edit(PLAN, {"section": "Plan > Costs > Crane", "with": "Five."}).text
    wide = apply_edit(PLAN, {"section": "Costs", "with": "Nine."}).text

    assert deep == PLAN.replace("Four.", "Five.")
    assert wide == PLAN.replace("Ten.\n\n### Crane\n\nFour.", "Nine.")


@pytest.mark.parametrize(
    ("text", "edit", "sentence"),
    [
        ("a b a b a b a", {"replace": "a", "with": "x"}, "occurs 4 times: line 1 ("),
        ("one\na\ntwo\na", {"replace": "a", "with": "x"}, "line 2 ('one a two a'); line 4"),
        ("the boat is red", {"replace": "the boat was red", "with": "x"}, "nearest is in line 1"),
        ("the boat is red", {"replace": "zzz qqq", "with": "x"}, "copy a passage exactly."),
        ("# A\n## B\n", {"section": "C", "with": "x"}, "no section C: there are A, 'A > B'."),
        ("no", {"section": "C", "with": "x"}, "no section C: it has no headings."),
        ("# A\n## C\n# B\n## C\n", {"section": "C", "with": "x"}, "2 sections are called C"),
        ("a", {"replace": "a", "with": " "}, "leaves no text"),
        ("a", {"replace": "a", "with": "a"}, "says that already"),
    ],
)
def test_what_is_not_clear_is_refused_with_what_there_is(text, edit, sentence):
    with pytest.raises(RequestError) as error:
        apply_edit(text, check(edit))
    assert sentence in str(error.value)
    assert "othing was changed" in str(error.value)


@pytest.mark.parametrize(
    "edit",
    [
        *({}, {"text": "x"}, {"append": "x", "prepend": "y"}, {"replace": "x"}, {"with": "x"}),
        *({"append": 1}, {"append": " "}, {"replace": "", "with": "x"}, {"section": "A"}),
    ],
)
def test_an_edit_is_exactly_one_of_four(edit):
    with pytest.raises(RequestError, match="edit is one of"):
        check(edit)


@pytest.mark.parametrize(
    ("text", "edit", "lines"),
    [
        ("a\nb", {"append": "c\nd\n"}, (3, 4)),
        ("a\nb", {"prepend": "c"}, (1, 1)),
        ("a\nb\nc", {"replace": "b", "with": "x\ny"}, (2, 3)),
        ("a\nb\nc", {"replace": "b\n", "with": ""}, (2, 2)),
    ],
)
def test_the_lines_that_changed_are_counted_from_one(text, edit, lines):
    assert apply_edit(text, edit).lines == lines


SPANS = [(0, 100), (90, 200), (190, 300), (300, 400)]


@pytest.mark.parametrize(
    ("start", "old", "new", "kept"),
    [
        (400, 0, 50, (3, 0, (300, 450))),
        (0, 0, 50, (0, 3, (0, 150))),
        (150, 10, 10, (1, 2, (90, 200))),
        (195, 0, 5, (1, 1, (90, 305))),
        (300, 100, 1, (2, 0, (190, 301))),  # hardly anything is left: it goes with the part before
    ],
)
def test_parts_apart_from_an_edit_keep_their_bounds(start, old, new, kept):
    done = Edited("x" * (400 + new - old), start, start + new)

    assert choose_kept(SPANS, done, new - old) == kept
    small = [(0, 100), (100, 120), (120, 220)]  # a small part beside an edit is split again
    assert choose_kept(small, Edited("x" * 221, 150, 151), 1) == (1, 0, (100, 221))
