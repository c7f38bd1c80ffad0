"""Plain text, with underlined headings as in reStructuredText.

In a text without any, isolated questions ("Q: ...") and numbered lines ("2.1 Locks", "Example 4:
Queues") are headings.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from mcp_server_qdrant.core.sentences import SIGNS
from mcp_server_qdrant.ingest.formats.base import WORD, Contents, Loaded, Mark, choose_title

# After a blank line: text, underlined by one repeated character, maybe with the same line above.
UNDERLINED = re.compile(
    r"(?:\A|^[ \t]*\r?\n)(?P<heading>"
    rf"(?:(?P<above>([{SIGNS}])\3+)[ \t]*\r?\n)?(?P<name>[^\n]*)\r?\n"
    rf"(?P<below>([{SIGNS}])\6+)[ \t]*\r?$)",
    re.MULTILINE,
)
NUMBERED = re.compile(
    r"(?:\A|^[ \t]*\r?\n)(?P<heading>(?:Q[:.] [^\n]+(?:\n[^\n]+){0,2}"
    r"|(?:(?P<number>\d+(?:\.\d+)*)\.?|[^\W\d_]+ \d+[.:]) [^\n]{1,100}[^\s.,;:]))[ \t]*\r?\n"
    r"(?=[ \t]*\r?\n)",
    re.MULTILINE,
)


def read(path: str, text: str) -> Contents:
    """The text unchanged, with its headings as marks."""
    title, marks = choose_title(path, tuple(_underlined(text)) or _numbered(text))
    return Contents([Loaded(text, title if marks else PurePosixPath(path).name, marks=marks)])


def _underlined(text: str) -> Iterator[Mark]:
    """Underlined headings; the levels are the kinds of lines in order of first use."""
    kinds: list[tuple[str, bool]] = []
    for found in UNDERLINED.finditer(text):
        above, name, below = found["above"], found["name"].rstrip(), found["below"]
        indented = not above and name.startswith((" ", "\t", "| "))
        if (
            WORD.search(name)
            and len(below) >= len(name)
            and above in (None, below)
            and not indented
        ):
            kind = below[0], above is not None
            if kind not in kinds:
                kinds.append(kind)
            yield Mark(found.start("heading"), kinds.index(kind) + 1, name.strip())


def _numbered(text: str) -> tuple[Mark, ...]:
    """Questions and numbered lines, with the depth of the number as level; none if only one."""
    found = [
        (one.start("heading"), (one["number"] or "").count(".") + 1, one["heading"].split())
        for one in NUMBERED.finditer(text)
    ]
    many = len(found) > 1
    return tuple(Mark(start, level, " ".join(name)) for start, level, name in found if many)
