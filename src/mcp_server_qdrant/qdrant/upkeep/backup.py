"""Backups of whole collections: a folder that is complete, or not there.

backup.json      what it holds: the engine's kind, and of each collection points, files and aliases
shards/          copies of the embedded engine's collections, in a folder that it can open
snapshots/       snapshots of a server's collections
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from mcp_server_qdrant.core.errors import EngineFailure, QdrantMcpError, RequestError
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.hosting.disk import sync, write_atomically
from mcp_server_qdrant.qdrant.edge import staged
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import Folder, allocated, slug_of, sync_tree
from mcp_server_qdrant.qdrant.edge.wire import EdgeOptions
from mcp_server_qdrant.qdrant.upkeep import manifest
from mcp_server_qdrant.qdrant.upkeep.manifest import MANIFEST, Manifest, Saved
from mcp_server_qdrant.qdrant.upkeep.snapshots import Snapshots

OVERWRITE = "pass --overwrite to replace"


class EdgeArchive:
    """Collections of the embedded engine in the folder `root`, copied while its host runs."""

    kind: Literal["embedded"] = "embedded"

    def __init__(self, client: EdgeClient, root: Path) -> None:
        self._client, self._root = client, root

    async def save(self, name: str, folder: Path) -> tuple[int, Iterable[Path], Sequence[str]]:
        """Copy a collection into the folder: points, files, aliases."""
        place = (folder / "shards").absolute()
        place.mkdir(exist_ok=True)
        points = await self._client.save(name, place)
        copied = place / slug_of(name)
        sync_tree(copied)
        files = [file for file in copied.rglob("*") if file.is_file()]
        return points, [*files, *place.glob(f"{copied.name}.*")], ()

    async def load(self, name: str, folder: Path, saved: Saved, *, replace: bool) -> int:
        """Bring a collection back, once it has proved to be whole; its number of points."""
        files = [folder / file for file in saved.files]
        Folder(self._root, EdgeOptions().min_free).require_space(allocated(files))
        async with staged.stage(self._root) as place:
            for file in saved.files:
                target = place / _staged(name, file)
                target.parent.mkdir(parents=True, exist_ok=True)
                await asyncio.to_thread(manifest.fetch, folder, name, saved, file, target)
            points = await staged.tried(place, name)
            if points != saved.points:
                raise RequestError(
                    f"The backup of {name!r} is damaged: {points:,} of {saved.points:,} points."
                )
            await asyncio.to_thread(sync_tree, place)
            await self._client.adopt(name, place.name, replace=replace)
        return points


def _staged(name: str, file: str) -> PurePosixPath:
    """The place of a collection's file while it is staged. Raises RequestError for any other."""
    path, shard = PurePosixPath(file), PurePosixPath("shards", slug_of(name))
    if path in (shard.with_name(f"{shard.name}.{end}") for end in ("json", "count")):
        return PurePosixPath(path.suffix[1:])
    if not path.is_relative_to(shard) or ".." in path.parts:
        raise manifest.damaged(name, file)
    return "data" / path.relative_to(shard)


class ServerArchive:
    """Collections of a Qdrant server, by its snapshots."""

    kind: Literal["server"] = "server"

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    async def save(self, name: str, folder: Path) -> tuple[int, Iterable[Path], Sequence[str]]:
        """Write a snapshot of a collection into the folder: points, files, aliases."""
        place = folder / "snapshots"
        place.mkdir(exist_ok=True)
        file = place / f"{slug_of(name)}.snapshot"
        await self._snapshots.save(name, file)
        return await self._snapshots.count(name), [file], await self._snapshots.aliases(name)

    async def load(self, name: str, folder: Path, saved: Saved, *, replace: bool) -> int:
        """Bring a collection and its aliases back; its number of points."""
        if len(saved.files) != 1:
            raise manifest.damaged(name, MANIFEST)
        (file,) = saved.files
        with manifest.whole(folder, name, saved, file) as read:
            await self._snapshots.load(name, read, saved.points, saved.aliases, replace=replace)
        return saved.points


Archive = EdgeArchive | ServerArchive
Tell = Callable[[str, int, int], None]  # the collection, and how many of how many are done


async def back_up(
    archive: Archive,
    names: Sequence[str],
    folder: Path,
    now: datetime,
    tell: Tell,
    *,
    replace: bool,
) -> dict[str, int]:
    """Copy the collections into the folder, which exists once all of them are whole in it."""
    draft = folder.with_name(f".{folder.name}.part")
    _begin(folder, draft, replace=replace)
    done: dict[str, Saved] = {}
    try:
        with _sentences("written"):
            for name in names:
                tell(name, len(done), len(names))
                points, files, aliases = await archive.save(name, draft)
                done[name] = Saved(points=points, files={}, aliases=[*aliases])
                for file in files:
                    path = file.relative_to(draft).as_posix()
                    done[name].files[path] = file.stat().st_size
                    with file.open("rb") as read:
                        done[name].digests[path] = await asyncio.to_thread(manifest.digest, read)
            about = Manifest(
                format=manifest.FORMAT,
                engine=archive.kind,
                made_at=now.isoformat(),
                collections=done,
            )
            write_atomically(draft / MANIFEST, about.model_dump_json())
            _finish(folder, draft)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {name: saved.points for name, saved in done.items()}


def _begin(folder: Path, draft: Path, *, replace: bool) -> None:
    manifest.mend(folder)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file: name a folder.")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MANIFEST).is_file():
            raise RequestError(f"{folder} is not empty, and no backup: name another folder.")
        if not replace:
            raise RequestError(f"{folder} holds a backup: name another folder, or {OVERWRITE} it.")
    try:
        shutil.rmtree(draft, ignore_errors=True)  # of a backup that was killed
        draft.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}.") from error


def _finish(folder: Path, draft: Path) -> None:
    """Put the draft in the folder's place. After a crash in between, `mend` takes this back."""
    old = manifest.old(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def check(
    archive: Archive,
    folder: Path,
    kind: Literal["embedded", "server"],
    wanted: Mapping[str, Saved],
    there: Iterable[str],
    *,
    replace: bool,
) -> None:
    """Raise RequestError where a restore would fail, or replace what is `there` unasked."""
    if kind != archive.kind:
        raise RequestError(
            f"The backup is of {_KINDS[kind]}, and the settings name {_KINDS[archive.kind]}: "
            "restore it there, then use `mcp-server-qdrant copy`."
        )
    taken = sorted({*there} & {*wanted})
    if taken and not replace:
        raise RequestError(f"Already there: {every(taken)}. Name others, or {OVERWRITE} them.")
    for name, saved in wanted.items():
        manifest.check(folder, name, saved)


async def restore(
    archive: Archive, folder: Path, wanted: Mapping[str, Saved], tell: Tell, *, replace: bool
) -> dict[str, int]:
    """Bring the collections back, one after the other: their numbers of points."""
    done: dict[str, int] = {}
    for name, saved in wanted.items():
        tell(name, len(done), len(wanted))
        try:
            with _sentences("restored"):
                done[name] = await archive.load(name, folder, saved, replace=replace)
        except QdrantMcpError as error:
            if done:
                error.args = (f"{error} Restored until then: {every(done)}.",)
            raise
    return done


@contextmanager
def _sentences(outcome: str) -> Iterator[None]:
    """Turn what the disk refuses into our error."""
    try:
        yield
    except OSError as error:
        raise EngineFailure(f"The backup cannot be {outcome}: {error.strerror}.") from error


_KINDS = {"embedded": "the embedded engine", "server": "a Qdrant server"}
