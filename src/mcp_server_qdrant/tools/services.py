"""Everything that the tools call, open once the engine is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from mcp_server_qdrant.core.datatypes import CollectionInfo

if TYPE_CHECKING:  # at run time these are imported after the handshake, in a thread
    from mcp_server_qdrant.ingest.delete import Deletion
    from mcp_server_qdrant.ingest.files.background import Background
    from mcp_server_qdrant.ingest.revise import Revision
    from mcp_server_qdrant.ingest.store import Store
    from mcp_server_qdrant.projection.map import Projector
    from mcp_server_qdrant.qdrant.history import History
    from mcp_server_qdrant.qdrant.read.catalog import Catalog
    from mcp_server_qdrant.qdrant.read.facets import Facets
    from mcp_server_qdrant.qdrant.read.lookup import Lookup
    from mcp_server_qdrant.search.pipeline import Pipeline


class Services(Protocol):
    """The services of one caller."""

    pipeline: "Pipeline"
    store: "Store"
    lookup: "Lookup"
    catalog: "Catalog"
    facets: "Facets"
    deletion: "Deletion"
    revision: "Revision"
    history: "History"
    background: "Background"
    projector: "Projector"

    async def described(self, names: Sequence[str]) -> Sequence[CollectionInfo]:
        """These collections, with what each is about."""

    def coming(self) -> Mapping[str, str]:
        """Collection -> what of it cannot be found yet, in a sentence."""

    def faults(self) -> Sequence[str]:
        """A sentence on each other thing that failed in the background."""


Open = Callable[[], Awaitable[Services]]
