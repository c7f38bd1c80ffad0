"""The interface of the services that the tools call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mcp_server_qdrant.core.datatypes import CollectionInfo

if TYPE_CHECKING:  # at run time these are imported after the handshake, in a thread
    from mcp_server_qdrant.ingest.delete import Deletion
    from mcp_server_qdrant.ingest.files.background import Background
    from mcp_server_qdrant.ingest.revise import Reviser
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
    revision: "Reviser"
    history: "History"
    background: "Background"
    projector: "Projector"

    async def describe_collections(self, names: Sequence[str]) -> Sequence[CollectionInfo]:
        """The descriptions of these collections."""

    async def annotate(
        self,
        name: str,
        description: str | None,
        folder: Path | None,
        *,
        unassign: bool,
        create: bool,
    ) -> Sequence[Path]:
        """Set a collection's description, add a folder, and return all its folders."""

    async def follow(self, folder: Path, collection: str, *, follow: bool) -> bool:
        """Start or stop syncing a folder into a collection; False if that is not allowed."""

    def unfinished(self) -> Mapping[str, str]:
        """Collection -> a sentence on what cannot be found there yet."""

    def faults(self) -> Sequence[str]:
        """A sentence on each other failure in the background."""


Open = Callable[[], Awaitable[Services]]
