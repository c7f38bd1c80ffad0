"""The figures are those one computes by hand."""

import math

import pytest

from mcp_server_qdrant.core.datatypes import Algorithm
from mcp_server_qdrant.evaluation.figures import categories, latency, score
from mcp_server_qdrant.evaluation.labels import Label
from mcp_server_qdrant.evaluation.run import JudgedQuery, Key, Measurement, Run


def keys(names: str) -> list[Key]:
    return [("notes", name) for name in names]


def query(category: str | None = None, **grades: int) -> JudgedQuery:
    expected = {("notes", name): grade for name, grade in grades.items()}
    return JudgedQuery(Label(query="q", expected=("a",), category=category), ("notes",), expected)


def run(found: list[str], deep: list[str] | None = None, algorithm: Algorithm = "hybrid") -> Run:
    shown = [keys(names) for names in found]
    below = [keys(names) for names in deep] if deep else shown
    return Run(algorithm, shown, below, [1.0] * len(found))


def measured(queries: list[JudgedQuery], *runs: Run) -> Measurement:
    return Measurement(queries, runs, ())


def test_each_metric_of_each_query():
    queries = [query(a=2, b=1), query(a=1), query(a=1)]
    (scores,) = score(measured(queries, run(["bxa", "xyzwva", ""], ["b", "xa", ""])))

    ideal = 2 + 1 / math.log2(3)
    assert {name: list(values) for name, values in scores.per_query.items()} == {
        "best@1": [0, 0, 0],
        "hit@1": [1, 0, 0],
        "hit@5": [1, 0, 0],
        "hit@10": [1, 1, 0],
        "MRR@10": [1, pytest.approx(1 / 6), 0],
        "nDCG@10": [
            pytest.approx((1 + 2 / math.log2(4)) / ideal),
            pytest.approx(1 / math.log2(7)),
            0,
        ],
        "recall@100": [0.5, 1, 0],
    }


def test_what_lies_below_the_tenth_place_counts_for_nothing_but_the_recall():
    (scores,) = score(measured([query(a=1)], run(["bcdefghijka"])))

    assert [scores.mean(name) for name in scores.per_query] == [0, 0, 0, 0, 0, 0, 1]


def test_a_query_whose_label_was_found_nowhere_is_missed():
    (scores,) = score(measured([query(nowhere=1), query(a=1)], run(["xy", "a"])))

    assert scores.per_query["recall@100"] == [0, 1]
    assert scores.mean("nDCG@10") == 0.5


def test_the_same_id_in_another_collection_is_another_document():
    other = Run("hybrid", [[("mail", "a")]], [[("mail", "a")]], [1.0])
    (scores,) = score(measured([query(a=1)], other))

    assert scores.mean("hit@1") == 0


def test_p_is_that_of_fishers_randomisation_test_against_the_first_run():
    queries = [query(a=1) for _ in range(4)]
    first, second = score(measured(queries, run(["x"] * 4), run(["x", "a", "a", "a"])))

    # Of the eight ways to give the three differences a sign, two are as far from 0.
    assert second.p_values["hit@1"] == pytest.approx(0.25, abs=0.02)
    assert set(first.p_values.values()) == {1.0}


def test_a_document_that_stands_twice_counts_once():
    (scores,) = score(measured([query(a=1, b=1)], run(["aab"])))

    assert scores.per_query["recall@100"] == [1]
    assert scores.per_query["nDCG@10"] == [1]


def test_p_is_the_same_at_every_call_and_1_where_nothing_differs():
    queries = [query(a=1) for _ in range(5)]
    runs = run(["xa", "a", "a", "xya", "a"]), run(["a", "a", "xa", "a", "a"])
    again = [score(measured(queries, *runs))[1].p_values for _ in range(2)]

    assert again[0] == again[1]
    assert again[0]["recall@100"] == 1.0
    assert 0 < again[0]["MRR@10"] < 1


def test_latency_is_a_median_and_a_95th_percentile():
    one = Run("hybrid", milliseconds=[float(n) for n in range(1, 102)])

    assert latency(one) == {"p50": 51.0, "p95": 96.0}


def test_categories_are_those_of_the_labels_and_none_where_there_is_none():
    queries = [query("typo", a=1), query(None, a=1), query("tag", a=1), query("typo", a=1)]
    (scores,) = score(measured(queries, run(["a", "a", "x", "x"])))

    assert categories(queries) == {"typo": [0, 3], "tag": [2]}
    assert scores.mean("hit@1", [0, 3]) == 0.5
