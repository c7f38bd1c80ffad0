"""Points that lack a vector get it, page by page, while their collection is used."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from mcp_server_qdrant.core.datatypes import Document, PointId, Sparse
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.core.models import Dense
from mcp_server_qdrant.ingest.encoding import day_of, encoded_text
from mcp_server_qdrant.qdrant.paging import paged
from mcp_server_qdrant.qdrant.write.bulk import Bulk

PASSES = 10  # what was written meanwhile without the vector is filled by the next pass

Vector = Sparse | Dense
Encode = Callable[[Sequence[Document]], Awaitable[Sequence[Vector]]]


async def fill(
    bulk: Bulk,
    collection: str,
    vector: str,
    encode: Encode,
    *,
    batch: int,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[int, int]:
    """Give every point the vector of its text; `progress` is called with how many have it.

    Returns how many got it, and how many have no text to make one of. What is
    done is durable: interrupted, the next call goes on with the rest.
    """
    done, textless = 0, set[PointId]()
    for _ in range(PASSES):
        before = done
        async for documents in paged(partial(bulk.lacking, collection, vector, batch)):
            left = [one for one in documents if one.id not in textless]
            for _ in range(PASSES):
                if not left:
                    break
                gave, without, left = await _give(bulk, collection, vector, encode, left)
                done += gave
                textless |= without
            progress(done)
        if done == before:
            break
    return done, len(textless)


async def _give(
    bulk: Bulk, collection: str, vector: str, encode: Encode, documents: Sequence[Document]
) -> tuple[int, set[PointId], list[Document]]:
    """The number that got the vector, those that have none, and those changed meanwhile."""
    readable = [one for one in documents if not one.textless]
    texts = {one.id: (encoded_text(one), day_of(one)) for one in readable}
    made = await encode(readable) if readable else ()
    given = {p: vector for p, vector in zip(texts, made, strict=True) if not _empty(vector)}
    without = {one.id for one in documents} - given.keys()
    refusal: Exception | None = None
    if given:
        try:
            await bulk.give(collection, vector, given)
        except (RequestError, EngineFailure) as error:
            refusal = error  # one of them may have been deleted since it was read
    now = await bulk.by_id(collection, list(given)) if given else []
    if refusal is not None:
        if len(now) == len(given):
            raise refusal
        return 0, without, now
    # A text that was replaced while it was encoded is not left with the old one's vector.
    changed = [one for one in now if (encoded_text(one), day_of(one)) != texts[one.id]]
    return len(given) - len(changed), without, changed


def _empty(vector: Vector) -> bool:
    return isinstance(vector, Sparse) and not vector.indices
