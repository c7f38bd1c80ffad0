"""Renders stored texts and results as lines for agents, and as structured content.

Stored text never looks like the server's own: each of its lines begins with `>`, and no line of the
server does. A title, tag or name is on one line after a label of the server.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from mcp_server_qdrant.core.context import caller_details, to_local
from mcp_server_qdrant.core.datatypes import (
    Document,
    Earlier,
    Mode,
    Passage,
    Reranked,
    Result,
    SearchPage,
)
from mcp_server_qdrant.core.dates import changed_at, date_of
from mcp_server_qdrant.core.fields import without_null
from mcp_server_qdrant.core.notation import (
    LINE,
    cite,
    cite_all,
    document_id,
    first_few,
    heir_id,
    is_numbered,
    one_line,
    parse_time,
    plural,
    shortened_path,
    shown_id,
    without_controls,
)
from mcp_server_qdrant.core.writes import KeptVersion

SOURCE = 60  # last characters that are shown
MAX_METADATA = 200_000  # characters of JSON in one answer, beyond the first text's
BACK = "qdrant-store with only that id restores it"
MAX_FAILED = 10  # failed collections with their reason; a note counts the others
NAMED = 10  # deleted texts whose ids are shown
SHORT_LINE = 60  # characters of a title and section in a list of passages
SAME_DAY = 3  # results from which a shared day is printed once
WEB = re.compile("https?://", re.IGNORECASE)
_HASH = re.compile("[0-9a-f]{32}")  # a generated id
REPEATED = ("title", "tags", "source", "created_at")  # metadata keys that have their own lines


def as_notes(said: Iterable[str]) -> list[str]:
    """Notes, one per line."""
    return [f"Note: {one_line(note, None)}" for note in said]


def quote(text: str) -> list[str]:
    """A stored text, with `>` before each line."""
    return [f"> {without_controls(one)}" if one else ">" for one in text.splitlines()]


def heading(document: Document) -> str:
    """Collection, id, part and title of a text, and its author."""
    said = "".join(f", {one}" for one in (web(document), writer(document)) if one)
    return f"{placed(document, said)}{titled(document.heading, LINE)}"


def placed(document: Document, about: str = "") -> str:
    """The collection, the id and the part of a text, with `about` in the parentheses."""
    own = shown_id(document)
    shown = f"{cite(document.collection)} (id {cite(own)}{about})"
    if own.startswith(f"{document.collection}/"):  # the id has the collection's name
        shown = f"{cite(own)}{about and f' ({about[2:]})'}"
    part = None if is_numbered(document) else part_of(document)
    return f"{shown} part {part}" if part else shown


def titled(title: str | None, length: int) -> str:
    """A title or a section, as a suffix to the name of a text."""
    return f" · {one_line(shortened_path(title, length))}" if title else ""


def origin(document: Document, *, dated: bool = True) -> str:
    """The day and the origin of a text, unless its id shows them."""
    known = (day(document) if dated else None, None if web(document) else source(document))
    said = [cite(one) for one in known if one and one != document_id(document)]
    return "".join(f", {one}" for one in (*said, web(document), writer(document)) if one)


def web(document: Document) -> str:
    """The address of a text from the web, else ""."""
    where = document.source or ""
    return f"from the web: {cite(one_line(where, SOURCE))}" if WEB.match(where) else ""


def writer(document: Document) -> str:
    """Who stored a text, if that was another caller or program, else ""."""
    said, own = document.stored_by or {}, caller_details()
    if said.get("caller") and said["caller"] != own.get("caller"):
        return f"written by {cite(said['caller'])}"
    if said.get("client") and said["client"] != own.get("client"):
        return f"stored with {cite(said['client'])}"
    return ""


def source(document: Document) -> str:
    """The file or address of a text, or its own id."""
    where = one_line(document.source or "", None)
    own = one_line(document.document or "", None)
    if not _HASH.fullmatch(own):
        where = own or where
    return where if len(where) <= SOURCE else f"…{where[1 - SOURCE :]}"


def day(document: Document) -> str | None:
    """The local day of a text's date, if it has one."""
    when = date_of(document)
    return to_local(when).date().isoformat() if when else None


def part_of(document: Document) -> str | None:
    """The part's number and the number of parts; None for a text of one part."""
    if document.chunks == 1:
        return None
    first = document.chunk + 1
    which = first if document.last is None else f"{first}-{document.last + 1}"
    return f"{which}/{document.chunks}"


def details(document: Document) -> list[str]:
    """Lines with metadata, tags, source and dates, without repetitions."""
    shown = (document.title, document.source, document.created_at, list(document.tags))
    more = {
        key: value
        for key, value in (document.metadata or {}).items()
        if key not in REPEATED or value not in shown
    }
    pairs = {
        "metadata": compact_json(more) if more else None,
        "tags": cite_all(document.tags),
        "source": one_line(document.source or "", None),
        "created": one_line(document.created_at or ""),
        "updated": one_line(_changed(document) or ""),
        "expires": one_line(document.expires or ""),
    }
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def _changed(one: Document) -> str | None:
    """When a text was changed, if it was; an edit uses it to name the version it saw."""
    return one.updated_at if changed_at(one) else None


def successor_line(document: Document) -> str:
    """A line with the successor of a superseded text."""
    return f"superseded by: id {cite(heir_id(document) or '')}"


def kept_versions(done: Sequence[KeptVersion]) -> list[str]:
    """Notes on the versions kept of deleted texts, and on those not kept, with the reason."""
    faults = list(dict.fromkeys(one_line(one.fault, None) for one in done if one.fault))
    said = [f"not kept: {fault}" for fault in faults[:3]]
    if ids := [one.id for one in done if one.id]:
        days = max(one.days for one in done)
        said.insert(0, f"kept {days} days: id {first_few(ids, NAMED, cite)}; {BACK}.")
    if any(one.file for one in done):
        said.append("from a file: the next sync of its folder stores it again if that is there.")
    return said


def limit_metadata(
    found: Sequence[Document], room: int = MAX_METADATA
) -> tuple[list[Document], list[str]]:
    """The documents with as much metadata as fits, and a note on what is left out.

    The first document always has its metadata.
    """
    shown: list[Document] = []
    left: list[str] = []
    used = 0
    for document in found:
        if document.metadata and used <= room:
            used += len(compact_json(document.metadata))
        if document.metadata and shown and used > room:
            left.append(cite(shown_id(document)))
            document = document._replace(metadata=None)  # noqa: PLW2901
        shown.append(document)
    many = f"Metadata left out because of its length; qdrant-get returns it: id {first_few(left)}."
    return shown, [many] if left else []


def compact_json(value: Mapping[str, Any]) -> str:
    """Metadata on one line."""
    return without_controls(
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    )


def document_data(one: Document, *, points: bool = False) -> dict[str, Any]:
    """A text as structured content; `points`: with its point's id, for programs."""
    values = {
        "id": id_for(one, points=points),
        "collection": one.collection,
        "document": document_id(one),  # never a hash of something hidden from the caller
        "text": one.text,
        "title": one.heading,
        "part": part_of(one),
        "metadata": dict(one.metadata) if one.metadata else None,
        "tags": list(one.tags) or None,
        "source": one.source,
        "stored_by": written_by(one),
        "created_at": one.created_at,
        "updated_at": _changed(one),
        "expires_at": one.expires,
        "revision": str(one.revision),
        "superseded_by": heir_id(one),
    }
    return without_null(values)


def id_for(one: Document, *, points: bool) -> str:
    """The id that all tools show, or that of the point."""
    return str(one.id) if points else shown_id(one)


def written_by(one: Document) -> dict[str, str] | None:
    """Who stored a text, if that was another caller or program."""
    return dict(one.stored_by) if one.stored_by and writer(one) else None


def as_text(page: SearchPage, mode: Mode) -> str:
    """A page of results, followed by notes."""
    days = {day(one.document) for one in page.results}
    dated = mode == "full" or len(days) > 1 or len(page.results) < SAME_DAY
    lines = [render_result(n, one, mode, dated=dated) for n, one in enumerate(page.results, 1)]
    same = "" if dated else days.pop()
    dates = [f"all are dated {same}."] if same else []
    lines += as_notes([*dates, *page.notes, *page.advice])
    if page.corrections:
        said = "; ".join(f"{cite(one.word)} → {cite(one.to)}" for one in page.corrections)
        lines.insert(0, f"Corrected: {said}")
    return "\n".join([*lines, *([_reranked(page.rerank)] if page.rerank else [])])


def _reranked(outcome: Reranked) -> str:
    """The outcome of reranking, on one line."""
    if outcome.state == "applied":
        return f"Reranked: the best {outcome.pool}, by {outcome.model}."
    return f"Not reranked: {one_line(outcome.reason or '', None)}"


def render_result(number: int, one: Result, mode: Mode, *, dated: bool = True) -> str:
    """One result: relevance, collection, id, title, its passages (or the whole text)."""
    document = one.document
    relevance = "" if one.relevance is None else f"[{one.relevance:.2f}] "
    place = heading(document) if mode == "full" else _brief(one, dated=dated)
    mark = "elsewhere: " if one.elsewhere else ""
    lines = [f"{number}. {relevance}{mark}{place}"]
    if mode == "full":
        lines += [*quote(document.text), *details(document)]
    else:
        lines += _passage_lines(one.passages)
    if mode == "full" and (said := _in_time(one)):
        lines.append(f"in time: {', '.join(said)}")
    if one.supersedes:
        lines.append(f"supersedes: id {cite(one.supersedes)}")
    if heir_id(document):
        lines.append(successor_line(document))
    if one.also:
        lines.append(f"also in: {first_few(one.also, shown=placed)}")
    return "\n".join([*lines, *([_why(one.why, one.relevance or 0.0)] if one.why else [])])


def _in_time(one: Result) -> list[str]:
    """Marks of a result: newer or older than similar texts, and its earlier versions."""
    said = [one.in_time] if one.in_time else []
    said += [f"as of {one.as_of}"] if one.as_of else []
    if one.earlier and (when := parse_time(one.earlier.since)):
        since = to_local(when).date().isoformat()
        said += [f"unchanged since {since}"] if since != day(one.document) else []
        said.append(plural(one.earlier.number, "earlier version"))
    return said


def _brief(one: Result, *, dated: bool) -> str:
    """A short heading with source and day; a title that equals the file name is left out."""
    document = one.document
    file = PurePath(source(document))
    known = (document.title or "").casefold() in (file.name.casefold(), file.stem.casefold())
    title = document.section if known else document.heading
    about = "".join([origin(document, dated=dated), *(f", {said}" for said in _in_time(one))])
    return f"{placed(document, about)}{titled(title, SHORT_LINE)}"


def _passage_lines(shown: Sequence[Passage]) -> list[str]:
    """The lines of a text's passages; each further one has its own id and section."""
    lines = quote(shown[0].text) if shown else []
    section = shown[0].section if shown else None
    for one in shown[1:]:
        own = f":{one.part.chunk + 1}/{one.part.chunks}"
        own = own if is_numbered(one.part) else cite(shown_id(one.part))
        named = one.section if one.section != section else None
        lines.append(f"+ {own}{titled(named, SHORT_LINE)}")
        lines += quote(one.text)
        section = one.section
    return lines


def _why(why: Mapping[str, Any], relevance: float) -> str:
    """The reasons for a result's rank, on one line."""
    legs = [
        f"{share:.2f} x {leg} {why[leg]:.3f}"
        for leg, share in (("meaning", why["alpha"]), ("words", 1 - why["alpha"]))
        if why[leg] is not None
    ]
    names = {"tags": f"tags {cite_all(why['tags'])}"}
    gains = [f"{names.get(name, name)} {gain:.3f}" for name, gain in why["gains"].items()]
    steps = "".join(f" x {name} {factor:.3f}" for name, factor in why["factors"].items())
    if "reranked" in why:
        steps = f"; reranked {why['reranked']:.3f}{steps}"
    return (
        f"why: {' + '.join([*legs, *gains])} = {relevance:.3f}{steps} -> {why['score']:.3f}; "
        f"rrf {why['rrf']:.4f}"
    )


def as_data(page: SearchPage, mode: str, *, points: bool = False) -> dict[str, Any]:
    """A page as structured content."""
    output: dict[str, Any] = {
        "results": [_result_data(one, full=mode == "full", points=points) for one in page.results],
        "notes": [*page.notes, *page.advice],
    }
    failed = [status for status in page.statuses if status.state != "ok"]
    if failed:
        output["collections"] = {
            one.collection: f"{one.state}: {one.reason}" for one in failed[:MAX_FAILED]
        }
    if page.rerank:
        output["rerank"] = without_null(asdict(page.rerank))
    if page.corrections:
        output["corrections"] = {one.word: one.to for one in page.corrections}
    return output


def as_meta(page: SearchPage) -> dict[str, Any]:
    """What programs get of a page, but no model: notes without advice, flags."""
    return {"notes": list(page.notes), "more": page.more, "weak": page.weak}


def _result_data(one: Result, *, full: bool, points: bool) -> dict[str, Any]:
    document = one.document
    found: dict[str, Any] = {"date": day(document)}
    found |= document_data(document) if full else {"source": source(document) or None}
    copies = [
        {"collection": each.collection, "id": id_for(each, points=points)} for each in one.also
    ]
    found |= {
        "id": id_for(document, points=points),
        "document": document_id(document) if points or full else None,
        "collection": document.collection,
        "relevance": None if one.relevance is None else round(one.relevance, 3),
        "text": document.text if full else one.passage or None,
        "title": document.heading,
        "stored_by": written_by(document),
        "part": part_of(document),
        "passages": [_passage_data(each, points=points) for each in one.passages[1:]] or None,
        "more_passages": one.left or None,
        "supersedes": one.supersedes,
        "elsewhere": one.elsewhere or None,
        "in_time": one.in_time,
        "as_of": one.as_of,
        **version_data(one.earlier),
        "why": _rounded(one.why) if one.why else None,
        "superseded_by": heir_id(document),
        "also_in": copies or None,
    }
    return without_null(found)


def version_data(earlier: Earlier | None) -> dict[str, Any]:
    """Structured content on a text's earlier versions; empty without any."""
    return {"earlier_versions": earlier.number, "since": earlier.since} if earlier else {}


def _passage_data(one: Passage, *, points: bool) -> dict[str, Any]:
    shown = {"id": id_for(one.part, points=points), "part": part_of(one.part)}
    return without_null(shown | {"section": one.section, "text": one.text})


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
