"""Backups of the embedded engine's collections: a folder that is complete, or not there.

backup.json      what it holds: of each collection its number of points, and the digest of its file
<slug>.points    a collection: its description and its points; see `edge/points_file`
"""

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError

from mcp_server_qdrant.core.disk import locked, opened, sync, write_atomically
from mcp_server_qdrant.core.errors import (
    EngineFailure,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
    UnusableFile,
)
from mcp_server_qdrant.core.notation import every
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.edge.files import STAGED, slug_of
from mcp_server_qdrant.qdrant.edge.points_file import read_description, read_points

MANIFEST = "backup.json"
OVERWRITE = "pass --overwrite to replace"
_PAGE = 64  # points sent at once
_RESTARTED = "The embedded engine was started anew meanwhile: restore the backup again."

Tell = Callable[[str, int, int], None]  # the collection, and how many of how many are done


class Saved(BaseModel):
    """A collection in a backup: how many points it has, and the SHA-256 of its file."""

    points: int = Field(ge=0)
    digest: str


class Manifest(BaseModel):
    """What a backup holds."""

    format: Literal[4] = 4
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
        draft.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}.") from error


async def _save(client: EdgeClient, name: str, draft: Path) -> Saved:
    """Copy a collection into the draft, an absolute path."""
    file = draft / _file_of(name)
    points = await client.save(name, file)
    return Saved(points=points, digest=await asyncio.to_thread(_digest, file))


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
    folder: Path,
    wanted: Mapping[str, Saved],
    tell: Tell,
    *,
    replace: bool,
) -> dict[str, int]:
    """Bring the collections back, one after the other. Their numbers of points."""
    done: dict[str, int] = {}
    for name, saved in wanted.items():
        tell(name, len(done), len(wanted))
        try:
            with _sentences("restored"):
                await _load(client, name, folder / _file_of(name), saved, replace=replace)
        except QdrantMcpError as error:
            if done:
                error.args = (f"{error} Restored until then: {every(done)}.",)
            raise
        done[name] = saved.points
    return done


async def _load(client: EdgeClient, name: str, path: Path, saved: Saved, *, replace: bool) -> None:
    """Fill a collection that nobody sees; once it is whole it takes the place of that name."""
    staged = f"{STAGED}{uuid4().hex}"
    done = False
    try:
        await _fill(client, staged, name, path, saved)
        await client.adopt(name, staged, replace=replace)
        done = True
    finally:
        if not done:
            await client.delete_collection(staged)


async def _fill(client: EdgeClient, staged: str, name: str, path: Path, saved: Saved) -> None:
    """Make the collection `staged` of the file of `name`, which must be as it was saved."""
    try:
        with opened(path, path.parent) as file:
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
    except UnknownCollection as error:
        raise EngineFailure(_RESTARTED) from error
    except (
        FileNotFoundError,
        NotADirectoryError,
        RequestError,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
    ) as error:
        raise _damaged(name) from error


def _file_of(name: str) -> str:
    return f"{slug_of(name)}.points"


def _digest(file: Path) -> str:
    with file.open("rb") as read:
        return _digest_of(read)


def _digest_of(file: Any) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(name: str) -> RequestError:
    return RequestError(
        f"The backup of {name!r} is damaged: its file is missing, or is not as it was saved."
    )


@contextmanager
def _sentences(outcome: str) -> Iterator[None]:
    """Turn what the disk refuses into our error."""
    try:
        yield
    except OSError as error:
        raise EngineFailure(f"The backup cannot be {outcome}: {error.strerror}.") from error
