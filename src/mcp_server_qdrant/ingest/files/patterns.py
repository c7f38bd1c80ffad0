"""Patterns as in .gitignore, compared name by name: no pattern takes long for a path."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

LONGEST = 4_096  # characters, as a path may have
QUOTED = re.compile(r"\\(.)|\[\^")

Test = Callable[[str], object]  # of one name


class Patterns:
    """The lines of a file such as .gitignore, of which the last one that matches counts."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [_Rule(line) for line in lines if len(line) <= LONGEST]
        self._rules = [rule for rule in reversed(rules) if rule.tests]

    def match(self, path: str) -> bool | None:
        """True where a line matches the path, False where one with `!` does, None where none does.

        The path of a folder ends with a slash.
        """
        names, folder = path.rstrip("/").split("/"), path.endswith("/")
        return next((one.meant for one in self._rules if one.matches(names, folder=folder)), None)


class _Rule:
    """One line; without tests where it says nothing. None among them: any number of names."""

    def __init__(self, line: str) -> None:
        text = line.rstrip()
        if text.endswith("\\"):
            text += " "
        self.meant = not text.startswith("!")
        text = text.removeprefix("!")
        self._folders = text.endswith("/")
        names = text.strip("/").split("/")
        self._anywhere = "/" not in text[:-1] and names != ["**"]
        if names[-1] == "**":
            names.append("*")
        said = bool(text.strip("/ ")) and not line.startswith("#")
        self.tests: list[Test | None] = [_test(name) for name in names] if said else []

    def matches(self, names: Sequence[str], *, folder: bool) -> bool:
        """Whether it is about these names, of a path or of a folder above it."""
        whole = len(names) if folder or not self._folders else len(names) - 1
        if self._anywhere:
            (test,) = self.tests
            return test is not None and any(map(test, names[:whole]))
        places = {0}
        for test in self.tests:
            if test is None:
                places = set(range(min(places, default=len(names)), len(names)))
            else:
                places = {at + 1 for at in places if at < len(names) and test(names[at])}
        return any(at <= whole for at in places)


def _test(name: str) -> Test | None:
    """The test of one name; the stars of the standard library do not go back."""

    def unquoted(found: re.Match[str]) -> str:
        sign = found[1]
        return "[!" if sign is None else f"[{sign}]" if sign in "*?[" else str(sign)

    if name == "**":
        return None
    try:
        return re.compile(fnmatch.translate(QUOTED.sub(unquoted, name))).match
    except re.error:
        return lambda _: False
