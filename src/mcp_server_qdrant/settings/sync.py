"""The settings of background sync: a part of `Settings`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.dataclasses import dataclass

from mcp_server_qdrant.core.datatypes import SyncedFolder
from mcp_server_qdrant.settings.values import Collection, WholePath, from_json


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class SyncSource(SyncedFolder):
    """A folder as SYNC_SOURCES names it."""

    path: WholePath
    collection: Collection


def entries(value: Any) -> Any:
    """The sources of a value in either of its forms. Raises ValueError where it is not JSON."""
    read = from_json(value, (dict, list), 'must be JSON such as {"~/notes": "notes"}')
    if isinstance(read, dict):
        return [{"path": path, "collection": name} for path, name in read.items()]
    return read


class SyncSettings(BaseModel):
    """Folders that the server keeps in step with collections."""

    sync_sources: Annotated[tuple[SyncSource, ...], BeforeValidator(entries)] = ()
    """Folders kept in step while the server runs: JSON such as `{"~/notes": "notes"}`."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        """Refuse equal names of two sources of a collection: ids begin with them."""
        names = [(one.collection, one.called) for one in self.sync_sources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(
                f"SYNC_SOURCES has two folders named {twice[1]!r} for {twice[0]!r}: "
                'give one a "name"'
            )
        return self
