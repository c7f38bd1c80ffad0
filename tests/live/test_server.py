"""The read and write path on a real Qdrant server: QDRANT_TEST_URL=http://localhost:6333."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from qdrant_client import models
from qdrant_client.async_client_base import AsyncQdrantBase

from mcp_server_qdrant.app.services import Services, assemble
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.ingest.collections.copying import copy
from mcp_server_qdrant.ingest.collections.upgrade import Upgrades
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.server.rest import Http
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.environment import Settings
from tests.fakes import FakeEncoder
from tests.qdrant_server import URL
from tests.support import COSINE, dense, foreign

DENSE = "fast-bag-of-words"


@pytest.fixture
async def services(server: AsyncQdrantBase) -> AsyncIterator[Services]:
    """The services over the server."""
    encoder = FakeEncoder()
    made = assemble(Settings(qdrant_url=URL), server, Registry(encoder, lambda _: encoder))
    yield made
    await made.close()


async def test_each_collection_is_asked_for_one_fusion_and_exact_scores(services, monkeypatch):
    """By the requests, and by the fusion's scores, which the server alone can have made."""
    sent: list[tuple[str, Any]] = []
    ask = Http.request

    async def noted(line: Http, target: str, body: bytes | None) -> tuple[int, bytes]:
        sent.append((urlsplit(target).path, json.loads(body or b"null")))
        return await ask(line, target, body)

    for place in ("a", "b", "c"):
        for text, tag in (("roses need sun", "sun"), ("moss needs shade", "moss")):
            await services.store.store(NewDocument(text, tags=(tag,)), place, create=True)
    request = SearchRequest(
        query="roses need sun",
        collections=("*",),
        semantic_weight=0.6,
        keyword_weight=0.4,
        explain=True,
    )
    await services.pipeline.search(request)  # words and tags are known from now on
    monkeypatch.setattr(Http, "request", noted)
    page = await services.pipeline.search(request)

    rrf = {"rrf": {"k": 60}}
    for place in ("a", "b", "c"):
        path = f"/collections/{place}/points/query/batch"
        (fusion,), scores = [body["searches"] for target, body in sent if target == path]
        assert fusion["query"] == rrf
        assert [leg.get("using") for leg in fusion["prefetch"]] == [DENSE, "bm25", DENSE]
        assert fusion["prefetch"][2]["filter"]
        assert [one["using"] for one in scores] == [DENSE, "bm25"]
        assert all(one["filter"]["must"][0]["has_id"] for one in scores)
        assert all(one["params"]["exact"] for one in scores)
    assert len(sent) == 6
    best = page.results[0]
    assert best.document.text == "roses need sun"
    assert best.why["rrf"] == pytest.approx(3 / 60)


async def test_a_dense_collection_is_upgraded_copied_and_deleted_from(services, tmp_path):
    name = "old"
    texts = {1: "copper bridge", 2: "ember falcon"}
    await foreign(
        services.client,
        name,
        {point: {"document": text, "metadata": None} for point, text in texts.items()},
        vectors={"fast-bag-of-words": COSINE},
        values=lambda point: {"fast-bag-of-words": dense(texts[point])},
    )
    bulk = Bulk(services.client, ("document",))

    done = await Upgrades(bulk, Bm25Encoder()).keywords(name)
    found = await services.pipeline.search(SearchRequest(query="falcon", collections=(name,)))
    local = await EdgeClient.open(tmp_path)
    await copy(bulk, Bulk(local, ("document",)), name)
    counted = (await local.count(name)).count
    await local.close()
    matching = await services.deletion.matching({}, name)
    gone = await services.deletion.by_filter({}, name, matching.count)

    assert (done.points, counted, gone.points) == (2, 2, 2)
    assert found.results[0].document.text == "ember falcon"
    assert (await services.client.count(name)).count == 0


async def test_what_strict_mode_refuses_is_told(server, services):
    for place in ("a", "b"):
        for word in ("roses", "moss", "bread"):
            await services.store.store(NewDocument(f"{word} in {place}"), place, create=True)
    limits = {"unindexed_filtering_retrieve": False}
    strict = models.StrictModeConfig(enabled=True, **limits)
    await server.update_collection("b", strict_mode_config=strict)
    services.catalog.forget("b")
    request = SearchRequest(query="roses", collections=("*",))
    page = await services.pipeline.search(request)
    narrowed = {"must": [{"key": "metadata.kind", "match": {"value": "flower"}}]}
    refused = await services.pipeline.search(
        request.model_copy(update={"collections": ("a", "b"), "query_filter": narrowed})
    )

    assert {status.state for status in page.statuses} == {"ok"}
    assert {result.document.text for result in page.results} >= {"roses in a", "roses in b"}
    [reason] = [status.reason for status in refused.statuses if status.collection == "b"]
    assert reason.endswith("run mcp-server-qdrant upgrade b --index metadata.kind:keyword")


async def test_another_tools_collection_that_refuses_unindexed_filters_is_written_to(
    server, services
):
    """As Qdrant Cloud makes new collections: a text is stored, replaced and deleted whole."""
    text = {"document": "copper bridge", "metadata": None}
    await foreign(
        server,
        "old",
        {1: text},
        vectors={DENSE: COSINE},
        values=lambda _: {DENSE: dense("copper bridge")},
    )
    limits = {"unindexed_filtering_retrieve": False, "unindexed_filtering_update": False}
    strict = models.StrictModeConfig(enabled=True, **limits)
    await server.update_collection("old", strict_mode_config=strict)
    long = " ".join(f"sentence number {n}." for n in range(300))
    await services.store.store(NewDocument(long, id="x"), "old")
    await services.store.store(NewDocument("roses", id="x"), "old")
    replaced = (await server.count("old")).count
    (found,), missing = await services.lookup.locate(["x"], "old")
    await services.deletion.delete(found)

    assert (replaced, missing) == (2, ())
    assert (await server.count("old")).count == 1
