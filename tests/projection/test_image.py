"""The image of a map: where things are on it, in pixels."""

import io
from typing import Any

import numpy as np
from PIL import Image

from mcp_server_qdrant.core.datatypes import Document, Drawn, Result, SearchPage
from mcp_server_qdrant.projection.image import COLOURS, HEIGHT, LEGEND, PANELS, WIDTH, png
from mcp_server_qdrant.projection.shapes import Group, Map, Panel, Place, View


def panel(*positions, groups: int = 1) -> Panel:
    made = np.array(positions, np.float32)
    count = len(made)
    drawn = Drawn(tuple(range(count)), *[("t",) * count] * 4, ({},) * count, made)
    several = tuple(
        Group(f"g{n}", 9, drawn, (0, 0, 0), 0.5, {}, np.zeros(2)) for n in range(groups)
    )
    reduced = np.concatenate([made] * groups)
    return Panel("model", several, (0.5, 0.3, 0.1), (), None, reduced)


def pixels(view: View) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png(view))).convert("RGB")).astype(int)


def near(image: np.ndarray, colour: str) -> np.ndarray:
    """Where the image has this colour, or nearly: rows of (down, right), legend left out."""
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    return np.argwhere(np.abs(image[:, :WIDTH] - wanted).max(axis=2) < 24)


def test_points_lie_left_and_right_as_on_their_axes():
    spots = near(pixels(View(Map((panel([-1, 0, 0], [1, 0, 0]),)))), COLOURS[0])

    left, right = spots[spots[:, 1] < WIDTH / 2], spots[spots[:, 1] > WIDTH / 2]
    assert abs(left[:, 1].mean() - 30) < 2
    assert abs(right[:, 1].mean() - (WIDTH - 30)) < 2
    assert abs(left[:, 0].mean() - right[:, 0].mean()) < 1


def test_up_is_up():
    view = View(Map((panel([0, -1, 0], [0, 1, 0]),)), **hit_at((0, 1, 0)))

    assert near(pixels(view), "#d00000")[:, 0].mean() < HEIGHT / 2


def hit_at(position) -> dict[str, Any]:
    found = Result(Document(1, "g0", "text"), 0.5, 1.0)
    return {"page": SearchPage("q", [found], ()), "places": (Place(0, position),)}


def test_one_place_and_many_collections_can_be_drawn():
    image = pixels(View(Map((panel([0, 0, 0], groups=40),)), queries=(Place(0, (0, 0, 0)),)))

    assert image.shape == (HEIGHT, WIDTH + LEGEND, 3)
    assert len(near(image, "#1b1f24")) > 50


def test_panels_lie_one_below_the_other_up_to_four():
    image = pixels(View(Map(tuple(panel([-1, 0, 0], [1, 1, 0]) for _ in range(6)))))

    assert image.shape[0] == PANELS * HEIGHT
    assert {row // HEIGHT for row in near(image, COLOURS[0])[:, 0]} == {0, 1, 2, 3}


def test_the_same_map_gives_the_same_image():
    view = View(Map((panel([-1, 0, 0], [1, 1, 0]),)), **hit_at((0.5, 0.5, 0)))

    assert png(view) == png(view)
