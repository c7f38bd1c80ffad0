"""The state of files in a collection, on both engines."""

from mcp_server_qdrant.qdrant.read.sources import PAGE, Files
from tests.support import IDF, foreign


def payload(source: str, contents: str = "h") -> dict:
    return {"document": "text", "doc": {"id": "d", "file": {"source": source, "hash": contents}}}


async def test_the_points_of_some_sources_are_read_page_by_page(engine):
    points = {n: payload("a" if n % 2 else "b") for n in range(1, 2 * PAGE + 300)}
    more = {9000: payload("z"), 9001: {"document": "by hand"}}
    await foreign(engine, "c", points | more, sparse={"bm25": IDF})
    found = await Files(engine).scan("c", {"a", "b"})

    assert sorted(point for point, _ in found) == sorted(points)
    assert dict(found)[1] == {"id": "d", "file": {"source": "a", "hash": "h"}}


async def test_only_points_with_the_old_contents_are_removed(engine):
    points = {1: payload("a", "old"), 2: payload("a", "new"), 3: payload("a")}
    await foreign(engine, "c", points, sparse={"bm25": IDF})
    await Files(engine).drop("c", [1, 2], {"old", "older"})

    assert [point for point, _ in await Files(engine).scan("c", {"a"})] == [2, 3]
