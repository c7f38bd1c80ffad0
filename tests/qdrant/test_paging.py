"""Pages come to an end, and are as small as they have to be."""

from types import SimpleNamespace

import pytest

from mcp_server_qdrant.core.errors import AnswerTooLarge, EngineFailure
from mcp_server_qdrant.qdrant.paging import pages

ALL = list(range(10))


class Server:
    """One that numbers its points; `most` is how many fit in an answer."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.asked: list[int] = []

    async def scroll(self, collection, where, *, limit, offset, **shown):
        self.asked.append(limit)
        if limit > self.most:
            raise AnswerTooLarge("too large")
        start = offset or 0
        following = start + limit if start + limit < len(ALL) else None
        return [SimpleNamespace(id=one) for one in ALL[start : start + limit]], following


async def ids(server, size: int) -> list[list[int]]:
    return [[one.id for one in page] async for page in pages(server, "c", size)]


async def test_a_collection_is_read_in_pages():
    assert await ids(Server(), 4) == [ALL[:4], ALL[4:8], ALL[8:]]


async def test_a_page_that_is_too_large_is_read_in_smaller_ones():
    assert [one for page in await ids(Server(most=3), 8) for one in page] == ALL


async def test_a_point_that_is_too_large_by_itself_is_an_error():
    server = Server(most=0)
    with pytest.raises(AnswerTooLarge):
        await ids(server, 8)
    assert server.asked == [8, 4, 2, 1]


@pytest.mark.parametrize(
    "answers",
    [[([1], 1), ([1], 1)], [([1], 1), ([2], 2), ([1], 1)], [([], 1)]],
    ids=["the same page", "a circle", "nothing, and more to come"],
)
async def test_pages_that_lead_nowhere_are_an_error(answers):
    class Circle:
        async def scroll(self, *_, **__):
            return answers.pop(0)

    with pytest.raises(EngineFailure, match="Qdrant's pages do not end"):
        async for _ in pages(Circle(), "c", 1):
            pass
