"""The text of each tool's result, compact, for agents.

Stored text never looks like the server's own: a text has `>` before each of its lines, which none
of the server's lines has; a title, tag or name is on one line behind a label of the server.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from mcp_server_qdrant.core.access import speaker
from mcp_server_qdrant.core.datatypes import (
    CollectionInfo,
    Document,
    Mode,
    Passage,
    Reranked,
    Result,
    SearchPage,
)
from mcp_server_qdrant.core.dates import date_of
from mcp_server_qdrant.core.notation import (
    LINE,
    amount,
    begins,
    called,
    chain,
    document_id,
    escaped,
    every,
    heir_id,
    is_numbered,
    line,
    own_id,
    plain,
    shown_id,
    some,
)
from mcp_server_qdrant.core.writes import Kept, Stored

SYNC_LINE = 400
ABOUT = 100  # characters of a collection's description
SOURCE = 60  # characters, the last ones
SHORT_LINE = 60  # of a title and section in a list of passages
BACK = "qdrant-store with that id alone brings it back"
NAMED = 10  # deleted texts
SAME_DAY = 3  # results from which on a day that all have is said once
WEB = re.compile("https?://", re.IGNORECASE)
_HASH = re.compile("[0-9a-f]{32}")  # the id of a text that was stored without one
REPEATED = ("title", "tags", "source", "created_at")  # of the metadata: on lines of their own


def page(found: SearchPage, mode: Mode) -> str:
    """A page of results, a few lines each, then what the caller should know."""
    days = {day(one.document) for one in found.results}
    dated = mode == "full" or len(days) > 1 or len(found.results) < SAME_DAY
    lines = [result(n, one, mode, dated=dated) for n, one in enumerate(found.results, 1)]
    same = "" if dated else days.pop()
    lines += noted([*([f"all are dated {same}."] if same else []), *found.notes])
    if found.corrections:
        said = "; ".join(f"{called(one.word)} → {called(one.to)}" for one in found.corrections)
        lines.insert(0, f"Corrected: {said}")
    return "\n".join([*lines, *([reranked(found.rerank)] if found.rerank else [])])


def noted(said: Iterable[str]) -> list[str]:
    """Notes, one per line."""
    return [f"Note: {line(note, None)}" for note in said]


def quoted(text: str) -> list[str]:
    """A stored text, each of its lines marked as such."""
    return [f"> {plain(one)}" if one else ">" for one in text.splitlines()]


def reranked(outcome: Reranked) -> str:
    """The outcome of reranking, on one line."""
    if outcome.state == "applied":
        return f"Reranked: the best {outcome.pool}, by {outcome.model}."
    return f"Not reranked: {line(outcome.reason or '', None)}"


def result(number: int, one: Result, mode: Mode, *, dated: bool = True) -> str:
    """One result: relevance, collection, id, title, its passages (or the whole text)."""
    document = one.document
    relevance = "" if one.relevance is None else f"[{one.relevance:.2f}] "
    short = document if one.passages or one.relevance is None else _unnamed(document)
    place = heading(document) if mode == "full" else brief(short, dated=dated)
    lines = [f"{number}. {relevance}{place}"]
    if mode == "full":
        lines += [*quoted(document.text), *details(document)]
    else:
        lines += passages(one.passages)
    if one.supersedes:
        lines.append(f"supersedes: id {called(one.supersedes)}")
    if document.superseded_by:
        lines.append(superseded(document))
    if one.also:
        lines.append(also(one.also))
    return "\n".join([*lines, *([why(one.why, one.relevance or 0.0)] if one.why else [])])


def _unnamed(document: Document) -> Document:
    """A text that only its id shall name, where that is its own."""
    known = is_numbered(document) or document.document == document_id(document)
    return document._replace(title=None, section=None) if known else document


def passages(shown: Sequence[Passage]) -> list[str]:
    """The passages of a text; each further one under its own id and section."""
    lines = quoted(shown[0].text) if shown else []
    section = shown[0].section if shown else None
    for one in shown[1:]:
        named = one.section if one.section != section else None
        lines.append(f"+ {_part_of(one.part)}{_titled(named, SHORT_LINE)}")
        lines += quoted(one.text)
        section = one.section
    return lines


def _part_of(part: Document) -> str:
    """A part of the text above by its number, else by its id."""
    return f":{part.chunk + 1}/{part.chunks}" if is_numbered(part) else called(shown_id(part))


def superseded(document: Document) -> str:
    """The text that took the place of an outdated one."""
    return f"superseded by: id {called(heir_id(document) or '')}"


def also(copies: Sequence[Document]) -> str:
    """The other places of the same passage."""
    return f"also in: {some([*map(_shown, copies)])}"


def why(why: Mapping[str, Any], relevance: float) -> str:
    """The reasons for a result's rank, on one line."""
    legs = [
        f"{share:.2f} x {leg} {why[leg]:.3f}"
        + (f" (no. {why['ranks'][leg]})" if leg in why["ranks"] else "")
        for leg, share in (("meaning", why["alpha"]), ("words", 1 - why["alpha"]))
        if why[leg] is not None
    ]
    names = {"tags": f"tags {every(why['tags'])}"}
    gains = [f"{names.get(name, name)} {gain:.3f}" for name, gain in why["gains"].items()]
    steps = "".join(f" x {name} {factor:.3f}" for name, factor in why["factors"].items())
    if "reranked" in why:
        steps = f"; reranked {why['reranked']:.3f}{steps}"
    return (
        f"why: {' + '.join([*legs, *gains])} = {relevance:.3f}{steps} -> {why['score']:.3f}; "
        f"rrf {why['rrf']:.4f}"
    )


def heading(document: Document) -> str:
    """Collection, id, part and title of a text, and who says it."""
    said = "".join(f", {one}" for one in (web(document), writer(document)) if one)
    return f"{_shown(document, said)}{_titled(document.heading, LINE)}"


def brief(document: Document, *, dated: bool) -> str:
    """The same in few tokens, with its source and its day: a title that is the file's name is not
    repeated.
    """
    file = PurePath(source(document))
    known = (document.title or "").casefold() in (file.name.casefold(), file.stem.casefold())
    title = document.section if known else document.heading
    return f"{_shown(document, origin(document, dated=dated))}{_titled(title, SHORT_LINE)}"


def _shown(document: Document, about: str = "") -> str:
    own = shown_id(document)
    shown = f"{called(document.collection)} (id {called(own)}{about})"
    if own.startswith(f"{document.collection}/"):  # the name is not said twice
        shown = f"{called(own)}{about and f' ({about[2:]})'}"
    return shown if is_numbered(document) else f"{shown}{part(document)}"


def _titled(title: str | None, length: int) -> str:
    return f" · {line(chain(title, length))}" if title else ""


def origin(document: Document, *, dated: bool = True) -> str:
    """The day of a text, and where it is from, as far as its id does not tell it."""
    known = (day(document) if dated else None, None if web(document) else source(document))
    said = [called(one) for one in known if one and one != document_id(document)]
    return "".join(f", {one}" for one in (*said, web(document), writer(document)) if one)


def web(document: Document) -> str:
    """The address of a text that came from the web."""
    where = document.source or ""
    return f"from the web: {called(line(where, SOURCE))}" if WEB.match(where) else ""


def writer(document: Document) -> str:
    """Who stored a text, where that was another caller, or another program."""
    said, own = document.stored_by or {}, speaker()
    if said.get("caller") and said["caller"] != own.get("caller"):
        return f"written by {called(said['caller'])}"
    if said.get("client") and said["client"] != own.get("client"):
        return f"stored with {called(said['client'])}"
    return ""


def source(document: Document) -> str:
    """The file or address of a text, or the id that it was stored under."""
    where = line(document.source or "", None)
    own = line(document.document or "", None)
    if not _HASH.fullmatch(own):
        where = own or where
    return where if len(where) <= SOURCE else f"…{where[1 - SOURCE :]}"


def day(document: Document) -> str | None:
    """The day that the text is of, as far as one is known."""
    when = date_of(document)
    return when.date().isoformat() if when else None


def part(document: Document) -> str:
    """The number of the part and of all parts, if there are several."""
    if document.chunks == 1:
        return ""
    first = document.chunk + 1
    which = first if document.last is None else f"{first}-{document.last + 1}"
    return f" part {which}/{document.chunks}"


def details(document: Document) -> list[str]:
    """Metadata, tags, source and dates, as far as there are any; each thing once."""
    shown = (document.title, document.source, document.created_at, list(document.tags))
    more = {
        key: value
        for key, value in (document.metadata or {}).items()
        if key not in REPEATED or value not in shown
    }
    pairs = {
        "metadata": compact(more) if more else None,
        "tags": every(document.tags),
        "source": line(document.source or "", None),
        "created": line(document.created_at or ""),
    }
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def torn(shown: Sequence[Document]) -> list[str]:
    """The texts that are not complete, and how to repair them."""
    return [
        f"id {called(document_id(one))} has parts of two versions, or lacks some: an"
        " update was cut short. Store its text again under that id."
        for one in shown
        if one.torn
    ]


def read_on(shown: Sequence[Document], most: int) -> list[str]:
    """How to read on after texts that are not the end of their document: as much as before."""
    notes = []
    for one in shown:
        if one.document is not None and one.last is not None and one.last + 1 < one.chunks:
            neighbours = min((one.last - one.chunk) // 2, most)
            middle = min(one.last + 1 + neighbours, one.chunks - 1)
            own = document_id(one)
            notes.append(
                f"id {called(own)} goes on behind part {one.last + 1} of {one.chunks}: read on with"
                f" id {called(f'{own}:{middle + 1}/{one.chunks}')} and neighbours={neighbours}."
            )
    return notes


def unseen(failures: Sequence[str]) -> list[str]:
    """The collections that could not be read."""
    return [f"not looked in {failure}" for failure in failures]


def documents(found: Sequence[Document], missing: Sequence[str], more: Sequence[str] = ()) -> str:
    """Whole texts, the ids that are nowhere, and what else the caller should know."""
    blocks = []
    for document in found:
        lines = [heading(document), *quoted(document.text), *details(document)]
        if document.superseded_by:
            lines.append(superseded(document))
        if document.chunks > 1 and document.document is not None and not begins(document):
            lines.append(f"whole text: id {called(document_id(document))}")
        blocks.append("\n".join(lines))
    if missing:
        names = ", ".join(repr(line(one)) for one in missing)
        blocks.append(f"Not found: {names}. Use ids that qdrant-find returned.")
    blocks += noted(more)
    return "\n\n".join(blocks)


def stored(done: Stored) -> str:
    """The result of storing, on one line."""
    verb = "Moved" if done.moved else "Updated" if done.updated else "Remembered"
    verb = "Brought back" if done.restored else verb
    parts = f" in {len(done.ids)} parts" if len(done.ids) > 1 else ""
    made = " (new collection)" if done.created_collection else ""
    later = " Found by keywords now, by meaning once the model is there." if done.pending else ""
    if done.without_vector:
        why = line(done.without_vector.removeprefix("keywords only: "), None)
        later = f" Found by keywords only: {why}."
    kept = f" Kept as before: {', '.join(done.kept)}." if done.kept else ""
    if done.replaced > 1:
        parts += f" instead of all its {done.replaced} parts"
    shown = own_id(done.collection, done.ids[0], done.document)
    place = f"collection {called(done.collection)}{made}{parts}: id {called(shown)}"
    where = f"{'to' if done.moved else 'in'} {place}"
    secret = f" {amount(done.masked, 'secret')} in it masked." if done.masked else ""
    old = f" Superseded: id {called(document_id(done.retired))}." if done.retired else ""
    back = ""
    if done.moved and done.moved.file:
        back = " It is from a file: the next sync of its folder stores it where it was, too."
    return f"{verb} {where}.{secret}{kept}{later}{old}{back}{before(done.before)}{nearly(done)}"


def before(done: Kept) -> str:
    """The version that a text replaced, and for how long it is there."""
    if done.fault:
        return f" The version before was not kept: {line(done.fault, None)}"
    return f" The version before: id {called(done.id)}, kept {done.days} days." if done.id else ""


def kept(done: Sequence[Kept]) -> list[str]:
    """The versions that deleted texts are now, a few of them named, and why others are none."""
    faults = list(dict.fromkeys(line(one.fault, None) for one in done if one.fault))
    said = [f"not kept: {fault}" for fault in faults[:3]]
    if ids := [one.id for one in done if one.id]:
        days = max(one.days for one in done)
        said.insert(0, f"kept {days} days: id {some(ids, NAMED)}; {BACK}.")
    return said


def nearly(done: Stored) -> str:
    """The memory that the text nearly repeats, and how to keep one of the two."""
    if done.near is None:
        return ""
    known, cosine = done.near
    return (
        f" Nearly repeats id {called(document_id(known))} [{cosine:.2f}]: to retire that one, store"
        " this again with that id as supersedes; to update it, with that id as id, and delete this"
        f" one.\n> {line(known.text)}"
    )


def collections(lines: Sequence[str], syncs: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """The collections by line, those not there yet that are to be filled, and notes."""
    coming = [f"- {called(name)}: {line(sync, SYNC_LINE)}" for name, sync in syncs.items()]
    return "\n".join([*lines, *coming, *noted(notes)] or ["There is no collection yet."])


def collection(info: CollectionInfo, sync: str | None = None, *, brief: bool = False) -> str:
    """One collection; `brief`: its size, contents and faults alone."""
    legs = " + ".join(info.legs) or "not searchable"
    model = f", {line(info.model)}" if info.model else ""
    wrote = f", by {some([*map(called, info.writers)])}" if info.writers else ""
    fresh = f", updated {line(info.updated_at)}" if info.updated_at else ""
    note = f" ({line(info.note, None)})" if info.note else ""
    kept = f"; {line(sync, SYNC_LINE)}" if sync else ""
    points = "1 point" if info.points == 1 else f"{info.points} points"
    about = f"; about: {line(info.description, ABOUT)}" if info.description else ""
    if brief:
        return f"- {called(info.name)}: {points}{about}{note}"
    return f"- {called(info.name)}: {points}, {legs}{model}{fresh}{wrote}{note}{kept}{about}"


def compact(value: Mapping[str, Any]) -> str:
    """Metadata on one line."""
    return escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
