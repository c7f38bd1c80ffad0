"""Markdown: front matter becomes metadata, headings become title and sections."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server_qdrant.ingest.formats import exported
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    choose_title,
    find_date,
    tags_of,
)
from mcp_server_qdrant.ingest.formats.front import FRONT, front_matter

LINE = re.compile(
    r"^ {0,3}(?:"
    r"(?P<hashes>\#{1,6})[ \t]+(?P<heading>[^\n]*)"
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
# Invisible parts of a heading: tags, ids, marks of bold and struck text, link targets.
SIGNS = re.compile(
    rf"{CODE}|{LABEL}{TARGET}|</?[a-z][a-z0-9]*(?:[\s/][^<>]*)?>|\{{#[^{{}}]*\}}|\*\*|~~|\\(?=[!-/:-@\[-`{{-~])"
)
DATES = ("date", "created", "created_at", "published", "timestamp")

# Text without headings and tags: fenced code (an unclosed fence extends to the end), comments,
# HTML elements with code, inline code. No text is scanned twice, so matching is linear.
HIDDEN = re.compile(
    r"^(?: {0,3}|(?P<deep>[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?+))"
    r"(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})"
    r"(?:.*?\n(?(deep)[ \t>]*| {0,3})(?P=fence)[`~]*[ \t]*\r?$|.*)"
    r"|<!--(?:(?!<!--|-->).)*+-->"
    r"|<(?P<element>pre|script|style)\b(?:(?!</?(?P=element)\b).)*+</(?P=element)>"
    r"|(?<![`\\])(?P<ticks>`++)(?:[^\n]|\n(?![ \t\r]{0,99}\n)){1,1000}?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
# Text without tags: links, link targets, HTML, indented code.
BESIDE = re.compile(
    r"\[\[[^\[\]\n]{0,300}+\]\]"
    r"|\[[^\[\]\n]{0,500}+\](?:\([^()\n]{0,2000}+\)|\[[^\[\]\n]{0,300}+\])"
    r"|^ {0,3}\[[^\[\]\n]{1,300}+\]:[^\n]*"
    r"|</?[a-zA-Z][^<>]{0,2000}+>"
    r"|(?:\A|^[ \t\r]*+\n)(?:(?: {4}|\t)(?![ \t]*+(?:[-*+]|\d{1,9}[.)])[ \t])[^\n]*\n?)+",
    re.MULTILINE,
)
# Tags as in Obsidian.
SIGN = (
    r"[^\s!-,.:-@\[-^`{-~\xa1\xab\xb7\xbb\xbf"
    r"\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]"
)
TAG = re.compile(rf"(?<!\S)#(?P<tag>{SIGN}{{1,100}}+)(?!{SIGN})")
COLOUR = re.compile(r"(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})\Z", re.IGNORECASE)
WORDS = (  # that look like colours
    "2fa b2b ace add bad bead bed bee beef cab cafe cede dab dad dead deaf decade deed ebb face "
    "facade fad fade fed fee feed"
)
MAX_TAGS = 100


def read(path: str, text: str) -> Contents:
    """The text below the front matter, preceded by the front matter's description."""
    if found := FRONT.match(text):
        record, plain = exported.split_record(found[1])
        if record:
            shown, body = front_matter(f"---\n{plain}---\n"), text[found.end() :]
            marks = headings(body)
            made, faults = exported.restore(path, record, body, shown.fields, marks, found.end())
            return Contents([made], shown.notes + faults)
    front = front_matter(text)
    body = text[front.end :]
    named = {key.lower(): value for key, value in reversed([*front.fields.items()])}
    # `published: true` is not a date.
    said = {key: named[key] for key in DATES if not isinstance(named.get(key, True), bool)}
    when, faults = find_date(said)
    lines = [named.get(key) for key in ("title", "description")]
    title, about = (" ".join(one.split()) if isinstance(one, str) else "" for one in lines)
    missing = about if about not in " ".join(body.split()) else ""
    above = "".join(f"{one}\n\n" for one in (*front.rest, missing) if one)
    title, sections = choose_title(path, tuple(headings(above + body)), title)
    loaded = Loaded(
        text=above + body,
        title=title,
        metadata=dict(front.fields) or None,
        tags=_tags(named, body),
        created_at=when,
        marks=sections,
        offset=max(front.end - len(above), 0),
    )
    return Contents([loaded], front.notes + faults)


def _tags(named: Mapping[str, Any], body: str) -> tuple[str, ...]:
    """The tags of the front matter and of the text, unique regardless of case."""
    given: list[str] = []
    for value in (named.get("tags"), named.get("tag")):
        bare = value.strip("[] ") if isinstance(value, str) else ""
        listed = bare.split("," if "," in bare else None) if isinstance(value, str) else value
        given += tags_of(listed if isinstance(listed, list | bool) else [listed])
    names: dict[str, str] = {}
    for one in given or tags_of(named.get("keywords")):
        if name := one.strip("#\"' "):
            names.setdefault(name.casefold(), name)
    # Hashtags, without colours and issue numbers; among very many, tags mean little.
    shown = HIDDEN.sub(lambda one: "." * len(one[0]), body)
    for found in TAG.finditer(BESIDE.sub(lambda one: "." * len(one[0]), shown)):
        tag = found["tag"].rstrip("/-")
        colour = COLOUR.match(tag) and tag.lower() not in WORDS.split()
        if (
            tag[:1] not in ("", "/", "-")
            and not (tag.isdigit() or colour)
            and len(names) < MAX_TAGS
        ):
            names.setdefault(tag.casefold(), tag)
    return tuple(names.values())


def headings(text: str) -> Iterator[Mark]:
    """The headings of all kinds, outside of code and comments."""
    shown = HIDDEN.sub(lambda one: one[0] if one["ticks"] else " " * len(one[0]), text)
    for found in LINE.finditer(shown):
        name = found["underlined"] or found["html"] or _strip_closing(found["heading"] or "")
        level = int(found["tag"] or len(found["hashes"] or ""))
        if found["underline"]:
            level = 1 if found["underline"][0] == "=" else 2
        if name := visible(name):
            yield Mark(found.start(), level, name)


def visible(heading: str) -> str:
    """The visible text of a heading, without images."""
    text = IMAGE.sub(lambda found: found[0] if found["code"] is not None else "", heading)
    return " ".join(_seen(text).split())


def _seen(text: str) -> str:
    return SIGNS.sub(lambda found: found["code"] or _seen(found["label"] or ""), text)


def _strip_closing(heading: str) -> str:
    """A heading without closing `#` characters, which stand alone or after a space."""
    kept = heading.rstrip(" \t\r")
    bare = kept.rstrip("#")
    return bare.rstrip(" \t") if bare == "" or bare[-1] in " \t" else kept
