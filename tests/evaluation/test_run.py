"""Labelled queries go through the pipeline of the tool, over both engines."""

from collections.abc import AsyncIterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Algorithm, NewDocument, SearchPage, Status
from mcp_server_qdrant.core.errors import (
    BackendError,
    EncoderUnavailable,
    EngineFailure,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.evaluation.figures import score, tables
from mcp_server_qdrant.evaluation.labels import Expect, Label, read_labels
from mcp_server_qdrant.evaluation.run import Measurement, measure
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.fakes import FakeEncoder
from tests.support import COSINE, IDF, foreign, memory_services, remember

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

HYBRID: list[Algorithm] = ["hybrid"]
NOTES = {
    "pot": ("The key is under the flower pot.", ("house", "key")),
    "shed": ("The spare key of the shed hangs in the kitchen.", ("garden", "key")),
    "lock": ("The lock of the shed sticks in the cold.", ("garden",)),
}


def label(query: str, ids: dict[str, int], **more: Any) -> Label:
    return Label(query=query, expect=Expect(ids=ids), **more)


async def fill(services: Services) -> None:
    for name, (text, tags) in NOTES.items():
        new = NewDocument(text, id=name, title=name.title(), tags=tags, metadata={"n": len(text)})
        await services.store.store(new, "notes", create=True)
    await remember(services, "mail", "Your parcel with the flower pot is late.", id="parcel")


on_both_engines = pytest.mark.parametrize("services", ["memory", "edge"], indirect=True)


@pytest.fixture
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Services]:
    """Two small collections."""
    engine = None
    if getattr(request, "param", "memory") == "edge":
        engine = await EdgeClient.open(tmp_path, timeout=20)
    async with memory_services(engine=engine) as services:
        await fill(services)
        yield services


def expected(measured: Measurement) -> list[set[str]]:
    return [{name for _, name in query.grades} for query in measured.queries]


@on_both_engines
async def test_what_is_found_is_what_the_tool_would_show(services):
    done = await measure(services, [label("key flower pot", {"pot": 1})], HYBRID)

    (run,) = done.runs
    assert run.found[0][0] == ("notes", "pot")
    assert run.found == run.deep
    assert len(run.milliseconds) == 1
    assert done.warnings == []
    assert done.queries[0].collections == ("mail", "notes")


@on_both_engines
async def test_labels_name_documents_by_tags_titles_and_metadata(services, tmp_path):
    path = tmp_path / "queries.json"
    path.write_text(
        '[{"query": "key", "expect": {"tags": ["key"]}},'
        '{"query": "key", "expect": {"tags": ["key", "garden"]}},'
        '{"query": "key", "expect": {"titles": ["Pot", "Lock"]}},'
        f'{{"query": "key", "expect": {{"metadata": {{"n": {len(NOTES["lock"][0])}}}}}}}]'
    )
    done = await measure(services, read_labels(path), HYBRID)

    assert expected(done) == [{"pot", "shed"}, {"shed"}, {"pot", "lock"}, {"lock"}]


@on_both_engines
async def test_the_id_of_a_point_and_of_its_document_are_as_good(services):
    ((point,), *_) = await services.lookup.get(["shed"])
    done = await measure(services, [label("shed key", {str(point.id): 1})], HYBRID)

    assert expected(done) == [{"shed"}]
    assert score(done)[0].mean("hit@1") == 1


async def test_an_id_is_expected_in_each_collection_that_has_it(services):
    await remember(services, "mail", "The key of the pot is in the post.", id="pot")
    done = await measure(services, [label("key", {"pot": 1})], HYBRID)

    assert set(done.queries[0].grades) == {("notes", "pot"), ("mail", "pot")}


@on_both_engines
async def test_a_copy_that_a_result_stands_for_is_found(services):
    for name in ("first", "second"):
        await remember(services, "mail", "A barometer hangs in the hall.", id=name, title=name)
        await remember(services, "copies", "A barometer hangs in the hall.", id=name)
    labels = [label("barometer hall", {"first": 1}, collections=("copies",))]
    labels += [label("barometer hall", {"second": 1}, collections=("copies",))]
    done = await measure(services, labels, HYBRID)

    assert score(done)[0].mean("hit@1") == 1


@on_both_engines
async def test_points_of_other_tools_are_labelled_by_their_ids(services):
    engine = services.client
    payloads = {7: {"text": "A parrot on the pier."}, 8: {"text": "Rain.", "tags": "weather"}}
    encoder = FakeEncoder()
    await foreign(
        engine,
        "other",
        payloads,
        vectors={encoder.vector_name: COSINE},
        sparse={"bm25": IDF},
        values=lambda n: {encoder.vector_name: list(encoder._vector(payloads[n]["text"]))},
    )
    labels = [
        label("parrot", {"7": 1}, collections=("other",)),
        Label(query="rain", expect=Expect(tags=("weather",))),
    ]
    done = await measure(services, labels, HYBRID)

    assert expected(done) == [{"7"}, {"8"}]
    assert score(done)[0].mean("hit@1") == 1


async def test_ids_and_tags_that_are_nowhere_are_missed_and_that_is_said(services):
    labels = [label("flower pot", {"pot": 1, "vase": 1}), label("gnome", {"gnome": 1})]
    labels.append(Label(query="moon", expect=Expect(tags=("moon",))))
    done = await measure(services, labels, HYBRID)

    assert done.warnings == [
        "Not in the collections that are searched, and so missed: 3 expected documents, "
        "the first of the query 'flower pot'"
    ]
    assert score(done)[0].per_query["recall@100"] == [0.5, 0, 0]


@pytest.mark.parametrize(
    ("ids", "collections", "error", "sentence"),
    [
        ({"gnome": 1}, None, RequestError, "are the collections and the ids right"),
        ({"pot": 1}, ("nots",), UnknownCollection, "'notes'"),
        ({"pot": 1}, ("x*",), RequestError, r"no collection yet that matches x\*\."),
    ],
)
async def test_labels_and_collections_that_fit_nothing_are_an_error(
    services, ids, collections, error, sentence
):
    with pytest.raises(error, match=sentence):
        await measure(services, [label("key", ids, collections=collections)], HYBRID)
    async with memory_services() as empty:
        with pytest.raises(RequestError, match="no collection yet"):
            await measure(empty, [label("key", {"pot": 1})], HYBRID)


async def test_progress_is_told_after_each_query(services):
    told: list[int] = []
    labels = [label("key", {"pot": 1}), label("shed", {"shed": 1})]
    await measure(services, labels, get_args(Algorithm), progress=told.append)

    assert told == [4, 8]


async def test_without_its_model_nothing_but_keyword_search_is_measured():
    encoder = FakeEncoder()
    async with memory_services(encoder) as services:
        await fill(services)
        encoder.be("failed")
        labels = [label("flower pot", {"pot": 1})]
        with pytest.raises(EncoderUnavailable, match=r"failed\. --algorithms keyword needs none"):
            await measure(services, labels, HYBRID)
        done = await measure(services, labels, ["keyword"])

    assert score(done)[0].mean("hit@1") == 1


class Flaky:
    """A pipeline that fails for one query, and reaches one collection too late."""

    def __init__(self, pipeline, failing: str, late: Status | None = None) -> None:
        self.pipeline, self.failing, self.late = pipeline, failing, late

    async def search(self, request: SearchRequest) -> SearchPage:
        if request.query == self.failing:
            raise EngineFailure("The disk is gone.")
        page = await self.pipeline.search(request)
        return replace(page, statuses=[self.late]) if self.late else page


def with_pipeline(services: Services, pipeline: Flaky) -> Services:
    changed = copy(services)
    changed.pipeline = pipeline  # type: ignore[assignment]
    return changed


async def test_a_search_that_fails_ends_it(services):
    flaky = with_pipeline(services, Flaky(services.pipeline, "lock"))

    with pytest.raises(BackendError, match="disk is gone"):
        await measure(flaky, [label("key", {"pot": 1}), label("lock", {"lock": 1})], HYBRID)


async def test_a_collection_that_is_not_searched_as_it_should_is_named(services):
    late = Status("mail", "timeout", "It did not answer in time.")
    flaky = with_pipeline(services, Flaky(services.pipeline, "", late))
    done = await measure(flaky, [label("lock", {"lock": 1})] * 2, HYBRID)

    assert done.warnings == ["hybrid: in 2 searches mail was timeout: It did not answer in time."]


async def test_the_tables_have_a_row_per_algorithm_and_a_column_per_category(services):
    labels = [label("key under the flower pot", {"pot": 1}, category="plain") for _ in range(3)]
    labels.append(label("gnome", {"gnome": 1}))
    done = await measure(services, labels, ["hybrid", "keyword"])
    lines = tables(done, score(done)).splitlines()

    assert lines[0] == "4 queries on mail, notes"
    assert lines[2].split()[:3] == ["best@1", "hit@1", "hit@5"]
    assert lines[3].split()[:3] == ["hybrid", "0.750", "0.750"]
    assert "nDCG@10  plain (3)" in lines
    assert lines[-1] == "keyword missed 'gnome'"
    assert max(map(len, lines)) < 120
