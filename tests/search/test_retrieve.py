"""Candidates and their exact leg scores, from several collections at once."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Scored, Status, Target
from mcp_server_qdrant.core.errors import EngineFailure, EngineTimeout
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.qdrant.read import query as asking
from mcp_server_qdrant.qdrant.read.query import LATE, Queries
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.retrieve import Fetch, Retrieved, retrieve
from mcp_server_qdrant.search.understand import Query, QueryVectors, Rules, embed, pool_sizes
from mcp_server_qdrant.search.words.terms import Terms
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    Engine,
    corpus,
    foreign,
    memory_engine,
    memory_services,
    remember,
)

BM25 = Bm25Encoder()
FIVE = ("north", "south", "east", "west", "middle")


@dataclass
class Fixture:
    """Collections, and what a query for `delta ember` needs to search them."""

    engine: Engine
    services: Services
    targets: list[Target]
    vectors: QueryVectors
    terms: Terms

    async def retrieve(
        self,
        deadline: float = 5.0,
        *,
        queries: type[Queries] = Queries,
        sizes: tuple[int, int] | None = None,
    ) -> Retrieved:
        depth, pool = sizes or pool_sizes(len(self.targets), 10)
        query = Query(
            request=SearchRequest(query=self.terms.query),
            rules=Rules(0.5),
            targets=self.targets,
            limit=10,
            alpha=0.5,
            likeness=0.0,
            terms=self.terms,
            vectors=self.vectors,
            depth=depth,
            pool=pool,
            now=datetime.now(UTC),
            left=lambda: deadline,
            reader=lambda _: BM25.tokens,
        )
        return await retrieve(self.fetch(queries), query)

    def fetch(self, queries: type[Queries] = Queries) -> Fetch:
        return Fetch(queries(self.engine), self.services.pipeline.fetch.to_document)


@asynccontextmanager
async def filled(*names: str, encoder: FakeEncoder | None = None, query: str = "delta ember"):
    async with memory_engine() as engine:
        encoder = encoder or FakeEncoder()
        async with memory_services(encoder, engine=engine) as services:
            for name in names:
                await remember(services, name, *(f"{text} {name}" for text in corpus(12)))
            targets = await services.catalog.resolve(None)
            vectors = await embed(query, targets, services.encoders.encode_query)
            terms = await services.pipeline.understanding.terms.weighed(query, targets)
            yield Fixture(engine, services, targets, vectors, terms)


def by_collection(retrieved: Retrieved) -> dict[str, tuple[str, str | None]]:
    return {status.collection: (status.state, status.reason) for status in retrieved.statuses}


async def test_a_collection_that_does_not_answer_is_given_up_at_the_deadline():
    async with filled(*FIVE) as fixture:
        fixture.engine.hanging = {"west"}
        retrieved = await fixture.retrieve(deadline=0.05)

    assert by_collection(retrieved)["west"] == ("timeout", LATE)
    assert {one.targets[0].collection for one in retrieved.found} == {*FIVE} - {"west"}


async def test_the_engines_own_timeout_is_one_too():
    async with filled(*FIVE) as fixture:
        fixture.engine.broken["west"] = EngineTimeout("Qdrant did not answer in time.")
        retrieved = await fixture.retrieve()

    assert by_collection(retrieved)["west"] == ("timeout", "Qdrant did not answer in time.")


async def test_the_deadline_is_for_the_whole_search_even_where_collections_wait_for_each_other(
    monkeypatch,
):
    monkeypatch.setattr(asking, "AT_ONCE", 1)
    async with filled(*FIVE) as fixture:
        fixture.engine.hanging = set(FIVE)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        retrieved = await fixture.retrieve(deadline=1.0)

        assert loop.time() - begun < 2 * 1.0

    assert {status.state for status in retrieved.statuses} == {"timeout"}


async def test_without_model_and_keywords_a_collection_is_skipped_with_the_reason():
    encoder = FakeEncoder()
    async with filled(encoder=encoder) as fixture:
        await foreign(fixture.engine, "old", {}, vectors={"fast-bag-of-words": COSINE})
        fixture.targets = await fixture.services.catalog.resolve(["old"])
        encoder.be("downloading")
        fixture.vectors = await embed(
            "delta", fixture.targets, fixture.services.encoders.encode_query
        )
        retrieved = await fixture.retrieve()

    assert retrieved.found == []
    assert by_collection(retrieved) == {
        "old": ("skipped", "The model fake/Bag-of-Words is downloading.")
    }


async def test_a_collection_whose_probe_failed_is_not_called_searched():
    """By keywords alone: nothing was asked of it, so nothing may be concluded."""
    encoder = FakeEncoder()
    async with filled("north", "south", encoder=encoder) as fixture:
        encoder.be("failed")
        fixture.engine.broken["north"] = EngineFailure("Its files are damaged.")
        fixture.vectors = await embed(
            "copper", fixture.targets, fixture.services.encoders.encode_query
        )
        fixture.terms = await fixture.services.pipeline.understanding.terms.weighed(
            "copper", fixture.targets
        )
        retrieved = await fixture.retrieve()

    assert by_collection(retrieved)["north"] == ("failed", "Its files are damaged.")
    assert by_collection(retrieved)["south"][0] == "degraded"


async def test_parts_of_replaced_texts_are_left_out_and_told():
    class Half(Queries):
        """Every second candidate is of a version that was replaced."""

        async def search(self, asked, **how):
            found, failed = await super().search(asked, **how)
            for one in found:
                one.candidates[1::2] = [c._replace(current=False) for c in one.candidates[1::2]]
            return found, failed

    async with filled("north") as fixture:
        retrieved = await fixture.retrieve(queries=Half)

    there = [candidate.id for candidate in retrieved.found[0].candidates]
    assert len(there) > 4
    assert {hit.id for hit in retrieved.hits} == {*there[::2]}
    assert [document.id for document in retrieved.replaced] == there[1::2]


def bare(name, point):
    return Hit(name, point, 0.5, 0.5, 0.0, None, None)


async def test_lacking_payloads_are_read_in_one_trip_for_each_collection():
    async with filled(*FIVE) as fixture:
        found = (await fixture.retrieve()).found
        hits = [bare(c.collection, c.id) for one in found for c in one.candidates[:3]]
        fixture.engine.calls.clear()
        kept, statuses = await fixture.fetch().hits(hits, 5.0)

    assert statuses == []
    assert [(hit.collection, hit.id) for hit in kept] == [(hit.collection, hit.id) for hit in hits]
    assert sorted(name for _, name in fixture.engine.calls) == sorted(FIVE)


async def test_hits_of_a_collection_that_fails_late_are_left_out_and_that_is_said():
    async with filled(*FIVE) as fixture:
        found = (await fixture.retrieve()).found
        hits = [bare(one.targets[0].collection, one.candidates[0].id) for one in found]
        fixture.engine.broken["east"] = EngineFailure("gone")
        kept, statuses = await fixture.fetch().hits(hits, 5.0)

    assert {hit.collection for hit in kept} == set(FIVE) - {"east"}
    assert [(s.collection, s.state, s.reason) for s in statuses] == [("east", "failed", "gone")]


async def test_a_hit_that_was_deleted_meanwhile_is_left_out():
    async with filled("north") as fixture:
        gone = await fixture.fetch().hits([bare("north", 4711)], 5.0)

    assert gone == ([], [])


def test_candidates_are_the_same_up_to_a_limit_of_20_and_fewer_of_many_collections():
    assert [pool_sizes(n, 20) for n in (1, 3, 8, 64)] == [(60, 60), (60, 60), (23, 60), (10, 60)]
    assert pool_sizes(1, 1) == pool_sizes(1, 20)
    assert [pool_sizes(1, limit) for limit in (21, 100)] == [(120, 120), (300, 300)]


async def test_a_query_without_legs_asks_nothing():
    async with filled("north") as fixture:
        fixture.vectors = QueryVectors(dense={}, failures={})
        fixture.terms = Terms(query="", idf={}, sparse={})
        fixture.engine.calls.clear()
        retrieved = await fixture.retrieve()

    assert (retrieved.found, fixture.engine.calls) == ([], [])


def test_a_collection_that_fails_in_the_deeper_look_keeps_what_it_gave_and_others_go_on():
    def found(score: float, *names: str) -> Retrieved:
        hits = [Hit(name, score, score, score, 0.0, None, None) for name in names]
        answers = [Scored([Target(name, 1, None, None)], ()) for name in names]
        return Retrieved(hits, answers, [Status(name, "ok", None) for name in names])

    deeper = found(0.4, "a", "b")
    deeper = replace(deeper, statuses=[*deeper.statuses, Status("c", "timeout", "late")])
    both = found(0.5, "a", "b", "c").updated(deeper)

    assert [(hit.collection, hit.score) for hit in both.hits] == [
        ("c", 0.5),
        ("a", 0.4),
        ("b", 0.4),
    ]
    assert {one.collection: one.state for one in both.statuses} == dict.fromkeys("abc", "ok")
    assert {target.collection for one in both.found for target in one.targets} == {*"abc"}
