"""An engine and a model that have their answers ready, so that all else can be measured."""

import random
from collections.abc import Collection, Sequence
from typing import Any

from qdrant_client import models

from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.qdrant.engine import Answer, Ask, Corpus, Found

NAMES = ("notes", "meetings")
SIZE = 384


class TrivialEncoder(Encoder):
    """Always the same vector."""

    name = "trivial"
    vector_name = "fast-trivial"

    def tokens(self) -> int:
        return 256

    async def common(self, words: Sequence[str]) -> Collection[str]:
        return words

    async def known_size(self) -> int:
        return SIZE

    async def query_vector(self, text: str) -> tuple[float, ...]:
        return _VECTOR

    async def vectors(self, texts: Any) -> list[Any]:
        return [_VECTOR for _ in texts]


def _text(seed: str) -> str:
    """Forty words of a vocabulary of four hundred, the query's among them."""
    words = random.Random(seed).choices(range(400), k=38)
    return f"lentil dish {' '.join(f'word{number}' for number in words)}."


_VECTOR = (1.0, *[0.0] * (SIZE - 1))


class TrivialEngine:
    """Two collections of a thousand points; every question about them has one answer."""

    def __init__(self) -> None:
        info = {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "points_count": 1000,
            "payload_schema": {},
            "config": {
                "params": {
                    "vectors": {"fast-trivial": {"size": SIZE, "distance": "Cosine"}},
                    "sparse_vectors": {"bm25": {"modifier": "idf"}},
                },
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10},
                "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
            },
        }
        for key in ("deleted_threshold", "vacuum_min_vector_number"):
            info["config"]["optimizer_config"][key] = 1
        self._info = models.CollectionInfo.model_validate(info)
        self._points = {
            name: [
                models.ScoredPoint(
                    id=n,
                    version=0,
                    score=1 / (60 + n),
                    payload={"document": _text(f"{name} {n}"), "metadata": {"n": n}},
                    vector={"bm25": models.SparseVector(indices=[1], values=[1.0])},
                )
                for n in range(30)
            ]
            for name in NAMES
        }

    async def get_collections(self) -> Any:
        found = [models.CollectionDescription(name=name) for name in NAMES]
        return models.CollectionsResponse(collections=found)

    async def get_collection(self, *_: Any) -> Any:
        return self._info

    async def collection_exists(self, name: str) -> bool:
        return name in NAMES

    async def count(self, *_: Any, **__: Any) -> Any:
        return models.CountResult(count=1000)

    async def candidates(self, ask: Ask) -> Answer:
        (name,) = ask.collections
        points = self._points[name][: ask.limit]
        return Answer(
            [
                Found(name, one.id, one.score, [one.score for leg in ask.legs], one.payload)
                for one in points
            ]
        )

    async def idfs(self, corpus: Corpus) -> dict[int, float]:
        return dict.fromkeys(corpus.terms, 1.0)

    async def retrieve(self, name: str, ids: Any, **_: Any) -> Any:
        return [self._points[name][number] for number in ids]

    async def scroll(self, *_: Any, **__: Any) -> Any:
        return [], None

    async def facet(self, *_: Any, **__: Any) -> Any:
        return models.FacetResponse(hits=[])

    async def close(self) -> None: ...
