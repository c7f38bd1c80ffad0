"""Markdown: front matter becomes metadata, headings become title and sections."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import (
    MAX_VALUES,
    Contents,
    Loaded,
    Mark,
    created,
    plain,
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
MAX_FRONT = 200_000
MAX_NUMBER = 1_000  # characters; what is longer counts as a text
FLAG = "published"  # in many places a truth value
DATES = ("date", "created", "created_at", FLAG)


def read(path: str, text: str) -> Contents:
    """The text below the front matter. One that is no YAML is a part of the text, with a note."""
    front = FRONT.match(text)
    if front is None:
        return Contents([_loaded(path, text, {}, 0)])
    try:
        found = _fields(front[1])
        fields = plain(found)
    except UnusableFile as error:
        return Contents([_loaded(path, text, {}, 0)], [f"{error}; it is taken for text"])
    when, notes = created({key: found[key] for key in DATES if _dated(key, found)})
    loaded = _loaded(path, text[front.end() :], fields, front.end())
    return Contents([replace(loaded, created_at=when)], notes)


def _dated(key: str, found: Mapping[Any, Any]) -> bool:
    """True where a time belongs there: `published: true` says something else."""
    return key in found and not (key == FLAG and isinstance(found[key], bool))


def _fields(front: str) -> Mapping[Any, Any]:
    """The front matter. Raises UnusableFile where it is not a mapping in YAML."""
    import yaml

    if len(front) > MAX_FRONT:
        raise UnusableFile(f"has front matter of more than {MAX_FRONT:,} characters")
    try:
        found = yaml.load(front, _loader())  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f", line {line + 2}"
        raise UnusableFile(f"has front matter that is not YAML{where}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UnusableFile("has front matter without names")
    return found


@cache
def _loader() -> Any:
    """A loader that is safe for a stranger's text; the one in C crashes where levels are many."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """A scalar that is not what it looks like, as 30 February, is a text."""

        def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
            scalar = isinstance(node, yaml.ScalarNode)
            if scalar and len(node.value) > MAX_NUMBER:
                return node.value
            try:
                return super().construct_object(node, deep)
            except (ValueError, ArithmeticError, LookupError, AttributeError):
                self.recursive_objects.pop(node, None)
                if not scalar:
                    raise
                return node.value

        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            if len(node.value) > MAX_VALUES:  # each merge of merges multiplies them
                raise yaml.YAMLError

    return Loader


def _loaded(path: str, text: str, fields: Mapping[str, Any], offset: int) -> Loaded:
    marks = tuple(headings(text))
    given = fields.get("title")
    title, marks = titled(path, marks, given.strip() if isinstance(given, str) else "")
    return Loaded(
        text=text,
        title=title,
        metadata=dict(fields) or None,
        tags=tags_of(fields.get("tags")) or tags_of(fields.get("keywords")),
        marks=marks,
        offset=offset,
    )


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
