"""Syncs folders into collections while the server runs, without slowing searches."""

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from mcp_server_qdrant.core.datatypes import Dense, SyncedFolder
from mcp_server_qdrant.core.errors import BackendError, QdrantMcpError, RequestError, contained
from mcp_server_qdrant.core.notation import first_few, plural
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.walk import Looks, walk_all
from mcp_server_qdrant.ingest.writer import Encode

SYNC_SHARE = 0.25  # share of a model's time that syncs may use
TEXTS = 2  # encoded per batch; the most that a search has to wait for
NAMED = 3  # problems named in a sentence
ELSEWHERE = "another server syncs it"
NEW = "not read yet"
GONE = "the folder does not exist or is not readable"
FIRST_SECONDS = 30.0  # timeout of the first access to a folder
RETRY_SECONDS = 30.0  # between attempts after a failure
AGAIN_SECONDS = 900.0  # between full runs, which see changes that no watch reported
TOLD_SECONDS = 1.0  # of waiting for the lock, until another server is reported to have it
POLL_SECONDS = 10.0  # between attempts to get the lock
# On Linux a recursive watch would include ignored folders and follow links.
WHOLE = sys.platform in ("darwin", "win32")

Run = Callable[[SyncRequest, Report, Report | None], Awaitable[Report]]


class Pace:
    """Throttles models to a share of the time, a few texts per batch."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._turn = asyncio.Lock()

    def __call__(self, encode: Encode) -> Encode:
        """The throttled model; all models of a pace share the time."""

        async def paced(texts: Sequence[str]) -> Sequence[Dense]:
            vectors: list[Dense] = []
            for first in range(0, len(texts), TEXTS):
                async with self._turn:
                    began = monotonic()
                    vectors += await encode(texts[first : first + TEXTS])
                    await asyncio.sleep((monotonic() - began) * (1 / self._share - 1))
            return vectors

        return paced


@dataclass(slots=True)
class FolderState:
    """The state of a folder: the current run, the last completed one, or why there is none."""

    running: Report = field(default_factory=Report)
    last: Report = field(default_factory=Report)
    fault: str | None = NEW

    def end(self, reason: str) -> None:
        """Record why a run stopped, or why the folder is not synced for now."""
        self.running, self.fault = Report(), reason.rstrip(".")

    def trouble(self, name: str) -> str | None:
        """Why the folder with this name is not in sync; None if it is."""
        unseen = (one.reason for one in self.last.problems if one.path == f"{name}/")
        return self.fault or next(unseen, None)

    def sentence(self, name: str) -> str:
        """The state as a sentence."""
        if self.running.sizes > 0:
            read = f"{self.running.done:,} of {self.running.files:,} files read"
            return f"syncing {name}, {self.running.share:.0%}: {read}"
        if trouble := self.trouble(name):
            return f"not in sync with {name}: {trouble}"
        said = f"in sync with {name}, {plural(len(self.last.stored), 'file')}"
        if not (problems := self.last.problems):
            return said
        each = first_few([f"{one.path} {one.reason}" for one in problems], NAMED)
        return f"{said}, {len(problems):,} not read: {each}"


class Background:
    """Syncs folders from `start` to `close`.

    `run` performs a request and fills the report; it also gets the previous report. Only one
    process syncs a folder for an `owner` (engine and tenant): `locks` is the folder of the lock
    files, None if no other process uses these collections.
    """

    def __init__(
        self, run: Run, folders: Sequence[SyncedFolder], locks: Path | None, owner: str = ""
    ) -> None:
        self._run, self._locks, self._owner = run, locks, owner
        self._states = {folder: FolderState() for folder in folders}
        self._tasks = Tasks()
        self._running: dict[SyncedFolder, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start the syncs in the background."""
        for folder, state in self._states.items():
            self._start(folder, state)

    def add(self, folder: SyncedFolder) -> None:
        """Sync one more folder, unless it is known.

        Raises RequestError if its ids would collide with those of another.
        """
        if folder in self._states:
            return
        taken = {(one.collection, one.label) for one in self._states}
        if (folder.collection, folder.label) in taken:
            raise RequestError(
                f"Another folder named {folder.label!r} is synced into {folder.collection} "
                "already: choose another collection."
            )
        self._states[folder] = FolderState()
        self._start(folder, self._states[folder])

    def remove(self, folder: SyncedFolder) -> None:
        """Stop syncing this folder; its texts stay."""
        if self._states.pop(folder, None):
            self._running.pop(folder).cancel()

    def _start(self, folder: SyncedFolder, state: FolderState) -> None:
        keep = partial(self._keep, folder, state)
        self._running[folder] = self._tasks.start(f"The sync of {folder.label}", keep, state.end)

    async def close(self) -> None:
        """Stop; the next start continues with the rest."""
        await self._tasks.close()

    def status(self, *, waiting: bool = False) -> Mapping[str, str]:
        """Collection -> the states of its folders as sentences.

        `waiting`: only of folders with files still to be read.
        """
        said: dict[str, list[str]] = {}
        for folder, state in self._states.items():
            unread = not state.last.seconds and state.fault not in (None, ELSEWHERE)
            if state.running.sizes > 0 or unread or not waiting:
                said.setdefault(folder.collection, []).append(state.sentence(folder.label))
        return {collection: "; ".join(each) for collection, each in said.items()}

    def counts(self) -> Mapping[str, int]:
        """Totals over all folders: files in sync, files not read, folders not in sync."""
        states = self._states.values()
        troubles = [state.trouble(folder.label) for folder, state in self._states.items()]
        return {
            "files_in_step": sum(len(state.last.stored) for state in states),
            "files_not_read": sum(len(state.last.problems) for state in states),
            "folders_not_in_step": len(troubles) - troubles.count(None),
        }

    def dead_letters(self) -> Mapping[str, Mapping[str, str]]:
        """Collection -> {file that is not retried before it changes: reason}."""
        letters: dict[str, dict[str, str]] = {}
        for folder, state in self._states.items():
            bad = {one.path: one.reason for one in state.last.problems if one.stamp}
            if bad:
                letters.setdefault(folder.collection, {}).update(bad)
        return letters

    async def _keep(self, folder: SyncedFolder, state: FolderState) -> None:
        async def once(before: Report | None) -> Report:
            state.running = Report()
            try:
                state.last = await self._run(request, state.running, before)
            finally:
                state.running = Report()
            state.fault = None
            return state.last

        told = asyncio.get_running_loop().call_later(TOLD_SECONDS, state.end, ELSEWHERE)
        look = Looks()
        async with self._lock(folder):
            told.cancel()
            state.fault = NEW
            while True:
                try:
                    request = await look(SyncRequest.to_keep, folder, seconds=FIRST_SECONDS)
                    break
                except QdrantMcpError as error:
                    state.end(str(error) if isinstance(error, BackendError) else GONE)
                await asyncio.sleep(RETRY_SECONDS)
            request = replace(request, look=look)
            await follow(request, once, lambda error: state.end(str(error)))

    def _lock(self, folder: SyncedFolder) -> contextlib.AbstractAsyncContextManager[Any]:
        if self._locks is None:
            return contextlib.nullcontext()
        from filelock import AsyncFileLock

        what = f"{folder.path.absolute()}\0{folder.collection}\0{self._owner}"
        file = self._locks / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.lock"
        with contextlib.suppress(OSError):
            self._locks.mkdir(parents=True, exist_ok=True)
        if not os.access(self._locks, os.W_OK):  # duplicate work is harmless
            return contextlib.nullcontext()
        return AsyncFileLock(file, poll_interval=POLL_SECONDS)


async def follow(
    request: SyncRequest,
    run: Callable[[Report | None], Awaitable[Report]],
    failed: Callable[[QdrantMcpError], None],
    before: Report | None = None,
) -> None:
    """Run now, after every change, some time after a failure, and regularly in full.

    `run` takes the report of the run `before` and returns its own. For a full run that report has
    no `stored` files: they are read from the collection again. `failed` gets the error of a run.
    """
    due = monotonic() + AGAIN_SECONDS if before else 0.0
    while True:
        places: Sequence[Path] = []
        with contextlib.suppress(BackendError):  # the run reports it
            places = await request.look(list_watched, request)
        # Start watching before the run, so that changes during it cause another one.
        change = asyncio.ensure_future(wait_for_change(places))
        try:
            await asyncio.sleep(0)
            patience, began = RETRY_SECONDS, monotonic()
            whole = before is None or began >= due
            try:
                before = await run(replace(before, stored={}) if before and whole else before)
                due = monotonic() + AGAIN_SECONDS if whole else due
                await asyncio.sleep(pause_after(monotonic() - began))
                patience = max(due - monotonic(), 0.0)
            except QdrantMcpError as error:
                failed(error)
                due = 0.0
            await asyncio.wait([change], timeout=patience)
            if change.done():
                change.result()
        finally:
            change.cancel()
            await asyncio.wait([change])


def pause_after(took: float) -> float:
    """Seconds to wait after a run of this duration, because sessions change constantly."""
    return min(3 * took, 60.0)


def list_watched(request: SyncRequest) -> list[Path]:
    """The folders and files to watch, without ignored ones; none if a source is gone."""
    paths = [source.path for source in request.sources]
    if not all(map(os.path.exists, paths)):
        return []
    single = [source.path for source in request.sources if not source.folder]
    return paths if WHOLE else [*single, *walk_all(request.sources, request.selection).folders]


async def wait_for_change(places: Sequence[Path]) -> None:
    """Return after the next burst of changes, or after a while if there is nothing to watch.

    Each call starts a new watch, because a file that an editor replaced, or a folder that was
    created again, has a new inode. The watch begins with the first step of the coroutine.
    """
    from watchfiles import awatch

    if not places:
        await asyncio.sleep(RETRY_SECONDS)
        return
    with contained(lambda fault: BackendError(f"Changes cannot be watched: {fault}.")):
        watching = awatch(*places, ignore_permission_denied=True, recursive=WHOLE)
        async with contextlib.aclosing(watching):
            await anext(watching)
