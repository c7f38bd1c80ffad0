"""The values of SYNC_SOURCES in clients' configurations: read and merged."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.settings.environment import explain
from mcp_server_qdrant.settings.sync import SyncSettings, parse_sources
from mcp_server_qdrant.settings.values import from_home

VARIABLE = "SYNC_SOURCES"

Source = Mapping[str, Any]


def parse(text: str | None) -> list[Source]:
    """The entries of a value of SYNC_SOURCES. Raises ConfigError."""
    try:
        SyncSettings.model_validate({"sync_sources": text or "[]"})
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    return list(parse_sources(text or "[]"))


def by_place(values: Iterable[str | None]) -> dict[tuple[Path, str], Source]:
    """The entries of all values by path and collection; later values override earlier ones.

    Raises ConfigError.
    """
    entries = [one for text in values for one in parse(text)]
    return {(from_home(Path(one["path"])).absolute(), one["collection"]): one for one in entries}


def merge(values: Iterable[str | None], removed: Iterable[str] = ()) -> list[Source]:
    """The entries of all values without those `removed` by path or name. Raises ConfigError."""
    found = by_place(values)
    for named in removed:
        place = Path(named).expanduser().absolute()
        gone = [key for key, one in found.items() if key[0] == place or one.get("name") == named]
        if not gone:
            there = ", ".join(str(one) for one, _ in found)
            others = f"choose from: {there}" if there else "no folder is"
            raise ConfigError(f"{named} is not followed; {others}.")
        for key in gone:
            del found[key]
    return list(found.values())
