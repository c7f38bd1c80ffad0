"""The data of a map: panels of points, groups, the place of a query. All of it is frozen.

Arrays are numpy's, float32; nothing here imports numpy. No vector of the engine leaves in these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import PointId, SearchPage
from mcp_server_qdrant.core.find import SearchRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_POINTS = 10_000
USUAL_POINTS = 1_000

Position = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MapRequest:
    """A map to draw: the collections as qdrant-find takes them, `limit` points in all.

    `search` is carried out by the very pipeline of qdrant-find, and its hits are placed; it says
    itself which collections it searches.
    """

    collections: tuple[str, ...] | None = None
    limit: int = USUAL_POINTS
    search: SearchRequest | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Drawn:
    """Points read from a collection: `vectors` (n, d) as stored, the rest beside them.

    `without` counts those that were drawn and have no such vector.
    """

    ids: tuple[PointId, ...]
    titles: tuple[str, ...]
    snippets: tuple[str, ...]
    vectors: "NDArray[Any]" = field(repr=False)
    without: int = 0


@dataclass(frozen=True, slots=True)
class Outlier:
    """A point far from the middle of its collection.

    `far` is by how many standard deviations its distance exceeds the usual one.
    """

    collection: str
    id: PointId
    title: str
    far: float


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The drawn points of one collection, in a panel.

    `total` is how many points it holds. `ids`, `titles` (or how the text begins) and `snippets` are
    those of the drawn points, `positions` (n, 3) where they lie. `spread` is the usual distance of
    its unit vectors from their middle (root of the mean square, 0 to 1); `near` maps the other
    collections of the panel to the cosine of the two middles, the nearest first. `middle` is the
    mean of the unit vectors, and stays here.
    """

    collection: str
    total: int
    ids: tuple[PointId, ...]
    titles: tuple[str, ...]
    snippets: tuple[str, ...]
    positions: "NDArray[Any]"
    centre: Position
    spread: float
    near: Mapping[str, float]
    middle: "NDArray[Any]" = field(repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Panel:
    """The collections of one embedding model, on the three axes along which they differ most.

    `explained` is each axis's share of the variance. `basis` places further vectors
    (`basis.project`), and stays here.
    """

    model: str
    groups: tuple[Group, ...]
    explained: tuple[float, ...]
    outliers: tuple[Outlier, ...]
    basis: Any = field(repr=False)

    @property
    def count(self) -> int:
        """The number of points that are drawn."""
        return sum(len(group.ids) for group in self.groups)


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """The panels, and in `notes` a sentence for each thing that is not on them."""

    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedHit:
    """One result of the search, in its order: `rank` counts from 1.

    `panel` is the panel's index and `position` where it lies there; both None where the point has
    no vector on the map.
    """

    rank: int
    collection: str
    id: PointId
    relevance: float
    title: str
    snippet: str
    panel: int | None
    position: Position | None


@dataclass(frozen=True, slots=True)
class PlacedQuery:
    """The place of the query in one panel.

    `near` maps the collections there to the cosine of the query to their middle, nearest first.
    """

    panel: int
    position: Position
    near: Mapping[str, float]


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A map with a search on it. `page` is what qdrant-find answered; without a search None."""

    map: Map
    page: SearchPage | None = None
    queries: tuple[PlacedQuery, ...] = ()
    hits: tuple[PlacedHit, ...] = ()
    notes: tuple[str, ...] = ()
