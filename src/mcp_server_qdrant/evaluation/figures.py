"""What was found -> figures, as tables to read and as JSON to keep."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcp_server_qdrant.evaluation.run import JudgedQuery, Key, Measured, Run

SHOWN = 10  # the results that the metrics look at, but for the recall
FIRST = 3  # results of each query in the JSON
FLIPS = 10_000
AT_ONCE = 100
SIGNIFICANT = 0.05
NOTE = (
    "Milliseconds inside the server. + -: better, worse than the first row "
    f"(Fisher's randomisation test, p <= {SIGNIFICANT})."
)


@dataclass(frozen=True, slots=True)
class Scores:
    """Metric -> one number per query, in their order; and p against the first run, per metric."""

    per_query: Mapping[str, Sequence[float]]
    p_values: Mapping[str, float]

    def mean(self, metric: str, places: Sequence[int] | None = None) -> float:
        """The mean over all queries, or over those at `places`."""
        values = self.per_query[metric]
        chosen = values if places is None else [values[place] for place in places]
        return math.fsum(chosen) / len(chosen)


def score(measured: Measured) -> list[Scores]:
    """The metrics of every run, tested against the first run."""
    scored: list[dict[str, list[float]]] = []
    for run in measured.runs:
        rows = [
            _metrics(query.grades, found, deep)
            for query, found, deep in zip(measured.queries, run.found, run.deep, strict=True)
        ]
        scored.append({metric: [row[metric] for row in rows] for metric in rows[0]})
    return [
        Scores(own, {metric: p_value(scored[0][metric], own[metric]) for metric in own})
        for own in scored
    ]


def _metrics(
    grades: Mapping[Key, int], found: Sequence[Key], deep: Sequence[Key]
) -> dict[str, float]:
    """The figures of one query. A result with any grade is a hit; best@1 asks for the best grade.

    MRR and nDCG are those of trec_eval: the gains are the grades as they are (Järvelin and
    Kekäläinen 2002).
    """
    gains = [grades.get(key, 0) for key in dict.fromkeys(found)][:SHOWN]
    ideal = sorted(grades.values(), reverse=True)
    return {
        "best@1": float(gains[:1] == ideal[:1]),
        **{f"hit@{k}": float(any(gains[:k])) for k in (1, 5, 10)},
        "MRR@10": next((1 / place for place, gain in enumerate(gains, 1) if gain), 0.0),
        "nDCG@10": _dcg(gains) / _dcg(ideal),
        "recall@100": len(grades.keys() & {*deep}) / len(grades),
    }


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains[:SHOWN], 1))


def p_value(first: Sequence[float], other: Sequence[float]) -> float:
    """The probability of so great a difference by chance, by Fisher's randomisation test.

    The same at every call (Smucker, Allan and Carterette 2007).
    """
    differences = np.subtract(other, first)
    seen = abs(differences.sum()) - 1e-12
    chance = np.random.default_rng(0)
    as_great = 0
    for _ in range(FLIPS // AT_ONCE):
        signs = chance.choice((-1.0, 1.0), (AT_ONCE, len(differences)))
        as_great += int((abs(signs @ differences) >= seen).sum())
    return (as_great + 1) / (FLIPS + 1)


def latency(run: Run) -> dict[str, float]:
    """Milliseconds per search: median, and what 95 of 100 stay below."""
    p50, p95 = np.percentile(run.milliseconds, [50, 95])
    return {"p50": float(p50), "p95": float(p95)}


def categories(queries: Sequence[JudgedQuery]) -> dict[str, list[int]]:
    """Category -> the places of its queries."""
    found: dict[str, list[int]] = {}
    for place, query in enumerate(queries):
        if query.label.category is not None:
            found.setdefault(query.label.category, []).append(place)
    return found


def tables(measured: Measured, scores: Sequence[Scores]) -> str:
    """A row per algorithm, then one table per metric that is split by category."""
    runs = [*zip(measured.runs, scores, strict=True)]
    rows = [["", *scores[0].per_query, "p50 ms", "p95 ms"]]
    for run, own in runs:
        cells = [
            f"{own.mean(metric):.3f}{_mark(scores[0], own, metric)}" for metric in rows[0][1:-2]
        ]
        rows.append([run.algorithm, *cells, *(f"{value:.1f}" for value in latency(run).values())])
    searched = dict.fromkeys(name for query in measured.queries for name in query.collections)
    blocks = [f"{len(measured.queries)} queries on {', '.join(searched)}", _table(rows), NOTE]
    groups = categories(measured.queries)
    for metric in ("best@1", "nDCG@10") if groups else ():
        head = [metric, *(f"{name} ({len(places)})" for name, places in groups.items())]
        means = [
            [run.algorithm, *(f"{own.mean(metric, places):.3f} " for places in groups.values())]
            for run, own in runs
        ]
        blocks.append(_table([head, *means]))
    return "\n\n".join(blocks)


def _mark(first: Scores, own: Scores, metric: str) -> str:
    if own.p_values[metric] > SIGNIFICANT:
        return " "
    return "+" if own.mean(metric) > first.mean(metric) else "-"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def report(measured: Measured, scores: Sequence[Scores]) -> dict[str, Any]:
    """Everything, for JSON: figures, p-values against the first, and each query's own."""
    groups = categories(measured.queries)
    return {
        "warnings": list(measured.warnings),
        "queries": [
            {
                "query": query.label.query,
                "category": query.label.category,
                "collections": list(query.collections),
                "expected": [_shown(key) | {"grade": grade} for key, grade in query.grades.items()],
            }
            for query in measured.queries
        ],
        "runs": [
            {
                "algorithm": run.algorithm,
                "metrics": {metric: own.mean(metric) for metric in own.per_query},
                "p_values": dict(own.p_values),
                "latency_ms": latency(run),
                "categories": {
                    name: {metric: own.mean(metric, places) for metric in own.per_query}
                    for name, places in groups.items()
                },
                "queries": [
                    {metric: values[place] for metric, values in own.per_query.items()}
                    | {"first": [_shown(key) for key in found[:FIRST]]}
                    for place, found in enumerate(run.found)
                ],
            }
            for run, own in zip(measured.runs, scores, strict=True)
        ],
    }


def _shown(key: Key) -> dict[str, Any]:
    return {"collection": key[0] or None, "id": key[1] or None}
