"""A map as a PNG, for clients that show images but no apps."""

import io
from typing import Any

import numpy as np

from mcp_server_qdrant.projection.shapes import Panel, View

WIDTH, HEIGHT, LEGEND, MARGIN = 720, 540, 190, 30  # pixels of one panel
SCALE = 2  # drawn larger, then reduced for smooth edges
PANELS, NAMES, TITLE, NAME = 4, 18, 60, 22  # most panels and collections; characters
DOT, HIT, KEY, ARM, LINE = 8, 16, 12, 18, 48  # pixels before the reduction
PAPER, INK, PALE, MARK = "#ffffff", "#1b1f24", "#6b7280", "#d00000"
# Okabe and Ito's colours, distinct for the colour-blind too; without the query's.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#7a5195", "#444444")


def png(view: View) -> bytes:
    """Draw the first panels, one below the other, on two axes. Needs at least one panel."""
    from PIL import Image, ImageDraw, ImageFont

    wide, high = WIDTH + LEGEND, HEIGHT * len(view.map.panels[:PANELS])
    image = Image.new("RGB", (wide * SCALE, high * SCALE), PAPER)
    canvas = ImageDraw.Draw(image)
    canvas.font = ImageFont.load_default(13 * SCALE)
    for index, panel in enumerate(view.map.panels[:PANELS]):
        _draw(canvas, view, index, panel)
    small = image.resize((wide, high), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(128).save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw(canvas: Any, view: View, index: int, panel: Panel) -> None:
    """Draw points, names of regions, hits with their ranks, the query, title and legend."""
    top = index * HEIGHT * SCALE
    hits = [(rank, place) for rank, _, place in view.hits if place and place.panel == index]
    marks = [place for _, place in hits] + [one for one in view.queries if one.panel == index]
    points = panel.neighbours.places if panel.neighbours else panel.reduced[:, :2]
    marked = [(one.neighbours or one.position)[:2] for one in marks]
    spots = _fitted(np.array([*points.tolist(), *marked]))
    spots[:, 1] += top
    numbers = [n for n, group in enumerate(panel.groups) for _ in group.points.ids]
    for spot, number in zip(spots, numbers, strict=False):
        canvas.circle(spot, DOT, COLOURS[number % len(COLOURS)])
    _name_regions(canvas, panel, spots)
    for (rank, _), (x, y) in reversed([*zip(hits, spots[len(points) :], strict=False)]):
        canvas.circle((x, y), HIT, outline=MARK, width=4)
        canvas.text((x + HIT + 4, y - HIT), str(rank), MARK)
    for x, y in spots[len(points) + len(hits) :]:
        canvas.line([x - ARM, y, x + ARM, y], INK, 6)
        canvas.line([x, y - ARM, x, y + ARM], INK, 6)
    shares = f"{sum(panel.explained[:2]):.0%} of the variance on two axes"
    said = "similar texts are close" if panel.neighbours else shares
    canvas.text((MARGIN * SCALE, top + 16), f"{panel.model[:TITLE]}: {said}", INK)
    _key(canvas, [group.collection for group in panel.groups], top + MARGIN * SCALE)


def _name_regions(canvas: Any, panel: Panel, spots: Any) -> None:
    """Draw the regions' names, the largest region first; overlapping names are left out."""
    taken = list[tuple[float, float, float, float]]()
    for one in panel.regions:
        box = canvas.textbbox(spots[one.point], one.name, anchor="mm")
        if any(
            box[0] < right and box[2] > left and box[1] < low and box[3] > high
            for left, high, right, low in taken
        ):
            continue
        taken.append(box)
        outline = {"stroke_width": 6, "stroke_fill": PAPER}
        canvas.text(spots[one.point], one.name, INK, anchor="mm", **outline)


def _key(canvas: Any, names: list[str], top: int) -> None:
    """Draw the legend: the collections with their colours."""
    left = WIDTH * SCALE + 28
    for number, name in enumerate(names[:NAMES]):
        middle = top + 32 + number * LINE
        canvas.circle((left, middle), KEY, COLOURS[number % len(COLOURS)])
        canvas.text((left + 2 * KEY, middle), name[:NAME], INK, anchor="lm")
    if len(names) > NAMES:
        below = left + 2 * KEY, top + 32 + NAMES * LINE
        canvas.text(below, f"and {len(names) - NAMES} more", PALE, anchor="lm")


def _fitted(spots: Any) -> Any:
    """Positions (n, 2) in pixels of a panel, before the reduction."""
    low, high = spots.min(axis=0), spots.max(axis=0)
    room = np.array([WIDTH - 2 * MARGIN, HEIGHT - 3 * MARGIN]) * SCALE
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    middle = np.array([WIDTH, HEIGHT + MARGIN]) * SCALE / 2
    return middle + (spots - (low + high) / 2) * [scale, -scale]
