"""Words ranked by a text index of the payload, as the vectors of this server rank them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import qdrant_edge as edge
from qdrant_client import models

from mcp_server_qdrant.core.datatypes import DenseLeg, LegQuery, Sparse, SparseLeg, Target
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.qdrant.read.trips import EdgeQueries
from mcp_server_qdrant.qdrant.tenant.guard import Tenant
from mcp_server_qdrant.qdrant.tenant.reads import Corpus, TenantClient
from tests.support import IDF, empty_edge, foreign, sparse_vector

BM25 = Bm25Encoder()
TEXTS = (
    "copper bridges carry red copper trains across rivers",
    "rivers carry barges",
    "copper copper copper wire",
    "red barges red flags",
    "silent mountains",
    "bridges bridges spanning wide rivers beside red barges carrying copper wire east",
)
DENSE = DenseLeg("v", 2, "cosine", "m")
SPARSE = SparseLeg("bm25", idf=True)
INDEX = SparseLeg("document", idf=True, average=sum(len(t.split()) for t in TEXTS) / len(TEXTS))
VECTORS, TEXT = Target("c", 6, DENSE, SPARSE, 6), Target("c", 6, DENSE, INDEX, 6)
WORDS = BM25.terms("red copper rivers")
# As over several collections: each word weighs something else than here alone.
WEIGHTS = dict(zip(WORDS, (1.0, 0.4, 2.5), strict=True))
QUERY = Sparse(tuple(WEIGHTS), tuple(WEIGHTS.values()), tuple(WORDS.values()))
RANKING = models.TextIndexParams(
    type="text",
    scoring=True,
    stopwords="english",
    stemmer=models.SnowballParams(type="snowball", language="english"),
)


def at(n):
    return [math.cos(n / 3), math.sin(n / 3)]


@pytest.fixture
async def client(engine_folder):
    """The embedded engine: each text with its vectors, and below a text index."""
    client = await empty_edge(engine_folder)
    await foreign(
        client,
        "c",
        {n: {"document": t, "tenant": "red" if n % 2 else "blue"} for n, t in enumerate(TEXTS)},
        vectors={"v": models.VectorParams(size=2, distance=models.Distance.COSINE)},
        sparse={"bm25": IDF},
        values=lambda n: {"v": at(n), "bm25": sparse_vector(BM25.encode_document(TEXTS[n]))},
    )
    await client.create_payload_index("c", "document", RANKING)
    yield client
    await client.close()


class Server:
    """Batches answered by the engine in this process, as a server answers them."""

    def __init__(self, folder) -> None:
        vectors = {"v": edge.EdgeVectorParams(size=2, distance=edge.Distance.Cosine)}
        self.shard = edge.EdgeShard.create(str(folder / "shard"), edge.EdgeConfig(vectors=vectors))
        points = [edge.Point(n, {"v": at(n)}, {"document": t}) for n, t in enumerate(TEXTS)]
        self.shard.update(edge.UpdateOperation.upsert_points(points))
        index = edge.TextIndexParams(
            scoring=True,
            stopwords=edge.StopwordsSet(languages={edge.Language.English}),
            stemmer=edge.SnowballParams(edge.SnowballLanguage.English),
        )
        self.shard.update(edge.UpdateOperation.create_field_index("document", index))

    async def query_batch_points(self, _, requests):
        return [SimpleNamespace(points=self._points(request)) for request in requests]

    def _points(self, request):
        query = request.query
        if isinstance(query, models.RrfQuery):
            rrf: dict[int, float] = {}
            for leg in request.prefetch:
                for rank, point in enumerate(self._points(leg)):
                    rrf[point.id] = rrf.get(point.id, 0.0) + 1 / (query.rrf.k + rank)
            best = sorted(rrf, key=rrf.__getitem__, reverse=True)[: request.limit]
            return [SimpleNamespace(id=n, score=rrf[n], payload={}) for n in best]
        if isinstance(query, models.TextQuery):
            params = query.text.scoring.bm25
            scoring = edge.Bm25Params(params.k, params.b)
            query = edge.TextQuery(request.using, query.text.query, scoring)
        else:
            query = edge.Query.Nearest(query, using=request.using)
        ids = request.filter and edge.HasIdCondition(set(request.filter.must[0].has_id))
        where = ids and edge.Filter(must=[ids])
        found = self.shard.query(
            edge.QueryRequest(request.limit, query=query, filter=where, with_payload=False)
        )
        return [SimpleNamespace(id=p.id, score=p.score, payload=None, vector=None) for p in found]


async def searched(queries, target, depth, **more):
    query = LegQuery([1.0, 0.0], QUERY, **more)
    options = {"depth": depth, "condition": None}
    ((candidates, cosines, words, _),) = await queries.search([(target, query)], **options)
    return [c.id for c in candidates], cosines, words


@pytest.mark.parametrize("depth", [2, 6])
@pytest.mark.parametrize("legs", ["both", "words"])
async def test_scores_are_those_of_the_vectors_on_both_engines(client, tmp_path, depth, legs):
    """Under weights that the engine's own idf knows nothing of, also for points of another leg."""
    by_vectors, by_index = (
        replace(t, dense=None) if legs == "words" else t for t in (VECTORS, TEXT)
    )

    _, _, wanted = await searched(EdgeQueries(client), replace(by_vectors), 6)
    for queries in (EdgeQueries(client), Queries(Server(tmp_path))):
        ids, cosines, words = await searched(queries, by_index, depth)

        assert len(ids) == min(depth, 6 if legs == "both" else 5)
        assert words == pytest.approx({n: wanted[n] for n in ids if n in wanted}, rel=1e-5)
        assert set(cosines) == set(ids if legs == "both" else ())


async def test_a_probe_gives_the_idf_of_each_word_that_is_there(client, tmp_path):
    asked = BM25.terms("copper mountains zeppelin")
    expected = dict(zip(asked, (math.log(7 / 3.5), math.log(7 / 1.5)), strict=False))

    for queries in (EdgeQueries(client), Queries(Server(tmp_path))):
        (found,) = await queries.probe([(TEXT, asked)])
        assert found == pytest.approx(expected, rel=1e-5)


async def test_a_tenants_words_are_weighed_by_its_own_texts(client):
    """Three texts are red's, and of them one has copper; what blue stores moves no score."""
    view = TenantClient(client, Tenant("red", "tenant", "shared"), Corpus())
    queries, asked = EdgeQueries(view), BM25.terms("copper")

    (before,) = await queries.probe([(TEXT, asked)])
    ids, _, scores = await searched(queries, TEXT, 6)
    blue = {"document": "copper copper", "tenant": "blue"}
    await client.upsert("c", [models.PointStruct(id=9, vector={"v": at(9)}, payload=blue)])

    assert list(before.values()) == pytest.approx([math.log(4 / 1.5)], rel=1e-5)
    assert (await queries.probe([(TEXT, asked)])) == [before]
    assert set(ids) == {1, 3, 5}
    assert scores.keys() <= {1, 3, 5}
