"""Encodes a map as JSON for the page and the MCP App:

{
  "panels": [{
    "model": "all-MiniLM-L6-v2", "explained": [0.12, 0.08, 0.05],
    "groups": [{"collection": "notes", "total": 1250, "count": 300}],  `count` are sampled
    "scale": 0.000021,             factor from stored to real coordinates
    "xyz": "<base64>",             int16, little endian, x y z of each point, group by group
    "ids": [...], "documents": [...],  of each point, and of its text
    "titles": [...],               or the beginning of the text; 60 characters
    "snippets": [...],             100 characters; absent above `SNIPPETS` points
    "facets": [{                   properties to colour points by
      "key": "tags", "values": ["a", "b"],
      "codes": "<base64>"          a byte per point: its index in `values`, or larger
    }],
    "neighbours": {                the layout by neighbours, or null
      "scale": 0.01, "xy": "<base64>",
      "region_of": "<base64>",     a byte per point: the index of its region, 255: none
      "regions": [{"name", "words", "size", "point"}]   as `projection.shapes.Region`
    }
  }],
  "coming": true,                  that layout is being computed: ask again
  "query": "the words searched for" or null,
  "queries": [{"panel": 0, "at": [0.1, -0.2, 0.05], "neighbours": [0.3, 0.1] or null}],
  "hits": [{                       the results in the order of qdrant-find
    "rank": 1, "collection": "notes", "id": "7c9e...", "document": "7c9e...",
    "relevance": 0.83, "title": "...", "snippet": "...",
    "panel": 0, "at": [0.1, -0.2, 0.05], "neighbours": [0.3, 0.1]   null if not on the map
  }],
  "notes": ["a sentence", ...]     what is not on the map, and why
}
"""

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import Result
from mcp_server_qdrant.core.notation import document_id
from mcp_server_qdrant.projection.shapes import SEEN, Panel, Place, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

Json = dict[str, Any]

SNIPPETS = 2_000
TITLE = 60
SNIPPET = 100
STEPS = 32_767  # of an int16


def encode(view: View, *, points: bool = True) -> Json:
    """A map as the JSON above; without `points` only the search and the panels' groups."""
    panels = view.map.panels
    short = sum(panel.count for panel in panels) <= SNIPPETS
    return {
        "panels": [
            _encode_panel(panel) | (_encode_points(panel, snippets=short) if points else {})
            for panel in panels
        ],
        "query": view.page.query if view.page else None,
        "queries": [_encode_place(one) for one in view.queries],
        "hits": [_encode_hit(*one) for one in view.hits],
        "notes": [*view.map.notes, *view.notes],
        "coming": view.map.coming,
    }


def _encode_panel(panel: Panel) -> Json:
    return {
        "model": panel.model,
        "explained": [round(share, 4) for share in panel.explained],
        "groups": [
            {"collection": one.collection, "total": one.total, "count": len(one.points.ids)}
            for one in panel.groups
        ],
    }


def _encode_points(panel: Panel, *, snippets: bool) -> Json:
    drawn = [group.points for group in panel.groups]
    made: Json = _quantise("xyz", panel.reduced[:, :SEEN]) | {
        "ids": [str(point) for one in drawn for point in one.ids],
        "documents": [name for one in drawn for name in one.documents],
        "titles": [title[:TITLE] for one in drawn for title in one.titles],
        "facets": [asdict(one) | {"codes": _base64(one.codes.tobytes())} for one in panel.facets],
        "neighbours": None,
    }
    if snippets:
        made["snippets"] = [text[:SNIPPET] for one in drawn for text in one.snippets]
    if laid := panel.neighbours:
        made["neighbours"] = _quantise("xy", laid.places) | {
            "region_of": _base64(laid.region_of.tobytes()),
            "regions": [asdict(one) for one in laid.regions],
        }
    return made


def _quantise(name: str, positions: "NDArray[Any]") -> Json:
    scale = float(abs(positions).max(initial=0)) / STEPS or 1.0
    return {"scale": scale, name: _base64((positions / scale).round().astype("<i2").tobytes())}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _encode_hit(rank: int, one: Result, place: Place | None) -> Json:
    return {
        "rank": rank,
        "collection": one.document.collection,
        "id": str(one.document.id),
        "document": document_id(one.document),
        "relevance": round(one.relevance or 0.0, 3),
        "title": one.title[:TITLE],
        "snippet": one.snippet,
    } | (_encode_place(place) if place else {"panel": None, "at": None, "neighbours": None})


def _encode_place(place: Place) -> Json:
    at, beside = (
        one and [round(value, 5) for value in one] for one in (place.position, place.neighbours)
    )
    return {"panel": place.panel, "at": at, "neighbours": beside}
