"""The calls of the visual page: each answer is that of a tool, in the shape the page shows."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus
from mcp.types import CallToolResult, TextContent

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest, declared
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.core.maps import MOST_DRAWN, PARTS, USUAL_POINTS, MapRequest
from mcp_server_qdrant.http.page.memories import Memories, collections, known, wanted
from mcp_server_qdrant.tools.boundary import ClosedTool

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
AXES = 3
DRAWN = {"collections", "points"}
TAGS = 100  # of each collection: more than anybody looks through
AT_ONCE = 8
NOT_ASKED = {"mode", "explain", "query_filter", "tuning"}

Services = Callable[[], Awaitable[Any]]  # opens app's Services, or says that it is done


class Aside:
    """Stands for the context of a call where no client waits; subscribers hear of writes."""

    protocol_version = client_capabilities = None

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus

    async def report_progress(self, *_: Any) -> None:
        """Tell nobody."""

    async def notify_resource_updated(self, uri: str) -> None:
        """Tell the subscribers."""
        await self._bus.publish(ResourceUpdated(uri=uri))


class Desk:
    """Runs the tools for the page."""

    def __init__(
        self,
        make_tools: Callable[[Services], Sequence[ClosedTool]],
        services: Services,
        defaults: Mapping[str, Any],
        bus: SubscriptionBus,
    ) -> None:
        """`defaults` is for the page alone."""
        self._services = services
        self._tools = {tool.name: tool for tool in make_tools(services)}
        self._defaults = defaults
        self._context: Any = Aside(bus)
        self.memories = Memories(self._run)

    async def setup(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The collections, what the server does by default, and what the caller may do."""
        found = await collections(self._run)
        days = (await self._services()).history.days
        may = {name: self._may(f"qdrant-{name}") for name in ("store", "delete")}
        return {"collections": found, "defaults": self._defaults, "may": may, "days": days}

    def _may(self, name: str) -> bool:
        tool, who = self._tools.get(name), caller()
        return tool is not None and (who is None or tool.scope in who.scopes)

    async def tags(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Collection -> its most frequent tags; one whose tags cannot be told has none."""
        found = await collections(self._run)
        facets = (await self._services()).facets
        gate = asyncio.Semaphore(AT_ONCE)

        async def of(name: str) -> list[str]:
            async with gate:
                return sorted({value for _, value in await facets.tags(name, TAGS)})

        each, _failed = await gathered([one["name"] for one in found], of)
        return {"tags": {name: tags for name, tags in each.items() if tags}}

    async def search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One search as qdrant-find does it, with why each result ranks there."""
        return await self._timed(self.arguments(body) | {"explain": True})

    async def compare(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The same search by every algorithm.

        One search goes before, so that none pays for what the others then find in the caches.
        """
        arguments = self.arguments(body) | {"explain": True}  # all results, not what fits a page
        await self._tried(arguments)
        runs = [await self._tried(arguments | {"algorithm": name}) for name in ALGORITHMS]
        if all("error" in run for run in runs):
            raise RequestError(runs[0]["error"])
        reference = _keys(runs[0])
        rows = zip(ALGORITHMS, runs, strict=True)
        return {"algorithms": [compared(name, run, reference) for name, run in rows]}

    async def map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The collections as points, with a search on them if one is asked for.

        `search` is what `search` takes. `parts` asks for less than all: "places" where the hits
        lie, without the points; "points" these without ids and titles, "names" only those (of
        some points, `start` being the first), "neighbours" what is there of that layout, and
        "look" the points of a map that another is to follow.
        """
        known(body, {*DRAWN, "search", "parts", "start"})
        parts, start = body.get("parts") or "all", body.get("start")
        if start is not None and (type(start) is not int or start < 0):
            raise RequestError("start must be a whole number from 0.")
        if not isinstance(parts, str) or parts not in PARTS:
            raise RequestError(f"parts must be one of {', '.join(PARTS)}.")
        search = self._request(body["search"]) if body.get("search") else None
        projector = (await self._services()).projector
        asked = replace(_drawn(body), search=search, neighbours="neighbours" in PARTS[parts])
        view = await projector.view(asked)
        drawn: dict[str, Any] = await projector.encoded(view, AXES, parts, start)
        return drawn

    async def region(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The words that tell some points of a map from its others."""
        known(body, {*DRAWN, "ids"})
        ids = body.get("ids")
        if not isinstance(ids, dict) or not all(isinstance(one, list) for one in ids.values()):
            raise RequestError("ids must be lists of ids by collection.")
        wanted = {(name, str(one)) for name, held in ids.items() for one in held}
        projector = (await self._services()).projector
        return {"words": await projector.chosen(_drawn(body), wanted)}

    def _request(self, body: Any) -> SearchRequest:
        if not isinstance(body, dict):
            raise RequestError("search must be an object.")
        find = self._tools["qdrant-find"]
        request: SearchRequest = find.read(self.arguments(body))["asked"].request()
        return request

    async def text(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The whole text of one point, with its metadata, source and neighbouring parts."""
        known(body, {"id", "collection", "neighbours"})
        arguments = {
            "ids": [body.get("id")],
            "collection_name": body.get("collection"),
            "neighbours": body.get("neighbours"),
            "point_ids": True,
        }
        return await self._run("qdrant-get", arguments)

    def arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A search of the page as arguments of qdrant-find."""
        listed = self._tools["qdrant-find"].parameters["properties"]
        offered = {*listed, *declared()} - NOT_ASKED
        known(body, offered | {"tags", "ids"})
        if not str(body.get("query") or "").strip():
            raise RequestError("query is empty: say what to look for.")  # the page lists nothing
        arguments = {name: value for name, value in body.items() if name not in ("tags", "ids")}
        arguments["point_ids"] = True
        must = [wanted(body["tags"])] if body.get("tags") else []
        if body.get("ids"):
            must.append(among(body["ids"]))
        if must:
            arguments["query_filter"] = {"must": must}
        return arguments

    async def _timed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        found = await self._run("qdrant-find", arguments)
        return found | {"ms": round((time.perf_counter() - start) * 1000, 1)}

    async def _tried(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._timed(arguments)
        except RequestError as error:
            return {"error": str(error), "results": [], "notes": [], "ms": None}

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's structured content. Raises RequestError with the sentence it refuses with."""
        if name not in self._tools:
            raise RequestError("Nothing can be changed here: the server only reads.")
        result: CallToolResult = await self._tools[name].run(dict(arguments), self._context)
        if result.is_error:
            texts = (part.text for part in result.content if isinstance(part, TextContent))
            raise RequestError(" ".join(texts))
        return dict(result.structured_content or {})


def _names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise RequestError("collections must be a list of names, and not empty.")
    return tuple(names)


def _drawn(body: Mapping[str, Any]) -> MapRequest:
    return MapRequest(_names(body.get("collections")), _points(body.get("points")))


def _points(points: Any) -> int:
    if points is None:
        return USUAL_POINTS
    if type(points) is not int or not 1 <= points <= MOST_DRAWN:
        raise RequestError(f"points must be a whole number from 1 to {MOST_DRAWN}.")
    return points


def among(ids: Any) -> dict[str, Any]:
    """The condition, in REST form, for these points alone."""
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise RequestError("ids must be a list of ids.")
    return {"has_id": [int(one) if one.isdecimal() else one for one in ids]}


def compared(name: str, run: Mapping[str, Any], reference: set[tuple[str, str]]) -> dict[str, Any]:
    """One row: results, mean relevance, time, and the share that hybrid has too."""
    results = run["results"]
    count = len(results)
    return {
        "algorithm": name,
        "results": count,
        "mean_relevance": round(sum(r["relevance"] for r in results) / count, 3) if count else None,
        "ms": run["ms"],
        "overlap": round(len(_keys(run) & reference) / count, 3) if count else None,
        "hits": [
            {key: hit.get(key) for key in ("id", "document", "collection", "title", "relevance")}
            for hit in results
        ],
        "error": run.get("error"),
    }


def _keys(run: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(hit["collection"], hit["document"]) for hit in run["results"]}
