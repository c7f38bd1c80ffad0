"""Terms, probes and the global idf."""

import math
import re
from collections.abc import Collection
from dataclasses import replace

import pytest

from mcp_server_qdrant.core.bm25 import Markers
from mcp_server_qdrant.core.datatypes import Sparse, SparseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.qdrant.read.query import Queries
from mcp_server_qdrant.search.words import terms as terms_module
from mcp_server_qdrant.search.words.terms import (
    TermWeights,
    document_frequency,
    global_idf,
    query_vector,
)
from tests.support import IDF, Clock, foreign, memory_engine, sparse_vector

BM25 = Bm25Encoder()


def target(name: str, documents: int, *, idf: bool = True, space: str | None = None) -> Target:
    return Target(name, documents, None, SparseLeg("bm25", idf), documents, space=space)


def qdrant_idf(documents: int, df: int) -> float:
    """Qdrant's own formula."""
    return math.log((documents - df + 0.5) / (df + 0.5) + 1)


class Prober:
    """Collections that hold document frequencies; `failing` ones answer with an error."""

    def __init__(self, **collections: tuple[int, dict[int, int]]) -> None:
        self.collections = collections
        self.failing: set[str] = set()
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    async def probe(self, asked, seconds):
        return [self.answer(sorted(corpus.collections), corpus.terms) for corpus in asked]

    def answer(self, names, terms):
        """The idf over the collections together."""
        self.asked.append((" ".join(names), tuple(terms)))
        if self.failing.intersection(names):
            return EngineFailure("broken")
        there = [self.collections[name] for name in names]
        total = sum(documents for documents, _ in there)
        df = {t: sum(held.get(t, 0) for _, held in there) for t in terms}
        return {t: qdrant_idf(total, df[t]) for t in terms if df[t]}


def words(text: str, _languages: Collection[str] = ()) -> list[tuple[int, ...]]:
    """BM25 whose token ids are the numbers in the text."""
    return [(number,) for number in dict.fromkeys(map(int, re.findall(r"\d+", text)))]


def test_a_term_without_idf_is_in_no_document():
    assert document_frequency(100, 0.0) == 0.0


def test_the_stems_of_a_word_are_in_no_more_documents_than_there_are():
    local = {1: qdrant_idf(10, 8), 2: qdrant_idf(10, 7)}

    assert global_idf([[1, 2]], [(10, local)])[1] == pytest.approx(math.log(11 / 10.5))


def test_weights_turn_the_engines_idf_into_the_global_one():
    vector = query_vector({1: 3.0, 2: 1.0, 3: 2.0}, {1: 1.5, 2: 2.0, 3: 0.0})

    assert vector == Sparse((1, 2), (2.0, 0.5))


def test_weights_are_the_idf_itself_where_the_engine_applies_none():
    assert query_vector({1: 3.0, 2: 1.0}, None) == Sparse((1, 2), (3.0, 1.0))


def test_there_is_no_query_for_a_collection_that_has_none_of_the_terms():
    assert query_vector({1: 3.0}, {1: 0.0}) is None
    assert query_vector({}, {}) is None


async def test_each_collection_gets_its_own_query_and_all_share_the_idf():
    prober = Prober(a=(10, {1: 2}), b=(30, {1: 5, 2: 1}))
    terms = await TermWeights(words, prober).weighed("1 2", [target("a", 10), target("b", 30)])

    assert terms.idf == pytest.approx({1: math.log(41 / 7.5), 2: math.log(41 / 1.5)})
    assert terms.sparse["a"].indices == (1,)
    assert terms.sparse["a"].values == pytest.approx((terms.idf[1] / qdrant_idf(10, 2),))
    assert terms.sparse["b"].values == pytest.approx(
        (terms.idf[1] / qdrant_idf(30, 5), terms.idf[2] / qdrant_idf(30, 1))
    )


async def test_collections_of_one_space_are_probed_together_and_share_a_query():
    prober = Prober(a=(10, {1: 2}), b=(30, {1: 5, 2: 1}), c=(40, {1: 1}))
    weigh = TermWeights(words, prober)
    both = [target("a", 10, space="s"), target("b", 30, space="s")]
    terms = await weigh.weighed("1 2", [*both, target("c", 40)])
    apart = await weigh.weighed("1 2", [replace(one, space=None) for one in both])

    assert prober.asked[:2] == [("a b", (1, 2)), ("c", (1, 2))]
    assert terms.idf == pytest.approx({1: math.log(81 / 8.5), 2: math.log(81 / 1.5)})
    assert terms.sparse["a"] is terms.sparse["b"]
    assert terms.sparse["a"].values[0] == pytest.approx(terms.idf[1] / qdrant_idf(40, 7))
    assert terms.sparse["c"].indices == (1,)
    assert (await weigh.weighed("1 2", both)).idf == pytest.approx(apart.idf)


async def test_what_is_stored_or_deleted_concerns_every_group_that_has_the_collection():
    prober = Prober(a=(10, {1: 2}), b=(30, {1: 5}), c=(40, {1: 1}))
    weigh = TermWeights(words, prober)
    groups = ["ab", "ac", "bc"]

    async def asked():
        prober.asked.clear()
        for names in groups:
            sizes = {name: prober.collections[name][0] for name in names}
            await weigh.weighed("1 9", [target(n, size, space="s") for n, size in sizes.items()])
        return prober.asked

    assert await asked() == [("a b", (1, 9)), ("a c", (1, 9)), ("b c", (1, 9))]
    assert await asked() == []
    weigh.forget("a")
    assert await asked() == [("a b", (1, 9)), ("a c", (1, 9))]
    weigh.forget("b")
    assert await asked() == [("a b", (1, 9)), ("b c", (1, 9))]


async def test_the_groups_used_last_are_remembered(monkeypatch):
    monkeypatch.setattr(terms_module, "CACHE_GROUPS", 2)
    prober = Prober(a=(10, {1: 2}), b=(30, {1: 5}), c=(40, {1: 1}))
    weigh = TermWeights(words, prober)
    for name in "abacab":
        await weigh.weighed("1", [target(name, prober.collections[name][0])])

    assert [name for name, _ in prober.asked] == ["a", "b", "c", "b"]


async def test_a_term_that_no_collection_has_is_unknown():
    prober = Prober(a=(10, {1: 2}), b=(30, {2: 5}))
    terms = await TermWeights(words, prober).weighed("1 2 3", [target("a", 10), target("b", 30)])

    assert terms.unknown == {3}


async def test_a_compound_counts_only_where_a_vector_has_it():
    async def idf(**collections):
        weigh = TermWeights(words, Prober(**collections), wholes=lambda _: {12: ()})
        return await weigh.weighed("1 12", [target("a", 10)])

    assert set((await idf(a=(10, {1: 2, 12: 1}))).idf) == {1, 12}
    assert set((await idf(a=(10, {1: 2}))).idf) == {1}
    assert (await idf(a=(10, {1: 2}))).unknown == set()


async def test_the_words_of_a_whole_count_only_where_a_vector_has_them_or_lacks_the_whole():
    async def weighed(**df):
        there = {int(term[1:]): count for term, count in df.items()}
        weigh = TermWeights(words, Prober(a=(10, there)), wholes=lambda _: {12: (1, 2)})
        return await weigh.weighed("1 2 12", [target("a", 10)])

    assert set((await weighed(t1=2, t2=1, t12=1)).idf) == {1, 2, 12}
    assert set((await weighed(t12=1)).idf) == {12}
    assert set((await weighed(t1=2, t2=1)).idf) == {1, 2}
    assert (await weighed(t1=2)).unknown == {2}
    both, apart = await weighed(t1=2, t2=2, t12=2), await weighed(t1=2, t2=2)
    assert both.idf == dict.fromkeys((1, 2, 12), apart.idf[1] / 2)


@pytest.mark.parametrize("query", ["", "no numbers"])
async def test_a_query_without_terms_probes_nothing(query):
    prober = Prober(a=(10, {}))
    terms = await TermWeights(words, prober).weighed(query, [target("a", 10)])

    assert (terms.idf, terms.sparse, prober.asked) == ({}, {}, [])


async def test_collections_without_bm25_take_no_part():
    prober = Prober(a=(10, {1: 2}))
    dense = Target("d", 1000, None, None, 1000)
    terms = await TermWeights(words, prober).weighed("1", [target("a", 10), dense])

    assert terms.idf == pytest.approx({1: math.log(11 / 2.5)})
    assert set(terms.sparse) == {"a"}


async def test_only_terms_that_are_new_are_probed():
    prober = Prober(a=(10, {1: 2, 2: 3}))
    weigh = TermWeights(words, prober)
    for query in ("1 2", "2 3", "1 3"):
        await weigh.weighed(query, [target("a", 10)])

    assert prober.asked == [("a", (1, 2)), ("a", (3,))]


@pytest.mark.parametrize(
    ("documents", "again"), [(110, False), (90, False), (111, True), (89, True)]
)
async def test_what_is_known_is_dropped_when_the_collection_changes_by_more_than_a_tenth(
    documents, again
):
    prober = Prober(a=(100, {1: 2}))
    weigh = TermWeights(words, prober)
    await weigh.weighed("1", [target("a", 100)])
    await weigh.weighed("1", [target("a", documents)])

    assert len(prober.asked) == 1 + again


@pytest.mark.parametrize(("seconds", "again"), [(599.0, False), (600.0, True)])
async def test_what_is_known_is_dropped_after_ten_minutes(seconds, again):
    clock = Clock()
    prober = Prober(a=(100, {1: 2}))
    weigh = TermWeights(words, prober, clock=clock)
    await weigh.weighed("1", [target("a", 100)])
    clock.now += seconds
    await weigh.weighed("1", [target("a", 100)])

    assert len(prober.asked) == 1 + again


async def test_a_probe_that_fails_is_not_fatal_and_is_tried_again():
    prober = Prober(a=(10, {1: 2}), b=(30, {1: 5}))
    prober.failing = {"a"}
    weigh = TermWeights(words, prober)
    terms = await weigh.weighed("1", [target("a", 10), target("b", 30)])

    assert set(terms.sparse) == {"b"}
    assert terms.idf == pytest.approx({1: math.log(31 / 5.5)})  # as if there were only b
    assert terms.failures == {"a": "broken"}

    prober.failing = set()
    terms = await weigh.weighed("1", [target("a", 10), target("b", 30)])

    assert terms.idf == pytest.approx({1: math.log(41 / 7.5)})
    assert set(terms.sparse) == {"a", "b"}
    assert terms.failures == {}


async def test_a_query_finds_texts_of_each_language_by_inflected_words():
    bm25 = Bm25Encoder("auto")
    vectors = [
        bm25.encode_document("The houses of the village were built long before the war."),
        bm25.encode_document("Die Häuser des Dorfes wurden lange vor dem Krieg gebaut."),
        bm25.encode_document("Las casas del pueblo se construyeron mucho antes de la guerra."),
        # As it was stored before: German, stemmed as if it were English.
        BM25.encode_document("Jahre nach dem Krieg stand im Dorf noch kein einziges Haus."),
    ]
    async with memory_engine() as engine:
        await foreign(
            engine,
            "all",
            {number: {} for number in range(len(vectors))},
            sparse={"bm25": IDF},
            values=lambda n: {"bm25": sparse_vector(vectors[n])},
        )
        weigh = TermWeights(bm25.words, Queries(engine), bm25.markers)
        found = {}
        for query in ("house in a village", "ein Haus im Krieg", "la casa del pueblo", "Dorf"):
            terms = await weigh.weighed(query, [target("all", len(vectors))])
            answer = await engine.query_points(
                "all", query=sparse_vector(terms.sparse["all"]), using="bm25"
            )
            found[query] = [point.id for point in answer.points]

    assert found == {
        "house in a village": [0],
        "ein Haus im Krieg": [1, 3],
        "la casa del pueblo": [2],
        "Dorf": [1, 3],
    }


async def test_the_terms_of_a_word_count_as_one():
    held = {1: 2, 11: 3, 2: 4}
    prober = Prober(a=(10, {**held, 90: 5, 91: 5}))
    spoken = []

    def forms(text: str, languages: Collection[str] = ()) -> list[tuple[int, ...]]:
        spoken.append(list(languages))
        return [(n, n + 10) if languages else (n,) for (n,) in words(text)]

    markers = Markers((90,), {91: "german", 92: "french"})
    terms = await TermWeights(forms, prober, markers).weighed("1 2 3", [target("a", 10)])

    first, second, third = math.log(11 / 5.5), math.log(11 / 4.5), math.log(11 / 0.5)
    assert spoken == [[], ["german"]]
    assert terms.idf == pytest.approx(
        {1: first, 11: first, 2: second, 12: second, 3: third, 13: third}
    )
    assert terms.ceiling == pytest.approx(first + second + third)
    assert terms.unknown == {3, 13}
    assert [asked for _, asked in prober.asked] == [(1, 2, 3, 90), (91, 92), (11, 12, 13)]


async def test_a_probe_that_began_before_a_store_does_not_say_what_is_absent_after_it():
    prober = Prober(a=(10, {1: 2}))
    weights = TermWeights(words, prober)
    answer = prober.answer

    def stored_meanwhile(collection, terms):
        found = answer(collection, terms)
        prober.collections["a"][1][2] = 1
        weights.forget("a")
        return found

    prober.answer = stored_meanwhile
    before = await weights.weighed("1 2", [target("a", 10)])
    prober.answer = answer
    after = await weights.weighed("1 2", [target("a", 10)])

    assert before.unknown == {2}
    assert after.unknown == frozenset()
