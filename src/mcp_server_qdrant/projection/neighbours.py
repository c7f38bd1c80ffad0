"""The layout by neighbours of a panel: points that are alike lie near each other, in named regions.

`projection.regions` makes it, in a process of its own.
"""

import asyncio
import pickle
import sys
from importlib.util import find_spec

import numpy as np

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.maps import Neighbours, Panel
from mcp_server_qdrant.projection.pca import Vectors

FEWEST = 20  # points from which on there is such a layout
BESIDE = 5  # neighbours that a further point lies among
COMING = "The layout by neighbours and its regions are being made: there in a minute or two."
FAILED = "The layout by neighbours failed."


def installed() -> bool:
    """Whether the extra is there."""
    return find_spec("openTSNE") is not None


async def neighbours(panel: Panel) -> Neighbours:
    """The layout of the panel's points; takes seconds to a minute.

    Raises BackendError.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "mcp_server_qdrant.projection.regions"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise BackendError(FAILED) from error
    try:
        made, _ = await process.communicate(pickle.dumps((panel.reduced, panel.texts)))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BackendError(FAILED)
    found: Neighbours = pickle.loads(made)  # noqa: S301 - what our own process wrote
    return found


def put_among(panel: Panel, reduced: Vectors) -> Vectors | None:
    """The place (2,) of a further point (axes,): in the middle of the nearest ones."""
    if panel.neighbours is None:
        return None
    far = np.linalg.norm(panel.reduced - reduced, axis=1)
    nearest = np.argsort(far, kind="stable")[:BESIDE]
    return np.asarray(np.median(panel.neighbours.places[nearest], axis=0), np.float32)
