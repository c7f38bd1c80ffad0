"""A map as a PNG, for clients that show images and render no apps."""

import io
from typing import Any

import numpy as np

from mcp_server_qdrant.core.maps import Panel, Place, Position, View

WIDTH, HEIGHT, LEGEND, MARGIN = 720, 540, 190, 30  # pixels of one panel
SCALE = 2  # drawn twice as large and made smaller: smooth edges
PANELS, NAMES, TITLE = 4, 18, 60  # that have room; characters
DOT, HIT, ARM = 4, 8, 9
PAPER, INK, PALE, MARK = "#ffffff", "#1b1f24", "#6b7280", "#d00000"
# Okabe and Ito's colours, told apart by the colour-blind too; without the one of the query.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#7a5195", "#444444")


def png(view: View) -> bytes:
    """The first panels, one below the other, on their first two axes; at least one panel."""
    from PIL import Image, ImageDraw, ImageFont

    panels = view.map.panels[:PANELS]
    image = Image.new("RGB", (WIDTH + LEGEND, HEIGHT * len(panels)), PAPER)
    font = ImageFont.load_default(13 * SCALE)
    for index, panel in enumerate(panels):
        sheet = Image.new("RGB", ((WIDTH + LEGEND) * SCALE, HEIGHT * SCALE), PAPER)
        _Sheet(ImageDraw.Draw(sheet), font, panel).draw(view, index)
        small = sheet.resize((WIDTH + LEGEND, HEIGHT), Image.Resampling.LANCZOS)
        image.paste(small, (0, HEIGHT * index))
    out = io.BytesIO()
    image.quantize(128).save(out, "PNG", optimize=True)
    return out.getvalue()


class _Sheet:
    """One panel on a canvas; all lengths are pixels of the image."""

    def __init__(self, canvas: Any, font: Any, panel: Panel) -> None:
        self._canvas = canvas
        self._font = font
        self._panel = panel

    def draw(self, view: View, index: int) -> None:
        """Points, names of regions, hits with their ranks, the query; title and legend."""
        panel = self._panel
        hits = [hit for hit in view.hits if hit.place and hit.place.panel == index]
        queries = [one for one in view.queries if one.panel == index]
        points = panel.neighbours.places if panel.neighbours else panel.reduced[:, :2]
        marked = [_seen(hit.place) for hit in hits if hit.place] + [_seen(one) for one in queries]
        spots = _fitted(np.array([*points.tolist(), *marked]))
        colours = [n for n, group in enumerate(panel.groups) for _ in group.points.ids]
        for spot, number in zip(spots, colours, strict=False):
            self._circle(spot, DOT, fill=COLOURS[number % len(COLOURS)])
        self._regions(spots)
        for hit, (x, y) in reversed([*zip(hits, spots[len(points) :], strict=False)]):
            self._circle((x, y), HIT, outline=MARK)
            self._text(x + HIT + 2, y - HIT, str(hit.rank), MARK)
        for x, y in spots[len(points) + len(hits) :]:
            self._line(x - ARM, y, x + ARM, y)
            self._line(x, y - ARM, x, y + ARM)
        shares = f"{sum(panel.explained[:2]):.0%} of the differences on two axes"
        said = "what is alike lies near" if panel.neighbours else shares
        self._text(MARGIN, 8, f"{panel.model[:TITLE]}: {said}", INK)
        self._legend()

    def _regions(self, spots: Any) -> None:
        """The names of the regions, each inside its own, the largest first; none over another."""
        taken = list[tuple[float, float, float, float]]()
        for one in self._panel.regions:
            spot = tuple(spots[one.point] * SCALE)
            box = self._canvas.textbbox(spot, one.name, font=self._font, anchor="mm")
            if any(
                box[0] < right and box[2] > left and box[1] < low and box[3] > high
                for left, high, right, low in taken
            ):
                continue
            taken.append(box)
            outline = {"stroke_width": 3 * SCALE, "stroke_fill": PAPER}
            self._canvas.text(spot, one.name, INK, self._font, "mm", **outline)

    def _legend(self) -> None:
        groups = self._panel.groups
        left = WIDTH + 14
        for number, group in enumerate(groups[:NAMES]):
            top = MARGIN + 16 + number * 24
            self._circle((left, top), 6, fill=COLOURS[number % len(COLOURS)])
            self._text(left + 12, top - 8, group.collection[:22], INK)
        if len(groups) > NAMES:
            top = MARGIN + 8 + NAMES * 24
            self._text(left + 12, top, f"and {len(groups) - NAMES} more", PALE)

    def _circle(self, spot: Any, radius: int, **colours: str) -> None:
        (x, y), width = spot, 2 * SCALE
        box = np.array([x - radius, y - radius, x + radius, y + radius]) * SCALE
        self._canvas.ellipse(box.tolist(), width=width, **colours)

    def _line(self, *ends: float) -> None:
        self._canvas.line([end * SCALE for end in ends], fill=INK, width=3 * SCALE)

    def _text(self, left: float, top: float, words: str, colour: str) -> None:
        self._canvas.text((left * SCALE, top * SCALE), words, fill=colour, font=self._font)


def _seen(place: Place) -> Position:
    return (place.neighbours or place.position)[:2]


def _fitted(spots: Any) -> Any:
    """Places (n, 2) as pixels of a panel."""
    low, high = spots.min(axis=0), spots.max(axis=0)
    room = np.array([WIDTH - 2 * MARGIN, HEIGHT - 3 * MARGIN])
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    middle = np.array([WIDTH, HEIGHT + MARGIN]) / 2
    return middle + (spots - (low + high) / 2) * [scale, -scale]
