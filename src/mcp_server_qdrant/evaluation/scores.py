"""Results -> figures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mcp_server_qdrant.evaluation.run import JudgedQuery, Key, Measured, Run

SHOWN = 10  # the results that the metrics look at, but for the recall
FLIPS = 10_000
AT_ONCE = 100


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
    graded = any(len(set(query.grades.values())) > 1 for query in measured.queries)
    scored = [_metrics(measured.queries, run, graded=graded) for run in measured.runs]
    first = scored[0]
    return [
        Scores(own, {metric: p_value(first[metric], own[metric]) for metric in own})
        for own in scored
    ]


def _metrics(queries: Sequence[JudgedQuery], run: Run, *, graded: bool) -> dict[str, list[float]]:
    """A result counts as a hit with any grade; where there are several, best@1 asks for the best.

    MRR and nDCG are those of trec_eval: the gains are the grades as they are (Järvelin and
    Kekäläinen 2002).
    """
    wanted = [query.grades for query in queries]
    rows = [_gains(*one) for one in zip(wanted, run.found, strict=True)]
    deep = [_gains(*one) for one in zip(wanted, run.deep, strict=True)]
    best = [max(grades.values(), default=0) for grades in wanted]
    firsts = [float(bool(row) and 0 < top == row[0]) for row, top in zip(rows, best, strict=True)]
    return {
        **({"best@1": firsts} if graded else {}),
        **{f"hit@{k}": [float(any(row[:k])) for row in rows] for k in (1, 5, 10)},
        "mrr@10": [_reciprocal_rank(row[:SHOWN]) for row in rows],
        "ndcg@10": [_ndcg(row, grades) for row, grades in zip(rows, wanted, strict=True)],
        "recall@100": [
            sum(map(bool, row)) / max(len(grades), 1)
            for row, grades in zip(deep, wanted, strict=True)
        ],
    }


def _gains(grades: Mapping[Key, int], found: Sequence[Key]) -> list[int]:
    """The grade of each document found, in their order."""
    return [grades.get(key, 0) for key in dict.fromkeys(found)]


def _reciprocal_rank(row: Sequence[int]) -> float:
    return next((1 / place for place, gain in enumerate(row, 1) if gain), 0.0)


def _ndcg(row: Sequence[int], grades: Mapping[Key, int]) -> float:
    ideal = _dcg(sorted(grades.values(), reverse=True))
    return _dcg(row) / ideal if ideal else 0.0


def _dcg(row: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(row[:SHOWN], 1))


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
