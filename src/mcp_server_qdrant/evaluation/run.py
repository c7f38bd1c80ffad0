"""The quality of the ranking: labelled queries through the pipeline that answers qdrant-find.

Every query is searched twice: as a caller would (`limit` results, timed), and with the most that
qdrant-find returns, for the recall.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import Algorithm, Document, Result
from mcp_server_qdrant.core.errors import BackendError, EncoderUnavailable, RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.evaluation.labels import Label
from mcp_server_qdrant.qdrant.read.lookup import Lookup

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services

LIMIT = 10
DEEP = 100
MODEL_SECONDS = 600.0

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A labelled query with the documents that answer it, of the collections it searches."""

    label: Label
    collections: tuple[str, ...]
    grades: Mapping[Key, int]


@dataclass(slots=True)
class Run:
    """One algorithm: per query what it found as asked and in depth, and its milliseconds.

    `failures` holds why searches failed, `lapses` how collections fared that were not searched as
    they should.
    """

    algorithm: Algorithm
    found: list[list[Key]] = field(default_factory=list)
    deep: list[list[Key]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lapses: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was searched. `warnings` are sentences that say what the figures do not."""

    queries: Sequence[JudgedQuery]
    runs: Sequence[Run]
    warnings: Sequence[str]
    limit: int


def key_of(document: Document) -> Key:
    """The key of a document: all its parts have the same."""
    return document.collection, document.document or str(document.id)


async def resolve(
    services: "Services", labels: Sequence[Label]
) -> tuple[list[JudgedQuery], list[str]]:
    """The queries with the documents their labels mean, and doubts about the labels.

    An id that is nowhere stays expected, and is missed. Raises UnknownCollection, and RequestError
    where there is none of all that is expected.
    """
    places = {
        wanted: tuple(t.collection for t in await services.catalog.resolve(wanted))
        for wanted in dict.fromkeys(label.collections for label in labels)
    }
    if empty := next((wanted for wanted, names in places.items() if not names), ()):
        raise RequestError(f"No collection matches {', '.join(empty)}.")
    if not all(places.values()):
        raise RequestError("There is no collection yet, or the default one is empty.")
    queries, lost, unknown = [], [], 0
    for label in labels:
        names = places[label.collections]
        grades = await _grades(services.lookup, label, names)
        queries.append(JudgedQuery(label, names, grades))
        nowhere = sum(not collection for collection, _ in grades)
        unknown += nowhere
        if nowhere == len(grades):
            lost.append(label.query)
    if len(lost) == len(labels):
        raise RequestError(
            "Nothing that the queries expect is in the collections they search: are the "
            "collections and the ids right?"
        )
    return queries, _doubts(lost, unknown)


def _doubts(lost: Sequence[str], unknown: int) -> list[str]:
    doubts = []
    if unknown:
        doubts.append(f"{unknown} expected ids are in none of the collections, and count as missed")
    if lost:
        doubts.append(
            f"{len(lost)} queries expect nothing that the collections they search hold, and count "
            f"as missed; the first: {lost[0]!r}"
        )
    return doubts


async def _grades(lookup: Lookup, label: Label, names: Sequence[str]) -> dict[Key, int]:
    """The documents that answer a query; an id that is nowhere is that of no collection."""
    if where := label.where:
        found = [await lookup.matching(name, where) for name in names]
        return {key_of(document): 1 for documents in found for document in documents}
    grades: dict[Key, int] = {}
    named = [await lookup.named(name, list(label.ids)) for name in names]
    for one, grade in label.ids.items():
        keys = [key_of(there[one]) for there in named if one in there]
        grades |= dict.fromkeys(keys or [("", one)], grade)
    return grades


async def models_ready(
    services: "Services", queries: Iterable[JudgedQuery], algorithms: Iterable[Algorithm]
) -> None:
    """Wait for the models of all collections. Raises EncoderUnavailable where one is missing.

    Keyword and fuzzy search need none. The words that typos are corrected to are read first.
    """
    names = tuple({name: None for query in queries for name in query.collections})
    targets = await services.catalog.resolve(names)
    await services.lexicon.vocabularies(targets)
    await services.lexicon.settled()
    if {*algorithms} <= {"keyword", "fuzzy"}:
        return
    for model in dict.fromkeys(target.dense.model for target in targets if target.dense):
        encoder = services.encoders.of(model)
        if not await encoder.ready(MODEL_SECONDS):
            raise EncoderUnavailable(
                f"{encoder.reason or 'There is no model.'} --algorithms keyword needs none."
            )


async def measure(
    services: "Services",
    labels: Sequence[Label],
    algorithms: Sequence[Algorithm],
    *,
    limit: int = LIMIT,
    searching: Callable[[int], Any] = lambda _: None,
) -> Measured:
    """Search every query by every algorithm, one after the other.

    `searching` is told how many searches are done. Raises RequestError, and BackendError where none
    of an algorithm succeeded.
    """
    queries, doubts = await resolve(services, labels)
    await models_ready(services, queries, algorithms)
    runs = [Run(algorithm) for algorithm in algorithms]
    for place, query in enumerate(queries, 1):
        # One query by all algorithms before the next: what else the machine does meanwhile meets
        # them alike.
        for run in runs:
            await _search(services, run, query, limit)
        searching(place * len(runs))
    if failing := next((run for run in runs if not run.milliseconds), None):
        raise BackendError(failing.failures[0])
    return Measured(queries, runs, [*doubts, *_losses(runs)], limit)


async def _search(services: "Services", run: Run, query: JudgedQuery, limit: int) -> None:
    """Search one query and note the result."""
    asked = SearchRequest(
        query=query.label.query,
        collections=query.label.collections,
        algorithm=run.algorithm,
        score_threshold=0.0,
    )
    search = services.pipeline.search
    try:
        # First in depth, so that the timed search meets the caches that a server has.
        deep = await search(asked.model_copy(update={"limit": DEEP}))
        start = time.perf_counter()
        page = await search(asked.model_copy(update={"limit": limit}))
        run.milliseconds.append((time.perf_counter() - start) * 1000)
    except BackendError as error:
        run.failures.append(str(error))
        run.found.append([])
        run.deep.append([])
        return
    run.found.append(_seen(page.results, query.grades))
    run.deep.append(_seen(deep.results, query.grades))
    run.lapses.update(
        f"{status.collection} was {status.state}: {status.reason}"
        for status in page.statuses
        if status.state != "ok"
    )


def _seen(results: Sequence[Result], wanted: Mapping[Key, int]) -> list[Key]:
    """The documents found; where a result stands for a copy that is wanted, that copy."""
    keys: list[Key] = []
    for result in results:
        key = key_of(result.document)
        if key not in wanted:
            key = next((one for one in map(key_of, result.also) if one in wanted), key)
        keys.append(key)
    return keys


def _losses(runs: Sequence[Run]) -> list[str]:
    """A sentence for each thing that was not searched as it should be."""
    said = []
    for run in runs:
        name = run.algorithm
        if run.failures:
            count = len(run.failures)
            said.append(f"{name}: {count} searches failed and count as missed: {run.failures[0]}")
        said += [f"{name}: in {count} searches {lapse}" for lapse, count in run.lapses.items()]
    return said
