"""The sections of small documents: where their parts begin, and what each part is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.encoders.chunk import split
from mcp_server_qdrant.ingest.formats.base import Mark
from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.parts import breaks, sections, sections_of

LIMIT = 54  # tokens, of three bytes each where there is no tokenizer
WORDS = "The key hangs behind the door of the shed, on a nail. "  # 54 bytes, 18 tokens


def parts(path: str, text: str) -> list[tuple[str, str | None, list[str]]]:
    """The first line of each part, the section it starts in, and those that start within it."""
    (one,) = load(path, text.encode()).texts
    places = breaks(one.text, one.marks)
    chunks = split(one.text, LIMIT, None, 0, places)
    return [
        (one.text[start:end].strip().splitlines()[0], section, [name for _, name in inside])
        for (start, end), (section, inside) in zip(
            chunks, sections_of(one.text, one.marks, chunks), strict=True
        )
    ]


def code(name: str, indent: str = "") -> str:
    return f"{indent}def {name}():\n{indent}    '''{WORDS.strip()}'''\n{indent}    return 1\n\n"


DOCUMENTS = {
    "long sections are parts, each named after itself": (
        "n/shed.md",
        f"# Shed\n\n## Key\n\n{WORDS * 2}\n\n### Spare\n\n{WORDS * 2}\n\n## Door\n\n{WORDS * 2}\n",
        [("# Shed", None, ["Key"]), ("### Spare", "Key > Spare", []), ("## Door", "Door", [])],
    ),
    "short sections share a part, which knows them all": (
        "n/shed.md",
        f"# Shed\n\n## Key\n\n{WORDS}\n\n## Door\n\nOak.\n\n## Roof\n\nTin.\n\n"
        f"## Wall\n\n{WORDS}\n",
        [("# Shed", None, ["Key", "Door", "Roof"]), ("## Wall", "Wall", [])],
    ),
    "a part within a long section is named after it": (
        "n/shed.md",
        f"# Shed\n\n## Key\n\n{WORDS * 5}\n\n## Door\n\n{WORDS}\n",
        [
            ("# Shed", None, ["Key"]),
            ((WORDS * 2).strip(), "Key", []),
            (WORDS.strip(), "Key", []),
            ("## Door", "Door", []),
        ],
    ),
    "a text that fits is one part": (
        "n/shed.md",
        f"# Shed\n\n## Key\n\n{WORDS}\n\n## Door\n\nOak.\n",
        [("# Shed", None, ["Key", "Door"])],
    ),
    "a heading stays with the one below it": (
        "n/shed.md",
        f"# Shed\n\n{WORDS * 2}\n\n## Key\n\n### Spare\n\n{WORDS * 2}\n",
        [("# Shed", None, []), ("## Key", "Key", ["Key > Spare"])],
    ),
    "versions side by side are none another's": (
        "n/lib/CHANGELOG.md",
        f"# Version 2.5.0\n\n{WORDS * 2}\n\n# Version 2.3.1\n\n## Fixes\n\n{WORDS * 2}\n",
        [
            ("# Version 2.5.0", "Version 2.5.0", []),
            ("# Version 2.3.1", "Version 2.3.1", ["Version 2.3.1 > Fixes"]),
        ],
    ),
    "a patch below the release before it is beside it": (
        "n/CHANGELOG.md",
        f"## [2.5.0](u)\n\n{WORDS * 2}\n\n### [2.4.9](u)\n\n{WORDS * 2}\n\n"
        f"### Fixes\n\n{WORDS * 2}\n",
        [
            ("## [2.5.0](u)", "2.5.0", []),
            ("### [2.4.9](u)", "2.4.9", []),
            ("### Fixes", "2.4.9 > Fixes", []),
        ],
    ),
    "a patch belongs to its release": (
        "n/CHANGELOG.md",
        f"## 2.4\n\n{WORDS * 2}\n\n### 2.4.9\n\n{WORDS * 2}\n",
        [("## 2.4", "2.4", []), ("### 2.4.9", "2.4 > 2.4.9", [])],
    ),
    "methods are named with their class, and what follows it is not": (
        "n/shed.py",
        f"class Shed:\n{code('open', '    ')}{code('close', '    ')}{code('lock')}x = '{WORDS}'\n",
        [
            ("class Shed:", "Shed", ["Shed > open"]),
            ("def close():", "Shed > close", []),
            ("def lock():", "lock", [""]),
        ],
    ),
    "functions of other languages end at their brace": (
        "n/shed.go",
        f"func Open() {{\n\t// {WORDS * 2}\n}}\n\n"
        f"func Close() {{\n\t// {WORDS}\n}}\n\nvar x = 1 // {WORDS}\n",
        [("func Open() {", "Open", []), ("func Close() {", "Close", [""])],
    ),
    "plain text has the sections that are underlined": (
        "n/shed.rst",
        f"Shed\n====\n\n{WORDS * 2}\n\nKey\n---\n\n{WORDS * 2}\n",
        [("Shed", None, []), ("Key", "Key", [])],
    ),
    "a page has its headings": (
        "n/shed.html",
        f"<title>Shed</title><h1>Shed</h1><p>{WORDS * 2}<h2>Key</h2><p>{WORDS * 2}",
        [("# Shed", None, []), ("## Key", "Key", [])],
    ),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_parts_begin_at_headings_and_definitions_and_know_their_sections(case):
    path, text, found = DOCUMENTS[case]

    assert parts(path, text) == found


def test_text_flows_on_across_pages_but_a_part_knows_where_they_begin():
    text = WORDS * 3
    marks = (Mark(0, 0, "page 1"), Mark(60, 0, "page 2"))

    assert breaks(text, marks) == []
    assert list(sections_of(text, marks, [(0, len(text))])) == [("page 1", ((60, "page 2"),))]


def test_a_section_of_white_space_is_none():
    text = "def a(): 1\n\n\ndef b(): 2\n"
    marks = (Mark(0, 1, "a"), Mark(11, 1, ""), Mark(13, 1, "b"), Mark(24, 1, ""))

    assert list(sections_of(text, marks, [(0, len(text))])) == [("a", ((13, "b"),))]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 6))), st.lists(st.integers(0, 60)))
def test_the_section_at_a_place_ends_with_the_last_that_began_by_then(given, places):
    marks = [Mark(start, level, f"m{n}") for n, (start, level) in enumerate(sorted(given))]
    text = "x" * 61
    chunks = [(place, 61) for place in sorted(places)]

    for (place, _), (section, _) in zip(chunks, sections_of(text, marks, chunks), strict=True):
        begun = [mark for mark in marks if mark.start <= place]
        assert (section or "").split(" > ")[-1] == (begun[-1].name if begun else "")


def test_a_long_path_loses_its_middle():
    marks = [Mark(level, level, str(level) * 300) for level in range(1, 6)]

    assert sections(marks)[-1] == (5, f"{'1' * 300} > … > {'4' * 300} > {'5' * 300}")
