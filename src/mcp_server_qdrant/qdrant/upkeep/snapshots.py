"""Snapshots of a server's collections, streamed to files and back: qdrant-client would hold them
in memory.
"""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx
from pydantic import BaseModel
from qdrant_client import models

from mcp_server_qdrant.core.bounded import MODELS, PLAIN, TooLarge, bounded
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    AnswerTooLarge,
    DiskFull,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.errors import FORBIDDEN, LATE, TOO_LARGE, UNREACHABLE

SECONDS = 3600.0  # that a snapshot may take
LOOK_UP_SECONDS = 60.0
RESERVE = 1_000_000_000  # bytes that stay free on the disk
_SENT = "restored.snapshot"
CLUSTER = (
    "This is a cluster, where a snapshot holds the shards of one node: use your cluster's own "
    "backups, or `mcp-server-qdrant copy`."
)


class _Made(BaseModel):
    name: str
    checksum: str | None = None


class _Cluster(BaseModel):
    peers: dict[str, Any] = {}


# Of what the answer to a method and the last part of a path is.
_KINDS: Mapping[tuple[str, str], type[BaseModel]] = {
    ("GET", "cluster"): _Cluster,
    ("GET", "collections"): models.CollectionsResponse,
    ("GET", "aliases"): models.CollectionsAliasesResponse,
    ("POST", "count"): models.CountResult,
    ("POST", "snapshots"): _Made,
}


class Snapshots:
    """The snapshots of one server. All calls raise our errors."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = PLAIN | ({"api-key": key} if key else {})
        limit = httpx.Timeout(SECONDS, connect=10.0)
        self._http = httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers, timeout=limit)

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def names(self) -> list[str]:
        """All collections as people call them. Raises RequestError where they are of a cluster."""
        if len((await self._get("/cluster")).get("peers", ())) > 1:
            raise RequestError(CLUSTER)
        return marks.shown(await self._collections(), await self._leading())

    async def count(self, name: str) -> int:
        """The number of points."""
        answer = await self._ask("POST", f"{_path(name)}/points/count", json={"exact": True})
        return int(answer["count"])

    async def aliases(self, name: str) -> list[str]:
        """The other names of a collection."""
        leading = await self._leading()
        its = leading.get(name, name)
        return sorted(alias for alias, to in leading.items() if to == its and alias != name)

    async def _collections(self) -> list[str]:
        return [one["name"] for one in (await self._get("/collections"))["collections"]]

    async def _leading(self) -> dict[str, str]:
        """Alias -> collection."""
        found = (await self._get("/aliases"))["aliases"]
        return {one["alias_name"]: one["collection_name"] for one in found}

    async def save(self, name: str, file: Path) -> None:
        """Make a snapshot, write it to the file, and remove it on the server."""
        its = _path((await self._leading()).get(name, name))
        made = await self._ask("POST", f"{its}/snapshots", params={"wait": "true"})
        place = f"{its}/snapshots/{quote(made['name'], safe='')}"
        try:
            digest = await self._download(place, file)
        finally:
            await self._ask("DELETE", place)
        if made.get("checksum") not in (None, digest):
            raise EngineFailure(f"The snapshot of {name!r} arrived damaged: try again.")

    async def load(
        self, name: str, file: BinaryIO, points: int, aliases: Iterable[str], *, replace: bool
    ) -> None:
        """Make the collection what the snapshot in the file holds, so many points.

        What is there stays until the new one is whole beside it. Then an alias of the name leads to
        that, as a server renames no collection. Raises RequestError where it is something else.
        """
        known, leading = await self._collections(), await self._leading()
        old = leading.get(name, name if name in known else None)
        if old is not None and not replace:
            raise RequestError(f"The collection {name!r} already exists.")
        copy, left = marks.restored(name, known)
        place = name if old is None else copy
        async with AsyncExitStack() as undone:
            undone.push_async_callback(self._drop, place)
            await self._recover(place, file)
            if (found := await self.count(place)) != points:
                raise RequestError(
                    f"The backup of {name!r} is damaged: {found:,} of {points:,} points."
                )
            undone.pop_all()
        moved = {alias for alias in aliases if replace or alias not in leading}
        moved -= {*known, place}
        if old is not None:
            moved |= {name, *(alias for alias, to in leading.items() if to == old)}
        if old == name:  # an alias cannot have the name of a collection
            await self._ask("DELETE", _path(old))
        await self._lead(moved, place)
        gone = {*left, old or name} - {name, *(to for to in leading.values() if to != old)}
        for one in gone:  # the old one, and what restores left that were killed
            await self._drop(one)

    async def _lead(self, aliases: Iterable[str], place: str) -> None:
        """Let aliases, new or not, lead to a collection: all in one step."""
        actions = [
            {"create_alias": {"alias_name": alias, "collection_name": place}}
            for alias in sorted(aliases)
        ]
        if actions:
            await self._ask("POST", "/collections/aliases", json={"actions": actions})

    async def _recover(self, place: str, file: BinaryIO) -> None:
        await self._ask(
            "POST",
            f"{_path(place)}/snapshots/upload",
            params={"wait": "true", "priority": "snapshot"},
            files={"snapshot": (_SENT, file)},
        )
        with suppress(UnknownCollection):  # the server keeps what was sent
            await self._ask("DELETE", f"{_path(place)}/snapshots/{_SENT}")

    async def _drop(self, name: str) -> None:
        with suppress(QdrantMcpError):
            await self._ask("DELETE", _path(name))

    async def _download(self, place: str, file: Path) -> str:
        """Write what is there to the file; its SHA-256."""
        digest = hashlib.sha256()
        async with (
            _sentences(),
            asyncio.timeout(SECONDS),
            self._http.stream("GET", place) as response,
        ):
            response.raise_for_status()
            response.headers.pop("content-encoding", None)  # it is left packed
            with file.open("wb") as write:
                async for piece in response.aiter_bytes(1 << 20):
                    if shutil.disk_usage(file.parent).free < RESERVE:
                        raise DiskFull("There is too little room on the disk for the snapshot.")
                    digest.update(piece)
                    write.write(piece)
        return digest.hexdigest()

    async def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask("GET", path)
        return found

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        seconds = SECONDS if "params" in more else LOOK_UP_SECONDS  # those wait for a snapshot
        async with _sentences(), asyncio.timeout(seconds):
            async with self._http.stream(method, path, **more) as response:
                await bounded(response, MODELS)
                await response.aread()
            response.raise_for_status()
            result = response.json()["result"]
            if kind := _KINDS.get((method, path.rpartition("/")[2])):
                kind.model_validate(result)
            return result


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
    except (httpx.TimeoutException, TimeoutError) as error:
        raise EngineTimeout(LATE) from error
    except httpx.HTTPError as error:
        raise EngineUnavailable(UNREACHABLE) from error
    except TooLarge as error:
        raise AnswerTooLarge(TOO_LARGE) from error
    except (RecursionError, ValueError, LookupError, TypeError) as error:
        raise EngineFailure("Qdrant's answer could not be read.") from error
