"""Backups of whole collections: a folder that is complete, or not there.

backup.json      what it holds: the engine's kind, and of each collection points, files and aliases
shards/          copies of the embedded engine's collections, in a folder that it can open
snapshots/       snapshots of a server's collections
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.hosting.wire import sync, write_atomically
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import slug_of, sync_tree
from mcp_server_qdrant.qdrant.snapshots import Snapshots

MANIFEST = "backup.json"
FORMAT = 1
OVERWRITE = "pass --overwrite to replace"


@dataclass(frozen=True, slots=True)
class Saved:
    """A collection in a backup; `files` has the size of each by its path in the folder."""

    points: int
    files: Mapping[str, int]
    aliases: Sequence[str] = ()


class EdgeArchive:
    """Collections of the embedded engine, copied by its host while it runs."""

    kind = "embedded"

    def __init__(self, client: EdgeClient) -> None:
        self._client = client

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
        """Bring a collection back; its number of points."""
        points = await self._client.load(name, (folder / "shards").absolute(), replace=replace)
        if points != saved.points:
            raise EngineFailure(
                f"{name!r} has {points:,} of {saved.points:,} points: the backup is damaged."
            )
        return points


class ServerArchive:
    """Collections of a Qdrant server, by its snapshots."""

    kind = "server"

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
        await self._snapshots.load(name, folder / next(iter(saved.files)))
        for alias in saved.aliases:
            await self._snapshots.lead(alias, name, replace=replace)
        return await self._snapshots.count(name)


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
    try:
        done: dict[str, Saved] = {}
        for name in names:
            tell(name, len(done), len(names))
            points, files, aliases = await archive.save(name, draft)
            sizes = {file.relative_to(draft).as_posix(): file.stat().st_size for file in files}
            done[name] = Saved(points, sizes, tuple(aliases))
        about = {"format": FORMAT, "engine": archive.kind, "made_at": now.isoformat()}
        collections = {name: asdict(saved) for name, saved in done.items()}
        write_atomically(draft / MANIFEST, json.dumps({**about, "collections": collections}))
        _finish(folder, draft)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {name: saved.points for name, saved in done.items()}


def _begin(folder: Path, draft: Path, *, replace: bool) -> None:
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
    """Put the draft in the folder's place: one of the two is there at any time, whole."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def read(folder: Path) -> tuple[str, dict[str, Saved]]:
    """The kind of engine that a backup is of, and its collections. Raises RequestError."""
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        if found["format"] != FORMAT:
            raise RequestError(f"{folder} was made by another version of this server.")
        saved = {name: Saved(**said) for name, said in found["collections"].items()}
        return str(found["engine"]), saved
    except FileNotFoundError:
        raise RequestError(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"The {MANIFEST} of {folder} cannot be read.") from error


def check(
    archive: Archive,
    folder: Path,
    kind: str,
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
        _check_files(folder, name, saved)


async def restore(
    archive: Archive, folder: Path, wanted: Mapping[str, Saved], tell: Tell, *, replace: bool
) -> dict[str, int]:
    """Bring the collections back, one after the other: their numbers of points."""
    done: dict[str, int] = {}
    for name, saved in wanted.items():
        tell(name, len(done), len(wanted))
        done[name] = await archive.load(name, folder, saved, replace=replace)
    return done


_KINDS = {"embedded": "the embedded engine", "server": "a Qdrant server"}


def _check_files(folder: Path, name: str, saved: Saved) -> None:
    """Raise RequestError where files of a collection are missing or cut short."""
    for file, size in saved.files.items():
        path = folder / file
        if not path.resolve().is_relative_to(folder.resolve()):
            raise RequestError(f"The {MANIFEST} of {folder} cannot be read.")
        if not path.is_file() or path.stat().st_size != size:
            raise RequestError(f"The backup of {name!r} is damaged: {file} is not whole.")
