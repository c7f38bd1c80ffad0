"""Whether the regions of a map are true: measured on the collections of your settings.

    QDRANT_LOCAL_PATH=FOLDER python benchmarks/regions.py [--points 10000]

Of each region: its name, its points, how much of it lies in one blob of what is seen (the layout as
cells of a picture, those where points are dense, joined where they touch), and how much more
frequent its phrases are inside than anywhere else: the least of their ratios. Both are counted here
anew, in other ways than regions are made and named. Needs the extra `map`.
"""

import argparse
import asyncio
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.core.maps import Panel
from mcp_server_qdrant.encoders.language import sure
from mcp_server_qdrant.projection.names import LANGUAGE
from mcp_server_qdrant.settings.environment import Settings

CELLS = 110  # of the longer side: some 6 pixels each
SHOWN = 20
TOGETHER, TWICE = 0.95, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    args = parser.parse_args()
    for panel in asyncio.run(panels(args.points)):
        rows = list(measured(panel))
        print(f"{panel.model}: {panel.count:,} points, {len(rows)} regions")
        for name, size, together, ratio in rows[:SHOWN]:
            print(f"{size:6,}  {together:6.1%} in one blob  {min(ratio, 99):5.1f} x  {name}")
        true = sum(together >= TOGETHER and ratio >= TWICE for _, _, together, ratio in rows)
        named = sum(size for _, size, _, _ in rows) / panel.count
        print(f"{true} of {len(rows)} regions are true; {named:.0%} of the points are in one")


async def panels(points: int) -> Sequence[Panel]:
    services = await open_lazily(Settings())
    try:
        return (await services.projector.view(("*",), points, patience=900.0)).map.panels
    finally:
        await services.close()


def measured(panel: Panel) -> Iterator[tuple[str, int, float, float]]:
    assert panel.neighbours is not None, "There is no layout by neighbours: install the extra map."
    blob = blobs(panel.neighbours.places)
    texts = [
        " ".join(text.lower().split()) for group in panel.groups for text in group.points.texts
    ]
    for number, region in enumerate(panel.regions):
        inside = panel.neighbours.region_of == number
        held = blob[inside]
        together = np.bincount(held[held > 0], minlength=1).max() / len(held)
        yield region.name, region.size, float(together), least(region.name, texts, inside, panel)


def blobs(places: NDArray[np.float32]) -> NDArray[np.int64]:
    """The number of the blob in which each point is seen; 0 where it lies alone."""
    from scipy.ndimage import gaussian_filter, label

    low = places.min(axis=0)
    size = float((places.max(axis=0) - low).max()) / CELLS
    cells = ((places - low) / size).astype(int)
    picture = np.zeros((CELLS + 1, CELLS + 1))
    np.add.at(picture, (cells[:, 0], cells[:, 1]), 1)
    dense = gaussian_filter(picture, 1.0) > 0.1
    numbers: NDArray[np.int64] = label(dense, np.ones((3, 3)))[0]
    return numbers[cells[:, 0], cells[:, 1]]


def least(name: str, texts: Sequence[str], inside: NDArray[np.bool_], panel: Panel) -> float:
    """How many times as frequent the name's phrases are inside as in any other region, or none."""
    assert panel.neighbours is not None
    region_of = panel.neighbours.region_of
    ratios = []
    for phrase in name.lower().split(", "):
        if phrase.endswith(LANGUAGE):
            has = np.array([sure(text) == phrase.removesuffix(LANGUAGE) for text in texts])
        else:
            has = standing(phrase, texts)
        others = [has[region_of == one].mean() for one in set(region_of[~inside].tolist())]
        ratios.append(has[inside].mean() / max(*others, 1e-9))
    return float(min(ratios))


def standing(phrase: str, texts: Sequence[str]) -> NDArray[np.bool_]:
    """In which texts a phrase stands."""
    edge = r"[\w-]" if phrase.isascii() else "\\0"  # Chinese has no spaces
    whole = re.compile(rf"(?<!{edge}){re.escape(phrase)}(?!{edge})")
    return np.array([whole.search(text) is not None for text in texts])


if __name__ == "__main__":
    main()
