"""The tools: names, descriptions, parameters and results."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from mcp_server_qdrant.core.access import speaker
from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import RequestError, UnknownCollection
from mcp_server_qdrant.core.fields import Id, JsonObject, Tags, Text, Word, one_or_many
from mcp_server_qdrant.core.find import FilterableField
from mcp_server_qdrant.core.notation import (
    CALENDAR,
    as_point_id,
    called,
    first_id,
    impossible,
    iso,
    listed_in,
    moment,
)
from mcp_server_qdrant.core.writes import Changes
from mcp_server_qdrant.tools import history as tool_history
from mcp_server_qdrant.tools import output as tool_output
from mcp_server_qdrant.tools import rendering
from mcp_server_qdrant.tools.arguments import UNLISTED, FindArguments, arguments_with
from mcp_server_qdrant.tools.boundary import ClosedTool, answer, services_of_tool
from mcp_server_qdrant.tools.delete import make_delete
from mcp_server_qdrant.tools.output import FindOutput
from mcp_server_qdrant.tools.page import (
    concluded,
    described,
    fitted,
    fitting,
    listed,
    slim,
    whole,
    with_coming,
)
from mcp_server_qdrant.tools.project import make_project
from mcp_server_qdrant.tools.services import Open, Services

MEMORY = "memory"  # for texts stored where neither the call nor a setting names a collection
MAX_TEXT = 2_000_000
MAX_LISTED = 80  # collections that are looked at for a list
MAX_IDS = 50
MAX_NEIGHBOURS = 20
MAX_METADATA = 200_000  # characters of JSON in one answer, beside what the first text has
MAX_CHARACTERS = 60_000  # of texts in one answer: more than most clients hand on to their model
CHARACTERS = 20_000  # about 5,000 tokens


Where = Annotated[
    Word | None,
    Field(description="A new name makes a collection; id's text in another one moves here"),
]
Information = Annotated[Text | None, Field(description="The text to remember")]
Seen = Annotated[Word | None, Field(description="Revision of the text; no other is changed")]
DocumentId = Annotated[
    Id | None, Field(description="Your own id, or a found one; storing again updates it")
]
Metadata = Annotated[JsonObject, Field(description="Facts to filter by: project, created_at")]
StoredTags = Annotated[Tags, Field(description="Words to filter by")]
Superseded = Annotated[
    Id | None, Field(description="Id of an outdated text: kept, but ranked last from now on")
]
Title = Annotated[Word | None, Field(description="Shown with the text")]
Ids = Annotated[
    list[Id],
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=MAX_IDS, description="Found ids, or your own"),
]
Place = Annotated[Word | None, Field(description="Default: all collections")]
Pattern = Annotated[Word | None, Field(description="Glob, or part of the name")]
After = Annotated[Word | None, Field(description="The last name of the page before")]
Size = Annotated[
    int,
    Field(ge=1_000, le=MAX_CHARACTERS, description="Most characters"),
]
Versions = Annotated[bool, Field(description="List earlier versions")]
Neighbours = Annotated[
    int, Field(ge=0, le=MAX_NEIGHBOURS, description="Parts before and after to add")
]


UNLISTED_IN_STORE = frozenset({"seen", "moved_from"})  # for the page, and careful callers


class Tools:
    """The tools over one server's services."""

    def __init__(self, services: Open) -> None:
        self._services = services

    async def find(self, asked: FindArguments) -> Annotated[CallToolResult, FindOutput]:
        """Search."""
        request = asked.request()
        services = await self._services()
        if request.collections is None and not request.within:
            home = await services.catalog.home()
            request = request.model_copy(update={"collections": home or None})
        coming = await self._coming(services, request.collections)
        try:
            page = await services.pipeline.search(request)
        except UnknownCollection as error:
            if error.name not in coming:
                raise
            raise RequestError(f"{coming[error.name]} Search again in a moment.") from error
        page = with_coming(page, coming.values())
        if request.mode == "full":
            page = whole(slim(page, MAX_METADATA))
        elif request.limit is None and not request.explain:
            page = fitted(page)
        page = concluded(page)
        return answer(
            rendering.page(page, request.mode),
            tool_output.find_output(page, request.mode, points=asked.point_ids),
        )

    async def _coming(self, services: Services, wanted: Sequence[str] | None) -> Mapping[str, str]:
        """The collections of a search that lack files still, and a sentence on each."""
        if not (coming := services.coming()):
            return {}
        names = wanted or await services.catalog.usual()
        return {name: coming[name] for name in coming if listed_in(names, name)}

    async def store(
        self,
        information: Information = None,
        metadata: Metadata = None,
        collection_name: Where = None,
        id: DocumentId = None,  # noqa: A002
        tags: StoredTags = None,
        title: Title = None,
        supersedes: Superseded = None,
        create: Annotated[bool, Field(description="Make a collection of a similar name")] = False,  # noqa: FBT002
        seen: Seen = None,
        moved_from: Place = None,
        *,
        context: Context,
    ) -> CallToolResult:
        """Remember a text, or change what is stored with one."""
        services, progress = await self._services(), context.report_progress
        created_at = _created_at(metadata)
        words = None if tags is None else tuple(dict.fromkeys(t for t in tags if t.strip()))
        if information is None and id is not None:
            one = await _located(services, id, collection_name, moved_from)
            if one is None:
                given = title is not None or words is not None or metadata or supersedes
                return await self._restore(services, id, collection_name, progress, bare=not given)
            dated = iso(created_at) if created_at else None
            changes = Changes(title, words, metadata, dated)
            done = await services.revision.revise(
                one, changes, to=collection_name, create=create, seen=seen, progress=progress
            )
            return answer(rendering.stored(done), tool_output.stored(done))
        text = _checked(information)
        collection = collection_name or await services.catalog.place() or MEMORY
        if id is not None:
            with suppress(UnknownCollection):  # it may be a new one
                (id,) = await services.lookup.full([id], collection_name)  # noqa: A001
        if collection_name is None and id is not None:
            await _check_place(services, id, collection)
        new = NewDocument(
            text=text,
            metadata=metadata,
            id=id if id and id.strip() else None,
            title=title,
            tags=words,
            created_at=created_at,
            stored_by=speaker() or None,
        )
        old = await _superseded(services, supersedes, collection) if supersedes else None
        done = await services.store.store(
            new, collection, create=create, progress=progress, supersedes=old, seen=seen
        )
        return answer(rendering.stored(done), tool_output.stored(done))

    async def _restore(
        self,
        services: Services,
        id: str,  # noqa: A002
        collection: str | None,
        progress: Any,
        *,
        bare: bool,
    ) -> CallToolResult:
        """Bring back an earlier version; where the id is of none, say of what it may be."""
        version = await services.history.version(id, collection)
        if version is None:
            said = await tool_history.gone(services.history, id, collection)
            none = f"There is no text {called(id)}: give information to store one, or the id of a"
            raise RequestError(" ".join([none, "found text to change it.", *said]))
        if not bare:
            raise RequestError("An earlier version comes back as it was: give its id alone.")
        done = await services.revision.restore(version, progress)
        return answer(rendering.stored(done), tool_output.stored(done))

    async def get(
        self,
        ids: Ids,
        neighbours: Neighbours = 0,
        collection_name: Place = None,
        size: Size = CHARACTERS,
        versions: Versions = False,  # noqa: FBT002
        point_ids: bool = False,  # noqa: FBT001, FBT002
    ) -> CallToolResult:
        """Whole texts."""
        services = await self._services()
        if versions:
            return await tool_history.listed(services.history, ids, collection_name)
        asked, ids = ids, await services.lookup.full(ids, collection_name)
        found, failures = await services.lookup.get(
            ids,
            neighbours=neighbours,
            collection=collection_name,
            room=size,
            whole=[full for one, full in zip(asked, ids, strict=True) if first_id(one)],
        )
        there = {_plain(str(document.id)) for document in found}
        documents = {document.document for document in found}
        missing = [one for one in ids if one not in documents and _plain(one) not in there]
        earlier, said = await tool_history.found(services.history, missing, collection_name)
        found += [one.document for one in earlier.values()]
        missing = [one for one in missing if one not in earlier]
        if not found:
            said += rendering.unseen(failures)
            raise RequestError(rendering.documents([], missing, said))
        shown, notes = fitting(found, size, MAX_CHARACTERS)
        shown, more = described(shown, MAX_METADATA)
        notes += [*said, *more, *rendering.torn(shown), *rendering.read_on(shown, MAX_NEIGHBOURS)]
        notes += rendering.unseen(failures)
        ends = {one.id: tool_history.ended(one) for one in earlier.values()}
        structured = {
            "documents": [
                tool_output.document(one, points=point_ids) | ends.get(one.document or "", {})
                for one in shown
            ],
            "missing": missing,
        }
        return answer(rendering.documents(shown, missing, notes), structured | {"notes": notes})

    async def collections(self, pattern: Pattern = None, after: After = None) -> CallToolResult:
        """The collections that can be searched, as many as an agent can afford to read."""
        services = await self._services()
        background, catalog = services.background, services.catalog
        syncs, dead = background.status(), background.dead_letters()
        names = await catalog.matching(pattern)
        first = bisect_right(names, after) if after else 0
        infos = await services.described(names[first : first + MAX_LISTED])
        lines = listed(infos, syncs)
        infos = infos[: len(lines)]
        coming = {} if pattern or after else {n: s for n, s in syncs.items() if n not in names}
        notes = [f"{fault}." for fault in services.faults()]
        if infos and names[-1] != infos[-1].name:
            shown, last = f"{len(infos)} of {len(names):,} collections", called(infos[-1].name)
            notes.append(f"{shown}: go on with after={last}, or give a pattern.")
        if pattern and not names:
            notes.append(f"No collection matches {called(pattern)}.")
        elif names and not infos:
            notes.append(f"No name comes after {called(after or '')}.")
        shown_infos = [
            tool_output.collection(info, syncs.get(info.name), dead.get(info.name))
            for info in infos
        ]
        structured: dict[str, Any] = {"collections": shown_infos}
        if notes:
            structured["notes"] = notes
        return answer(rendering.collections(lines, coming, notes), structured)


def _checked(information: str | None) -> str:
    if information is None or not information.strip():
        raise RequestError(
            "information is empty: give the text to remember, or the id of a stored one to change "
            "its title, tags or metadata, or its collection."
        )
    if len(information) > MAX_TEXT:
        raise RequestError(f"information is longer than {MAX_TEXT} characters: split it.")
    return information


def _created_at(metadata: Mapping[str, Any] | None) -> datetime | None:
    said = (metadata or {}).get("created_at")
    when = moment(said)
    if said is not None and when is None:
        fault = CALENDAR if impossible(said) else "no date in ISO 8601, such as 2026-05-31"
        raise RequestError(f"metadata.created_at is {fault}: correct it, or leave it out.")
    return when


def _plain(point: str) -> str:
    """A point's id in the one of its spellings that tells it from others."""
    return point.replace("-", "").lower()


FIND = (
    "Search the user's memory and documents by meaning and keywords, before you answer from "
    "memory. Returns passages with relevance 0..1 and ids for qdrant-get."
)
STORE = (
    "Remember a text: decisions, facts, preferences. With the id of a stored one: replaces it, or "
    "without information changes title, tags or metadata, or moves it. What is left out stays; [] "
    "and null inside metadata remove. ID@TIME alone restores it."
)
GET = "Texts of ids from qdrant-find, or whole documents by your own ids; ID@TIME as of then."
COLLECTIONS = "List the collections that can be searched."


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the tools."""

    read_only: bool = False
    arbitrary_filter: bool = True
    fields: tuple[FilterableField, ...] = ()
    find_description: str | None = None
    store_description: str | None = None


async def _check_place(services: Services, id: str, default: str) -> None:  # noqa: A002
    """Raise RequestError where a found id is another collection's than the default one."""
    if not isinstance(as_point_id(id), str):
        return  # a caller's own id, which each collection may have
    found, _ = await services.lookup.get([id], room=1)
    places = [document.collection for document in found]
    if places and default not in places:
        raise RequestError(
            f"id {id} is in {places[0]!r}: pass collection_name={places[0]!r} to update it there, "
            f"or collection_name={default!r} to store the text here as well."
        )


async def _located(
    services: Services,
    id: str,  # noqa: A002
    collection: str | None,
    moved_from: str | None = None,
) -> Document | None:
    """A stored text: in `moved_from`, in the collection where there is one of this id, anywhere."""
    for place in [moved_from] if moved_from else [*filter(None, [collection]), None]:
        with suppress(*([UnknownCollection] if place == collection else [])):
            found, _ = await services.lookup.located([id], place)
            if found:
                return found[0]
    return None


async def _superseded(services: Services, id: str, collection: str) -> Document:  # noqa: A002
    """The text that is to rank last: of this collection, or of the one that has it."""
    if found := await _located(services, id, collection):
        return found
    raise RequestError(f"supersedes: there is no text {called(id)}: use the id of a found one.")


def make_tools(services: Open, options: Options) -> list[ClosedTool]:
    """The tools to register, in the order in which clients list them."""
    return [tool.model_copy(update={"services": services}) for tool in _tools(options)]


@lru_cache(maxsize=8)
def _tools(options: Options) -> tuple[ClosedTool, ...]:
    """The tools of no services yet: their schemas take longer than all else of `make_server`."""
    services = services_of_tool
    tools = Tools(services)
    find = ClosedTool.of(
        tools.find,
        "qdrant-find",
        options.find_description or FIND,
        write=False,
        unlisted=UNLISTED,
        arguments=arguments_with(options.fields),
    )
    if not options.arbitrary_filter:
        del find.parameters["properties"]["query_filter"]
    made = [find]
    if not options.read_only:
        description = options.store_description or STORE
        made.append(
            ClosedTool.of(
                tools.store, "qdrant-store", description, write=True, unlisted=UNLISTED_IN_STORE
            )
        )
    made.append(ClosedTool.of(tools.get, "qdrant-get", GET, write=False, unlisted={"point_ids"}))
    made.append(ClosedTool.of(tools.collections, "qdrant-collections", COLLECTIONS, write=False))
    if not options.read_only:
        made.append(make_delete(services, by_filter=options.arbitrary_filter))
    made.append(make_project(services))
    return tuple(made)
