"""A map as a PNG, for clients that show images and render no apps."""

import io
from collections.abc import Sequence
from typing import Any

from mcp_server_qdrant.core.maps import Panel, Place, View

WIDTH, HEIGHT, LEGEND, MARGIN = 720, 540, 190, 30  # pixels of one panel
SCALE = 2  # drawn twice as large and made smaller: smooth edges
PANELS = 4
NAMES = 18
NEIGHBOURS = "what is alike lies near"
TITLE = 60
DOT, HIT = 4, 8
PAPER, INK, PALE, MARK = "#ffffff", "#1b1f24", "#6b7280", "#d00000"
# Okabe and Ito's colours, told apart by the colour-blind too; without the one of the query.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#7a5195", "#444444")


def png(view: View) -> bytes:
    """The first panels, one below the other, on their first two axes; at least one panel."""
    from PIL import Image, ImageDraw

    panels = view.map.panels[:PANELS]
    size = (WIDTH + LEGEND) * SCALE, HEIGHT * SCALE * len(panels)
    image = Image.new("RGB", size, PAPER)
    canvas = ImageDraw.Draw(image)
    for index, panel in enumerate(panels):
        _Sheet(canvas, panel, index).draw(view)
    small = image.resize((size[0] // SCALE, size[1] // SCALE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(128).save(out, "PNG", optimize=True)
    return out.getvalue()


class _Sheet:
    """One panel on the canvas."""

    def __init__(self, canvas: Any, panel: Panel, index: int) -> None:
        from PIL import ImageFont

        self._canvas = canvas
        self._panel = panel
        self._index = index
        self._top = index * HEIGHT
        self._font = ImageFont.load_default(13 * SCALE)
        self._fit: tuple[float, float, float] = (0.0, 0.0, 1.0)
        self._positions = panel.neighbours.places if panel.neighbours else panel.reduced[:, :2]

    def draw(self, view: View) -> None:
        """Points, then hits with their ranks, then the query; title and legend."""
        hits = {hit.rank: self._place(hit.place) for hit in view.hits if self._here(hit.place)}
        queries = [self._place(one.place) for one in view.queries if self._here(one.place)]
        self._frame([*hits.values(), *queries])
        first = 0
        for number, group in enumerate(self._panel.groups):
            colour = COLOURS[number % len(COLOURS)]
            for x, y in self._positions[first : first + len(group.positions)].tolist():
                self._circle(x, y, DOT, colour, None)
            first += len(group.positions)
        self._regions()
        for rank, (x, y) in reversed(hits.items()):
            self._circle(x, y, HIT, None, MARK)
            self._text(*self._spot(x, y, HIT + 2, -HIT), str(rank), MARK)
        for x, y in queries:
            self._cross(x, y)
        self._words()

    def _here(self, place: Place | None) -> bool:
        return place is not None and place.panel == self._index

    def _place(self, place: Place | None) -> tuple[float, float]:
        assert place is not None
        x, y = (place.neighbours or place.position)[:2]
        return x, y

    def _regions(self) -> None:
        """The names of the regions, each inside its own, the largest first; none over another."""
        taken = list[tuple[float, float, float, float]]()
        for one in self._panel.regions:
            spot = self._spot(*self._positions[one.point].tolist())
            box = self._canvas.textbbox(spot, one.name, font=self._font, anchor="mm")
            if any(
                box[0] < right and box[2] > left and box[1] < low and box[3] > high
                for left, high, right, low in taken
            ):
                continue
            taken.append(box)
            outline = {"stroke_width": 3 * SCALE, "stroke_fill": PAPER}
            self._canvas.text(spot, one.name, INK, self._font, "mm", **outline)

    def _frame(self, marked: Sequence[tuple[float, float]]) -> None:
        spots = [*self._positions.tolist(), *map(list, marked)]
        across, up = zip(*spots, strict=True)
        wide, high = max(across) - min(across), max(up) - min(up)
        room = min((WIDTH - 2 * MARGIN) / (wide or 1), (HEIGHT - 3 * MARGIN) / (high or 1))
        if not wide and not high:
            room = 1.0
        self._fit = ((max(across) + min(across)) / 2, (max(up) + min(up)) / 2, room)

    def _spot(self, x: float, y: float, right: float = 0, down: float = 0) -> tuple[float, float]:
        middle_x, middle_y, room = self._fit
        left = WIDTH / 2 + (x - middle_x) * room + right
        top = self._top + (HEIGHT + MARGIN) / 2 - (y - middle_y) * room + down
        return left * SCALE, top * SCALE

    def _circle(self, x: float, y: float, radius: int, fill: Any, outline: Any) -> None:
        left, top = self._spot(x, y)
        box = [left - radius * SCALE, top - radius * SCALE, left + radius * SCALE]
        self._canvas.ellipse(
            [*box, top + radius * SCALE], fill=fill, outline=outline, width=2 * SCALE
        )

    def _cross(self, x: float, y: float) -> None:
        left, top = self._spot(x, y)
        arm = 9 * SCALE
        for line in ((left - arm, top, left + arm, top), (left, top - arm, left, top + arm)):
            self._canvas.line(line, fill=INK, width=3 * SCALE)

    def _words(self) -> None:
        share = sum(self._panel.explained[:2])
        said = f"{share:.0%} of the differences on two axes"
        title = f"{self._panel.model[:TITLE]}: {NEIGHBOURS if self._panel.neighbours else said}"
        self._text(MARGIN * SCALE, (self._top + 8) * SCALE, title, INK)
        left = WIDTH + 8
        for number, group in enumerate(self._panel.groups[:NAMES]):
            top = self._top + MARGIN + 10 + number * 24
            box = [left * SCALE, top * SCALE, (left + 12) * SCALE, (top + 12) * SCALE]
            self._canvas.ellipse(box, fill=COLOURS[number % len(COLOURS)])
            self._text((left + 18) * SCALE, (top - 2) * SCALE, group.collection[:22], INK)
        more = len(self._panel.groups) - NAMES
        if more > 0:
            top = self._top + MARGIN + 10 + NAMES * 24
            self._text((left + 18) * SCALE, (top - 2) * SCALE, f"and {more} more", PALE)

    def _text(self, left: float, top: float, words: str, colour: str) -> None:
        self._canvas.text((left, top), words, fill=colour, font=self._font)
