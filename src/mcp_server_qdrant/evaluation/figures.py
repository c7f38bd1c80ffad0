"""Computes the metrics of a measurement; prints them as tables and as JSON.

In numpy, since ranx would need numba, and ir-measures trec_eval: both larger than this server.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mcp_server_qdrant.core.notation import first_few
from mcp_server_qdrant.evaluation.run import JudgedQuery, Key, Measurement, Run

SHOWN = 10  # results that count, except for the recall
NAMED = 10  # queries without a hit that are listed
FLIPS = 10_000  # rounds of the randomisation test
AT_ONCE = 100  # rounds per array
SIGNIFICANT = 0.05
NOTE = (
    "Milliseconds inside the server. + -: better, worse than the first row "
    f"(Fisher's randomisation test, p <= {SIGNIFICANT})."
)


@dataclass(frozen=True, slots=True)
class Scores:
    """Metric -> value per query, in order; and metric -> p against the first run."""

    per_query: Mapping[str, Sequence[float]]
    p_values: Mapping[str, float]

    def mean(self, metric: str, places: Sequence[int] | None = None) -> float:
        """The mean over all queries, or over those with the indexes `places`."""
        values = self.per_query[metric]
        chosen = values if places is None else [values[place] for place in places]
        return math.fsum(chosen) / len(chosen)


def score(measured: Measurement) -> list[Scores]:
    """The metrics of every run, tested against the first run."""
    scored: list[dict[str, list[float]]] = []
    for run in measured.runs:
        queries = zip(measured.queries, run.found, run.deep, strict=True)
        rows = [_measure(query.grades, found, deep) for query, found, deep in queries]
        scored.append({metric: [row[metric] for row in rows] for metric in rows[0]})
    return [
        Scores(own, {metric: p_value(scored[0][metric], own[metric]) for metric in own})
        for own in scored
    ]


def _measure(
    grades: Mapping[Key, int], found: Sequence[Key], deep: Sequence[Key]
) -> dict[str, float]:
    """The metrics of one query. Any grade is a hit; best@1 requires the best grade.

    MRR and nDCG are those of trec_eval: the gains are the plain grades (Järvelin and Kekäläinen
    2002).
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
    """The probability that chance makes such a difference: Fisher's randomisation test.

    Deterministic. See Smucker, Allan and Carterette 2007.
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
    """Milliseconds per search: median and 95th percentile."""
    p50, p95 = np.percentile(run.milliseconds, [50, 95])
    return {"p50": float(p50), "p95": float(p95)}


def categories(queries: Sequence[JudgedQuery]) -> dict[str, list[int]]:
    """Category -> the indexes of its queries."""
    found: dict[str, list[int]] = {}
    for place, query in enumerate(queries):
        if query.label.category is not None:
            found.setdefault(query.label.category, []).append(place)
    return found


def tables(measured: Measurement, scores: Sequence[Scores]) -> str:
    """A table of the algorithms, some metrics by category, and the queries without a hit."""
    runs = [*zip(measured.runs, scores, strict=True)]
    metrics = list(scores[0].per_query)
    rows = [["", *metrics, "p50 ms", "p95 ms"]]
    for run, own in runs:
        cells = [f"{own.mean(metric):.3f}{_mark(scores[0], own, metric)}" for metric in metrics]
        rows.append([run.algorithm, *cells, *(f"{value:.1f}" for value in latency(run).values())])
    searched = dict.fromkeys(name for query in measured.queries for name in query.collections)
    blocks = [f"{len(measured.queries)} queries on {', '.join(searched)}", _align(rows), NOTE]
    groups = categories(measured.queries)
    for metric in ("best@1", "nDCG@10") if groups else ():
        rows = [[metric, *(f"{name} ({len(places)})" for name, places in groups.items())]]
        for run, own in runs:
            means = (f"{own.mean(metric, places):.3f} " for places in groups.values())
            rows.append([run.algorithm, *means])
        blocks.append(_align(rows))
    missed = []
    for run, own in runs:
        hits = zip(measured.queries, own.per_query["hit@10"], strict=True)
        if names := [repr(query.label.query) for query, hit in hits if not hit]:
            missed.append(f"{run.algorithm} missed {first_few(names, NAMED)}")
    return "\n\n".join([*blocks, "\n".join(missed)]).rstrip()


def as_json(measured: Measurement, scores: Sequence[Scores]) -> str:
    """By algorithm: means, p against the first one, latency, and the metrics of each query."""
    runs = {
        run.algorithm: {
            "mean": {metric: own.mean(metric) for metric in own.per_query},
            "p_values": own.p_values,
            "latency_ms": latency(run),
            "queries": [
                {
                    "query": query.label.query,
                    "expected": list(query.grades),
                    "found": found[:SHOWN],
                    **{metric: values[place] for metric, values in own.per_query.items()},
                }
                for place, (query, found) in enumerate(
                    zip(measured.queries, run.found, strict=True)
                )
            ],
        }
        for run, own in zip(measured.runs, scores, strict=True)
    }
    return json.dumps(runs, indent=1, ensure_ascii=False)


def _mark(first: Scores, own: Scores, metric: str) -> str:
    if own.p_values[metric] > SIGNIFICANT:
        return " "
    return "+" if own.mean(metric) > first.mean(metric) else "-"


def _align(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )
