"""Patterns as in .gitignore, whose cost for a path no pattern can drive up."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from mcp_server_qdrant.core.errors import RequestError

STARS = 3  # with more of them a regular expression may take hours for one path
STAR = re.compile(r"\*+")
LONGEST = 4_096  # characters, as a path may have
QUOTED = re.compile(r"\\(.)|\[\^")

Verdict = Callable[[str], bool | None]


class Patterns:
    """The lines of a file such as .gitignore, of which the last one that matches counts."""

    def __init__(self, lines: Iterable[str], *, forgiving: bool = False) -> None:
        """Raises RequestError where a line is no pattern; a forgiving reader drops it."""
        short = (line for line in lines if len(line) <= LONGEST)
        self._verdicts = [*_verdicts(short, forgiving=forgiving)][::-1]

    def match(self, path: str) -> bool | None:
        """True where a line matches the path, False where one with `!` does, None where none does.

        The path of a folder ends with a slash.
        """
        verdicts = (verdict(path) for verdict in self._verdicts)
        return next((verdict for verdict in verdicts if verdict is not None), None)


def _verdicts(lines: Iterable[str], *, forgiving: bool) -> Iterator[Verdict]:
    """One for each line of many stars, and one for all others in a row."""
    for many, some in groupby(lines, lambda line: len(STAR.findall(line)) > STARS):
        if many:
            yield from map(_by_folder, some)
        else:
            yield _by_pathspec(list(some), forgiving=forgiving)


def _by_pathspec(lines: Sequence[str], *, forgiving: bool) -> Verdict:
    from pathspec import GitIgnoreSpec  # a server that reads no files does without its memory

    def compiled(lines: Sequence[str]) -> GitIgnoreSpec | None:
        try:
            return GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error) as error:
            if forgiving:
                return None
            raise RequestError(f"{error}: patterns are those of .gitignore.") from error

    spec = compiled(lines) or compiled([line for line in lines if compiled([line])])
    return lambda path: spec.check_file(path).include if spec else None


def _by_folder(line: str) -> Verdict:
    """The verdict of one line, found folder by folder, so that no choice is made twice."""
    text = line.rstrip()
    if text.endswith("\\"):
        text += " "
    meant = not text.startswith("!")
    text = text.removeprefix("!")
    names = text.strip("/").split("/")
    if "/" not in text[:-1]:
        names = ["**", *names]
    if names[-1] == "**":
        names.append("*")
    tests = [None if name == "**" else re.compile(_regex(name)).match for name in names]

    def verdict(path: str) -> bool | None:
        parts = path.rstrip("/").split("/")
        places = {0}
        for test in tests:
            if test is None:
                places = set(range(min(places, default=len(parts)), len(parts)))
            else:
                places = {at + 1 for at in places if at < len(parts) and test(parts[at])}
        folder = path.endswith("/") or not text.endswith("/")
        return meant if any(at < len(parts) or folder for at in places) else None

    return (lambda _: None) if line.startswith("#") else verdict


def _regex(name: str) -> str:
    """One name of a pattern; the standard library's stars do not go back."""

    def unquoted(found: re.Match[str]) -> str:
        sign = found[1]
        return "[!" if sign is None else f"[{sign}]" if sign in "*?[" else str(sign)

    return fnmatch.translate(QUOTED.sub(unquoted, name))
