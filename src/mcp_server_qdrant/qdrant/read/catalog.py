"""The catalog: which collections exist, which are visible, and how each is searched."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase, translate
from functools import partial
from pathlib import Path
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.core.context import calling, client_folder
from mcp_server_qdrant.core.datatypes import MODEL_KEY, CollectionInfo, Target, Targets
from mcp_server_qdrant.core.dates import DATES
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    KeyRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import HISTORY, cite_all, near_names, visible_in
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.engine import Engine
from mcp_server_qdrant.qdrant.filters import exclude_expired
from mcp_server_qdrant.qdrant.legs import KnownModels, dated_paths, dense_leg, sparse_leg
from mcp_server_qdrant.qdrant.payload import EXPIRES, UPDATED_KEY
from mcp_server_qdrant.qdrant.read.newest import last_update
from mcp_server_qdrant.qdrant.read.scope import ALL, MEMORY, Scope, scope_of
from mcp_server_qdrant.qdrant.texts import Texts

NAMES_SECONDS = 2.0
TARGET_SECONDS = 30.0
FAILED_SECONDS = 5.0
LOOK_UP_SECONDS = 3.0
AT_ONCE = 32  # parallel look-ups; a thousand collections must not starve searches
UNLISTED = "Qdrant's key may not list collections: name them in QDRANT_COLLECTIONS."

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Catalog:
    """The collections of one engine that this server may show.

    `allowed` are names, globs and `-globs`; nothing else is ever read or named, and an error about
    a hidden collection reads like one about a collection that does not exist. `folder`: the working
    directory of all clients; None: the one that each client sends. `dates` and `texts` are payload
    paths. An alias stands for its collection.
    """

    client: Engine
    known: KnownModels
    _: KW_ONLY
    default: str | None = None
    allowed: Sequence[str] = ()
    folder: Path | None = None
    dates: Sequence[str] = DATES
    unindexed: bool = False  # the in-memory engine, which reports no indexes
    texts: Texts = field(default_factory=lambda: Texts(()))
    clock: Callable[[], float] = time.monotonic
    _infos: dict[str, models.CollectionInfo] = field(default_factory=dict)
    _targets: dict[str, tuple[float, Target]] = field(default_factory=dict)  # with their expiry
    _names: tuple[float, tuple[str, ...]] = 0.0, ()
    _renamed: frozenset[str] = frozenset()  # collections that are allowed by an alias
    # Calls of `forget`; a list of names that was requested before the last one is not cached.
    _changes: int = 0
    _last: Targets = field(default_factory=Targets)  # of the last request
    _look_ups: dict[str, asyncio.Task[Target]] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    _logged: set[tuple[str, str]] = field(default_factory=set)  # already logged

    async def names(self) -> tuple[str, ...]:
        """The visible collections, sorted; at most two seconds old."""
        expires, names = self._names
        if expires > self.clock():
            return names
        before = self._changes
        try:
            known = [one.name for one in (await self.client.get_collections()).collections]
        except KeyRefused:
            raise
        except AccessRefused as refusal:
            known = await self._readable_named(refusal)
        if unknown := {one for one in self.allowed if not _is_glob(one)}.difference(known):
            aliases = await self._aliases()
            self._renamed = frozenset(aliases[one] for one in unknown if one in aliases)
        names = tuple(sorted(filter(self.visible, known)))
        if before == self._changes:
            self._names = (self.clock() + NAMES_SECONDS, names)
        return names

    async def _readable_named(self, refusal: AccessRefused) -> list[str]:
        """The collections named in the settings, for a key that may not list them.

        Raises AccessRefused if the key may read none of them.
        """
        named = {name for name in (*self.allowed, self.default) if name and not _is_glob(name)}
        if not named:
            raise AccessRefused(UNLISTED) from refusal
        found, failed = await gather(sorted(named), self.client.collection_exists)
        for error in failed.values():
            if not found or not isinstance(error, AccessRefused):
                raise error
        return [name for name, there in found.items() if there]

    def visible(self, name: str) -> bool:
        """Whether the allow-list has this collection."""
        return visible_in(self.allowed, name) or name in self._renamed

    async def resolve_alias(self, name: str) -> str:
        """The collection that an alias stands for; any other name as it is."""
        if name in self._infos or name in await self.names():
            return name
        return (await self._aliases()).get(name, name)

    async def _aliases(self) -> dict[str, str]:
        """Alias -> collection."""
        with suppress(QdrantMcpError):
            found = (await self.client.get_aliases()).aliases
            pairs = ((one.alias_name, one.collection_name) for one in found)
            return {alias: name for alias, name in pairs if name != HISTORY}
        return {}

    async def resolve(self, wanted: Sequence[str] | None) -> Targets:
        """The targets of a search: names, globs, `-name` to leave out; None for the default.

        Raises UnknownCollection with the nearest names for an unknown name. These yield nothing: a
        default collection that does not exist yet, a glob without matches, and a collection that
        was not named and was just deleted.
        """
        if wanted is not None:
            names = await self._select(wanted)
        elif self.default is None:
            names = [*await self.names()]
        else:
            names = (
                [await self.resolve_alias(self.default)] if await self.exists(self.default) else []
            )
        found = await self._resolve_names(names)
        for name in names:
            if name not in found and name in (wanted or ()):
                raise UnknownCollection(name, await self.similar_names(name))
        if (targets := (*found.values(),)) != self._last:
            self._last = Targets(targets)
        return self._last

    async def default_targets(self) -> Targets:
        """The targets of a search that names none, in the client's folder; caches no names."""
        names = self._names
        scope = await self.scope()
        found = await self.resolve(scope.names if scope else None)
        self._names = names
        return found

    async def _resolve_names(self, names: Sequence[str]) -> dict[str, Target]:
        """Resolve these collections; deleted ones are left out."""
        now, never = self.clock(), (0.0, None)
        found = {
            name: known[1]
            if (known := self._targets.get(name, never))[0] > now
            else self._cached_target(name)
            for name in names
        }
        new = [name for name, target in found.items() if target is None]
        found |= zip(new, await asyncio.gather(*map(self._unless_gone, new)), strict=True)
        return {name: target for name, target in found.items() if target}

    async def default_names(self, folder: Path | None = None) -> list[str]:
        """What a search covers if it names no collections: names or a glob.

        Those of the folder's scope, else the default one, else all.
        """
        scope = await self.scope(folder)
        return [*scope.names] if scope else [self.default or "*"]

    async def folder_collections(self, folder: Path | None = None) -> list[str]:
        """The collections of this folder, or of the nearest parent that has any."""
        _, around = await self._folders_around(folder or self._folder_of_client())
        depth = max((len(one.parts) for one in around.values()), default=0)
        return [name for name, one in around.items() if len(one.parts) == depth]

    async def scope(self, folder: Path | None = None) -> Scope | None:
        """What a search covers in that folder, or where the client is; None: in no project."""
        place = folder or self._folder_of_client()
        known, around = await self._folders_around(place)
        if not around or place is None:
            return None
        return scope_of(place, known, around, self.default or MEMORY)

    async def _folders_around(
        self, place: Path | None
    ) -> tuple[Mapping[str, Sequence[Path]], Mapping[str, Path]]:
        """Collection -> all its folders, and collection -> its innermost folder with the place."""
        if place is None:
            return {}, {}
        names = [*await self._resolve_names(await self.names())]
        known = {name: marks.folders(self._metadata(name)) for name in names}
        return known, marks.around(place, known)

    async def storing_collection(self, project: Any = None) -> str | None:
        """The collection that texts are stored in if none is named; None if there is none.

        A text of another `project`, or of all, does not belong to the folder's own collection.
        Raises RequestError if the folder has several.
        """
        home, scope = await self.folder_collections(), await self.scope()
        apart = scope and isinstance(project, str) and project in {ALL, *scope.others}
        if apart and self.default in home:
            return None
        if apart or self.default in home or not home:
            return self.default and await self.resolve_alias(self.default)
        if len(home) > 1:
            raise RequestError(f"This folder has several collections: name {' or '.join(home)}.")
        return home[0]

    async def find_renamed(self) -> list[str]:
        """The collections that may belong to the client's folder because it was renamed."""
        if (here := self._folder_of_client()) is None or await self.folder_collections():
            return []
        marked = {name: self._metadata(name) for name in await self.names()}
        return await asyncio.to_thread(marks.find_renamed, here, marked)

    def _folder_of_client(self) -> Path | None:
        return self.folder or client_folder()

    async def _select(self, patterns: Sequence[str]) -> list[str]:
        """The names that the patterns select (default: all), minus those of `-patterns`."""
        dashed = [one for one in patterns if one.startswith("-")]
        named = await self.names() if dashed else ()
        left_out = [one for one in dashed if one not in named]
        chosen = await self._matching([one for one in patterns if one not in left_out] or ["*"])
        fewer = await self._matching([one[1:] for one in left_out])
        return [name for name in chosen if name not in fewer] if fewer else chosen

    async def _matching(self, wanted: Sequence[str]) -> list[str]:
        chosen: dict[str, None] = {}
        for pattern in wanted:
            if _is_glob(pattern) and pattern not in await self.names():
                matches = re.compile(translate(pattern)).match
                chosen.update(dict.fromkeys(filter(matches, await self.names())))
            elif await self.exists(pattern):
                chosen[await self.resolve_alias(pattern)] = None
            else:
                containing = [f"*{pattern}*"] if await self.names_matching(pattern) else []
                raise UnknownCollection(pattern, await self.similar_names(pattern) or containing)
        return list(chosen)

    async def exists(self, name: str) -> bool:
        """Whether a visible collection has this name or alias."""
        name = await self.resolve_alias(name)
        if not self.visible(name):
            return False
        if name in self._infos or name in await self.names():
            return True
        return bool(await self.client.collection_exists(name))

    async def check_exists(self, name: str) -> str:
        """The collection of this name or alias.

        Raises UnknownCollection with the nearest names if there is none.
        """
        if not await self.exists(name):
            raise UnknownCollection(name, await self.similar_names(name))
        return await self.resolve_alias(name)

    async def similar_names(self, name: str) -> list[str]:
        """The visible names most similar to `name`, nearest first."""
        return near_names(name, await self.names())

    async def target(self, name: str) -> Target:
        """Resolve one collection. A stale result is returned while it is being refreshed.

        A collection that fails or is late becomes, for a few seconds, a target without legs that
        has the reason.
        """
        known = self._cached_target(name)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                return await asyncio.shield(self._pending_look_up(name))
        except UnknownCollection:
            raise UnknownCollection(name, await self.similar_names(name)) from None
        except TimeoutError:
            reason = "no answer in time, try again in a moment"
        except QdrantMcpError as error:
            reason = str(error)
        failed = Target(name, 0, dense=None, sparse=None, note=reason, failed=True)
        self._targets[name] = self.clock() + FAILED_SECONDS, failed
        return failed

    def _cached_target(self, name: str) -> Target | None:
        """The cached target of this name; a stale one is refreshed in the background."""
        until, target = self._targets.get(name, (0.0, None))
        if target is None or until > self.clock():
            return target
        if target.failed:
            return None
        self._pending_look_up(name)
        return target

    def _pending_look_up(self, name: str) -> "asyncio.Task[Target]":
        """The pending look-up of this name, or a new one."""
        task = self._look_ups.get(name)
        if task is None:
            with calling(None):  # other callers may wait for it too
                task = self._look_ups[name] = asyncio.ensure_future(self._look_up(name))
            task.add_done_callback(partial(self._end_look_up, name))
        return task

    def _end_look_up(self, name: str, task: "asyncio.Task[Target]") -> None:
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
            info = await self.client.get_collection(name)
            return await self._target_of(name, info)

    async def _target_of(self, name: str, info: models.CollectionInfo) -> Target:
        unfinished = marks.filling(info.config.metadata)
        sparse, filling = sparse_leg(info, unfinished), None
        points = info.points_count or 0
        documents = points
        if sparse is None:
            filling = sparse_leg(info, frozenset()) if unfinished else None
        elif sparse.idf:
            having = models.Filter(must=[models.HasVectorCondition(has_vector=sparse.vector)])
            documents = (await self.client.count(name, count_filter=having)).count
        expiring = self.unindexed or EXPIRES in info.payload_schema
        if expiring:
            live = exclude_expired(None, datetime.now(UTC))
            points = (await self.client.count(name, count_filter=live)).count
        dense, note = await dense_leg(self.known, name, info)
        if MODEL_KEY not in (info.config.metadata or {}):
            await self.texts.sample(self.client, name)
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
            expiring=expiring,
        )
        if (damage := marks.damage(info)) and (name, damage) not in self._logged:
            self._logged.add((name, damage))
            logger.warning("The collection %r is damaged: %s", name, damage)
        self._infos[name] = info
        if (
            self._look_ups.get(name) is asyncio.current_task()
        ):  # else the collection was written to meanwhile
            self._targets[name] = self.clock() + TARGET_SECONDS, target
        return target

    async def default_expiry(self, name: str) -> str | None:
        """When texts of this collection expire by default; read from the engine, not cached."""
        info = await self.client.get_collection(name)
        return marks.first_text(info.config.metadata, marks.EXPIRES_KEY)

    def count_stored(self, name: str, points: int) -> None:
        """Add points just stored to the cached target, so that no look-up is needed."""
        if name in self._targets:
            until, old = self._targets[name]
            more = replace(old, points=old.points + points, documents=old.documents + points)
            self._targets[name] = until, more

    def forget(self, name: str) -> None:
        """Drop this collection from the cache: it was written to, or it failed."""
        if self._infos.pop(name, None):
            self._targets.pop(name, None)
        self._look_ups.pop(name, None)
        self._changes += 1
        self._names = (0.0, ())

    def forget_all(self) -> None:
        """Drop everything from the cache: another catalog of this engine wrote to it."""
        for name in list(self._infos):
            self.forget(name)

    def has_index(self, name: str, key: str) -> bool:
        """True if this payload key has an index in a cached collection."""
        info = self._infos.get(name)
        return info is not None and key in info.payload_schema

    def ours_or_indexed(self, name: str, key: str) -> bool:
        """True if we created the collection or the key has an index, so that filters work."""
        return self.is_ours(name) or self.has_index(name, key)

    def is_ours(self, name: str) -> bool:
        """True if we created the collection."""
        return MODEL_KEY in self._metadata(name)

    def _metadata(self, name: str) -> Mapping[str, Any]:
        """The metadata of a cached collection."""
        info = self._infos.get(name)
        return (info and info.config.metadata) or {}

    def indexes_to_complete(self, name: str) -> Container[str] | None:
        """The indexed fields of a collection that must have our indexes; None for others.

        It must if we created it, or if its strict mode refuses filters on unindexed fields.
        """
        info = self._infos.get(name)
        strict = info and info.config.strict_mode_config
        refusing = (  # storing filters by them too
            strict
            and strict.enabled
            and False in (strict.unindexed_filtering_retrieve, strict.unindexed_filtering_update)
        )
        return info.payload_schema if info and (refusing or self.is_ours(name)) else None

    async def names_matching(self, pattern: str | None) -> list[str]:
        """The visible names that match a glob or contain the text; None: all."""
        glob = (pattern or "*").casefold()
        glob = glob if _is_glob(glob) else f"*{glob}*"
        return [name for name in await self.names() if fnmatchcase(name.casefold(), glob)]

    async def describe(self, names: Sequence[str] | None = None) -> list[CollectionInfo]:
        """Refresh and describe these collections, or all."""
        wanted = await self.names() if names is None else names
        if known := [name for name in wanted if name in self._infos]:
            await asyncio.wait(map(self._pending_look_up, known), timeout=LOOK_UP_SECONDS)
        targets, aliases = await self._resolve_names(wanted), await self._aliases()
        described = (self._describe(one, aliases) for one in targets.values())
        return list(await asyncio.gather(*described))

    async def _describe(self, target: Target, aliases: Mapping[str, str]) -> CollectionInfo:
        info, metadata = self._infos.get(target.collection), self._metadata(target.collection)
        others = cite_all(alias for alias, name in aliases.items() if name == target.collection)
        also = f"also called {others}" if others else None
        notes = (target.note, self.texts.note(target.collection), also)
        legs = [leg for leg, has in (("dense", target.dense), ("bm25", target.sparse)) if has]
        return CollectionInfo(
            name=target.collection,
            points=target.points,
            legs=tuple(legs),
            model=target.dense.model if target.dense else None,
            updated_at=await self.changed_at(target.collection),
            note=(info and marks.damage(info))
            or "; ".join(filter(None, notes))
            or marks.first_text(metadata, marks.IMPORTED_KEY),
            description=marks.first_text(metadata, marks.DESCRIPTION_KEY),
            expires=marks.first_text(metadata, marks.EXPIRES_KEY),
        )

    async def changed_at(self, name: str) -> str | None:
        """When the newest point was written; None without an index."""
        return await last_update(self.client, name) if self.has_index(name, UPDATED_KEY) else None

    async def close(self) -> None:
        """Cancel pending look-ups."""
        for task in list(self._look_ups.values()):
            task.cancel()


def _is_glob(name: str) -> bool:
    return any(mark in name for mark in "*?[")
