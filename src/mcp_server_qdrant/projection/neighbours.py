"""The layout by neighbours of a panel: similar points are near each other, in named regions.

t-SNE by openTSNE, seeded, starts from the principal components; regions are HDBSCAN's clusters of
the layout. Both come with the extra `map`. This module is also the child process that computes it,
with a low priority, so the server never loads the libraries.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.projection.names import Phrases, name_cluster
from mcp_server_qdrant.projection.panels import Vectors
from mcp_server_qdrant.projection.shapes import Neighbours, Panel, Region

LEAST = 20  # points of a panel that gets a layout
BESIDE = 5  # nearest points that place a further one
PERPLEXITY = 30
EARLY, LATE = 125, 350  # iterations
FEWEST, LARGEST = 6, 0.125  # points of a region; share of all points from which it is split
MUCH = 0.25  # share of a cluster's points in named parts, for a split
DENSE = 5  # neighbours that define the density
NONE = 255  # index of points without a region
COMING = "The layout by neighbours and its regions are being computed; this takes a minute or two."
FAILED = "The layout by neighbours failed."


def is_installed() -> bool:
    """True if the extra is installed."""
    return find_spec("openTSNE") is not None


async def lay_out_neighbours(panel: Panel) -> Neighbours:
    """The layout of the panel's points. Takes up to a minute. Raises BackendError."""
    texts = [text for group in panel.groups for text in group.points.texts]
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise BackendError(FAILED) from error
    try:
        made, _ = await process.communicate(pickle.dumps((panel.reduced, texts)))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BackendError(FAILED)
    found: Neighbours = pickle.loads(made)  # noqa: S301 - from our own child process
    return found


def place_among(panel: Panel, reduced: Vectors) -> list[float] | None:
    """The position of a further point (axes,): the median of the nearest ones."""
    if panel.neighbours is None:
        return None
    far = np.linalg.norm(panel.reduced - reduced, axis=1)
    nearest = np.argsort(far, kind="stable")[:BESIDE]
    middle: list[float] = np.median(panel.neighbours.places[nearest], axis=0).tolist()
    return middle


def main() -> None:
    """Read vectors (n, axes) and texts from stdin, write the layout to stdout."""
    if sys.platform != "win32":
        os.nice(5)  # not lower: a person waits
    vectors, texts = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own server
    sys.stdout.buffer.write(pickle.dumps(find_regions(place_points(vectors), texts)))


def place_points(vectors: Vectors) -> Vectors:
    """Positions (n, 2) that make similar points neighbours."""
    from openTSNE import TSNE

    made = TSNE(
        perplexity=min(PERPLEXITY, (len(vectors) - 1) // 3),
        initialization=vectors[:, :2] / (float(vectors[:, 0].std()) or 1.0) * 1e-4,
        early_exaggeration_iter=EARLY,
        n_iter=LATE,
        initial_momentum=0.5,
        neighbors="exact",
        random_state=0,
    ).fit(vectors)
    return np.asarray(made, np.float32)


def find_regions(places: Vectors, texts: Sequence[str]) -> Neighbours:
    """The layout with its regions, the largest first.

    A large cluster is split if enough of its points are in parts with distinctive phrases. A
    cluster without a distinctive phrase is no region.
    """
    phrases = Phrases(texts)
    fewest = max(FEWEST, int(len(places) ** 0.5 / 2))
    largest = max(2 * FEWEST, int(len(places) * LARGEST))
    # Halves of one visible cluster would share their phrases, so neither would get a name.
    whole, clusters = _cluster(places, 2 * fewest, None), _cluster(places, fewest, largest)
    told = np.array([*map(bool, phrases.names(clusters)), False])[clusters]
    for one in range(whole.max() + 1):
        if told[whole == one].mean() < MUCH:
            clusters[whole == one] = clusters.max() + 1
    names = phrases.names(clusters)
    region_of, found = np.full(len(places), NONE, np.uint8), list[Region]()
    for one in np.argsort(-np.bincount(clusters[clusters >= 0]), kind="stable")[:NONE]:
        if words := names[one]:
            members = np.flatnonzero(clusters == one)
            region_of[members] = len(found)
            far = np.abs(places[members] - np.median(places[members], axis=0)).sum(axis=1)
            point = int(members[far.argmin()])
            found.append(Region(name_cluster(words), words, len(members), point))
    return Neighbours(places, region_of, tuple(found))


def _cluster(places: Vectors, fewest: int, largest: int | None) -> NDArray[np.int64]:
    """The cluster of each point, -1 for none; sizes from `fewest` to `largest`."""
    from sklearn.cluster import HDBSCAN

    found: NDArray[np.int64] = HDBSCAN(
        min_cluster_size=fewest, max_cluster_size=largest, min_samples=DENSE, copy=True
    ).fit_predict(places)
    return found


if __name__ == "__main__":
    main()
