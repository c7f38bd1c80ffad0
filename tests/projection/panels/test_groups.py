"""Panels of drawn points, in exact numbers."""

import numpy as np
import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, Sample, Target
from mcp_server_qdrant.projection.panels import VALUES, cosines, find_facets, lay_out


def target(name: str, model: str = "m", size: int = 2, points: int = 0) -> Target:
    return Target(name, points, DenseLeg("d", size, "cosine", model), None)


def drawn(*vectors: list[float], without: int = 0) -> Sample:
    names = tuple(f"t{number}" for number in range(len(vectors)))
    made = np.array(vectors, np.float32) if vectors else np.zeros((0, 2), np.float32)
    facts = ({},) * len(vectors)
    return Sample(tuple(range(len(vectors))), names, names, names, names, facts, made, without)


def test_two_groups_lie_apart_with_their_middles_and_spreads():
    found = lay_out(
        [(target("a", points=9), drawn([2, 0], [2, 0])), (target("b"), drawn([0, 3], [0, -3]))]
    )

    (panel,) = found.panels
    a, b = panel.groups
    assert (panel.model, panel.count, found.notes) == ("m", 4, ())
    assert (a.collection, a.total, b.total) == ("a", 9, 2)
    assert panel.explained == pytest.approx((2 / 3, 1 / 3, 0))  # 2 and 1 of 3
    assert (a.spread, b.spread) == pytest.approx((0, 1))
    assert panel.reduced[:2, :3] == pytest.approx(np.array([[0, 0.5, 0]] * 2), abs=1e-6)
    assert panel.reduced[2:, 0] == pytest.approx([1, -1])
    assert a.centre == pytest.approx((0, 0.5, 0), abs=1e-6)
    assert a.near == pytest.approx({"b": 0}, abs=1e-6)  # the middle of b is no direction
    assert a.points.vectors.size == 0, "a map that is kept keeps no vectors"


def test_collections_of_different_models_are_never_on_one_panel():
    found = lay_out(
        [
            (target("a", "one"), drawn([1, 0], [0, 1])),
            (target("b", "two", 3), drawn([1, 0, 0], [0, 1, 0])),
            (target("c", "one"), drawn([0, 1])),
            (target("d", "one", 3), drawn([1, 0, 0])),
        ]
    )

    names = [(panel.model, [group.collection for group in panel.groups]) for panel in found.panels]
    assert names == [("one", ["a", "c"]), ("two", ["b"]), ("one", ["d"])]


def test_nothing_drawn_is_no_panel():
    assert lay_out([], ["a: keywords only"]).notes == ("a: keywords only",)
    assert lay_out([(target("a"), drawn())]).notes == ("a: it is empty",)
    assert lay_out([(target("a"), drawn(without=2))]).notes == (
        "a: 2 of the points drawn have no vector",
    )


def test_nearest_comes_first_and_nothing_is_near_to_nowhere():
    middles = {"a": np.array([2, 0], np.float32), "b": np.array([1, 1], np.float32)}

    assert cosines(middles, np.array([0, 1], np.float32)) == pytest.approx({"b": 0.5**0.5, "a": 0})
    assert list(cosines(middles, np.array([0, 1], np.float32))) == ["b", "a"]
    assert cosines(middles, np.zeros(2, np.float32)) == {"a": 0, "b": 0}


def test_keys_with_few_values_tags_first():
    facts = [{"status": ("open",), "tags": ("a", "b")}, {"status": ("done",)}, {"tags": ("b",)}]
    tags, status = find_facets(facts)

    assert (tags.key, tags.values, tags.codes.tolist()) == ("tags", ("b", "a"), [0, 2, 0])
    assert (status.key, status.values, status.codes.tolist()) == (
        *("status", ("open", "done")),
        [0, 1, 2],
    )


def test_a_key_with_one_value_or_many_or_few_points_is_none():
    facts = [{"one": ("x",), "many": (str(n),)} for n in range(VALUES + 1)]
    facts[0] = {**facts[0], "rare": ("y",)}

    assert find_facets(facts) == ()


def test_age_is_by_day_month_or_year_and_rises():
    for days, shown in (
        (["2026-01-02", "2026-01-01"], ("2026-01-01", "2026-01-02")),
        ([f"2026-0{n % 3 + 1}-{n + 10}" for n in range(12)], ("2026-01", "2026-02", "2026-03")),
        ([f"{2000 + n}-01-01" for n in range(20)], tuple(str(2012 + n) for n in range(8))),
    ):
        (age,) = find_facets([{"created_at": (day,)} for day in days])
        assert age.values == shown
    assert age.codes.tolist() == [0] * 0 + [8] * 12 + list(range(8))
