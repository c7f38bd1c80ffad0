"""The data of a map, all of it frozen: panels of points, groups, the place of a query.

Arrays are numpy's, float32; nothing here imports numpy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import PointId, Result, SearchPage

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_POINTS = 10_000
USUAL_POINTS = 1_000
SEEN = 3  # axes of a map

Position = Sequence[float]


@dataclass(frozen=True, eq=False, slots=True)
class Drawn:
    """Points read from a collection: `vectors` (n, d) as stored, the rest beside them.

    `documents` are the ids of the texts that the points are of, as all tools show them.
    `texts` are how the texts begin, longer than `snippets`; `facts` short values of the payload by
    key. `without` counts those that were drawn and have no such vector.
    """

    ids: tuple[PointId, ...]
    documents: tuple[str, ...]
    titles: tuple[str, ...]
    snippets: tuple[str, ...]
    texts: tuple[str, ...]
    facts: tuple[Mapping[str, Sequence[str]], ...]
    vectors: "NDArray[Any]" = field(repr=False)
    without: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Points that lie together by neighbours, by the phrases that tell them from all others.

    `words` has the best phrase first; the name stands at the point of the number `point`.
    """

    name: str
    words: Sequence[str]
    size: int
    point: int


@dataclass(frozen=True, eq=False, slots=True)
class Neighbours:
    """The layout in which alike points are near each other: the `places` (n, 2) of a panel's.

    `region_of` (n,) has each point's region, by its place in `regions`, the largest first; 255:
    none.
    """

    places: "NDArray[Any]"
    region_of: "NDArray[Any]"
    regions: tuple[Region, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Facet:
    """What points can be coloured by: the value of each, as its place in `values`.

    A place beyond them is no value, or a rare one.
    """

    key: str
    values: tuple[str, ...]
    codes: "NDArray[Any]"


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The drawn points of one collection, in a panel.

    `total` is how many points it holds. `spread` is the usual distance of its unit vectors from
    their middle (root of the mean square, 0 to 1); `near` maps the other collections of the panel
    to the cosine of the two middles, the nearest first. `middle` is the mean of the unit vectors.
    """

    collection: str
    total: int
    points: Drawn
    centre: Position
    spread: float
    near: Mapping[str, float]
    middle: "NDArray[Any]" = field(repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Panel:
    """The collections of one embedding model, on the three axes along which they differ most.

    `explained` is each axis's share of the variance. `basis` places further vectors on more axes
    (`basis.project`), the first three of which are seen; `reduced` (n, axes) has the points on all.
    """

    model: str
    groups: tuple[Group, ...]
    explained: tuple[float, ...]
    facets: tuple[Facet, ...]
    basis: Any = field(repr=False)
    reduced: "NDArray[Any]" = field(repr=False)
    neighbours: Neighbours | None = field(repr=False, default=None)

    @property
    def count(self) -> int:
        """The number of points that are drawn."""
        return sum(len(group.points.ids) for group in self.groups)

    @property
    def regions(self) -> tuple[Region, ...]:
        """Those of the layout by neighbours, where it is there."""
        return self.neighbours.regions if self.neighbours else ()


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """The panels, and in `notes` a sentence for each thing that is not on them.

    `coming`: the layout by neighbours is being made.
    """

    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where something lies: on which panel, on its axes, and in the layout by neighbours.

    `near`, of a query, maps the collections there to the cosine of it to their middle, nearest
    first.
    """

    panel: int
    position: Position
    neighbours: Position | None = None
    near: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A map with a search on it. `page` is what qdrant-find answered; without a search None.

    `places` are those of its results, None where a point has no vector on the map.
    """

    map: Map
    page: SearchPage | None = None
    queries: tuple[Place, ...] = ()
    places: tuple[Place | None, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def hits(self) -> list[tuple[int, Result, Place | None]]:
        """The results in their order: rank from 1, result, place."""
        results = self.page.results if self.page else ()
        return [(n, *one) for n, one in enumerate(zip(results, self.places, strict=True), 1)]
