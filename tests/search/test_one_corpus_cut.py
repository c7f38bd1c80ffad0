"""One corpus in one collection or cut into eight: the answer is the same.

Both terms of the relevance are absolute and the idf is that of all searched collections, so a
document's relevance does not depend on how the corpus is cut. Only the candidates can differ: eight
collections give more of them than one.
"""

import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from qdrant_client import models

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Dense, SearchPage
from mcp_server_qdrant.core.exact import Exact
from tests.support import find, make_settings

LABELS = Path(__file__).parent.parent.parent / "demo" / "queries.json"
QUERIES = [query["query"] for query in json.loads(LABELS.read_text(encoding="utf-8"))]
DEMO = ("homelab", "meetings", "recipes")
WHOLE = "whole"
PARTS = 8
SAME_FIRST = 1.0
SAME_TEN = 0.95  # measured: 1.0; the tenth may be one that a single collection's candidates lack
DRIFT = 1.1e-5  # of relevance, which has five digits: the engine's rounding can change the last

# The part of a text, by its number.
CUTS: dict[str, Callable[[int], int]] = {
    "dealt out": lambda number: number % PARTS,
    "unequal": lambda number: math.isqrt(number * 27 % PARTS**2),  # the last is the largest
}


@asynccontextmanager
async def opened(model_dir: Path, folder: Path) -> AsyncIterator[Services]:
    """The embedded engine with the real model, which encodes each query once."""
    settings = make_settings(
        qdrant_url=None, qdrant_local_path=folder, embedding_model_path=model_dir
    )
    services = await open_lazily(settings)
    assert await services.encoders.default.ready(60)
    understanding = services.pipeline.understanding
    encode, vectors = understanding.encode, dict[str, Dense]()

    async def once(model: str, query: str) -> Dense:
        if query not in vectors:
            vectors[query] = await encode(model, query)
        return vectors[query]

    understanding.encode = once
    yield services
    await services.close()


async def stored(services: Services) -> list[models.Record]:
    """The demo's points, whose vectors come with the package; the three collections go."""
    records = []
    for name in DEMO:
        await services.demo(name)
        some, _ = await services.client.scroll(
            name, limit=1_000, with_payload=True, with_vectors=True
        )
        records += some
        if name != DEMO[0]:  # the others are made like it
            await services.client.delete_collection(name)
    return records


def text_of(record: models.Record) -> str:
    """The id of the text that a point is a part of."""
    return str((record.payload or {})["doc"]["id"])


async def fill(services: Services, name: str, records: Sequence[models.Record]) -> None:
    """A collection like the demo's, of these points."""
    info = await services.client.get_collection(DEMO[0])
    await services.client.create_collection(
        name,
        vectors_config=info.config.params.vectors,
        sparse_vectors_config=info.config.params.sparse_vectors,
        metadata=info.config.metadata,
    )
    points = [models.PointStruct(id=r.id, payload=r.payload, vector=r.vector) for r in records]
    await services.client.upsert(name, points)


async def answers(services: Services, collections: str) -> list[SearchPage]:
    return [
        await find(services, query, collections, limit=10, score_threshold=0.0) for query in QUERIES
    ]


def ids(page: SearchPage) -> list[str | None]:
    return [result.document.document for result in page.results]


def relevances(page: SearchPage) -> dict[str | None, float]:
    return {result.document.document: result.relevance for result in page.results}


async def test_a_corpus_cut_into_eight_collections_is_answered_like_one(
    model_dir: Path, tmp_path: Path
):
    async with opened(model_dir, tmp_path) as services:
        records = await stored(services)
        texts = list(dict.fromkeys(map(text_of, records)))
        await fill(services, WHOLE, records)
        for cut, place in CUTS.items():
            for part in range(PARTS):
                here = {text for n, text in enumerate(texts) if place(n) == part}
                some = [one for one in records if text_of(one) in here]
                await fill(services, f"{cut} {part}", some)
        services.catalog.forget_all()
        whole = await answers(services, WHOLE)
        pages = {cut: await answers(services, f"{cut} *") for cut in CUTS}

    for cut, parts in pages.items():
        compare(cut, whole, parts)


def compare(cut: str, whole: list[SearchPage], parts: list[SearchPage]) -> None:
    """The answers of the parts against those of the whole."""
    pairs = list(zip(whole, parts, strict=True))
    first = sum(ids(one)[0] == ids(other)[0] for one, other in pairs) / len(pairs)
    ten = sum(set(ids(one)) == set(ids(other)) for one, other in pairs) / len(pairs)
    order = sum(ids(one) == ids(other) for one, other in pairs) / len(pairs)
    drift = max(
        abs(relevance - relevances(one)[document])
        for one, other in pairs
        for document, relevance in relevances(other).items()
        if document in relevances(one)
    )
    print(f"{cut}: same first {first:.3f}, ten {ten:.3f}, order {order:.3f}, drift {drift:.1e}")

    assert len({status.collection for status in parts[0].statuses}) == PARTS
    assert all(len(page.results) == 10 for page in parts if not Exact.in_query(page.query).phrases)
    # A quoted phrase leaves fewer: those that have it, however the corpus is cut.
    assert all(ids(one) == ids(other) for one, other in pairs if Exact.in_query(one.query).phrases)
    assert first >= SAME_FIRST
    assert ten >= SAME_TEN
    assert drift < DRIFT
