"""Parts of many texts on their way to the engine, and what may go wrong there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from mcp_server_qdrant.core.datatypes import Document, Sparse, Target
from mcp_server_qdrant.core.errors import (
    DiskFull,
    EncoderUnavailable,
    EngineUnavailable,
    InvalidPoint,
    UnknownCollection,
)
from mcp_server_qdrant.ingest.writer import BATCH, Job, Outcomes, Writer


class Model:
    """Vectors of one number, but not of texts that hold a poisonous word."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.poison = "\0"
        self.down = False

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        if self.down or any(self.poison in text for text in texts):
            raise EncoderUnavailable("It cannot.")
        return [[float(len(text))] for text in texts]


class Words:
    def encode_document(self, text: str, day: None) -> Sparse:
        return Sparse((len(text),), (1.0,))


class Disk:
    """What was written; `errors` are raised by the next writes, `refused` by what holds a word."""

    def __init__(self) -> None:
        self.points: dict[str, Any] = {}
        self.settled: list[Any] = []
        self.order: list[Any] = []
        self.errors: list[Exception] = []
        self.refused = "\0"

    async def upsert(self, target: Target, points: Sequence[Any]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        if any(self.refused in one.part.text for one in points):
            raise InvalidPoint("It is refused.")
        self.points |= {one.part.id: one for one in points}
        self.order += [one.part.id for one in points]

    async def settle(self, collection: str, ids: Sequence[Any]) -> None:
        self.settled += ids


class Trial(Outcomes[Any]):
    """Jobs by the name of their first text, and what becomes of them."""

    def __init__(self, retries: Sequence[float] = (0.0,)) -> None:
        self.model, self.disk = Model(), Disk()
        self.finished: list[str] = []
        self.faults: dict[str, str] = {}
        self.settled_before: list[Any] = []
        self.parts_written = 0
        self.writer = Writer(
            Target("c", 0, dense=None, sparse=None),
            self.model.encode_documents,
            Words(),
            self.disk,
            lambda *_: None,
            retries,
            self,
        )

    async def run(self, *jobs: Job) -> None:
        async def some() -> AsyncIterator[Job]:
            for one in jobs:
                yield one

        await self.writer.run(some())

    def wrote(self, job: Job, count: int) -> None:
        self.parts_written += count

    async def stored(self, job: Job) -> None:
        self.finished.append(name_of(job))
        self.settled_before += self.disk.settled

    def failed(self, job: Job, reason: str) -> None:
        self.faults[name_of(job)] = reason


def name_of(job: Job) -> str:
    return str(job.parts[0].id).rstrip("0123456789")


def job(path: str, *given: str) -> Job:
    """Texts of one part each."""
    return Job(
        parts=[
            Document(f"{path}{n}", "c", text, document=f"{path}{n}", file={"path": path})
            for n, text in enumerate(given)
        ]
    )


async def test_a_text_that_cannot_be_encoded_costs_its_own_file_only():
    trial = Trial()
    trial.model.poison = "wrong"
    await trial.run(job("a", "good", "wrong"), job("b", "good"))

    assert trial.faults == {"a": "It cannot."}
    assert trial.finished == ["b"]


@pytest.mark.parametrize("encoder", ["words", "model"])
async def test_a_text_that_makes_an_encoder_stumble_costs_its_own_file_only(encoder):
    def stumble(text: str) -> None:
        if "bad" in text:
            raise OverflowError

    class Stumbling(Words):
        def encode_document(self, text: str, day: None) -> Sparse:
            stumble(text)
            return super().encode_document(text, day)

    class StumblingModel(Model):
        async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
            list(map(stumble, texts))
            return await super().encode_documents(texts)

    trial = Trial()
    if encoder == "words":
        trial.writer.bm25 = Stumbling()
    else:
        trial.writer.encode = StumblingModel().encode_documents
    await trial.run(job("a", "good", "bad"), job("b", "good"))

    assert trial.faults == {"a": "an unexpected OverflowError"}
    assert trial.finished == ["b"]


async def test_a_point_that_is_refused_costs_its_own_file_only():
    trial = Trial()
    trial.disk.refused = "bad"
    await trial.run(job("a", *["bad"] * BATCH * 2), job("b", "good"))

    assert trial.faults == {"a": "It is refused."}
    assert trial.finished == ["b"]


async def test_an_engine_that_is_away_for_a_moment_is_asked_again():
    trial = Trial(retries=(0.0, 0.0))
    trial.disk.errors = [EngineUnavailable("away"), EngineUnavailable("away")]
    await trial.run(job("a", "one"))

    assert trial.finished == ["a"]


@pytest.mark.parametrize(
    "error", [EngineUnavailable("away"), DiskFull("full"), UnknownCollection("c")]
)
async def test_what_stops_everything_is_raised_as_it_is(error):
    trial = Trial(retries=())
    trial.disk.errors = [error]
    with pytest.raises(type(error)):
        await trial.run(job("a", "one"))


async def test_writing_goes_on_while_the_next_texts_are_encoded():
    trial = Trial()
    writing, upsert = asyncio.Event(), trial.disk.upsert

    async def slow(target: Target, points: Sequence[Any]) -> None:
        if not trial.disk.points and len(trial.model.calls) < 2:
            await writing.wait()
        await upsert(target, points)

    async def encode(texts: Sequence[str]) -> list[list[float]]:
        made = await Model.encode_documents(trial.model, texts)
        if len(trial.model.calls) > 1:
            writing.set()
        return made

    trial.disk.upsert, trial.model.encode_documents = slow, encode
    await trial.run(*(job(f"j{n}", "text") for n in range(2 * BATCH)))

    assert trial.parts_written == 2 * BATCH


def long_job(path: str, parts: int) -> Job:
    """One document of so many parts."""
    whole = Document("", "c", "", document=path, chunks=parts, version="v", writing=7)
    return Job(
        parts=[whole._replace(id=f"{path}{n}", text="x" * (n + 1), chunk=n) for n in range(parts)]
    )


@pytest.mark.parametrize("parts", [2, BATCH, 3 * BATCH + 1])
async def test_the_first_part_of_a_text_is_written_after_all_others(parts):
    trial = Trial()
    await trial.run(job("a", "one"), long_job("b", parts), long_job("c", 3))

    for path in "bc":
        assert [one for one in trial.disk.order if one[0] == path][-1] == f"{path}0"
    assert len(trial.disk.points) == parts + 4
    assert sorted(trial.finished) == ["a", "b", "c"]


async def test_all_parts_are_marked_until_the_text_is_whole():
    trial = Trial()
    await trial.run(job("a", "one"), long_job("b", 3))

    marked = {one.part.id for one in trial.disk.points.values() if one.part.writing}
    assert marked == set(trial.disk.settled) == {"b0", "b1", "b2"}


async def test_a_text_stays_marked_until_what_it_replaces_is_removed():
    trial = Trial()
    await trial.run(long_job("b", 3))

    assert trial.finished == ["b"]
    assert trial.settled_before == []
    assert sorted(trial.disk.settled) == ["b0", "b1", "b2"]


async def test_a_text_of_which_a_part_is_refused_does_not_appear():
    trial = Trial()
    trial.disk.refused = "x" * 200
    await trial.run(long_job("b", 200), job("a", "one"))

    assert "b0" not in trial.disk.points
    assert trial.finished == ["a"]
    assert list(trial.faults) == ["b"]
