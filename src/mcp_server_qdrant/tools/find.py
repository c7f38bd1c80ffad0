"""qdrant-find: a search, and its page as an agent can afford it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, WithJsonSchema

from mcp_server_qdrant.core.datatypes import Document, Mode, Passage, Reranked, Result, SearchPage
from mcp_server_qdrant.core.errors import RequestError, UnknownCollection
from mcp_server_qdrant.core.find import LINES, MAX_LIMIT, FilterableField, SearchRequest
from mcp_server_qdrant.core.notation import (
    amount,
    called,
    document_id,
    every,
    heir_id,
    is_numbered,
    line,
    listed_in,
    shown_id,
    some,
)
from mcp_server_qdrant.tools.arguments import UNLISTED, FindArguments, arguments_with
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.rendering import (
    MAX_METADATA,
    day,
    described,
    details,
    heading,
    identified,
    noted,
    origin,
    part_of,
    placed,
    present,
    quoted,
    source,
    structured,
    superseded,
    titled,
    written_by,
)
from mcp_server_qdrant.tools.services import Services

FIND = (
    "Search the user's memory and documents by meaning and keywords, before you answer from "
    "memory. Returns passages with relevance 0..1 and ids for qdrant-get."
)
MAX_FAILED = 10  # collections with their fault; a note counts the others
SHORT_LINE = 60  # of a title and section in a list of passages
SAME_DAY = 3  # results from which on a day that all have is said once

Found = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "required": ["id", "collection"]}),
]


class FindOutput(BaseModel):
    """The result of qdrant-find: results best first, and sentences on them."""

    model_config = ConfigDict(extra="allow")

    results: list[Found]
    notes: list[str]


async def find(asked: FindArguments) -> Annotated[CallToolResult, FindOutput]:
    """Search."""
    request = asked.request()
    services = await services_of_tool()
    if request.collections is None and not request.within:
        home = await services.catalog.home()
        request = request.model_copy(update={"collections": home or None})
    coming = await _coming(services, request.collections)
    try:
        page = await services.pipeline.search(request)
    except UnknownCollection as error:
        if error.name not in coming:
            raise
        raise RequestError(f"{coming[error.name]} Search again in a moment.") from error
    page = concluded(page, request, coming.values())
    data = as_data(page, request.mode, points=asked.point_ids)
    return answer(as_text(page, request.mode), data, as_meta(page))


def make_find(
    fields: Sequence[FilterableField], description: str | None, *, any_filter: bool
) -> ClosedTool:
    """The tool to register, with an argument for each of the operator's fields."""
    arguments = arguments_with(fields)
    tool = ClosedTool.make(
        find,
        "qdrant-find",
        description or FIND,
        write=False,
        unlisted=UNLISTED,
        arguments=arguments,
    )
    if not any_filter:
        del tool.parameters["properties"]["query_filter"]
    return tool


async def _coming(services: Services, wanted: Sequence[str] | None) -> Mapping[str, str]:
    """The collections of a search that lack files still, and a sentence on each."""
    if not (coming := services.coming()):
        return {}
    names = wanted or await services.catalog.usual()
    return {name: coming[name] for name in coming if listed_in(names, name)}


def concluded(
    page: SearchPage, request: SearchRequest, coming: Collection[str] = (), room: int = MAX_METADATA
) -> SearchPage:
    """The page as far as an agent can afford it, with advice on what is not shown.

    Of whole texts the metadata is cut to `room` characters. Without a limit the results with
    passages are shown, and a few more on a line each. Where files are still `coming`, nothing is
    ruled out.
    """
    results, more, notes = list(page.results), page.more, [*coming, *page.notes]
    advice: list[str] = []
    if coming and not results:
        notes = [note for note in notes if not note.startswith("Nothing ")]
    if request.mode == "full":
        documents, left = described([one.document for one in results], room)
        results = [replace(one, document=new) for one, new in zip(results, documents, strict=True)]
        parts = [called(document_id(one)) for one in documents if one.chunks > 1]
        advice += left
        if parts:
            ids = some(list(dict.fromkeys(parts)))
            advice.append(f"Parts of longer texts, which qdrant-get gives whole: id {ids}.")
    elif request.limit is None and not request.explain:
        last = max((n for n, one in enumerate(results, 1) if one.passages), default=0)
        more += max(len(results) - last - LINES, 0)
        results = results[: last + LINES]
    if deep := next((n for n, one in enumerate(results, 1) if one.left), 0):
        passages = amount(results[deep - 1].left, "more passage")
        advice.append(f"{passages} in result {deep}: give its id as within.")
    listed = not request.query.strip()  # whose notes say how to see older texts
    if more and not page.weak and not listed and len(results) < MAX_LIMIT:
        advice.append(f"{amount(more, 'more result')}: raise limit.")
    return replace(page, results=results, more=more, notes=notes, advice=advice)


def as_text(page: SearchPage, mode: Mode) -> str:
    """A page of results, a few lines each, then what the caller should know."""
    days = {day(one.document) for one in page.results}
    dated = mode == "full" or len(days) > 1 or len(page.results) < SAME_DAY
    lines = [result(n, one, mode, dated=dated) for n, one in enumerate(page.results, 1)]
    same = "" if dated else days.pop()
    dates = [f"all are dated {same}."] if same else []
    lines += noted([*dates, *page.notes, *page.advice])
    if page.corrections:
        said = "; ".join(f"{called(one.word)} → {called(one.to)}" for one in page.corrections)
        lines.insert(0, f"Corrected: {said}")
    return "\n".join([*lines, *([_reranked(page.rerank)] if page.rerank else [])])


def _reranked(outcome: Reranked) -> str:
    """The outcome of reranking, on one line."""
    if outcome.state == "applied":
        return f"Reranked: the best {outcome.pool}, by {outcome.model}."
    return f"Not reranked: {line(outcome.reason or '', None)}"


def result(number: int, one: Result, mode: Mode, *, dated: bool = True) -> str:
    """One result: relevance, collection, id, title, its passages (or the whole text)."""
    document = one.document
    relevance = "" if one.relevance is None else f"[{one.relevance:.2f}] "
    short = document if one.passages or one.relevance is None else _unnamed(document)
    place = heading(document) if mode == "full" else _brief(short, dated=dated)
    lines = [f"{number}. {relevance}{place}"]
    if mode == "full":
        lines += [*quoted(document.text), *details(document)]
    else:
        lines += _passages(one.passages)
    if one.supersedes:
        lines.append(f"supersedes: id {called(one.supersedes)}")
    if document.superseded_by:
        lines.append(superseded(document))
    if one.also:
        lines.append(f"also in: {some([*map(placed, one.also)])}")
    return "\n".join([*lines, *([_why(one.why, one.relevance or 0.0)] if one.why else [])])


def _unnamed(document: Document) -> Document:
    """A text that only its id shall name, where that is its own."""
    known = is_numbered(document) or document.document == document_id(document)
    return document._replace(title=None, section=None) if known else document


def _brief(document: Document, *, dated: bool) -> str:
    """The heading in few tokens, with its source and its day: a title that is the file's name is
    not repeated.
    """
    file = PurePath(source(document))
    known = (document.title or "").casefold() in (file.name.casefold(), file.stem.casefold())
    title = document.section if known else document.heading
    return f"{placed(document, origin(document, dated=dated))}{titled(title, SHORT_LINE)}"


def _passages(shown: Sequence[Passage]) -> list[str]:
    """The passages of a text; each further one under its own id and section."""
    lines = quoted(shown[0].text) if shown else []
    section = shown[0].section if shown else None
    for one in shown[1:]:
        own = f":{one.part.chunk + 1}/{one.part.chunks}"
        own = own if is_numbered(one.part) else called(shown_id(one.part))
        named = one.section if one.section != section else None
        lines.append(f"+ {own}{titled(named, SHORT_LINE)}")
        lines += quoted(one.text)
        section = one.section
    return lines


def _why(why: Mapping[str, Any], relevance: float) -> str:
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


def as_data(page: SearchPage, mode: str, *, points: bool = False) -> dict[str, Any]:
    """A page as structured content."""
    output: dict[str, Any] = {
        "results": [_result(one, full=mode == "full", points=points) for one in page.results],
        "notes": [*page.notes, *page.advice],
    }
    failed = [status for status in page.statuses if status.state != "ok"]
    if failed:
        output["collections"] = {
            one.collection: f"{one.state}: {one.reason}" for one in failed[:MAX_FAILED]
        }
    if page.rerank:
        output["rerank"] = present(asdict(page.rerank))
    if page.corrections:
        output["corrections"] = {one.word: one.to for one in page.corrections}
    return output


def as_meta(page: SearchPage) -> dict[str, Any]:
    """What programs are told of a page, and no model: notes without advice, as values."""
    return {"notes": list(page.notes), "more": page.more, "weak": page.weak}


def _result(one: Result, *, full: bool, points: bool) -> dict[str, Any]:
    document = one.document
    found: dict[str, Any] = {"date": day(document)}
    found |= structured(document) if full else {"source": source(document) or None}
    copies = [
        {"collection": each.collection, "id": identified(each, points=points)} for each in one.also
    ]
    found |= {
        "id": identified(document, points=points),
        "document": document_id(document) if points or full else None,
        "collection": document.collection,
        "relevance": None if one.relevance is None else round(one.relevance, 3),
        "text": document.text if full else one.passage or None,
        "title": document.heading,
        "stored_by": written_by(document),
        "part": part_of(document),
        "passages": [_passage(each, points=points) for each in one.passages[1:]] or None,
        "more_passages": one.left or None,
        "supersedes": one.supersedes,
        "why": _rounded(one.why) if one.why else None,
        "superseded_by": heir_id(document),
        "also_in": copies or None,
    }
    return present(found)


def _passage(one: Passage, *, points: bool) -> dict[str, Any]:
    shown = {"id": identified(one.part, points=points), "part": part_of(one.part)}
    return present(shown | {"section": one.section, "text": one.text})


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
