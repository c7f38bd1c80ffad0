"""What the points of a map can be coloured by."""

from mcp_server_qdrant.projection.facets import VALUES, facets


def test_keys_with_few_values_tags_first():
    facts = [{"status": ("open",), "tags": ("a", "b")}, {"status": ("done",)}, {"tags": ("b",)}]
    tags, status = facets(facts)

    assert (tags.key, tags.values, tags.codes.tolist()) == ("tags", ("b", "a"), [0, 2, 0])
    assert (status.key, status.values, status.codes.tolist()) == (
        *("status", ("open", "done")),
        [0, 1, 2],
    )


def test_a_key_with_one_value_or_many_or_few_points_is_none():
    facts = [{"one": ("x",), "many": (str(n),)} for n in range(VALUES + 1)]
    facts[0] = {**facts[0], "rare": ("y",)}

    assert facets(facts) == ()


def test_age_is_by_day_month_or_year_and_rises():
    for days, shown in (
        (["2026-01-02", "2026-01-01"], ("2026-01-01", "2026-01-02")),
        ([f"2026-0{n % 3 + 1}-{n + 10}" for n in range(12)], ("2026-01", "2026-02", "2026-03")),
        ([f"{2000 + n}-01-01" for n in range(20)], tuple(str(2012 + n) for n in range(8))),
    ):
        (age,) = facets([{"created_at": (day,)} for day in days])
        assert age.values == shown
    assert age.codes.tolist() == [0] * 0 + [8] * 12 + list(range(8))
