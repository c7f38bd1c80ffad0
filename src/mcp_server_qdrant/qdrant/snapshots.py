"""Snapshots of a server's collections, streamed to files and back: qdrant-client would hold them
in memory.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from mcp_server_qdrant.core.errors import (
    AccessRefused,
    EngineFailure,
    EngineUnavailable,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.errors import FORBIDDEN, UNREACHABLE

SECONDS = 3600.0  # that a snapshot may take
CLUSTER = (
    "This is a cluster, where a snapshot holds the shards of one node: use your cluster's own "
    "backups, or `mcp-server-qdrant copy`."
)


class Snapshots:
    """The snapshots of one server. All calls raise our errors."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"api-key": key} if key else {}
        limit = httpx.Timeout(SECONDS, connect=10.0)
        self._http = httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers, timeout=limit)

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def names(self) -> list[str]:
        """All collections. Raises RequestError where they are spread over several nodes."""
        if len((await self._get("/cluster")).get("peers", ())) > 1:
            raise RequestError(CLUSTER)
        return sorted(one["name"] for one in (await self._get("/collections"))["collections"])

    async def count(self, name: str) -> int:
        """The number of points."""
        answer = await self._ask("POST", f"{_path(name)}/points/count", json={"exact": True})
        return int(answer["count"])

    async def aliases(self, name: str) -> list[str]:
        """The aliases that lead to a collection."""
        found = (await self._get(f"{_path(name)}/aliases"))["aliases"]
        return sorted(one["alias_name"] for one in found)

    async def lead(self, alias: str, name: str, *, replace: bool) -> None:
        """Let the alias lead to the collection; one that leads elsewhere only where wanted."""
        known = {one["alias_name"]: one["collection_name"] for one in await self._all_aliases()}
        if alias in known and not replace:
            return
        actions: list[dict[str, Any]] = []
        if alias in known:
            actions.append({"delete_alias": {"alias_name": alias}})
        actions.append({"create_alias": {"alias_name": alias, "collection_name": name}})
        await self._ask("POST", "/collections/aliases", json={"actions": actions})

    async def _all_aliases(self) -> Sequence[dict[str, str]]:
        found: Sequence[dict[str, str]] = (await self._get("/aliases"))["aliases"]
        return found

    async def save(self, name: str, file: Path) -> None:
        """Make a snapshot, write it to the file, and remove it on the server."""
        made = await self._ask("POST", f"{_path(name)}/snapshots", params={"wait": "true"})
        place = f"{_path(name)}/snapshots/{quote(made['name'], safe='')}"
        try:
            digest = await self._download(place, file)
        finally:
            await self._ask("DELETE", place)
        if made.get("checksum") not in (None, digest):
            raise EngineFailure(f"The snapshot of {name!r} arrived damaged: try again.")

    async def load(self, name: str, file: Path) -> None:
        """Make the collection what the snapshot in the file holds."""
        with file.open("rb") as read:
            await self._ask(
                "POST",
                f"{_path(name)}/snapshots/upload",
                params={"wait": "true", "priority": "snapshot"},
                files={"snapshot": read},
            )
        with suppress(UnknownCollection):  # the server keeps what was sent
            await self._ask("DELETE", f"{_path(name)}/snapshots/{quote(file.name, safe='')}")

    async def _download(self, place: str, file: Path) -> str:
        """Write what is there to the file; its SHA-256."""
        digest = hashlib.sha256()
        async with _sentences(), self._http.stream("GET", place) as response:
            if response.is_error:
                await response.aread()
            response.raise_for_status()
            with file.open("wb") as write:
                async for piece in response.aiter_bytes(1 << 20):
                    digest.update(piece)
                    write.write(piece)
        return digest.hexdigest()

    async def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask("GET", path)
        return found

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        async with _sentences():
            response = await self._http.request(method, path, **more)
            response.raise_for_status()
            return response.json()["result"]


def _path(name: str) -> str:
    return f"/collections/{quote(name, safe='')}"


@asynccontextmanager
async def _sentences() -> AsyncIterator[None]:
    """Turn what goes wrong into our errors."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise AccessRefused(FORBIDDEN) from error
        if status == 404:
            raise UnknownCollection(error.request.url.path.split("/")[2]) from error
        raise EngineFailure(f"Qdrant answered with status {status}.") from error
    except httpx.HTTPError as error:
        raise EngineUnavailable(UNREACHABLE) from error
    except (ValueError, LookupError, TypeError) as error:
        raise EngineFailure("Qdrant's answer could not be read.") from error
