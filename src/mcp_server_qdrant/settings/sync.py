"""The settings of background sync: a part of `Settings`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.dataclasses import dataclass

from mcp_server_qdrant.core.datatypes import SyncedFolder
from mcp_server_qdrant.settings.values import AbsolutePath, Collection, from_json, parse_names


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class SyncSource(SyncedFolder):
    """An entry of SYNC_SOURCES."""

    path: AbsolutePath
    collection: Collection


def parse_sources(value: Any) -> Any:
    """Parse the sources in either form. Raises ValueError if the value is not JSON."""
    read = from_json(value, (dict, list), 'must be JSON such as {"~/notes": "notes"}')
    if isinstance(read, dict):
        return [{"path": path, "collection": name} for path, name in read.items()]
    return read


class SyncSettings(BaseModel):
    """The folders that the server syncs into collections."""

    sync_sources: Annotated[tuple[SyncSource, ...], BeforeValidator(parse_sources)] = ()
    """Folders to sync while the server runs: JSON such as `{"~/notes": "notes"}`."""
    qdrant_follow_roots: Annotated[tuple[AbsolutePath, ...], BeforeValidator(parse_names)] = ()
    """Folders, separated by commas. An agent over stdio may have the server follow folders below
    them. Default: none; the agent then gets a command for you to run."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        """Refuse two sources of a collection with the same name, because ids begin with it."""
        names = [(one.collection, one.label) for one in self.sync_sources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(
                f"SYNC_SOURCES has two folders named {twice[1]!r} for {twice[0]!r}: "
                'give one a "name"'
            )
        return self
