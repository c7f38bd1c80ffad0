"""The second layout of a panel: points that are alike lie near each other.

`projection.tsne` makes it, in a process of its own. Further points are put among their neighbours.
"""

import asyncio
import io
import sys
from importlib.util import find_spec

import numpy as np

from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.maps import Panel
from mcp_server_qdrant.projection.pca import Vectors
from mcp_server_qdrant.projection.tsne import nearest

FEWEST = 20  # points from which on there is such a layout
BESIDE = 5  # neighbours that a further point lies among
KNOWN = 0.9  # share of points from which on a layout is carried over
WANTED = "pip install 'mcp-server-qdrant[map]' adds a map on which near means alike."


def installed() -> bool:
    """Whether the extra is there."""
    return find_spec("openTSNE") is not None


async def neighbours(panel: Panel) -> Vectors:
    """The places (n, 2) of the panel's points; takes seconds to a minute.

    Raises BackendError.
    """
    start = np.concatenate([group.positions[:, :2] for group in panel.groups])
    given = io.BytesIO()
    np.save(given, panel.reduced)
    np.save(given, start)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "mcp_server_qdrant.projection.tsne"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        made, _ = await process.communicate(given.getvalue())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BackendError("The layout by neighbours failed.")
    found: Vectors = np.load(io.BytesIO(made))
    return found


def beside(panel: Panel, vectors: Vectors) -> Vectors | None:
    """The places (m, 2) of further unit vectors (m, d), among their neighbours."""
    if panel.neighbours is None:
        return None
    return _among(panel.wide.project(vectors), panel.reduced, panel.neighbours)


def carried(old: Panel, new: Panel) -> Vectors | None:
    """The old panel's layout for the new one; None where too much has changed.

    A new point, or one with another text, is put among its neighbours.
    """
    if old.neighbours is None or old.model != new.model:
        return None
    known = {spot: place for place, spot in enumerate(_spots(old))}
    places = np.asarray([known.get(spot, -1) for spot in _spots(new)])
    changed = places < 0
    if changed.mean() > 1 - KNOWN:
        return None
    found: Vectors = old.neighbours[places]
    if changed.any():
        found[changed] = _among(new.reduced[changed], new.reduced[~changed], found[~changed])
    return found


def _spots(panel: Panel) -> list[tuple[str, PointId, str]]:
    return [
        (group.collection, *one)
        for group in panel.groups
        for one in zip(group.ids, group.snippets, strict=True)
    ]


def _among(reduced: Vectors, others: Vectors, positions: Vectors) -> Vectors:
    """The middle of the nearest others."""
    near, _ = nearest(reduced, others, min(BESIDE, len(others)))
    return np.asarray(np.median(positions[near], axis=1), np.float32)
