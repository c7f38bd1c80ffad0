"""The immutable data types of a map: panels of points, groups, positions of queries.

Arrays are numpy float32 arrays; this module does not import numpy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import Result, Sample, SearchPage

if TYPE_CHECKING:
    from numpy.typing import NDArray

USUAL_POINTS = 1_000
SEEN = 3  # axes of a map

Position = Sequence[float]


@dataclass(frozen=True, slots=True)
class Region:
    """A cluster in the layout by neighbours, named by its distinctive phrases.

    `words` has the best phrase first; the name is drawn at the point with the index `point`.
    """

    name: str
    words: Sequence[str]
    size: int
    point: int


@dataclass(frozen=True, eq=False, slots=True)
class Neighbours:
    """The layout that puts similar points near each other: `places` (n, 2) of a panel's points.

    `region_of` (n,) is each point's index in `regions`, which has the largest first; 255: none.
    """

    places: "NDArray[Any]"
    region_of: "NDArray[Any]"
    regions: tuple[Region, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Facet:
    """A property to colour points by: `codes` are indexes into `values`.

    An index beyond `values` means no value or a rare one.
    """

    key: str
    values: tuple[str, ...]
    codes: "NDArray[Any]"


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The sampled points of one collection in a panel.

    `total` is its number of points. `middle` is the mean of the unit vectors, `spread` their root
    mean square distance from it (0 to 1). `near` maps the other collections of the panel to the
    cosine of the two means, nearest first.
    """

    collection: str
    total: int
    points: Sample
    centre: Position
    spread: float
    near: Mapping[str, float]
    middle: "NDArray[Any]" = field(repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Panel:
    """The collections of one embedding model, on the three axes along which they differ most.

    `explained` is each axis's share of the variance. `basis.project` maps other vectors onto all
    axes, of which the first three are shown; `reduced` (n, axes) has the points on all axes.
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
        """The number of sampled points."""
        return sum(len(group.points.ids) for group in self.groups)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of the layout by neighbours; empty without one."""
        return self.neighbours.regions if self.neighbours else ()


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """The panels, and in `notes` a sentence for everything left out.

    `coming`: the layout by neighbours is being computed.
    """

    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A position: the panel, the coordinates on its axes, and those in the neighbours layout.

    For a query, `near` maps the panel's collections to the cosine to their mean, nearest first.
    """

    panel: int
    position: Position
    neighbours: Position | None = None
    near: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A map with a search on it. `page` is the result of qdrant-find; None without a search.

    `places` are the positions of its results; None for a point without a vector on the map.
    """

    map: Map
    page: SearchPage | None = None
    queries: tuple[Place, ...] = ()
    places: tuple[Place | None, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def hits(self) -> list[tuple[int, Result, Place | None]]:
        """The results in order: rank from 1, result, position."""
        results = self.page.results if self.page else ()
        return [(n, *one) for n, one in enumerate(zip(results, self.places, strict=True), 1)]
