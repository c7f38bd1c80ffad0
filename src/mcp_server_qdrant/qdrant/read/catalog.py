"""The collections: their names, which of them may be seen, and how each is searched."""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.context import calling
from mcp_server_qdrant.core.datatypes import MODEL_KEY, CollectionInfo, Target
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    KeyRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import near_names, visible_in
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.engine import Engine
from mcp_server_qdrant.qdrant.legs import KnownModels, dated_paths, dense_leg, sparse_leg
from mcp_server_qdrant.qdrant.payload import UPDATED_KEY
from mcp_server_qdrant.qdrant.read.newest import last_update

NAMES_SECONDS = 2.0
TARGET_SECONDS = 30.0
FAILED_SECONDS = 5.0
LOOK_UP_SECONDS = 3.0
AT_ONCE = 32  # look-ups, so that those of a thousand collections leave room for searches
UNLISTED = "Qdrant's key may not list collections: name them in QDRANT_COLLECTIONS."

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Catalog:
    """The collections of one engine, as this server may show them.

    `allowed` are names, globs and `-globs`; nothing else is ever read or named, and an error about
    a hidden collection reads like one about a collection that does not exist. `folder` is where the
    server's client works; `dates` are payload paths of dates.
    """

    client: Engine
    known: KnownModels
    _: KW_ONLY
    default: str | None = None
    allowed: Sequence[str] = ()
    folder: Path | None = None
    dates: Sequence[str] = DATES
    clock: Callable[[], float] = time.monotonic
    _infos: dict[str, models.CollectionInfo] = field(default_factory=dict)
    _targets: dict[str, tuple[float, Target]] = field(default_factory=dict)  # each until when
    _names: tuple[float, tuple[str, ...]] = 0.0, ()
    _forgotten: int = 0  # times: what was asked for before is not remembered
    _look_ups: dict[str, asyncio.Task[Target]] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    _told: set[tuple[str, str]] = field(default_factory=set)  # to the log

    async def names(self) -> tuple[str, ...]:
        """The visible collections, sorted; at most two seconds old."""
        expires, names = self._names
        if expires > self.clock():
            return names
        asked = self._forgotten
        try:
            known = [one.name for one in (await self.client.get_collections()).collections]
        except KeyRefused:
            raise
        except AccessRefused as refusal:
            known = await self._readable(refusal)
        names = tuple(sorted(filter(self.visible, known)))
        if asked == self._forgotten:
            self._names = (self.clock() + NAMES_SECONDS, names)
        return names

    async def _readable(self, refusal: AccessRefused) -> list[str]:
        """Those that the settings name and the key may read, where it may not list them.

        Raises AccessRefused where it may read none.
        """
        named = {name for name in (*self.allowed, self.default) if name and not _is_glob(name)}
        if not named:
            raise AccessRefused(UNLISTED) from refusal
        found, failed = await gathered(sorted(named), self.client.collection_exists)
        for error in failed.values():
            if not found or not isinstance(error, AccessRefused):
                raise error
        return [name for name, there in found.items() if there]

    def visible(self, name: str) -> bool:
        """True where the allow-list lets this name be read and named."""
        return visible_in(self.allowed, name)

    async def resolve(self, wanted: Sequence[str] | None) -> list[Target]:
        """The targets of a search: names, globs, `-name` to leave out; None for the default.

        Raises UnknownCollection with the nearest names. A default collection that nobody has
        stored into yet, and a glob that matches none, are no errors: there is nothing to find.
        Nor is one that nobody named and that was deleted just now.
        """
        if wanted is not None:
            names = await self._wanted(wanted)
        elif self.default is None:
            names = [*await self.names()]
        else:
            names = [self.default] if await self.exists(self.default) else []
        found = await self._resolved(names)
        for name in names:
            if name not in found and name in (wanted or ()):
                raise UnknownCollection(name, await self.near(name))
        return [*found.values()]

    async def _resolved(self, names: Sequence[str]) -> dict[str, Target]:
        """These collections resolved, without those that are gone."""
        found = {name: self._known(name) for name in names}
        new = [name for name, target in found.items() if target is None]
        found |= zip(new, await asyncio.gather(*map(self._unless_gone, new)), strict=True)
        return {name: target for name, target in found.items() if target}

    async def usual(self, folder: Path | None = None) -> list[str]:
        """Names, or a glob, for a search in that folder, or where the client is, that names none.

        The folder's own collections, else the default one, else all.
        """
        return await self.home(folder) or [self.default or "*"]

    async def home(self, folder: Path | None = None) -> list[str]:
        """The collections that belong to this folder, or to the nearest above that has any."""
        if (folder := folder or self.folder) is None:
            return []
        names = [*await self._resolved(await self.names())]
        return marks.innermost(folder, {name: marks.folder(self._metadata(name)) for name in names})

    async def place(self) -> str | None:
        """The collection that texts are stored into where none is named, as far as there is one.

        Raises RequestError where the folder has several.
        """
        home = await self.home()
        if self.default in home or not home:
            return self.default
        if len(home) > 1:
            raise RequestError(f"This folder has several collections: name {' or '.join(home)}.")
        return home[0]

    async def renamed(self) -> list[str]:
        """The collections that may belong to the client's folder, which has been renamed since."""
        if self.folder is None or await self.home():
            return []
        marked = {name: self._metadata(name) for name in await self.names()}
        return await asyncio.to_thread(marks.renamed, self.folder, marked)

    async def _wanted(self, patterns: Sequence[str]) -> list[str]:
        """The names that they choose, or all, without those of a `-pattern` that is no name."""
        dashed = [one for one in patterns if one.startswith("-")]
        named = await self.names() if dashed else ()
        left_out = [one for one in dashed if one not in named]
        chosen = await self._matching([one for one in patterns if one not in left_out] or ["*"])
        fewer = await self._matching([one[1:] for one in left_out])
        return [name for name in chosen if name not in fewer]

    async def _matching(self, wanted: Sequence[str]) -> list[str]:
        chosen: dict[str, None] = {}
        for pattern in wanted:
            if _is_glob(pattern) and pattern not in await self.names():
                chosen.update(
                    dict.fromkeys(n for n in await self.names() if fnmatchcase(n, pattern))
                )
            elif await self.exists(pattern):
                chosen[pattern] = None
            else:
                containing = [f"*{pattern}*"] if await self.matching(pattern) else []
                raise UnknownCollection(pattern, await self.near(pattern) or containing)
        return list(chosen)

    async def exists(self, name: str) -> bool:
        """True where a visible collection has this name."""
        if not self.visible(name):
            return False
        if name in self._infos or name in await self.names():
            return True
        return bool(await self.client.collection_exists(name))

    async def check_exists(self, name: str) -> None:
        """Raise UnknownCollection, with the nearest names, where there is none of this name."""
        if not await self.exists(name):
            raise UnknownCollection(name, await self.near(name))

    async def near(self, name: str) -> list[str]:
        """Visible names that look like `name`, nearest first."""
        return near_names(name, await self.names())

    async def target(self, name: str) -> Target:
        """One collection resolved. An old answer serves while it is looked up anew.

        A collection that cannot be read, or not in time, becomes a target without legs, with the
        reason, for a few seconds.
        """
        known = self._known(name)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                return await asyncio.shield(self._looking_up(name))
        except UnknownCollection:
            raise UnknownCollection(name, await self.near(name)) from None
        except TimeoutError:
            reason = "no answer in time, try again in a moment"
        except QdrantMcpError as error:
            reason = str(error)
        failed = Target(name, 0, dense=None, sparse=None, note=reason, failed=True)
        self._targets[name] = self.clock() + FAILED_SECONDS, failed
        return failed

    def _known(self, name: str) -> Target | None:
        """The remembered target of this name; an old one is looked up anew in the background."""
        until, target = self._targets.get(name, (0.0, None))
        if target is None or until > self.clock():
            return target
        if target.failed:
            return None
        self._looking_up(name)
        return target

    def _looking_up(self, name: str) -> "asyncio.Task[Target]":
        """The look-up of this name that is under way, or a new one."""
        task = self._look_ups.get(name)
        if task is None:
            with calling(None):  # others may wait for it: it is on nobody's account
                task = self._look_ups[name] = asyncio.ensure_future(self._look_up(name))
            task.add_done_callback(partial(self._looked_up, name))
        return task

    def _looked_up(self, name: str, task: "asyncio.Task[Target]") -> None:
        if self._look_ups.get(name) is task:
            del self._look_ups[name]
        if not task.cancelled() and task.exception() is not None:
            self.forget(name)

    async def _unless_gone(self, name: str) -> Target | None:
        try:
            return await self.target(name)
        except UnknownCollection:
            self.forget(name)
            return None

    async def _look_up(self, name: str) -> Target:
        async with self._gate:
            return await self._read(name)

    async def _read(self, name: str) -> Target:
        info = await self.client.get_collection(name)
        unfinished = marks.filling(info.config.metadata)
        sparse, filling = sparse_leg(info, unfinished), None
        points = info.points_count or 0
        documents = points
        if sparse is None:
            filling = sparse_leg(info, frozenset()) if unfinished else None
        elif sparse.idf:
            having = models.Filter(must=[models.HasVectorCondition(has_vector=sparse.vector)])
            documents = (await self.client.count(name, count_filter=having)).count
        dense, note = await dense_leg(self.known, name, info)
        target = Target(
            name,
            points=points,
            dense=dense,
            sparse=sparse,
            documents=documents,
            note=note or (marks.UNFINISHED if unfinished else None),
            filling=filling,
            dates=dated_paths(info, self.dates),
            space=getattr(info, "space", None),
        )
        if (damage := marks.damage(info)) and (name, damage) not in self._told:
            self._told.add((name, damage))
            logger.warning("The collection %r is damaged: %s", name, damage)
        self._infos[name] = info
        if self._look_ups.get(name) is asyncio.current_task():  # else it was written to meanwhile
            self._targets[name] = self.clock() + TARGET_SECONDS, target
        return target

    def count_stored(self, name: str, points: int) -> None:
        """Count points just stored here, so that the next search weighs them, at no cost."""
        if name in self._targets:
            until, old = self._targets[name]
            more = replace(old, points=old.points + points, documents=old.documents + points)
            self._targets[name] = until, more

    def forget(self, name: str) -> None:
        """Look this collection up anew at its next use: it was written to, or it failed."""
        if self._infos.pop(name, None):
            self._targets.pop(name, None)
        self._look_ups.pop(name, None)
        self._forgotten += 1
        self._names = (0.0, ())

    def forget_all(self) -> None:
        """Look everything up anew: another catalog of this engine was written through."""
        for name in list(self._infos):
            self.forget(name)

    def indexed(self, name: str, key: str) -> bool:
        """True where this payload key of a collection that was looked up has an index."""
        info = self._infos.get(name)
        return info is not None and key in info.payload_schema

    def ours_or_indexed(self, name: str, key: str) -> bool:
        """True where we made the collection, or the key has an index: points are found by it."""
        return self.ours(name) or self.indexed(name, key)

    def ours(self, name: str) -> bool:
        """True where we made the collection."""
        return MODEL_KEY in self._metadata(name)

    def _metadata(self, name: str) -> Mapping[str, Any]:
        """What is written with a collection that was looked up."""
        info = self._infos.get(name)
        return (info and info.config.metadata) or {}

    def indexes_to_complete(self, name: str) -> Container[str] | None:
        """The indexed fields of a collection that has to have ours; None of any other.

        We made it, or its strict mode refuses filters by fields without an index.
        """
        info = self._infos.get(name)
        strict = info and info.config.strict_mode_config
        refusing = (  # a store reads by them, too
            strict
            and strict.enabled
            and False in (strict.unindexed_filtering_retrieve, strict.unindexed_filtering_update)
        )
        return info.payload_schema if info and (refusing or self.ours(name)) else None

    async def matching(self, pattern: str | None) -> list[str]:
        """The visible names that a glob matches, or that contain the text; None: all of them."""
        glob = (pattern or "*").casefold()
        glob = glob if _is_glob(glob) else f"*{glob}*"
        return [name for name in await self.names() if fnmatchcase(name.casefold(), glob)]

    async def describe(self, names: Sequence[str] | None = None) -> list[CollectionInfo]:
        """These collections, or all, looked up anew, as a person wants to see them."""
        wanted = await self.names() if names is None else names
        if known := [name for name in wanted if name in self._infos]:
            await asyncio.wait(map(self._looking_up, known), timeout=LOOK_UP_SECONDS)
        targets = await self._resolved(wanted)
        return list(await asyncio.gather(*map(self._describe, targets.values())))

    async def _describe(self, target: Target) -> CollectionInfo:
        info, metadata = self._infos.get(target.collection), self._metadata(target.collection)
        legs = [leg for leg, has in (("dense", target.dense), ("bm25", target.sparse)) if has]
        return CollectionInfo(
            name=target.collection,
            points=target.points,
            legs=tuple(legs),
            model=target.dense.model if target.dense else None,
            updated_at=await self.changed_at(target.collection),
            note=(info and marks.damage(info))
            or target.note
            or marks.said(metadata, marks.IMPORTED_KEY),
            description=marks.said(metadata, marks.DESCRIPTION_KEY),
        )

    async def changed_at(self, name: str) -> str | None:
        """When the newest point was written, where that is indexed."""
        return await last_update(self.client, name) if self.indexed(name, UPDATED_KEY) else None

    async def close(self) -> None:
        """Stop looking things up."""
        for task in list(self._look_ups.values()):
            task.cancel()


def _is_glob(name: str) -> bool:
    return any(mark in name for mark in "*?[")
