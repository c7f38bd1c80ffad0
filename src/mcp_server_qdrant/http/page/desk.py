"""The calls of the visual page: each answer is that of a tool, in the shape the page shows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp.types import CallToolResult, TextContent

from mcp_server_qdrant.core.context import caller
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.maps import MOST_POINTS
from mcp_server_qdrant.core.notation import as_point_id
from mcp_server_qdrant.core.tasks import gathered
from mcp_server_qdrant.tools.boundary import ClosedTool
from mcp_server_qdrant.tools.rendering import as_data

TAGS = 100  # of each collection: more than anybody looks through
AT_ONCE = 8
LIST_BY = ("query", "since", "until", "tags")  # as qdrant-find has them
SOURCE_KEYS = ("source", "url", "metadata.source", "metadata.url")
LISTED = 100
MOST = 2_000  # texts in a list, and points that a search is kept to: as many as a filter takes
COLUMNS = ("title", "collection", "tags", "source", "date")
PART, EXCERPT = 4_000, 240  # characters of a result, and of a line in the list
SHOWN = ("id", "document", "collection", "title", "part", "tags", "source", "date", "superseded_by")
NO_WRITES = "Nothing can be changed here: the server only reads."

Body = Mapping[str, Any]
Answer = Callable[[Body], Awaitable[Mapping[str, Any]]]
Services = Callable[[], Awaitable[Any]]  # the services of `app`, once they are open


class Aside:
    """Stands for the context of a call where no client waits."""

    protocol_version = client_capabilities = None


class Desk:
    """Runs the tools for the page."""

    def __init__(
        self,
        make_tools: Callable[[Services], Sequence[ClosedTool]],
        services: Services,
        defaults: Mapping[str, Any],
    ) -> None:
        """`defaults` is for the page alone."""
        self._services = services
        self._tools = {tool.name: tool for tool in make_tools(services)}
        self._defaults = defaults
        self._context: Any = Aside()

    def answers(self) -> dict[str, Answer]:
        """What the page can ask, by name; get, store and delete take arguments of the tools."""
        own = (self.setup, self.tags, self.search, self.map, self.list, self.demo)
        answers: dict[str, Answer] = {one.__name__: one for one in own}
        for name in ("get", "store", "delete"):
            answers[name] = partial(self._asked, f"qdrant-{name}")
        return answers

    async def _asked(self, tool: str, body: Body) -> dict[str, Any]:
        return await self._run(tool, _unfiltered(body))

    async def setup(self, _: Body) -> dict[str, Any]:
        """The collections, what the server does by default, and what the caller may do."""
        found = await self._collections()
        days = (await self._services()).history.days
        may = {name: self._may(f"qdrant-{name}") for name in ("store", "delete")}
        own = {"defaults": self._defaults, "may": may, "days": days, "most": MOST}
        return {"collections": found} | own

    def _may(self, name: str) -> bool:
        tool, who = self._tools.get(name), caller()
        return tool is not None and (who is None or tool.scope in who.scopes)

    async def _collections(self) -> Sequence[dict[str, Any]]:
        """All collections, whose list agents get in pages."""
        found: list[dict[str, Any]] = []
        after = None
        while page := (await self._run("qdrant-collections", {"after": after}))["collections"]:
            found += page
            after = page[-1]["name"]
        return found

    async def tags(self, _: Body) -> dict[str, Any]:
        """Collection -> its tags, the most frequent first; one that cannot be asked has none."""
        found = await self._collections()
        facets = (await self._services()).facets

        async def tags_of(name: str) -> list[str]:
            return list(dict.fromkeys(value for _, value in await facets.tags(name, TAGS)))

        each, _failed = await gathered([one["name"] for one in found], tags_of, AT_ONCE)
        return {"tags": {name: tags for name, tags in each.items() if tags}}

    async def search(self, body: Body) -> dict[str, Any]:
        """One search as qdrant-find does it, each result with its part and why it ranks there."""
        asked = _arguments(body) | {"explain": True, "mode": "full"}
        found = await self._run("qdrant-find", asked)
        return found | {"results": [_cut(one, PART) for one in found["results"]]}

    async def map(self, body: Body) -> dict[str, Any]:
        """The collections as points, with a search on them if one is asked for.

        `search` is what `search` takes; with `points` false only its places come.
        """
        _known(body, {"collections", "search", "points"})
        names = body.get("collections")
        if names is not None and not (names and _texts(names)):
            raise RequestError("collections must be a list of names, and not empty.")
        search = self._request(body["search"]) if body.get("search") else None
        projector = (await self._services()).projector
        view = await projector.view(names and tuple(names), MOST_POINTS, search)
        points = body.get("points", True) is not False
        drawn: dict[str, Any] = await projector.encoded(view, points=points)
        return drawn

    def _request(self, body: Any) -> SearchRequest:
        if not isinstance(body, dict):
            raise RequestError("search must be an object.")
        return self._read(_arguments(body))

    def _read(self, arguments: Body) -> SearchRequest:
        request: SearchRequest = self._tools["qdrant-find"].read(arguments)["asked"].request()
        return request

    async def list(self, body: Body) -> dict[str, Any]:
        """Texts as qdrant-find lists them, the newest first: `LISTED` of them, from `start` on.

        `query` keeps those that a search finds. `sort` is a column, "-" before it for downwards:
        of the newest `MOST` texts. `more` is how many there are behind these.
        """
        _known(body, {*LIST_BY, "collections", "source", "start", "sort"})
        sort, start = body.get("sort") or "", body.get("start") or 0
        if not isinstance(sort, str) or sort.removeprefix("-") not in ("", *COLUMNS):
            raise RequestError(f"sort must be one of {', '.join(COLUMNS)}, after a - downwards.")
        if type(start) is not int or start < 0:
            raise RequestError("start must be a whole number from 0.")
        if start > MOST:
            raise RequestError(f"A list ends after {MOST:,} texts: narrow it, or search.")
        where = None
        if source := body.get("source"):
            where = {"should": [{"key": key, "match": {"text": source}} for key in SOURCE_KEYS]}
        given = {name: body.get(name) for name in LIST_BY}
        asked = {"collections": body.get("collections") or ["*"], "query_filter": where}
        request = self._read(given | asked | {"mode": "full"})
        limit = LISTED if request.query else MOST if sort else start + LISTED
        services = await self._services()
        page = await services.pipeline.search(request.model_copy(update={"limit": limit}))
        rows = [_row(one) for one in as_data(page, "full", points=True)["results"]]
        if sort:
            rows.sort(key=lambda row: _value(row, sort.removeprefix("-")), reverse=sort[0] == "-")
        shown = rows[start : start + LISTED]
        behind = 0 if request.query else page.more
        more = behind + max(len(rows) - start - LISTED, 0)
        return {"results": shown, "more": more, "sorted": len(rows)}

    async def demo(self, body: Body) -> dict[str, Any]:
        """Store one of the demo's collections, to have something to look at."""
        _known(body, {"name"})
        if not self._may("qdrant-store"):
            raise RequestError(NO_WRITES)
        name: Any = body.get("name")
        return {"collection": name, "texts": await (await self._services()).demo(name)}

    async def _run(self, name: str, arguments: Body) -> dict[str, Any]:
        """A tool's structured content, and what of it is for programs alone (`_meta`).

        Raises RequestError with the sentence it refuses with.
        """
        if name not in self._tools:
            raise RequestError(NO_WRITES)
        result: CallToolResult = await self._tools[name].run(dict(arguments), self._context)
        if result.is_error:
            texts = (part.text for part in result.content if isinstance(part, TextContent))
            raise RequestError(" ".join(texts))
        return {**(result.structured_content or {}), **(result.meta or {})}


def _known(body: Body, names: set[str]) -> None:
    """Raise RequestError for a field that is none of these."""
    if unknown := sorted(set(body) - names):
        raise RequestError(f"There is no field {unknown[0]!r}.")


def _unfiltered(body: Body) -> Body:
    """Arguments without a filter: the page's own tools take any, agents' only if they may."""
    if "query_filter" in body:
        raise RequestError("There is no field 'query_filter'.")
    return body


def _arguments(body: Body) -> dict[str, Any]:
    """A search of the page as arguments of qdrant-find; `ids` keeps it to these points."""
    if not str(body.get("query") or "").strip():
        raise RequestError("query is empty: say what to look for.")  # the page lists nothing
    arguments = dict(_unfiltered(body)) | {"point_ids": True}
    if ids := arguments.pop("ids", None):
        points = [as_point_id(one) for one in ids] if _texts(ids) else [None]
        if None in points:
            raise RequestError("ids must be a list of ids.")
        arguments["query_filter"] = {"must": [{"has_id": points}]}
    return arguments


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def _value(row: Mapping[str, Any], column: str) -> str:
    """What a text is sorted by."""
    value = row.get(column) or ""
    return (value if isinstance(value, str) else ", ".join(value)).casefold()


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    """What a list shows of a text."""
    return _cut({key: one[key] for key in SHOWN if key in one} | {"text": one["text"]}, EXCERPT)


def _cut(one: Mapping[str, Any], length: int) -> dict[str, Any]:
    """A text of at most such a length, cut between words."""
    text = one["text"]
    return {**one, "text": text[:length].rpartition(" ")[0] if len(text) > length else text}
