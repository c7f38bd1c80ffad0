"""Figures as tables to read and as JSON to keep."""

from collections.abc import Sequence
from typing import Any

from mcp_server_qdrant.evaluation.run import JudgedQuery, Key, Measured, Run
from mcp_server_qdrant.evaluation.scores import Scores, categories, latency

SIGNIFICANT = 0.05
TITLES = {"mrr@10": "MRR@10", "ndcg@10": "nDCG@10"}
SHOWN = 3
MARKS = (
    f"+ - better, worse than the first row (Fisher's randomisation test, p <= {SIGNIFICANT}); "
    "milliseconds inside the server."
)


def tables(measured: Measured, scores: Sequence[Scores]) -> str:
    """The report: a row per algorithm, then one table per metric that is split by category."""
    names = [run.algorithm for run in measured.runs]
    metrics = list(scores[0].per_query)
    times = [latency(run) for run in measured.runs]
    rows = [
        [name, *(_cell(scores, row, metric) for metric in metrics), *_times(times[row])]
        for row, name in enumerate(names)
    ]
    searched = dict.fromkeys(name for query in measured.queries for name in query.collections)
    blocks = [
        f"{len(measured.queries)} queries on {', '.join(searched)}; {measured.limit} results each",
        _table(["", *(TITLES.get(metric, metric) for metric in metrics), "p50 ms", "p95 ms"], rows),
        MARKS if len(rows) > 1 else "Milliseconds inside the server.",
    ]
    groups = categories(measured.queries)
    for metric in (metrics[0], "ndcg@10") if groups else ():
        head = [TITLES.get(metric, metric), *(f"{name} ({len(at)})" for name, at in groups.items())]
        cells = [
            [name, *(f"{own.mean(metric, at):.3f} " for at in groups.values())]
            for name, own in zip(names, scores, strict=True)
        ]
        blocks.append(_table(head, cells))
    return "\n\n".join(blocks)


def _cell(scores: Sequence[Scores], row: int, metric: str) -> str:
    mean, own = scores[row].mean(metric), scores[row]
    mark = " "
    if own.p_values[metric] <= SIGNIFICANT:
        mark = "+" if mean > scores[0].mean(metric) else "-"
    return f"{mean:.3f}{mark}"


def _times(times: dict[str, float]) -> list[str]:
    return [f"{value:.1f}" for value in times.values()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left and the others to the right."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
        for line in lines
    )


def report(measured: Measured, scores: Sequence[Scores]) -> dict[str, Any]:
    """Everything, for JSON: figures, p-values against the first, and each query's own."""
    groups = categories(measured.queries)
    return {
        "limit": measured.limit,
        "warnings": list(measured.warnings),
        "queries": [_query(query) for query in measured.queries],
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
                "queries": _each(run, own),
            }
            for run, own in zip(measured.runs, scores, strict=True)
        ],
    }


def _query(query: JudgedQuery) -> dict[str, Any]:
    return {
        "query": query.label.query,
        "category": query.label.category,
        "collections": list(query.collections),
        "expected": [{**_shown(key), "grade": grade} for key, grade in query.grades.items()],
    }


def _each(run: Run, own: Scores) -> list[dict[str, Any]]:
    """Per query its figures and what came first."""
    return [
        {metric: values[place] for metric, values in own.per_query.items()}
        | {"first": [_shown(key) for key in keys[:SHOWN]]}
        for place, keys in enumerate(run.found)
    ]


def _shown(key: Key) -> dict[str, str | None]:
    collection, document = key
    return {"collection": collection or None, "id": document}
