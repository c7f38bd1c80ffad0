"""Runs labelled queries through the pipeline of qdrant-find.

Every query is searched twice: as a caller would (timed), and with the largest limit, for the
recall.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.datatypes import Algorithm, Result
from mcp_server_qdrant.core.errors import EncoderUnavailable, RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import key_of, plural
from mcp_server_qdrant.evaluation.labels import Label

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services

LIMIT = 10
DEEP = 100
MODEL_SECONDS = 600.0

Key = tuple[str, str]  # collection and id of a document; "" if no collection has it


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A labelled query with the expected documents in the collections it searches."""

    label: Label
    collections: tuple[str, ...]
    grades: Mapping[Key, int]


@dataclass(slots=True)
class Run:
    """The results of one algorithm: per query `found`, `deep` (large limit) and milliseconds.

    `lapses` counts the collections that failed or were degraded, with the reason.
    """

    algorithm: Algorithm
    found: list[list[Key]] = field(default_factory=list)
    deep: list[list[Key]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    lapses: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Measurement:
    """All runs. `warnings` are sentences on what limits the figures."""

    queries: Sequence[JudgedQuery]
    runs: Sequence[Run]
    warnings: Sequence[str]


async def measure(
    services: "Services",
    labels: Sequence[Label],
    algorithms: Sequence[Algorithm],
    *,
    progress: Callable[[int], Any] = lambda _: None,
) -> Measurement:
    """Search every query with every algorithm, one after the other.

    `progress` gets the number of finished searches. Raises UnknownCollection, RequestError if no
    expected document exists, and BackendError if a search fails.
    """
    queries = [await _find_expected(services, label) for label in labels]
    expected = [(query.label.query, key) for query in queries for key in query.grades]
    missing = [query for query, (collection, _) in expected if not collection]
    if len(missing) == len(expected):
        raise RequestError(
            "Nothing that the queries expect is in the collections they search: are the "
            "collections and the ids right?"
        )
    await _prepare(services, queries, algorithms)
    runs = [Run(algorithm) for algorithm in algorithms]
    for place, query in enumerate(queries, 1):
        # All algorithms per query, so that other load on the machine affects them equally.
        for run in runs:
            await _search(services, run, query)
        progress(place * len(runs))
    warnings = [
        "Not in the collections that are searched, and so missed: "
        f"{plural(len(missing), 'expected document')}, the first of the query {query!r}"
        for query in missing[:1]
    ]
    for run in runs:
        lapses = run.lapses.items()
        warnings += [f"{run.algorithm}: in {count} searches {lapse}" for lapse, count in lapses]
    return Measurement(queries, runs, warnings)


async def _find_expected(services: "Services", label: Label) -> JudgedQuery:
    """The query with its expected documents. A missing document stays expected."""
    names = tuple(target.collection for target in await services.catalog.resolve(label.collections))
    if not names:
        which = f" that matches {', '.join(label.collections)}" if label.collections else ""
        raise RequestError(f"There is no collection yet{which}.")
    grades: dict[Key, int] = {}
    if where := label.where:
        for name in names:
            documents = await services.lookup.matching(name, where)
            grades |= {key_of(document): 1 for document in documents}
        return JudgedQuery(label, names, grades or {("", ""): 1})
    named = [await services.lookup.find_in(name, list(label.ids)) for name in names]
    for one, grade in label.ids.items():
        keys = [key_of(there[one]) for there in named if one in there]
        grades |= dict.fromkeys(keys or [("", one)], grade)
    return JudgedQuery(label, names, grades)


async def _prepare(
    services: "Services", queries: Sequence[JudgedQuery], algorithms: Sequence[Algorithm]
) -> None:
    """Wait for the models of all collections, unless only keywords are searched.

    The vocabularies for typo correction are read first. Raises EncoderUnavailable.
    """
    names = tuple({name: None for query in queries for name in query.collections})
    targets = await services.catalog.resolve(names)
    await services.lexicon.vocabularies(targets)
    await services.lexicon.settled()
    if {*algorithms} <= {"keyword", "fuzzy"}:
        return
    for model in dict.fromkeys(target.dense.model for target in targets if target.dense):
        encoder = services.encoders.start_encoder(model)
        if not await encoder.ready(MODEL_SECONDS):
            raise EncoderUnavailable(
                f"{encoder.reason or 'There is no model.'} --algorithms keyword needs none."
            )


async def _search(services: "Services", run: Run, query: JudgedQuery) -> None:
    """Search one query and record the result."""
    asked = SearchRequest(
        query=query.label.query,
        collections=query.label.collections,
        algorithm=run.algorithm,
        score_threshold=0.0,
    )
    search = services.pipeline.search
    # The deep search comes first, so that the timed one has warm caches, as on a server.
    deep = await search(asked.model_copy(update={"limit": DEEP}))
    start = time.perf_counter()
    page = await search(asked.model_copy(update={"limit": LIMIT}))
    run.milliseconds.append((time.perf_counter() - start) * 1000)
    run.found.append(_list_keys(page.results, query.grades))
    run.deep.append(_list_keys(deep.results, query.grades))
    run.lapses.update(
        f"{status.collection} was {status.state}: {status.reason}"
        for status in page.statuses
        if status.state != "ok"
    )


def _list_keys(results: Sequence[Result], wanted: Mapping[Key, int]) -> list[Key]:
    """The documents found; for a result with an expected copy, that copy."""
    copies = [[*map(key_of, (one.document, *one.also))] for one in results]
    return [next((key for key in keys if key in wanted), keys[0]) for keys in copies]
