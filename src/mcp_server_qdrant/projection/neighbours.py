"""The layout by neighbours of a panel: points that are alike lie near each other, in named regions.

`projection.tsne` makes it, in a process of its own. Further points are put among their neighbours.
"""

import asyncio
import io
import json
import sys
from importlib.util import find_spec

import numpy as np

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.core.maps import Neighbours, Panel, Region
from mcp_server_qdrant.projection.pca import Vectors
from mcp_server_qdrant.projection.tsne import SAMPLED, among

FEWEST = 20  # points from which on there is such a layout
SOME = f"Near means alike: {SAMPLED:,} of the points are laid out, the others put among their like."
COMING = "The layout by neighbours and its regions are being made: there in a minute or two."
FAILED = "The layout by neighbours failed."


def installed() -> bool:
    """Whether the extra is there."""
    return find_spec("openTSNE") is not None


async def neighbours(panel: Panel) -> Neighbours:
    """The layout of the panel's points; takes seconds to a minute.

    Raises BackendError.
    """
    start = np.concatenate([group.positions[:, :2] for group in panel.groups])
    given = io.BytesIO()
    np.save(given, panel.reduced)
    np.save(given, start)
    given.write(json.dumps(panel.texts).encode())
    try:
        made = io.BytesIO(await _run(given.getvalue()))
        places, region_of = np.load(made), np.load(made)
        return Neighbours(places, region_of, tuple(Region(**one) for one in json.load(made)))
    except (OSError, ValueError, TypeError) as error:
        raise BackendError(FAILED) from error


async def _run(given: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "mcp_server_qdrant.projection.tsne"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        made, _ = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BackendError(FAILED)
    return made


def put_among(panel: Panel, vectors: Vectors) -> Vectors | None:
    """The places (m, 2) of further unit vectors (m, d), among their neighbours."""
    if panel.neighbours is None:
        return None
    return among(panel.wide.project(vectors), panel.reduced, panel.neighbours.places)
