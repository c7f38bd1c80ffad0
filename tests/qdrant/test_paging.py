"""Pages come to an end, and are as small as they have to be."""

from types import SimpleNamespace

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.paging import pages

ALL = list(range(10))


class Server:
    """One that numbers its points."""

    async def scroll(self, collection, where, *, limit, offset, **shown):
        start = offset or 0
        following = start + limit if start + limit < len(ALL) else None
        return [SimpleNamespace(id=one) for one in ALL[start : start + limit]], following


async def ids(server, size: int) -> list[list[int]]:
    return [[one.id for one in page] async for page in pages(server, "c", size)]


async def test_a_collection_is_read_in_pages():
    assert await ids(Server(), 4) == [ALL[:4], ALL[4:8], ALL[8:]]


@pytest.mark.parametrize(
    "answers",
    [[([1], 1), ([1], 1)], [([1], 1), ([2], 2), ([1], 1)], [([], 1)]],
    ids=["the same page", "a circle", "nothing, and more to come"],
)
async def test_pages_that_lead_nowhere_are_an_error(answers):
    class Circle:
        async def scroll(self, *_, **__):
            return answers.pop(0)

    with pytest.raises(EngineFailure, match="Qdrant's paging never ends"):
        async for _ in pages(Circle(), "c", 1):
            pass
