"""Backups of the embedded engine's collections: a folder that is complete, or not there.

backup.json      what it holds: of each collection its points, and the digests of its files
shards/          copies of the collections, in a folder that the engine can open
"""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from mcp_server_qdrant.core.disk import locked, opened, sync, write_atomically
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    QdrantMcpError,
    RequestError,
    UnusableFile,
)
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import (
    MOVED,
    Folder,
    allocated,
    copy_with_holes,
    slug_of,
    sync_tree,
)
from mcp_server_qdrant.qdrant.edge.optimise import stage, try_staged
from mcp_server_qdrant.qdrant.edge.options import EdgeOptions

MANIFEST = "backup.json"
OVERWRITE = "pass --overwrite to replace"

Tell = Callable[[str, int, int], None]  # the collection, and how many of how many are done


class Saved(BaseModel):
    """A collection in a backup: the SHA-256 of each file, by its path in the folder."""

    points: int = Field(ge=0)
    files: dict[str, str]


class Manifest(BaseModel):
    """What a backup holds."""

    format: Literal[3] = 3
    made_at: str = ""
    collections: dict[str, Saved]


async def back_up(
    client: EdgeClient,
    names: Sequence[str],
    folder: Path,
    now: datetime,
    tell: Tell,
    *,
    replace: bool,
) -> dict[str, int]:
    """Copy the collections into the folder, which exists once all of them are whole in it.

    Their numbers of points.
    """
    draft = folder.with_name(f".{folder.name}.part")
    done: dict[str, Saved] = {}
    with ExitStack() as ending:
        _begin(folder, draft, ending, replace=replace)
        with _sentences("written"):
            for name in names:
                tell(name, len(done), len(names))
                done[name] = await _save(client, name, draft)
            about = Manifest(made_at=now.isoformat(), collections=done)
            write_atomically(draft / MANIFEST, about.model_dump_json())
            _finish(folder, draft)
    return {name: saved.points for name, saved in done.items()}


def _begin(folder: Path, draft: Path, ending: ExitStack, *, replace: bool) -> None:
    """Make the draft, which goes at the `ending`; until then no other backup is made there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        ending.enter_context(locked(folder, 0.0))
    except TimeoutError as error:
        raise RequestError(
            f"Another backup into {folder} is under way: wait for its end, or name another folder."
        ) from error
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}.") from error
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file: name a folder.")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MANIFEST).is_file():
            raise RequestError(f"{folder} is not empty, and no backup: name another folder.")
        if not replace:
            raise RequestError(f"{folder} holds a backup: name another folder, or {OVERWRITE} it.")
    try:
        ending.callback(shutil.rmtree, draft, ignore_errors=True)
        shutil.rmtree(draft, ignore_errors=True)  # of a backup that was killed
        (draft / "shards").mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}.") from error


async def _save(client: EdgeClient, name: str, draft: Path) -> Saved:
    """Copy a collection into the draft, an absolute path."""
    place = draft / "shards"
    saved = Saved(points=await client.save(name, place), files={})
    copied = place / slug_of(name)
    sync_tree(copied)
    for file in [file for file in copied.rglob("*") if file.is_file()]:
        saved.files[file.relative_to(draft).as_posix()] = await asyncio.to_thread(_digest, file)
    return saved


def _finish(folder: Path, draft: Path) -> None:
    """Put the draft in the folder's place."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def saved_in(folder: Path) -> dict[str, Saved]:
    """The collections in a backup. Raises RequestError."""
    try:
        with opened(folder / MANIFEST, folder) as file:
            return Manifest.model_validate_json(file.read()).collections
    except FileNotFoundError:
        raise RequestError(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except (ValidationError, OSError, UnusableFile) as error:
        raise RequestError(
            f"The {MANIFEST} of {folder} cannot be read: it is damaged, or another version's."
        ) from error


def check_free(wanted: Iterable[str], there: Iterable[str], *, replace: bool) -> None:
    """Raise RequestError where a restore would replace what is `there` unasked."""
    taken = sorted({*there} & {*wanted})
    if taken and not replace:
        raise RequestError(f"Already there: {every(taken)}. Name others, or {OVERWRITE} them.")


async def restore(
    client: EdgeClient,
    root: Path,
    folder: Path,
    wanted: Mapping[str, Saved],
    tell: Tell,
    *,
    replace: bool,
) -> dict[str, int]:
    """Bring the collections back into the engine's folder `root`, one after the other.

    Their numbers of points.
    """
    done: dict[str, int] = {}
    for name, saved in wanted.items():
        tell(name, len(done), len(wanted))
        try:
            with _sentences("restored"):
                await _load(client, root, name, folder, saved, replace=replace)
        except QdrantMcpError as error:
            if done:
                error.args = (f"{error} Restored until then: {every(done)}.",)
            raise
        done[name] = saved.points
    return done


async def _load(
    client: EdgeClient, root: Path, name: str, folder: Path, saved: Saved, *, replace: bool
) -> None:
    """Bring a collection back, once its copy has proved to be whole."""
    targets = {file: _staged(name, file) for file in saved.files}
    needed = allocated([folder / file for file in saved.files])
    Folder(root, EdgeOptions().min_free).require_space(needed)
    with stage(root) as place:
        for file, target in targets.items():
            await asyncio.to_thread(_fetch, folder, name, saved, file, place / target)
        await try_staged(place, name, saved.points)
        await asyncio.to_thread(sync_tree, place)
        await client.adopt(name, place.name, replace=replace)


def _staged(name: str, file: str) -> PurePosixPath:
    """The place of a collection's file while it is staged. Raises RequestError for any other."""
    path, shard = PurePosixPath(file), PurePosixPath("shards", slug_of(name))
    if path.suffix in MOVED and path.with_suffix("") == shard:
        return PurePosixPath(MOVED[path.suffix])
    if not path.is_relative_to(shard) or ".." in path.parts:
        raise _damaged(name, file)
    return path.relative_to(shard)


def _fetch(folder: Path, name: str, saved: Saved, file: str, target: Path) -> None:
    """Copy a file of a backup, if it is as it was saved; holes stay holes.

    Raises RequestError, OSError where the copy cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opened(folder / file, folder) as read:
            copy_with_holes(read, target)
    except (FileNotFoundError, NotADirectoryError, UnusableFile) as error:
        raise _damaged(name, file) from error
    if _digest(target) != saved.files[file]:
        raise _damaged(name, file)


def _digest(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _damaged(name: str, file: str) -> RequestError:
    return RequestError(f"The backup of {name!r} is damaged: {file} is not as it was saved.")


@contextmanager
def _sentences(outcome: str) -> Iterator[None]:
    """Turn what the disk refuses into our error."""
    try:
        yield
    except OSError as error:
        raise EngineFailure(f"The backup cannot be {outcome}: {error.strerror}.") from error
