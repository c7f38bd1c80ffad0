"""Layouts on disk: there after a restart, of one caller each, and lost without harm."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from mcp_server_qdrant.projection import kept
from mcp_server_qdrant.projection.kept import FILE, Layout, LayoutCache
from tests.projection.test_neighbours import COUNT, panel, vectors


@pytest.fixture
def layout() -> Layout:
    places = np.arange(2 * COUNT, dtype=np.float32).reshape(COUNT, 2)
    return Layout.of(replace(panel(vectors()), neighbours=places))


@pytest.fixture
def cache(tmp_path) -> LayoutCache:
    return LayoutCache(tmp_path, "engine")


def same(found: list[Layout], *wanted: Layout) -> bool:
    return [(one.model, one.spots.tolist(), one.places.tolist()) for one in found] == [
        (one.model, one.spots.tolist(), one.places.tolist()) for one in wanted
    ]


def test_a_layout_knows_its_points_by_collection_id_and_text(layout):
    more = panel(vectors(COUNT + 3))
    places, known = layout.places_of(kept.spots_of(more))

    assert places[:COUNT].tolist() == np.arange(2 * COUNT).reshape(COUNT, 2).tolist()
    assert known.tolist() == [True] * COUNT + [False] * 3


def test_what_was_saved_is_loaded_by_another_process(cache, tmp_path, layout):
    cache.save(["ann", "1000", "notes"], [layout, layout])

    assert same(LayoutCache(tmp_path, "engine").load(["ann", "1000", "notes"]), layout, layout)
    cache.save(["ann", "1000", "notes"], [layout])
    assert same(cache.load(["ann", "1000", "notes"]), layout)


def test_other_engines_callers_and_collections_have_nothing_of_it(cache, tmp_path, layout):
    cache.save(["ann", "1000", "notes"], [layout])

    assert LayoutCache(tmp_path, "engine, blue").load(["ann", "1000", "notes"]) == []
    assert cache.load(["bob", "1000", "notes"]) == []
    assert cache.load(["ann", "1000", "notes", "more"]) == []


def test_the_oldest_go_where_there_are_too_many_points(cache, layout, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 2 * COUNT)
    for name in "abc":
        cache.save([name], [layout])

    assert [len(cache.load([name])) for name in "abc"] == [0, 1, 1]


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE layouts SET places = x'00'",
        "UPDATE layouts SET places = zeroblob(0), spots = zeroblob(0)",
        "UPDATE layouts SET spots = x'0102030405'",
        "UPDATE layouts SET spots = 'text', places = 5",
    ],
)
def test_a_damaged_layout_is_none(cache, tmp_path, layout, harm):
    cache.save(["a"], [layout])
    with sqlite3.connect(tmp_path / FILE) as file:
        file.execute(harm)

    assert cache.load(["a"]) == []


def test_a_damaged_file_begins_anew(cache, tmp_path, layout):
    (tmp_path / FILE).write_bytes(b"no database " * 1000)

    assert cache.load(["a"]) == []
    cache.save(["a"], [layout])
    assert same(cache.load(["a"]), layout)
