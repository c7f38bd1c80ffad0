"""Patterns as in .gitignore: pathspec parses them, and RE2 matches them in linear time.

pathspec matches whole paths and skips the folders between. Here each entry is matched separately,
as git does: the walk does not descend into an ignored folder.
"""

import re
from collections.abc import Iterable
from typing import Any

import re2
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

LONGEST = 4_096  # characters of a line, like the longest path
_MARK = "(?P<ps_d>/)"  # follows a matched folder's name in pathspec's expressions
# Syntax that git knows and pathspec does not: a tab at the end, more stars, any folder below, an
# escaped slash, character classes.
_AS_PATHSPEC = [
    (re.compile(pattern), other)
    for pattern, other in (
        (r"\r\Z", ""),
        (r"\t(?= *\Z)", "[\t]"),
        (r"\*{3,}", "**"),
        (r"(?<=/)\*\*/ *\Z", "**/*/"),
        (r"(?<!\\)\\/(?= *\S)", "/"),
        (r"\[:alpha:\]", "a-zA-Z"),
        (r"\[:digit:\]", "0-9"),
        (r"\[:alnum:\]", "a-zA-Z0-9"),
        (r"\[:lower:\]", "a-z"),
        (r"\[:upper:\]", "A-Z"),
        (r"\[:space:\]", " "),
    )
]
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1  # git matches bytes
_OPTIONS.log_errors = False


class Patterns:
    """The rules of a file such as .gitignore; the last one that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = (_rule(line) for line in lines if len(line) <= LONGEST)
        self._rules = [rule for rule in rules if rule][::-1]

    def match(self, path: str) -> bool | None:
        """True if a line matches the path, False if one with `!` does, None if none does.

        A folder's path ends with a slash. A match of a folder does not cover its contents.
        """
        whole, own = path.encode(), path.rstrip("/").encode()
        found = (meant for test, meant, ends in self._rules if test(whole if ends else own))
        return next(found, None)


def _rule(line: str) -> tuple[Any, bool, bool] | None:
    """(test of a line, its verdict, whether the test needs a folder's slash); None: no rule."""
    for pattern, other in _AS_PATHSPEC:
        line = pattern.sub(other, line)
    try:
        found, meant = GitIgnoreSpecPattern.pattern_to_regex(line)
        if found is None or meant is None or not line.strip("!/ "):
            return None
        marked = _MARK in found
        # In git a negated class never matches a slash.
        whole = f"(?s:{found.replace('[^', '[^/')}){'$' if marked else ''}"
        return re2.compile(whole.encode(), _OPTIONS).search, meant, marked
    except (ValueError, re2.error):
        return None  # git ignores invalid lines too
