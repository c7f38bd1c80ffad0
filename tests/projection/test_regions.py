"""The regions of the layout by neighbours: true to what is seen, and named."""

import numpy as np
import pytest

from mcp_server_qdrant.projection.regions import NONE, regions

pytest.importorskip("sklearn")
TOPICS = ("wing lift", "compiler grammar", "protein gene")
CORNERS = np.array([[0, 0], [40, 0], [0, 40]], np.float32)


def scattered(count: int) -> tuple[np.ndarray, list[str]]:
    """Points around three corners with a phrase each, and a tenth of them anywhere."""
    chance = np.random.default_rng(3)
    corner = np.arange(count) % 3
    places = CORNERS[corner] + chance.normal(size=(count, 2))
    places[::10] = chance.uniform(-200, 200, size=places[::10].shape)
    texts = [f"The study of {TOPICS[at]}" for at in corner]
    texts[::10] = ["Nothing of it"] * len(texts[::10])
    return places.astype(np.float32), texts


def test_each_blob_is_one_region_named_inside_it_by_its_own_words():
    places, texts = scattered(600)
    made = regions(places, texts)
    region_of, found = made.region_of, made.regions

    assert {one.name for one in found} == set(TOPICS)
    assert [one.size for one in found] == sorted((one.size for one in found), reverse=True)
    for number, one in enumerate(found):
        corner = CORNERS[TOPICS.index(one.name)]
        far = np.abs(places[region_of == number] - corner).max(axis=1)
        assert one.size == len(far) >= 170
        assert (far < 6).mean() >= 0.95
        assert np.abs(places[one.point] - corner).max() < 1


def test_what_holds_nowhere_together_has_no_name():
    places = np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2)
    found = regions(places.astype(np.float32), ["the same words"] * 400)

    assert found.regions == ()
    assert (found.region_of == NONE).all()


def test_the_same_points_make_the_same_regions():
    assert regions(*scattered(90)).regions == regions(*scattered(90)).regions
