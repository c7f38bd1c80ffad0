"""The data of a map: panels of points, groups, the place of a query. All of it is frozen.

Arrays are numpy's, float32; nothing here imports numpy. No vector of the engine leaves in these.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import PointId, SearchPage
from mcp_server_qdrant.core.find import SearchRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_POINTS = 10_000  # of a map for an agent, or in a chat
MOST_DRAWN = 100_000  # on the page
USUAL_POINTS = 1_000
# What can be asked for -> what is in it; the second layout is begun where it is asked for.
PARTS: Mapping[str, Set[str]] = {
    "all": {"points", "names", "regions", "second"},
    "points": {"points", "regions", "second"},
    "names": {"names"},
    "look": {"points", "regions"},
    "layout": {"second"},
    "places": set(),
}

Position = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MapRequest:
    """A map to draw: the collections as qdrant-find takes them, `limit` points in all.

    `search` is carried out by the pipeline of qdrant-find, and its hits are placed; it says
    itself which collections it searches. `neighbours` has the second layout made, too.
    """

    collections: tuple[str, ...] | None = None
    limit: int = USUAL_POINTS
    search: SearchRequest | None = None
    neighbours: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Drawn:
    """Points read from a collection: `vectors` (n, d) as stored, the rest beside them.

    `texts` are how the texts begin, longer than `snippets`; `facts` short values of the payload by
    key. `without` counts those that were drawn and have no such vector.
    """

    ids: tuple[PointId, ...]
    titles: tuple[str, ...]
    snippets: tuple[str, ...]
    texts: tuple[str, ...]
    facts: tuple[Mapping[str, Sequence[str]], ...]
    vectors: "NDArray[Any]" = field(repr=False)
    without: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Points that are alike, by the words that tell them from the others, the best word first.

    Of k regions in all, those are shown with `born` <= k < `split`; 0: it is never split. Its
    points are those of the leaves `first` to `last`, the latter not included.
    """

    words: tuple[str, ...]
    size: int
    born: int
    split: int
    first: int
    last: int

    def shown_among(self, count: int) -> bool:
        """True where it is one of so many."""
        return self.born <= count and (not self.split or count < self.split)


@dataclass(frozen=True, eq=False, slots=True)
class Regions:
    """The regions of a panel; `leaves` (n,) has each point's, `words` theirs."""

    found: tuple[Region, ...]
    leaves: "NDArray[Any]"
    words: Any = field(repr=False)

    def shown(self, count: int) -> list[Region]:
        """So many of them, which share all points; fewer where there are no more."""
        most = max((one.born for one in self.found), default=0)
        return [one for one in self.found if one.shown_among(min(count, most))]


@dataclass(frozen=True, eq=False, slots=True)
class Facet:
    """What points can be coloured by: the value of each, as its place in `values`.

    A place beyond them is no value, or a rare one. `ordered` values rise.
    """

    key: str
    values: tuple[str, ...]
    codes: "NDArray[Any]"
    ordered: bool


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
    (`basis.project`), `wide` has more axes, and `reduced` (n, axes) the points on those; they stay
    here. `neighbours` (n, 2) is the second layout, where points that are alike lie near each other.
    """

    model: str
    groups: tuple[Group, ...]
    explained: tuple[float, ...]
    outliers: tuple[Outlier, ...]
    regions: Regions
    facets: tuple[Facet, ...]
    basis: Any = field(repr=False)
    wide: Any = field(repr=False)
    reduced: "NDArray[Any]" = field(repr=False)
    neighbours: "NDArray[Any] | None" = field(repr=False, default=None)

    @property
    def count(self) -> int:
        """The number of points that are drawn."""
        return sum(len(group.ids) for group in self.groups)


@dataclass(frozen=True, eq=False, slots=True)
class Map:
    """The panels, and in `notes` a sentence for each thing that is not on them.

    `coming`: the second layout is being made.
    """

    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    coming: bool = False


@dataclass(frozen=True, slots=True)
class PlacedHit:
    """One result of the search, in its order: `rank` counts from 1.

    `panel` is the panel's index, `position` where it lies there, `beside` where in the second
    layout; None where the point has no vector on the map, or there is no such layout.
    """

    rank: int
    collection: str
    id: PointId
    relevance: float
    title: str
    snippet: str
    panel: int | None
    position: Position | None
    beside: Position | None = None


@dataclass(frozen=True, slots=True)
class PlacedQuery:
    """The place of the query in one panel.

    `near` maps the collections there to the cosine of the query to their middle, nearest first.
    """

    panel: int
    position: Position
    near: Mapping[str, float]
    beside: Position | None = None


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A map with a search on it. `page` is what qdrant-find answered; without a search None."""

    map: Map
    page: SearchPage | None = None
    queries: tuple[PlacedQuery, ...] = ()
    hits: tuple[PlacedHit, ...] = ()
    notes: tuple[str, ...] = ()
