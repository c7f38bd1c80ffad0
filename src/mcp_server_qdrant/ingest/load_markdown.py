"""Markdown: front matter becomes metadata, headings become title and sections."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from mcp_server_qdrant.errors import UnusableFile
from mcp_server_qdrant.ingest.load import Contents, Loaded, Mark, plain, tags_of
from mcp_server_qdrant.notation import moment

FRONT = re.compile(
    r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
LINE = re.compile(
    r"^ {0,3}(?:"
    r"(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    r"|(?P<hashes>\#{1,6})[ \t]+(?P<heading>[^\n]*)"
    r"|(?P<underlined>[^\s>|\-*+\#`~=\d][^\n]*)\n {0,3}(?P<underline>=+|-+)[ \t]*\r?$"
    r")",
    re.MULTILINE,
)
CLOSING = re.compile(r"(?:^|[ \t]+)#*[ \t\r]*$")
NESTING = 500  # as many levels at most are safe for the quick loader, which has no limit
DATES = ("date", "created", "created_at", "published")


def read(path: str, text: str) -> Contents:
    """The text below the front matter. One that is no YAML is a part of the text, with a note."""
    front = FRONT.match(text)
    if front is None:
        return Contents([_loaded(path, text, {}, 0)])
    try:
        fields = _fields(front[1])
    except UnusableFile as error:
        return Contents([_loaded(path, text, {}, 0)], [f"{error}; it is taken for text"])
    return Contents([_loaded(path, text[front.end() :], fields, front.end())])


def _fields(front: str) -> Mapping[str, Any]:
    """The front matter. Raises UnusableFile where it is not a mapping in YAML."""
    import yaml

    try:
        found = yaml.load(front, _loader(front))  # noqa: S506 - both are safe ones
    # Beside its own errors, it lets those of dates and of deep nesting through.
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f", line {line + 2}"
        raise UnusableFile(f"has front matter that is not YAML{where}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UnusableFile("has front matter without names")
    fields: Mapping[str, Any] = plain(found)
    return fields


def _loader(front: str) -> Any:
    """The loader in C, which is ten times as fast and crashes where there are too many levels."""
    import yaml

    few = sum(map(front.count, "[{-?:")) < NESTING  # each level takes one of these
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader) if few else yaml.SafeLoader


def _loaded(path: str, text: str, fields: Mapping[str, Any], offset: int) -> Loaded:
    marks = tuple(_headings(text))
    title = fields.get("title")
    if not isinstance(title, str) or not title.strip():
        first = min(marks, key=lambda mark: mark.level, default=None)
        title = first.name if first else PurePosixPath(path).stem
    dates = (moment(fields[key]) for key in DATES if key in fields)
    return Loaded(
        text=text,
        title=title.strip(),
        metadata=dict(fields) or None,
        tags=tags_of(fields.get("tags")) or tags_of(fields.get("keywords")),
        created_at=next((date for date in dates if date), None),
        marks=tuple(mark for mark in marks if (mark.level, mark.name) != (1, title)),
        markdown=True,
        offset=offset,
    )


def _headings(text: str) -> Iterator[Mark]:
    """Headings of both kinds, those in fenced code left out."""
    fence = ""
    for found in LINE.finditer(text):
        if found["fence"]:
            if not fence:
                fence = found["fence"]
            elif found["fence"].startswith(fence) and not found["info"].strip():
                fence = ""
        elif not fence:
            underlined = found["underlined"]
            name = underlined or CLOSING.sub("", found["heading"])
            level = len(found["hashes"] or "") or (1 if found["underline"][0] == "=" else 2)
            if name.strip():
                yield Mark(found.start(), level, " ".join(name.split()))
