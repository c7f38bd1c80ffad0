"""What the page does with the texts themselves: list, store, move and delete, by the tools."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import tagged
from mcp_server_qdrant.core.gather import gathered
from mcp_server_qdrant.core.notation import as_point_id

SOURCE_KEYS = ("source", "url", "metadata.source", "metadata.url")
LISTED = 100
SORTED = 2_000  # of the newest texts, which are put in another order
COLUMNS = ("title", "collection", "tags", "source", "date")
MOST_SEEN = 5_000  # rows of a list, which the next ones follow
HOME, EACH = 24, 30  # collections on the first sight of the page, and texts of each
EXCERPT = 240
DEMO = Path(__file__).parent / "demo"

Run = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Memories:
    """The texts of the collections. `run` runs a tool and gives its structured content."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def list(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Texts as qdrant-find lists them, the newest first; `seen` are those shown before.

        `query` keeps those that a search finds. `sort` is a column, "-" before it for downwards:
        of the newest `SORTED` texts.
        """
        known(body, {"collections", "since", "until", "tags", "source", "seen", "query", "sort"})
        sort, seen = body.get("sort") or "", [*map(str, _points(body.get("seen") or []))]
        if not isinstance(sort, str) or sort.removeprefix("-") not in ("", *COLUMNS):
            raise RequestError(f"sort must be one of {', '.join(COLUMNS)}, after a - downwards.")
        page = await self._page(body, [] if sort else seen)
        if not sort:
            return page
        rows = page["results"]
        while page["more"] and len(rows) < SORTED:
            page = await self._page(body, [row["id"] for row in rows])
            rows += page["results"]
        rows.sort(key=lambda row: _value(row, sort.removeprefix("-")), reverse=sort[0] == "-")
        left = [row for row in rows if row["id"] not in set(seen)]
        more = page["more"] + len(left[LISTED:])
        return page | {"results": left[:LISTED], "more": more, "sorted": len(rows)}

    async def _page(self, body: Mapping[str, Any], seen: Sequence[str]) -> dict[str, Any]:
        """The next texts, and in `more` how many further ones there are."""
        conditions = [wanted(body["tags"])] if body.get("tags") else []
        if source := body.get("source"):
            parts = [{"key": key, "match": {"text": source}} for key in SOURCE_KEYS]
            conditions.append({"should": parts})
        where: dict[str, Any] = {"must": conditions}
        if seen:
            where["must_not"] = [{"has_id": _points(seen)}]
        found = await self._newest(
            {
                "collections": body.get("collections") or ["*"],
                "query": body.get("query") or None,
                "since": body.get("since"),
                "until": body.get("until"),
                "query_filter": where if conditions or seen else None,
                "limit": LISTED,
            }
        )
        notes = "" if body.get("query") else " ".join(found["notes"])
        told = re.match(r"[\d,]+ of ([\d,]+) texts", notes)
        more = int(told[1].replace(",", "")) if told else len(found["results"])
        return found | {"more": max(more - len(found["results"]), 0)}

    async def home(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Collection -> its newest texts; one that cannot be listed has none."""
        told = await collections(self._run)
        names = [one["name"] for one in told if one["points"]][:HOME]
        found, _failed = await gathered(
            names, lambda name: self._newest({"collections": [name], "limit": EACH})
        )
        return {"newest": {name: page["results"] for name, page in found.items()}}

    async def _newest(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = await self._run("qdrant-find", {**arguments, "mode": "full", "point_ids": True})
        return found | {"results": [_row(one) for one in found["results"]]}

    async def save(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store a text under its id again, as qdrant-store does: what is left out stays.

        Refused where it is not of the revision that was `seen` any more.
        """
        known(body, {"id", "collection", "text", "title", "tags", "seen"})
        arguments = {key: body.get(key) for key in ("id", "title", "tags", "seen")}
        arguments |= {"information": body.get("text"), "collection_name": body.get("collection")}
        return await self._run("qdrant-store", arguments)

    async def delete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete a whole text, of the revision that was `seen`."""
        known(body, {"id", "collection", "seen"})
        arguments = {"ids": [body.get("id")], "collection_name": body.get("collection")}
        return await self._run("qdrant-delete", arguments | {"seen": body.get("seen")})

    async def move(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Move a whole text, of the revision that was `seen`, to the collection `to`."""
        known(body, {"id", "collection", "to", "seen"})
        arguments = {"id": body.get("id"), "moved_from": body.get("collection")}
        arguments |= {"collection_name": body.get("to"), "seen": body.get("seen")}
        if not isinstance(body.get("to"), str):
            raise RequestError("to must be the name of a collection.")
        return await self._run("qdrant-store", arguments)

    async def versions(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The earlier versions of a text, as qdrant-get lists them."""
        known(body, {"id", "collection"})
        arguments = {"ids": [body.get("id")], "collection_name": body.get("collection")}
        return await self._run("qdrant-get", arguments | {"versions": True})

    async def restore(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Bring back an earlier version by its id."""
        known(body, {"id", "collection"})
        arguments = {"id": body.get("id"), "collection_name": body.get("collection")}
        return await self._run("qdrant-store", arguments)

    async def demo(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store one of the demo's collections, to have something to look at."""
        known(body, {"name"})
        texts = {path.stem: path for path in DEMO.glob("*.jsonl")}
        name = body.get("name")
        if not isinstance(name, str) or name not in texts:
            raise RequestError(f"The demo's collections are {', '.join(sorted(texts))}.")

        async def store(line: str) -> None:
            one = json.loads(line)
            arguments = {key: one[key] for key in ("id", "title", "tags")} | {
                "information": one["text"],
                "metadata": {**one["metadata"], "created_at": one["created_at"]},
                "collection_name": name,
                "create": True,
            }
            await self._run("qdrant-store", arguments)

        first, *others = texts[name].read_text(encoding="utf-8").splitlines()
        await store(first)  # which makes the collection
        await asyncio.gather(*map(store, others))
        return {"collection": name, "texts": 1 + len(others)}


async def collections(run: Run) -> Sequence[dict[str, Any]]:
    """All collections, whose list agents get in pages."""
    found: list[dict[str, Any]] = []
    while page := (
        await run("qdrant-collections", {"after": found[-1]["name"] if found else None})
    )["collections"]:
        found += page
    return found


def known(body: Mapping[str, Any], names: set[str]) -> None:
    """Raise RequestError for a field that is none of these."""
    if unknown := sorted(set(body) - names):
        raise RequestError(f"There is no field {unknown[0]!r}.")


def wanted(tags: Any) -> dict[str, Any]:
    """The condition for texts that carry one of the page's tags. Raises RequestError."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise RequestError("tags must be a list of texts.")
    return tagged(tags)


def _points(ids: Any) -> list[int | str]:
    points = [as_point_id(str(one)) for one in ids] if isinstance(ids, list) else [None]
    if len(points) > MOST_SEEN or None in points:
        raise RequestError(f"seen must be a list of at most {MOST_SEEN:,} found ids.")
    return [point for point in points if point is not None]


def _value(row: Mapping[str, Any], column: str) -> str:
    """What a text is sorted by."""
    value = row.get(column) or ""
    return (value if isinstance(value, str) else ", ".join(value)).casefold()


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    """What a list shows of a text."""
    shown = (
        "id",
        "document",
        "collection",
        "title",
        "part",
        "tags",
        "source",
        "date",
        "superseded_by",
    )
    text = one["text"][:EXCERPT].rpartition(" ")[0] if len(one["text"]) > EXCERPT else one["text"]
    return {key: one[key] for key in shown if key in one} | {"text": text}
