"""qdrant-project: a map of collections as text, numbers and an app."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from mcp.server.apps import client_supports_apps
from mcp.server.mcpserver.context import Context
from mcp.types import CallToolResult
from pydantic import Field

from mcp_server_qdrant.core.datatypes import Result
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import Text, Words
from mcp_server_qdrant.core.find import MAX_QUERY, SearchRequest
from mcp_server_qdrant.core.notation import cite, one_line, plural
from mcp_server_qdrant.projection.shapes import USUAL_POINTS, Group, Panel, Place, View
from mcp_server_qdrant.tools.boundary import ClosedTool, make_result, services_of_tool
from mcp_server_qdrant.tools.rendering import as_notes

APP = "ui://qdrant/map.html"
MOST_POINTS = 10_000
NEAREST = 3
ROOM = 1_480  # bytes of the text at most
TITLE = 60  # characters
NAMED = 3
REGIONS = 8
PATIENCE = 10.0  # seconds to wait for regions; the app polls for them instead
PROJECT = "Map of collections (PCA): which are close, and where a query's hits are."

Limit = Annotated[int, Field(ge=1, le=MOST_POINTS, description="Points drawn")]
Places = Annotated[Words, Field(description="As in qdrant-find")]
Query = Annotated[Text | None, Field(description="Placed with its hits")]
Axes = Annotated[Literal[2, 3], Field(description="Axes")]
WithPoints = Annotated[bool | None, Field(description="Return all points, for drawing")]


async def project(
    ctx: Context[Any],
    collections: Places = None,
    query: Query = None,
    dimensions: Axes = 2,
    limit: Limit = USUAL_POINTS,
    points: WithPoints = None,
) -> CallToolResult:
    """Project collections."""
    if collections is not None and not collections:
        raise RequestError('collections is empty: name some, or ["*"] for all.')
    if query and len(query) > MAX_QUERY:
        raise RequestError(f"query is longer than {MAX_QUERY} characters: ask for less.")
    search = None
    if query and query.strip():
        search = SearchRequest.model_construct(query=query, collections=collections)
    projector = (await services_of_tool()).projector
    drawn = bool(points) or client_supports_apps(ctx)
    patience = 0.0 if drawn else PATIENCE
    view = await projector.view(collections, limit, search, patience)
    structured = output(view, dimensions)
    if drawn:
        structured["map"] = await projector.encode_view(view)
    return make_result(as_text(view, dimensions), structured)


def make_project() -> ClosedTool:
    """The tool to register, linked to its app."""
    tool = ClosedTool.make(project, "qdrant-project", PROJECT, write=False)
    tool.meta = {"ui": {"resourceUri": APP}}
    return tool


def output(view: View, axes: int) -> dict[str, Any]:
    """A map as structured content, without the points."""
    queries = {one.panel: one for one in view.queries}
    panels = []
    for index, panel in enumerate(view.map.panels):
        made = _panel(panel, axes)
        if query := queries.get(index):
            made["query"] = {"at": _at(query.position, axes), "near": _nearest(query.near)}
        panels.append(made)
    return {
        "panels": panels,
        "hits": [_hit(one, place, axes) for _, one, place in view.hits],
        "notes": _notes(view),
    }


def _panel(panel: Panel, axes: int) -> dict[str, Any]:
    return {
        "model": panel.model,
        "explained": [round(share, 3) for share in panel.explained[:axes]],
        "collections": [
            {
                "name": group.collection,
                "points": group.total,
                "drawn": len(group.points.ids),
                "centre": _at(group.centre, axes),
                "spread": round(group.spread, 3),
                "near": _nearest(group.near),
            }
            for group in panel.groups
        ],
        "regions": [
            {"name": one.name, "words": list(one.words), "points": one.size}
            for one in panel.regions[:REGIONS]
        ],
    }


def _nearest(near: Mapping[str, float]) -> dict[str, float]:
    return {name: round(cosine, 3) for name, cosine in list(near.items())[:NEAREST]}


def _hit(one: Result, place: Place | None, axes: int) -> dict[str, Any]:
    return {
        "id": str(one.document.id),
        "collection": one.document.collection,
        "relevance": round(one.relevance or 0.0, 3),
        "title": one.title,
        "at": place and _at(place.position, axes),
    }


def _at(position: Sequence[float], axes: int) -> list[float]:
    return [round(value, 3) for value in position[:axes]]


def as_text(shown: View, axes: int) -> str:
    """The text: panels, nearest collections of the query, regions, notes, collections."""
    if not shown.map.panels:
        return _fit_lines(["No map: there is nothing to draw.", *as_notes(_notes(shown))])
    queries = {one.panel: one for one in shown.queries}
    heads, groups = list[str](), list[str]()
    for index, panel in enumerate(shown.map.panels):
        heads.append(_head(panel, axes))
        if query := queries.get(index):
            heads.append(f"The query is nearest to {_near(query.near)}.")
        named = [f"{one_line(one.name, TITLE)} ({one.size:,})" for one in panel.regions[:REGIONS]]
        if named:
            heads.append(f"Regions: {'; '.join(named)}.")
        groups += [_group(group) for group in panel.groups]
    return _fit_lines([*heads, *as_notes(_notes(shown)), *groups])


def _head(panel: Panel, axes: int) -> str:
    names = len(panel.groups)
    what = f"{names} collections" if names > 1 else cite(panel.groups[0].collection)
    points = _points(panel.count, sum(group.total for group in panel.groups))
    share = sum(panel.explained[:axes])
    shows = f"Its {axes} axes explain {share:.0%} of the variance."
    if share <= 0:
        shows = "All its points coincide."
    return f"Map of {what}, {points}, by {one_line(panel.model)}. {shows}"


def _group(group: Group) -> str:
    points = _points(len(group.points.ids), group.total)
    near = f", nearest {_near(group.near)}" if group.near else ""
    return f"- {cite(group.collection)}: {points}, spread {group.spread:.2f}{near}"


def _points(drawn: int, total: int) -> str:
    return plural(total, "point") if drawn == total else f"{drawn:,} of {plural(total, 'point')}"


def _near(near: Mapping[str, float]) -> str:
    return ", ".join(f"{cite(name)} ({cosine:.2f})" for name, cosine in list(near.items())[:NAMED])


def _notes(shown: View) -> list[str]:
    return [*shown.map.notes, *shown.notes, *(shown.page.notes if shown.page else ())]


def _fit_lines(lines: Sequence[str]) -> str:
    """The first lines that fit, and the number of lines left out."""
    left = ROOM
    for number, one in enumerate(lines):
        left -= len(one.encode()) + 1
        if left < 0:
            return "\n".join([*lines[:number], f"({len(lines) - number} more)"])
    return "\n".join(lines)
