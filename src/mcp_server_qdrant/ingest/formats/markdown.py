"""Markdown: front matter becomes metadata, headings become title and sections."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    created,
    storable,
    tags_of,
    titled,
)

FRONT = re.compile(
    r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
LINE = re.compile(
    r"^ {0,3}(?:"
    r"(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    r"|(?P<hashes>\#{1,6})[ \t]+(?P<heading>[^\n]*)"
    r"|<h(?P<tag>[1-6])(?:\s[^<>]*)?>(?P<html>[^\0]{0,500}?)</h(?P=tag)>"
    r"|(?P<underlined>(?!\d+[.)][ \t])[^\s>|\-*+\#=][^\n]*)"
    r"\n {0,3}(?P<underline>=+|-+)[ \t]*\r?$"
    r")",
    re.MULTILINE,
)
CODE = r"`+(?P<code>[^`]*)`+"
LABEL = r"\[(?P<label>[^\[\]]*)\]"
TARGET = r"(?:\([^()]*\)|\[[^\[\]]*\])"
IMAGE = re.compile(rf"{CODE}|!{LABEL}{TARGET}?")
# What is not seen of a heading: tags, ids, signs for bold type and struck text, links' targets.
SIGNS = re.compile(
    rf"{CODE}|{LABEL}{TARGET}|</?[a-z][a-z0-9]*(?:[\s/][^<>]*)?>|\{{#[^{{}}]*\}}|\*\*|~~|\\(?=[!-/:-@\[-`{{-~])"
)
BRACKETS = re.compile(r"[][{}]")
MAX_FRONT = 200_000
MAX_OPEN = 200  # brackets: the time that YAML takes grows with their square
NUMBERS = {
    "int": r"[-+]?(?:0|[1-9]\d{0,17})\Z",
    "float": r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?\Z",
}
DATES = ("date", "created", "created_at", "published")


def read(path: str, text: str) -> Contents:
    """The text below the front matter. One that is no YAML is a part of the text, with a note."""
    fields: Mapping[str, Any] = {}
    notes, offset = list[str](), 0
    if front := FRONT.match(text):
        try:
            fields, offset = _fields(front[1]), front.end()
        except UnusableFile as error:
            notes.append(f"{error}; it is taken for text")
    # `published: true` is no time.
    said = {key: fields[key] for key in DATES if not isinstance(fields.get(key, True), bool)}
    when, faults = created(said)
    text, given = text[offset:], fields.get("title")
    title, marks = titled(
        path, tuple(headings(text)), given.strip() if isinstance(given, str) else ""
    )
    loaded = Loaded(
        text=text,
        title=title,
        metadata=dict(fields) or None,
        tags=tags_of(fields.get("tags")) or tags_of(fields.get("keywords")),
        created_at=when,
        marks=marks,
        offset=offset,
    )
    return Contents([loaded], notes + faults)


def _fields(front: str) -> Mapping[str, Any]:
    """The front matter. Raises UnusableFile where it is not a mapping in YAML."""
    import yaml

    if len(front) > MAX_FRONT:
        raise UnusableFile(f"has front matter of more than {MAX_FRONT:,} characters")
    signs = (-1 if sign in "]}" else 1 for sign in BRACKETS.findall(front))
    if max(accumulate(signs), default=0) > MAX_OPEN:
        raise UnusableFile(f"has front matter with more than {MAX_OPEN} brackets open at once")
    with contained(lambda _: UnusableFile("has front matter that is not YAML")):
        try:
            found = yaml.load(front, _loader())  # noqa: S506 - it is a safe one
        except yaml.MarkedYAMLError as error:
            where = f", line {error.problem_mark.line + 2}" if error.problem_mark else ""
            raise UnusableFile(f"has front matter that is not YAML{where}") from error
    if not isinstance(found, dict | None):
        raise UnusableFile("has front matter without names")
    fields: Mapping[str, Any] = storable(found or {})
    return fields


@cache
def _loader() -> Any:
    """A safe loader, for which dates and what is no plain decimal number are texts.

    The one in C crashes where levels are many. Keys are not merged (`<<`): that would make much
    data of little text.
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


def headings(text: str) -> Iterator[Mark]:
    """Headings of both kinds, those in fenced code left out."""
    fence = ""
    for found in LINE.finditer(text):
        if found["fence"]:
            if not fence:
                fence = found["fence"]
            elif found["fence"].startswith(fence) and not found["info"].strip():
                fence = ""
        elif not fence:
            name = found["underlined"] or found["html"] or _unclosed(found["heading"] or "")
            if name := visible(name):
                yield Mark(found.start(), _level(found), name)


def _level(found: re.Match[str]) -> int:
    if found["underline"]:
        return 1 if found["underline"][0] == "=" else 2
    return int(found["tag"] or len(found["hashes"]))


def visible(heading: str) -> str:
    """The text of a heading as a reader sees it, without images."""
    text = IMAGE.sub(lambda found: found[0] if found["code"] is not None else "", heading)
    return " ".join(_seen(text).split())


def _seen(text: str) -> str:
    return SIGNS.sub(lambda found: found["code"] or _seen(found["label"] or ""), text)


def _unclosed(heading: str) -> str:
    """A heading without the signs that may close it: they stand alone, or after a space."""
    kept = heading.rstrip(" \t\r")
    bare = kept.rstrip("#")
    return bare.rstrip(" \t") if bare == "" or bare[-1] in " \t" else kept
