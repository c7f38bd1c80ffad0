"""Results -> figures. Metrics and the test are ranx's (extra `eval`), loaded when needed."""

import importlib.util
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.extras import lacking
from mcp_server_qdrant.evaluation.run import Key, Measured, Query, Run

# No document's key: every collection has a name.
EXPECTED: Key = ("", "\x00expected")
FOUND: Key = ("", "\x00found")

# Ours -> ranx's. A result counts as a hit with any grade; nDCG has the gains as they are
# (Järvelin and Kekäläinen 2002, as BEIR and trec_eval compute it).
METRICS = {
    "hit@1": "hit_rate@1",
    "hit@5": "hit_rate@5",
    "hit@10": "hit_rate@10",
    "mrr@10": "mrr@10",
    "ndcg@10": "ndcg@10",
}
# Shown where labels are graded: whether the first result is one of the best grade.
BEST = "best@1"
RECALL = "recall@100"


def require_ranx() -> None:
    """Raise ConfigError unless the metrics are installed."""
    if importlib.util.find_spec("ranx") is None:
        raise ConfigError(lacking("eval"))


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
    """The metrics of every run, tested against the first run by Student's paired t-test.

    That, not Fisher's randomisation test: ranx's draws other random numbers each time, and both
    agree (Smucker, Allan and Carterette 2007).
    """
    truth = [query.grades for query in measured.queries]
    graded = any(len(set(grades.values())) > 1 for grades in truth)
    scored = [_metrics(truth, run, graded=graded) for run in measured.runs]
    first = scored[0]
    return [
        Scores(own, {metric: _p_value(first[metric], own[metric]) for metric in own})
        for own in scored
    ]


def _metrics(
    truth: Sequence[Mapping[Key, int]], run: Run, *, graded: bool
) -> dict[str, list[float]]:
    shown = ranked(truth, run.found, list(METRICS.values()))
    found = {name: shown[theirs] for name, theirs in METRICS.items()}
    if graded:
        best = [
            {key: 1 for key, grade in grades.items() if grade == max(grades.values())}
            for grades in truth
        ]
        found = {BEST: ranked(best, run.found, ["hit_rate@1"])["hit_rate@1"]} | found
    return found | {RECALL: ranked(truth, run.deep, [RECALL])[RECALL]}


def ranked(
    truth: Sequence[Mapping[Key, int]], found: Sequence[Sequence[Key]], metrics: list[str]
) -> dict[str, list[float]]:
    """The metrics of ranx per query, of documents in the order they were found.

    Where nothing is expected or found, something else stands for it: ranx wants one at least.
    """
    names = [f"q{place}" for place in range(len(truth))]
    numbers: dict[Key, int] = {}

    def short(key: Key) -> str:
        return f"d{numbers.setdefault(key, len(numbers))}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's
        import numba

        vars(numba.config).update(DISABLE_JIT=True)  # ranx would take half a minute to compile
        from ranx import Qrels, Run, evaluate

        qrels = Qrels(
            {
                name: {short(key): grade for key, grade in (grades or {EXPECTED: 1}).items()}
                for name, grades in zip(names, truth, strict=True)
            }
        )
        run = Run(
            {
                name: {short(key): 1 / place for place, key in enumerate(keys or [FOUND], 1)}
                for name, keys in zip(names, found, strict=True)
            }
        )
        evaluate(qrels, run, metrics)
    return {metric: [float(run.scores[metric][name]) for name in names] for metric in metrics}


def _p_value(first: Sequence[float], other: Sequence[float]) -> float:
    """The probability of so great a difference by chance; 1 where there is none."""
    if list(first) == list(other) or len(first) < 2:
        return 1.0
    import numpy
    from ranx.statistical_tests import paired_student_t_test

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's, where all differences are alike
        p, _ = paired_student_t_test(numpy.asarray(first), numpy.asarray(other))
    return float(p) if math.isfinite(p) else 1.0


def latency(run: Run) -> dict[str, float]:
    """Milliseconds per search: median, and what 95 of 100 stay below."""
    import numpy

    p50, p95 = numpy.percentile(run.milliseconds, [50, 95])
    return {"p50": float(p50), "p95": float(p95)}


def categories(queries: Sequence[Query]) -> dict[str, list[int]]:
    """Category -> the places of its queries."""
    found: dict[str, list[int]] = {}
    for place, query in enumerate(queries):
        if query.label.category is not None:
            found.setdefault(query.label.category, []).append(place)
    return found
