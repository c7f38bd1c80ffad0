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


class Refusing:
    """Raises the fault of a word for the texts that hold it."""

    def __init__(self) -> None:
        self.faults: dict[str, Exception] = {}

    def check(self, *texts: str) -> None:
        for text in texts:
            for word in self.faults.keys() & {text, text[:200]}:
                raise self.faults[word]


class Model(Refusing):
    """Vectors of one number."""

    calls = 0

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        self.check(*texts)
        return [[float(len(text))] for text in texts]


class Words(Refusing):
    def encode_document(self, text: str, day: None) -> Sparse:
        self.check(text)
        return Sparse((len(text),), (1.0,))


class Disk(Refusing):
    """What was written; `errors` are raised by the next writes."""

    def __init__(self) -> None:
        super().__init__()
        self.points: dict[str, Any] = {}
        self.settled: list[Any] = []
        self.errors: list[Exception] = []

    async def upsert(self, target: Target, points: Sequence[Any]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.check(*(one.part.text for one in points))
        for one in points:  # the last write of a point decides its place
            self.points.pop(one.part.id, None)
            self.points[one.part.id] = one

    async def settle(self, collection: str, ids: Sequence[Any]) -> None:
        self.settled += ids


class Trial(Outcomes[Any]):
    """Jobs by the name of their first text, and what becomes of them."""

    def __init__(self, retries: Sequence[float] = (0.0,)) -> None:
        self.model, self.words, self.disk = Model(), Words(), Disk()
        self.finished: list[str] = []
        self.faults: dict[str, str] = {}
        self.settled_before: list[Any] = []
        self.parts_written = 0
        self.writer = Writer(
            Target("c", 0, dense=None, sparse=None),
            self.model.encode_documents,
            self.words,
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


@pytest.mark.parametrize(
    ("part", "fault", "reason"),
    [
        ("model", EncoderUnavailable("It cannot."), "It cannot."),
        ("model", OverflowError(), "an unexpected OverflowError"),
        ("words", OverflowError(), "an unexpected OverflowError"),
        ("disk", InvalidPoint("It is refused."), "It is refused."),
    ],
)
async def test_a_text_that_a_part_of_the_way_refuses_costs_its_own_file_only(part, fault, reason):
    trial = Trial()
    getattr(trial, part).faults["bad"] = fault
    await trial.run(job("a", "good", *["bad"] * BATCH * 2), job("b", "good"))

    assert (trial.faults, trial.finished) == ({"a": reason}, ["b"])


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
        if not trial.disk.points and trial.model.calls < 2:
            await writing.wait()
        await upsert(target, points)

    async def encode(texts: Sequence[str]) -> list[list[float]]:
        made = await Model.encode_documents(trial.model, texts)
        if trial.model.calls > 1:
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
        assert [one for one in trial.disk.points if one[0] == path][-1] == f"{path}0"
    assert len(trial.disk.points) == parts + 4
    assert sorted(trial.finished) == ["a", "b", "c"]


async def test_all_parts_are_marked_until_the_text_is_whole_and_what_it_replaces_removed():
    trial = Trial()
    await trial.run(job("a", "one"), long_job("b", 3))

    marked = {one.part.id for one in trial.disk.points.values() if one.part.writing}
    assert marked == set(trial.disk.settled) == {"b0", "b1", "b2"}
    assert (sorted(trial.finished), trial.settled_before) == (["a", "b"], [])


async def test_a_text_of_which_a_part_is_refused_does_not_appear():
    trial = Trial()
    trial.disk.faults["x" * 200] = InvalidPoint("It is refused.")
    await trial.run(long_job("b", 200), job("a", "one"))

    assert "b0" not in trial.disk.points
    assert trial.finished == ["a"]
    assert list(trial.faults) == ["b"]
