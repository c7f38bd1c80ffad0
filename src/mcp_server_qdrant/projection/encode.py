"""A map as JSON for a browser: under 40 bytes per point beside the titles.

The page and the MCP App read this shape, the page in parts (`PARTS`):

    {
      "panels": [{
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "axes": 3,                     numbers per point, 2 or 3
        "explained": [0.12, 0.08, 0.05],  each axis's share of the variance, one per axis
        "scale": 0.000021,             a stored coordinate times this is the real one
        "groups": [{                   one per collection; its place here is its colour
          "collection": "notes",
          "total": 1250,               points it holds; drawn are only `count` of them
          "count": 300,
          "xyz": "<base64>",           int16, little endian, count x axes: x0 y0 z0 x1 y1 z1 ...
          "ids": "<base64>",           count x 16 bytes, each big endian; with "id_kind":
          "id_kind": "uuid",           "uuid": the UUID's bytes; "int": the number
                                       "mixed": `ids` is a list of strings instead
          "documents": ["...", ...],   the id of each point's text, "" if only shorter
          "titles": ["...", ...],      title of each point, or how its text begins; 60 characters
          "snippets": ["...", ...]     how each text begins, 100 characters; absent where the map
                                       has more points than SNIPPETS (ask qdrant-get on a click)
        }],
        "neighbours": {                the layout by neighbours, where near means alike, or null
          "scale": 0.01, "xy": "<base64>",   int16, of all points of the panel
          "region_of": "<base64>",     a byte for each point: its region's place, 255: none
          "regions": [{                the largest first
            "name": "boundary layer",
            "words": ["boundary layer", ...],  phrases that tell it from all others, best first
            "size": 130,
            "point": 17                the number of the point at which the name stands
          }]
        },
        "facets": [{                   what points can be coloured by
          "key": "tags", "values": ["a", "b"], "ordered": false,
          "codes": "<base64>"          a byte for each point: its place in `values`, or beyond
        }]
      }],
      "coming": true,                  that layout is being made: ask again
      "query": "the words searched for" or null,
      "queries": [{                    where the query fell: at most one per panel
        "panel": 0,                    index into `panels`
        "at": [0.1, -0.2, 0.05],       real coordinates
        "neighbours": [0.3, 0.1] or null,  those by neighbours
        "near": {"notes": 0.41, ...}   collections by the cosine to their middle, nearest first
      }],
      "hits": [{                       the results in the order of qdrant-find
        "rank": 1, "collection": "notes", "id": "7c9e...", "document": "7c9e...", "relevance": 0.83,
        "title": "...", "snippet": "...",
        "panel": 0, "at": [0.1, -0.2, 0.05]   both null where the point is on no panel
        "neighbours": [0.3, 0.1] or null
      }],
      "notes": ["a sentence", ...]     what is not on the map, and why
    }
"""

import base64
import sys
import uuid
from collections.abc import Sequence, Set
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.maps import (
    PARTS,
    Group,
    Panel,
    PlacedHit,
    PlacedQuery,
    Position,
    View,
)
from mcp_server_qdrant.core.notation import short_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

Json = dict[str, Any]

SNIPPETS = 2_000
TITLE = 60
SNIPPET = 100
STEPS = 32_767  # of an int16
ID_BYTES = 16
NAMED = 20_000  # points of each panel whose names travel together


def encode(view: View, axes: int = 3, parts: str = "all", start: int | None = None) -> Json:
    """A map as the JSON above, with the first `axes` (2 or 3) of each position.

    `parts` asks for less; `start` for the names of `NAMED` points of each panel from there on.
    """
    panels, wanted = view.map.panels, PARTS[parts]
    short = sum(panel.count for panel in panels) <= SNIPPETS
    named = range(start or 0, sys.maxsize if start is None else start + NAMED)
    return {
        "panels": [_panel(one, axes, wanted, named, snippets=short) for one in panels],
        "query": view.page.query if view.page else None,
        "queries": [_query(one, axes) for one in view.queries],
        "hits": [_hit(one, axes) for one in view.hits],
        "notes": [*view.map.notes, *view.notes],
        "coming": view.map.coming,
    }


def _panel(panel: Panel, axes: int, wanted: Set[str], named: range, *, snippets: bool) -> Json:
    largest = max((float(abs(group.positions).max(initial=0)) for group in panel.groups), default=0)
    scale = largest / STEPS or 1.0
    encoded: Json = {
        "model": panel.model,
        "axes": axes,
        "explained": [round(share, 4) for share in panel.explained[:axes]],
        "scale": scale,
        "groups": [
            {"collection": one.collection, "total": one.total, "count": len(one.ids)}
            for one in panel.groups
        ],
    }
    first = 0
    for place, group in enumerate(panel.groups):
        if "points" in wanted:
            xyz = _base64(_steps(group.positions[:, :axes], scale))
            encoded["groups"][place]["xyz"] = xyz
        if "names" in wanted:
            bounds = max(named.start - first, 0), max(named.stop - first, 0)
            encoded["groups"][place] |= _names(group, slice(*bounds), snippets=snippets)
        first += len(group.ids)
    if "neighbours" in wanted:
        encoded["neighbours"] = _neighbours(panel)
    if "points" in wanted:
        encoded["facets"] = [
            asdict(one) | {"codes": _base64(one.codes.tobytes())} for one in panel.facets
        ]
    return encoded


def _neighbours(panel: Panel) -> Json | None:
    if panel.neighbours is None:
        return None
    places = panel.neighbours.places
    scale = float(abs(places).max()) / STEPS or 1.0
    return {
        "scale": scale,
        "xy": _base64(_steps(places, scale)),
        "region_of": _base64(panel.neighbours.region_of.tobytes()),
        "regions": [asdict(one) for one in panel.regions],
    }


def _names(group: Group, which: slice, *, snippets: bool) -> Json:
    kind, ids = _ids(group.ids[which])
    titles = [title[:TITLE] for title in group.titles[which]]
    texts = zip(group.ids[which], group.documents[which], strict=True)
    documents = ["" if name == short_id(one) else name for one, name in texts]
    named = {"ids": ids, "id_kind": kind, "documents": documents, "titles": titles}
    if snippets:
        named["snippets"] = [snippet[:SNIPPET] for snippet in group.snippets[which]]
    return named


def _steps(positions: "NDArray[Any]", scale: float) -> bytes:
    return bytes((positions / scale).round().astype("<i2").tobytes())


def _ids(ids: Sequence[PointId]) -> tuple[str, str | list[str]]:
    if all(isinstance(one, int) for one in ids):
        return "int", _base64(b"".join(int(one).to_bytes(ID_BYTES, "big") for one in ids))
    if all(isinstance(one, str) for one in ids):
        return "uuid", _base64(b"".join(uuid.UUID(str(one)).bytes for one in ids))
    return "mixed", list(map(str, ids))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _query(one: PlacedQuery, axes: int) -> Json:
    return {
        "panel": one.panel,
        "at": _rounded(one.position[:axes]),
        "neighbours": _rounded(one.neighbours),
        "near": {name: round(value, 3) for name, value in one.near.items()},
    }


def _hit(one: PlacedHit, axes: int) -> Json:
    return {
        "rank": one.rank,
        "collection": one.collection,
        "id": str(one.id),
        "document": one.document,
        "relevance": round(one.relevance, 3),
        "title": one.title[:TITLE],
        "snippet": one.snippet,
        "panel": one.panel,
        "at": _rounded(one.position and one.position[:axes]),
        "neighbours": _rounded(one.neighbours),
    }


def _rounded(position: Position | None) -> list[float] | None:
    return None if position is None else [round(value, 5) for value in position]
