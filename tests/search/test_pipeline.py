"""The read path as a whole, over the local engine."""

import math

import pytest

from mcp_server_qdrant.core.bm25 import K1
from mcp_server_qdrant.core.errors import (
    BackendError,
    EngineFailure,
    EngineTimeout,
)
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.search import ranking
from tests.fakes import FakeEncoder
from tests.support import (
    COSINE,
    IDF,
    corpus,
    dense,
    find,
    foreign,
    memory_engine,
    memory_services,
    remember,
    sparse_vector,
    states,
    texts,
)

BM25 = Bm25Encoder()


async def test_relevance_is_the_published_formula():
    """cos = 1 for the same words; BM25 by hand from the stored weights and the idf."""
    async with memory_services() as services:
        await remember(services, "garden", "roses sun", "moss shade")
        await remember(services, "kitchen", "roses cake", "bread")
        page = await find(services, "roses sun", "*")

    idf = [math.log(5 / 2.5), math.log(5 / 1.5)]  # roses in 2 of 4, sun in 1 of 4
    weights = BM25.encode_document("roses sun").values
    bm25 = sum(i * w for i, w in zip(idf, weights, strict=True))
    expected = 0.4 * 1 + 0.6 * bm25 / ((K1 + 1) * sum(idf))

    assert page.results[0].relevance == pytest.approx(expected, abs=1e-4)
    second = 0.4 * 0.5 + 0.6 * idf[0] * weights[0] / ((K1 + 1) * sum(idf))
    assert page.results[1].document.text == "roses cake"
    assert page.results[1].relevance == pytest.approx(second, abs=1e-4)


async def test_a_default_collection_that_is_not_there_yet_is_no_error():
    async with memory_services(collection_name="garden") as services:
        page = await find(services, "roses")

    assert (page.results, page.statuses) == ([], [])
    assert page.notes == [
        'Nothing is stored there yet. collections=["*"] searches all collections.'
    ]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("The disk is gone.", "No collection could be searched (a, b): The disk is gone."),
        ("{} is gone.", "No collection could be searched: a: a is gone.; b: b is gone."),
    ],
)
async def test_all_failed_is_an_error_that_says_why(reason, said):
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        for name in ("a", "b"):
            await remember(services, name, "roses")
            engine.broken[name] = EngineFailure(reason.format(name))
        with pytest.raises(BackendError) as caught:
            await find(services, "roses", "*")

    assert str(caught.value) == said


async def test_chunks_of_few_documents_do_not_hide_the_others():
    """Three documents have more chunks that match better than are looked at first."""
    async with memory_services() as services:
        for number in range(3):
            text = " ".join(f"Zeppelin harbour {number} line {n}. " * 4 for n in range(60))
            (stored,) = await remember(services, "ships", text)
            assert 15 <= len(stored.ids) <= 35
        await remember(services, "ships", *(f"a boat n{n} and a harbour" for n in range(8)))
        page = await find(services, "zeppelin harbour", "ships", limit=8, score_threshold=0.0)

    assert len(page.results) == 8
    assert len({r.document.document for r in page.results}) == 8


@pytest.mark.parametrize("failure", [EngineFailure("gone"), EngineTimeout("late")])
async def test_a_failure_of_the_deeper_look_does_not_lose_the_first(failure):
    async with memory_engine() as engine, memory_services(engine=engine) as services:
        text = " ".join(f"Zeppelin harbour line {n}. " * 4 for n in range(600))
        await remember(services, "ships", text)
        looks = []
        ask = services.pipeline.fetch.queries.search

        async def search(asked, *, depth: int, **rest):
            looks.append(depth)
            if len(looks) > 1:
                return [], {one.collection: failure for some, _ in asked for one in some}
            return await ask(asked, depth=depth, **rest)

        services.pipeline.fetch.queries.search = search
        page = await find(services, "zeppelin harbour", "ships", limit=5)

    assert len(looks) == 2
    assert looks[1] > looks[0]
    assert len(page.results) == 1
    assert states(page) == {"ships": "ok"}


@pytest.mark.parametrize(
    ("query", "threshold", "expected"),
    [
        ("roses sun", None, []),
        ("moss qwxz flurb zork", None, ["Weak matches only: the best has relevance 0.09."]),
        (
            "roses sun",
            0.999,
            ["Nothing found: use other words or lower score_threshold (the best has 0.77)."],
        ),
    ],
)
async def test_one_line_says_that_nothing_fits(query, threshold, expected):
    async with memory_services() as services:
        await remember(services, "garden", "roses sun", "moss shade")
        page = await find(services, query, "*", algorithm="keyword", score_threshold=threshold)

    assert page.notes == expected


@pytest.mark.parametrize(("collections", "expected"), [(1, 4), (2, 8), (3, 12), (5, 12)])
async def test_the_default_limit_grows_with_the_collections_up_to_three_times(
    collections, expected
):
    async with memory_services(qdrant_search_limit=4) as services:
        for name in "abcde"[:collections]:
            await remember(services, name, *(f"{text} {name}" for text in corpus(20)))
        page = await find(services, "alpha", "*")

    assert len(page.results) == expected


async def test_the_order_in_which_collections_are_named_changes_nothing():
    async with memory_services() as services:
        for name in "abc":
            await remember(services, name, *(f"{text} {name}" for text in corpus(20)))
        one = await find(services, "ember falcon", "a", "b", "c")
        other = await find(services, "ember falcon", "c", "a", "b")

    assert one.results == other.results


async def test_a_query_of_words_that_no_text_has_is_searched_by_meaning():
    async with memory_services() as services:
        await remember(services, "garden", "roses sun")
        page = await find(services, "zeppelin", "garden")

    assert states(page) == {"garden": "ok"}
    assert texts(page) == ["roses sun"]


async def test_collections_of_every_shape_are_searched_in_one_call(monkeypatch):
    monkeypatch.setattr(ranking, "merge_copies", lambda hits, *_: hits)
    sentences = dict(enumerate(corpus(12)))
    async with (
        memory_engine() as engine,
        memory_services(engine=engine) as services,
    ):
        await remember(services, "ours", *(f"{text} ours" for text in sentences.values()))
        await foreign(
            engine,
            "official",
            {n: {"document": text, "metadata": None} for n, text in sentences.items()},
            vectors={"fast-bag-of-words": COSINE},
            values=lambda n: {"fast-bag-of-words": dense(sentences[n])},
        )
        await foreign(
            engine,
            "unnamed",
            {n: {"page_content": text} for n, text in sentences.items()},
            vectors=COSINE,
            values=lambda n: dense(sentences[n]),
        )
        await foreign(
            engine,
            "keywords",
            {n: {"text": text} for n, text in sentences.items()},
            sparse={"bm25": IDF},
            values=lambda n: {"bm25": sparse_vector(BM25.encode_document(sentences[n]))},
        )
        await foreign(
            engine,
            "other-size",
            {1: {"text": "alpha"}},
            vectors=COSINE.model_copy(update={"size": 8}),
            values=lambda n: [1.0] * 8,
        )
        page = await find(services, "alpha bridge copper", "*", limit=40)

    assert states(page) == dict.fromkeys(("keywords", "official", "ours", "unnamed"), "ok") | {
        "other-size": "skipped"
    }
    assert {r.document.collection for r in page.results} == {
        "keywords",
        "official",
        "ours",
        "unnamed",
    }
    assert all("alpha" in r.document.text for r in page.results)
    assert page.notes == [
        "In order of relevance x fuzzy.",
        "other-size: its dense vectors do not fit the model: it has unnamed (8), "
        "fake/Bag-of-Words makes 64 dimensions",
    ]


async def test_a_word_is_found_as_soon_as_a_text_with_it_is_stored():
    encoder = FakeEncoder()
    async with memory_services(encoder) as services:
        await remember(services, "zoo", *(f"animal number {n}" for n in range(60)))
        encoder.be("downloading")

        assert texts(await find(services, "zebrafish", "zoo")) == []

        await remember(services, "zoo", "a zebrafish swims")

        assert texts(await find(services, "zebrafish", "zoo")) == ["a zebrafish swims"]


async def test_of_a_prompt_the_part_that_asks_is_searched_for():
    async with memory_services() as services:
        await remember(services, "house", "The heat pump is serviced by Olle.", "You cite ids.")
        rules = "You cite ids. Always answer in short sentences. Never guess what you do not know. "
        asked = "who serviced the heat pump"
        page = await find(services, f"{rules * 8}\n\n{asked}", "house")
        bare = await find(services, asked, "house")

    assert page == bare
    assert page.searched == asked
