"""The JSON that a browser reads."""

import base64
import json
import uuid
from dataclasses import replace

import numpy as np
import pytest

from mcp_server_qdrant.core.datatypes import Document, Result, Sample, SearchPage
from mcp_server_qdrant.core.notation import short_id
from mcp_server_qdrant.projection.encode import SNIPPETS, encode
from mcp_server_qdrant.projection.shapes import (
    Facet,
    Group,
    Map,
    Neighbours,
    Panel,
    Place,
    Region,
    View,
)

UUIDS = tuple(str(uuid.UUID(int=7**40 + number)) for number in range(3))


def group(name: str, ids, positions) -> tuple[Group, np.ndarray]:
    count = len(ids)
    points = Sample(
        ids=tuple(ids),
        documents=tuple(map(short_id, ids)),
        titles=tuple(f"title {one}" for one in range(count)),
        snippets=("s" * 200,) * count,
        texts=("",) * count,
        facts=({},) * count,
        vectors=np.zeros((count, 4)),
    )
    made, middle = np.array(positions, np.float32), np.zeros(4, np.float32)
    return Group(name, 100, points, (0.0, 0.0, 0.0), 0.5, {}, middle), made


def panel(*placed: tuple[Group, np.ndarray], neighbours=None) -> Panel:
    reduced = np.concatenate([positions for _, positions in placed])
    made = Panel(
        "model", tuple(group for group, _ in placed), (0.5, 0.25, 0.12345), (FACET,), None, reduced
    )
    if neighbours is None:
        return made
    places, region_of = np.array(neighbours, np.float32), np.array([0, 255], np.uint8)
    return replace(made, neighbours=Neighbours(places, region_of, (REGION,)))


FACET = Facet("tags", ("x", "y"), np.array([1, 0], np.uint8))
REGION = Region("beta wing", ["beta wing", "alpha"], 1, 0)


def positions(encoded: dict) -> np.ndarray:
    one = encoded["panels"][0]
    raw = np.frombuffer(base64.b64decode(one["xyz"]), "<i2")
    return raw.reshape(-1, 3) * one["scale"]


def test_positions_come_back_to_a_thirty_thousandth():
    spots = [[0.5, -0.25, 0.125], [-1.5, 0.0, 0.75]]
    encoded = encode(View(Map((panel(group("a", [1, 2], spots)),))))

    assert positions(encoded) == pytest.approx(np.array(spots), abs=1.5 / 32_767)
    assert encoded["panels"][0]["explained"] == [0.5, 0.25, 0.1235]


def test_a_map_of_one_place_has_a_scale_all_the_same():
    encoded = encode(View(Map((panel(group("a", [1], [[0, 0, 0]])),))))

    assert positions(encoded).tolist() == [[0, 0, 0]]


def test_points_are_told_group_after_group():
    both = panel(group("a", UUIDS[:2], np.zeros((2, 3))), group("b", (5, 2**64 - 1), [[0] * 3] * 2))
    (one,) = encode(View(Map((both,))))["panels"]

    assert one["ids"] == [*UUIDS[:2], "5", str(2**64 - 1)]
    assert one["titles"] == ["title 0", "title 1"] * 2
    assert [of["count"] for of in one["groups"]] == [2, 2]


def test_seventy_bytes_per_point_beside_the_titles():
    count = 10_000
    ids = [str(uuid.UUID(int=number**9 + 1)) for number in range(count)]
    big = group("a", ids, np.random.default_rng(0).normal(size=(count, 3)))
    encoded = encode(View(Map((panel(big),))))
    titles = sum(len(title) for title in big[0].points.titles)

    assert "snippets" not in encoded["panels"][0]
    size = len(json.dumps(encoded, separators=(",", ":")))
    assert (size - titles) / count < 70


def test_snippets_come_along_where_there_are_few():
    few = panel(group("a", range(SNIPPETS), np.zeros((SNIPPETS, 3))))
    more = panel(group("a", range(SNIPPETS + 1), np.zeros((SNIPPETS + 1, 3))))

    assert encode(View(Map((few,))))["panels"][0]["snippets"][0] == "s" * 100
    assert "snippets" not in encode(View(Map((more,))))["panels"][0]


def test_a_search_is_told_with_places_and_none():
    first, second = Document(1, "a", "text", "t" * 90), Document(UUIDS[0], "b", "text")
    results = [Result(first, 0.87654, 1.0), Result(second, 0.5, 1.0)]
    view = View(
        Map((panel(group("a", [1], [[0, 0, 0]])),), ("b: keywords only",)),
        SearchPage("words", results, ()),
        (Place(0, (0.1234567, 0.2, 0.3), near={"a": 0.98765}),),
        (Place(0, (1.0, 2.0, 3.0)), None),
        ("One result lies elsewhere.",),
    )
    encoded = encode(view)

    assert encoded["query"] == "words"
    assert encoded["queries"] == [{"panel": 0, "at": [0.12346, 0.2, 0.3], "neighbours": None}]
    assert encoded["hits"][0] == {
        "rank": 1,
        "collection": "a",
        "id": "1",
        "document": "1",
        "relevance": 0.877,
        "title": "t" * 60,
        "snippet": "text",
        "panel": 0,
        "at": [1.0, 2.0, 3.0],
        "neighbours": None,
    }
    assert (encoded["hits"][1]["panel"], encoded["hits"][1]["at"]) == (None, None)
    assert encoded["notes"] == ["b: keywords only", "One result lies elsewhere."]


def test_regions_facets_and_the_second_layout_go_along():
    spots = [[0.5, -0.25, 0.125], [-1.5, 0.0, 0.75]]
    made = panel(group("a", [1, 2], spots), neighbours=[[3, -30], [0.5, 12]])
    (one,) = encode(View(Map((made,), coming=True)))["panels"]

    assert one["neighbours"]["regions"] == [
        {"name": "beta wing", "words": ["beta wing", "alpha"], "size": 1, "point": 0}
    ]
    assert base64.b64decode(one["neighbours"]["region_of"]) == b"\0\xff"
    assert base64.b64decode(one["facets"][0].pop("codes")) == b"\1\0"
    assert one["facets"] == [{"key": "tags", "values": ("x", "y")}]
    places = np.frombuffer(base64.b64decode(one["neighbours"]["xy"]), "<i2").reshape(-1, 2)
    assert places * one["neighbours"]["scale"] == pytest.approx(
        np.array([[3, -30], [0.5, 12]]), abs=30 / 32_767
    )
    assert encode(View(Map((), coming=True)))["coming"] is True
