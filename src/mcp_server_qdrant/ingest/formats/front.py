"""Front matter of Markdown as metadata: YAML, or something close to it."""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from textwrap import dedent
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import SHOWN, storable

FRONT = re.compile(
    r"\A\s*?^---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
TOML = re.compile(
    r"\A\s*?^\+{3}[ \t]*\r?\n(.{0,200000}?)^\+{3}[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
KEY = re.compile(
    r"(?P<key>\"[^\"\n]{1,80}\"|'[^'\n]{1,80}'|[^\s:#\-{}\[\]?][^:\n]{0,80}?)[ \t]*:(?=\s|\Z)"
    r"|(?P<joined>[a-z_]{2,20}):(?!/)"
)
ABOVE = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*")  # blank lines and comments above the first key
PIECE = re.compile(r"^(?=[^\s\-\]}#])", re.MULTILINE)
IDENTIFIER = re.compile(r"[a-z][\w-]*\Z")
WORD = re.compile(r"[\w.@<-]+\Z")
# In YAML an unquoted #tag is a comment.
TAGS = re.compile(r"^(?:tags?|keywords):[^\n]*(?:\n[ \t]*-[^\n]*)*", re.IGNORECASE | re.MULTILINE)
BARE = re.compile(r"^([ \t]*-[ \t]+|\w+:[ \t]+)(#[^\s'][^'\n]*)", re.MULTILINE)
BRACKETS = re.compile(r"[][{}]")
MAX_FRONT = 200_000  # characters
MAX_PIECES = 200  # keys parsed separately as YAML
MAX_OPEN = 200  # nested brackets; YAML's parsing time is quadratic in them
NO_YAML = "has front matter that is not YAML"
NUMBERS = {
    "int": r"[-+]?(?:0|[1-9]\d{0,17})\Z",
    "float": r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?\Z",
}


@dataclass(slots=True)
class Front:
    """The fields of front matter, the `rest` that belongs to no key, and notes on errors.

    `end` is the start of the text below it, in characters; 0 without front matter.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    end: int = 0


def front_matter(text: str) -> Front:
    """The front matter between the first two `---` lines, unless that looks like prose.

    Between lines of `+++` it is TOML.
    """
    if found := TOML.match(text):
        with suppress(UnusableFile), contained(UnusableFile):
            return Front(storable(tomllib.loads(found[1])), end=found.end())
    found = FRONT.match(text)
    if not found or not found[1].strip():
        return Front(end=found.end() if found else 0)
    front = TAGS.sub(lambda one: BARE.sub(_quote, one[0]), dedent(found[1]))
    above = ABOVE.match(front)
    assert above is not None
    first = front[above.end() :]
    if not first.startswith("{") and not KEY.match(first):
        return Front()
    try:
        try:
            made = Front(parse_yaml(front))
        except UnusableFile as error:
            made = _parse_by_key(front, str(error))
    except UnusableFile as error:
        return Front(notes=[f"{error}; it is treated as text"])
    # A paragraph below a heading (a comment in YAML) may begin with `Note:`.
    blank = any(not one.strip() for one in above[0].splitlines())
    prose = not all(map(IDENTIFIER.match, made.fields)) and (blank or len(made.rest) > 0)
    named = not made.fields or any(map(WORD.match, made.fields))
    if prose or not named or len(made.rest) > len(made.fields):
        return Front()
    made.end = found.end()
    return made


def _quote(found: re.Match[str]) -> str:
    return f"{found[1]}'{found[2].rstrip()}'"


def _parse_by_key(front: str, fault: str) -> Front:
    """Front matter that is not valid YAML as a whole, parsed key by key; raw text if need be.

    Raises UnusableFile if there is too much.
    """
    values, rest, left, size = dict[str, Any](), list[str](), list[str](), 0
    for number, piece in enumerate(PIECE.split(front)):
        if found := KEY.match(piece):
            key, raw = (found["key"] or found["joined"]).strip("\"' \t"), piece[found.end() :]
            if size + len(piece) > MAX_FRONT:
                left.append(f"{key[:20]!r} is left out")
            else:
                size += len(piece)
                values[key] = (
                    _parse_value(piece, raw.strip()) if number < MAX_PIECES else raw.strip()
                )
        elif not piece.startswith("#"):
            rest += filter(None, [piece.strip()])
    note = ", ".join([f"{fault}; the readable part is used", *left[:SHOWN]])
    return Front(storable(values), rest, [note])


def _parse_value(piece: str, raw: str) -> Any:
    for written in (piece, piece.expandtabs(2)):
        with suppress(UnusableFile):
            return next(iter(parse_yaml(written).values()), raw)
    items = [one.lstrip() for one in raw.splitlines()]
    listed = items and all(one.startswith("- ") for one in items)
    return [one[1:].strip() for one in items] if listed else raw


def parse_yaml(front: str) -> Mapping[str, Any]:
    """The front matter. Raises UnusableFile if it is not a YAML mapping."""
    import yaml

    if len(front) > MAX_FRONT:
        raise UnusableFile(f"has front matter of more than {MAX_FRONT:,} characters")
    signs = (-1 if sign in "]}" else 1 for sign in BRACKETS.findall(front))
    if max(accumulate(signs), default=0) > MAX_OPEN:
        raise UnusableFile(f"has front matter with more than {MAX_OPEN} brackets open at once")
    with contained(lambda _: UnusableFile(NO_YAML)):
        try:
            found = yaml.load(front, _loader())  # noqa: S506 - it is a safe one
        except yaml.MarkedYAMLError as error:
            where = f", line {error.problem_mark.line + 2}" if error.problem_mark else ""
            raise UnusableFile(NO_YAML + where) from error
        fields: Mapping[str, Any] = storable({} if found is None else {**found})
        return fields


@cache
def _loader() -> Any:
    """A safe loader that keeps dates and all but plain decimal numbers as strings.

    The C loader crashes on deep nesting. Keys are not merged (`<<`), which could expand a small
    text to much data.
    """
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012
            sign: [(tag, form) for tag, form in forms if tag.endswith((":bool", ":null"))]
            for sign, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    for kind, form in NUMBERS.items():
        signs = list("-+.0123456789")
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(form), signs)
    return Loader
