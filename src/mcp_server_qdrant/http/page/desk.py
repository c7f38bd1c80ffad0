"""The calls of the page: results of tools, in the shape that the page needs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp.types import CallToolResult, TextContent

from mcp_server_qdrant.core.context import caller
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import as_point_id
from mcp_server_qdrant.core.tasks import gather
from mcp_server_qdrant.tools.boundary import ClosedTool
from mcp_server_qdrant.tools.project import MOST_POINTS
from mcp_server_qdrant.tools.rendering import as_data

TAGS = 100  # per collection
AT_ONCE = 8
LIST_BY = ("query", "since", "until", "tags")  # parameters of qdrant-find
SOURCE_KEYS = ("source", "url", "metadata.source", "metadata.url")
LISTED = 100
MOST = 2_000  # texts in a list, and ids that a search is restricted to; a filter takes no more
COLUMNS = ("title", "collection", "tags", "source", "date")
PART, EXCERPT = 4_000, 240  # characters of a result, and of a row in a list
SHOWN = ("id", "document", "collection", "title", "part", "tags", "source", "date", "superseded_by")
NO_WRITES = "Nothing can be changed here: the server only reads."

Body = Mapping[str, Any]
Call = Callable[[Body], Awaitable[Mapping[str, Any]]]
Services = Callable[[], Awaitable[Any]]  # waits until the services of `app` are open


class NoContext:
    """A stand-in for the MCP context of a call: there is no MCP client."""

    protocol_version = client_capabilities = None


class Desk:
    """Runs the tools for the page."""

    def __init__(
        self,
        make_tools: Callable[[Services], Sequence[ClosedTool]],
        services: Services,
        defaults: Mapping[str, Any],
    ) -> None:
        """`defaults` are passed on to the page."""
        self._services = services
        self._tools = {tool.name: tool for tool in make_tools(services)}
        self._defaults = defaults
        self._context: Any = NoContext()

    def calls(self) -> dict[str, Call]:
        """The page's calls by name; get, store and delete take the tools' arguments."""
        own = (self.setup, self.tags, self.search, self.map, self.list, self.demo, self.why)
        answers: dict[str, Call] = {one.__name__: one for one in own}
        for name in ("get", "store", "delete"):
            answers[name] = partial(self._run_tool, f"qdrant-{name}")
        return answers

    async def _run_tool(self, tool: str, body: Body) -> dict[str, Any]:
        return await self._run(tool, _refuse_filter(body))

    async def setup(self, _: Body) -> dict[str, Any]:
        """The collections, the server's defaults and the caller's permissions."""
        found = await self._collections()
        days = (await self._services()).history.days
        may = {name: self._may(f"qdrant-{name}") for name in ("store", "delete")}
        own = {"defaults": self._defaults, "may": may, "days": days, "most": MOST}
        return {"collections": found} | own

    def _may(self, name: str) -> bool:
        tool, who = self._tools.get(name), caller()
        return tool is not None and (who is None or tool.scope in who.scopes)

    async def _collections(self) -> Sequence[dict[str, Any]]:
        """All collections; agents get this list in pages."""
        found: list[dict[str, Any]] = []
        after = None
        while page := (await self._run("qdrant-collections", {"after": after}))["collections"]:
            found += page
            after = page[-1]["name"]
        return found

    async def tags(self, _: Body) -> dict[str, Any]:
        """Collection -> its tags, the most frequent first; none for a failed collection."""
        found = await self._collections()
        facets = (await self._services()).facets

        async def tags_of(name: str) -> list[str]:
            return list(dict.fromkeys(value for _, value in await facets.tags(name, TAGS)))

        each, _failed = await gather([one["name"] for one in found], tags_of, AT_ONCE)
        return {"tags": {name: tags for name, tags in each.items() if tags}}

    async def search(self, body: Body) -> dict[str, Any]:
        """A search by qdrant-find; each result has its part and the reasons for its rank."""
        asked = _arguments(body) | {"explain": True, "mode": "full"}
        found = await self._run("qdrant-find", asked)
        return found | {"results": [_cut(one, PART) for one in found["results"]]}

    async def map(self, body: Body) -> dict[str, Any]:
        """The map of the collections, with a search on it if requested.

        `search` has the arguments of `search`; with `points` false only positions are sent.
        """
        _refuse_unknown(body, {"collections", "search", "points"})
        names = body.get("collections")
        if names is not None and not (names and _is_text_list(names)):
            raise RequestError("collections must be a list of names, and not empty.")
        search = self._request(body["search"]) if body.get("search") else None
        projector = (await self._services()).projector
        view = await projector.view(names and tuple(names), MOST_POINTS, search)
        points = body.get("points", True) is not False
        drawn: dict[str, Any] = await projector.encode_view(view, points=points)
        return drawn

    def _request(self, body: Any) -> SearchRequest:
        if not isinstance(body, dict):
            raise RequestError("search must be an object.")
        return self._parse_request(_arguments(body))

    def _parse_request(self, arguments: Body) -> SearchRequest:
        request: SearchRequest = self._tools["qdrant-find"].read(arguments)["asked"].request()
        return request

    async def list(self, body: Body) -> dict[str, Any]:
        """List texts by qdrant-find, newest first: `LISTED` of them, from `start` on.

        `query` keeps only texts that a search finds. `sort` is a column of the newest `MOST` texts,
        with "-" before it for descending order. `more` in the result is the number that follow.
        """
        _refuse_unknown(body, {*LIST_BY, "collections", "source", "start", "sort"})
        sort, start = body.get("sort") or "", body.get("start") or 0
        if not isinstance(sort, str) or sort.removeprefix("-") not in ("", *COLUMNS):
            raise RequestError(f"sort must be one of {', '.join(COLUMNS)}, after a - to descend.")
        if type(start) is not int or start < 0:
            raise RequestError("start must be a whole number from 0.")
        if start > MOST:
            raise RequestError(f"A list shows at most {MOST:,} texts: narrow it, or search.")
        where = None
        if source := body.get("source"):
            where = {"should": [{"key": key, "match": {"text": source}} for key in SOURCE_KEYS]}
        given = {name: body.get(name) for name in LIST_BY}
        asked = {"collections": body.get("collections") or ["*"], "query_filter": where}
        request = self._parse_request(given | asked | {"mode": "full"})
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
        """Store one of the demo collections."""
        _refuse_unknown(body, {"name"})
        if not self._may("qdrant-store"):
            raise RequestError(NO_WRITES)
        name: Any = body.get("name")
        return {"collection": name, "texts": await (await self._services()).demo(name)}

    async def why(self, body: Body) -> dict[str, Any]:
        """Explain in sentences why a `search` does not find the text `id` of a `collection`."""
        _refuse_unknown(body, {"search", "id", "collection"})
        wanted, where = body.get("id"), body.get("collection")
        if not (isinstance(wanted, str) and isinstance(where, str)):
            raise RequestError("Name the text by its id and its collection.")
        services = await self._services()
        return {"said": await services.why_not(self._request(body.get("search")), wanted, where)}

    async def _run(self, name: str, arguments: Body) -> dict[str, Any]:
        """Run a tool; returns its structured content, including `_meta`.

        Raises RequestError with the tool's error sentence.
        """
        if name not in self._tools:
            raise RequestError(NO_WRITES)
        result: CallToolResult = await self._tools[name].run(dict(arguments), self._context)
        if result.is_error:
            texts = (part.text for part in result.content if isinstance(part, TextContent))
            raise RequestError(" ".join(texts))
        return {**(result.structured_content or {}), **(result.meta or {})}


def _refuse_unknown(body: Body, names: set[str]) -> None:
    """Raise RequestError for an unknown field."""
    if unknown := sorted(set(body) - names):
        raise RequestError(f"There is no field {unknown[0]!r}.")


def _refuse_filter(body: Body) -> Body:
    """The arguments without a filter: the page's tools would accept one that agents may not use."""
    if "query_filter" in body:
        raise RequestError("There is no field 'query_filter'.")
    return body


def _arguments(body: Body) -> dict[str, Any]:
    """The arguments of qdrant-find for a search of the page; `ids` restricts it to these points."""
    if not str(body.get("query") or "").strip():
        raise RequestError("query is empty: say what to look for.")  # this call does not list texts
    arguments = dict(_refuse_filter(body)) | {"point_ids": True}
    if ids := arguments.pop("ids", None):
        points = [as_point_id(one) for one in ids] if _is_text_list(ids) else [None]
        if None in points:
            raise RequestError("ids must be a list of ids.")
        arguments["query_filter"] = {"must": [{"has_id": points}]}
    return arguments


def _is_text_list(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def _value(row: Mapping[str, Any], column: str) -> str:
    """The sort key of a text for a column."""
    value = row.get(column) or ""
    return (value if isinstance(value, str) else ", ".join(value)).casefold()


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    """A text as a row of the list."""
    return _cut({key: one[key] for key in SHOWN if key in one} | {"text": one["text"]}, EXCERPT)


def _cut(one: Mapping[str, Any], length: int) -> dict[str, Any]:
    """A text of at most `length` characters, cut between words."""
    text = one["text"]
    return {**one, "text": text[:length].rpartition(" ")[0] if len(text) > length else text}
