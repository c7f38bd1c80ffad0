"""The settings of what is stored and of background sync: a part of `Settings`, which reads them."""

import json
from typing import Annotated, Any, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from mcp_server_qdrant.core.notation import name_fault
from mcp_server_qdrant.settings.sources import WholePath


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class SyncSource(BaseModel):
    """A folder, or a file, that is kept in step with a collection."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: WholePath
    collection: str
    name: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_links: bool = False

    @property
    def selection(self) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """What of it is wanted: what is included, excluded, and whether links are followed."""
        return self.include, self.exclude, self.follow_links

    @field_validator("collection")
    @classmethod
    def _collection(cls, value: str) -> str:
        if fault := name_fault(value):
            raise ValueError(fault)
        return value


class SyncSettings(BaseModel):
    """Which folders the server keeps in step with collections, and how much it may do for that.

    And how much may come with a text, of a file or not.
    """

    max_metadata: int = _variable(
        "STORE_MAX_METADATA", 65_536, "Bytes of JSON that the metadata of a text may have."
    )

    sync_sources: Annotated[tuple[SyncSource, ...], NoDecode] = _variable(
        "SYNC_SOURCES",
        (),
        'Folders kept in step while the server runs: JSON such as `{"~/notes": "notes"}`. Links '
        'out of one are read only where a list says `"follow_links": true`.',
    )
    sync_share: float = _variable(
        "SYNC_SHARE", 0.25, "Share of the time that background sync keeps the model busy."
    )

    @field_validator("sync_sources", mode="before")
    @classmethod
    def _json(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            held = json.loads(value)
        except (ValueError, RecursionError):
            held = None
        if isinstance(held, dict):
            held = [{"path": path, "collection": name} for path, name in held.items()]
        if not isinstance(held, list):
            raise ValueError('must be JSON such as {"~/notes": "notes"}')  # noqa: TRY004
        return tuple(held)

    @field_validator("max_metadata")
    @classmethod
    def _some_bytes(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be at least 1")
        return value

    @field_validator("sync_share")
    @classmethod
    def _some_of_the_time(cls, value: float) -> float:
        if not 0 < value <= 1:
            raise ValueError("must be more than 0 and at most 1")
        return value

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        """Ids begin with a source's name, so two of a collection must not share one."""
        names = [(one.collection, one.name or one.path.name) for one in self.sync_sources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(
                f"SYNC_SOURCES has two folders named {twice[1]!r} for {twice[0]!r}: "
                'give one a "name"'
            )
        return self
