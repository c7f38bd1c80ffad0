"""Backups of the embedded engine's collections: a folder that is created only when complete.

backup.json      the manifest: the number of points and the file's digest, per collection
<slug>.points    a collection: its description and its points; see `edge/points_file`
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError

from mcp_server_qdrant.core.disk import open_file, write_atomically
from mcp_server_qdrant.core.drafts import OVERWRITE, drafted
from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError, UnusableFile
from mcp_server_qdrant.core.notation import cite_all
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import STAGED, slug_of
from mcp_server_qdrant.qdrant.edge.points_file import read_description, read_points

MANIFEST = "backup.json"
_PAGE = 64  # points written at once
_DAMAGE = (
    *(FileNotFoundError, NotADirectoryError, RequestError),
    *(ValueError, LookupError, TypeError, RecursionError),
)

Progress = Callable[[str, int, int], None]  # gets the collection, the number done, and the total


class SavedCollection(BaseModel):
    """A collection in a backup: its number of points and the SHA-256 of its file."""

    points: int = Field(ge=0)
    digest: str


class Manifest(BaseModel):
    """The contents of a backup."""

    format: Literal[4] = 4
    made_at: str = ""
    collections: dict[str, SavedCollection]


async def back_up(
    client: EdgeClient,
    names: Sequence[str],
    folder: Path,
    now: datetime,
    tell: Progress,
    *,
    replace: bool,
) -> dict[str, int]:
    """Copy the collections into the folder, which appears only when complete.

    Returns their point counts.
    """
    done: dict[str, SavedCollection] = {}
    with drafted(folder, MANIFEST, "a backup", replace=replace) as draft:
        for name in names:
            tell(name, len(done), len(names))
            file = draft / _file_of(name)
            points = await client.save(name, file)
            done[name] = SavedCollection(
                points=points, digest=await asyncio.to_thread(_digest, file)
            )
        about = Manifest(made_at=now.isoformat(), collections=done)
        write_atomically(draft / MANIFEST, about.model_dump_json())
    return {name: saved.points for name, saved in done.items()}


def read_manifest(folder: Path) -> dict[str, SavedCollection]:
    """The collections in a backup. Raises RequestError."""
    try:
        with open_file(folder / MANIFEST, folder) as file:
            return Manifest.model_validate_json(file.read()).collections
    except FileNotFoundError:
        raise RequestError(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except (ValidationError, OSError, UnusableFile) as error:
        raise RequestError(
            f"The {MANIFEST} of {folder} cannot be read: it is damaged, or from another version."
        ) from error


def check_free(wanted: Iterable[str], there: Iterable[str], *, replace: bool) -> None:
    """Raise RequestError if a restore would replace existing collections without `replace`."""
    taken = sorted({*there} & {*wanted})
    if taken and not replace:
        raise RequestError(f"Already there: {cite_all(taken)}. Name others, or {OVERWRITE} them.")


async def restore(
    client: EdgeClient,
    folder: Path,
    wanted: Mapping[str, SavedCollection],
    tell: Progress,
    *,
    replace: bool,
) -> dict[str, int]:
    """Restore the collections one by one; returns their point counts."""
    done: dict[str, int] = {}
    for name, saved in wanted.items():
        tell(name, len(done), len(wanted))
        try:
            try:
                await _load(client, name, folder / _file_of(name), saved, replace=replace)
            except OSError as error:
                reason = f"The backup cannot be restored: {error.strerror}."
                raise EngineFailure(reason) from error
        except QdrantMcpError as error:
            if done:
                error.args = (f"{error} Restored until then: {cite_all(done)}.",)
            raise
        done[name] = saved.points
    return done


async def _load(
    client: EdgeClient, name: str, path: Path, saved: SavedCollection, *, replace: bool
) -> None:
    """Fill a hidden collection; once complete, it gets the name."""
    staged = f"{STAGED}{uuid4().hex}"
    try:
        await _fill(client, staged, name, path, saved)
        await client.adopt(name, staged, overwrite=replace)
    except BaseException:
        await client.delete_collection(staged)
        raise


async def _fill(
    client: EdgeClient, staged: str, name: str, path: Path, saved: SavedCollection
) -> None:
    """Fill the collection `staged` from the file of `name`, after verifying its digest."""
    try:
        with open_file(path, path.parent) as file:
            if await asyncio.to_thread(_digest_of, file) != saved.digest:
                raise _damaged(name)
            file.seek(0)
            described = await asyncio.to_thread(read_description, file)
            if described["name"] != name:
                raise _damaged(name)
            await client.create_described(staged, described)
            pages = read_points(file, _PAGE)
            while page := await asyncio.to_thread(next, pages, None):
                await client.put(staged, page)
        if (await client.count(staged)).count != saved.points:
            raise _damaged(name)
    except _DAMAGE as error:
        raise _damaged(name) from error


def _file_of(name: str) -> str:
    return f"{slug_of(name)}.points"


def _digest(file: Path) -> str:
    with file.open("rb") as read:
        return _digest_of(read)


def _digest_of(file: Any) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(name: str) -> RequestError:
    return RequestError(f"The backup of {name!r} is damaged: its file is missing or was changed.")
