"""The second layout of a panel: points that are alike lie near each other.

`projection.tsne` makes it, in a process of its own. Further points are put among their neighbours.
"""

import asyncio
import io
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.maps import Panel
from mcp_server_qdrant.projection.kept import Layout, spots_of
from mcp_server_qdrant.projection.pca import Vectors
from mcp_server_qdrant.projection.tsne import SAMPLED, among

FEWEST = 20  # points from which on there is such a layout
KNOWN = 0.9  # share of points from which on a layout is carried over
SOME = f"Near means alike: {SAMPLED:,} of the points are laid out, the others put among their like."
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
    return among(panel.wide.project(vectors), panel.reduced, panel.neighbours)


def carried(olds: Sequence[Layout], new: Panel) -> Vectors | None:
    """One of the layouts for the panel; None where too much has changed.

    A new point, or one with another text, is put among its neighbours.
    """
    spots = spots_of(new) if olds else None
    for old in olds:
        if old.model != new.model or spots is None:
            continue
        places, known = old.places_of(spots)
        if known.mean() < KNOWN:
            continue
        if not known.all():
            places[~known] = among(new.reduced[~known], new.reduced[known], places[known])
        return places
    return None
