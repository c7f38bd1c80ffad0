"""Regions of a map: clusters of vectors, named by the words that tell them from each other.

The clusters are a tree, the leaves in its order, so that every region is a range of leaves.
"""

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcp_server_qdrant.core.maps import Region, Regions
from mcp_server_qdrant.projection.pca import Vectors, principal
from mcp_server_qdrant.projection.words import Words

FEWEST = 12  # points from which on there are regions
MOST = 96
ROUNDS = 8  # of 2-means
NAMED_BY = 8  # words
READ = 4_000  # texts of a cluster, from which it is named
COMMON = 0.5  # of all texts: a word in more of them tells nothing

Members = NDArray[np.int32]


@dataclass(eq=False)
class _Node:
    """A cluster: when it came to be and when it was split, counted in leaves."""

    members: Members
    born: int
    split: int = 0  # never
    parts: "tuple[_Node, ...]" = field(default=())


def regions(vectors: Vectors, words: Words) -> Regions:
    """The regions of (n, d) vectors; `words` are those of the texts, in the same order."""
    count = len(vectors)
    if count < FEWEST:
        return Regions((), np.zeros(count, np.uint8), words)
    most = min(MOST, int(count**0.5 * 0.8))
    root = _tree(vectors, most, fewest=max(3, count // (8 * most)))
    leaves = np.zeros(count, np.uint8)
    found: list[tuple[_Node, int, int]] = []
    _number(root, leaves, found, 0)
    said = sorted(found[1:] or found, key=lambda one: -len(one[0].members))
    names = _names([node.members for node, _, _ in said], words)
    return Regions(
        tuple(
            Region(tuple(name), len(node.members), node.born, node.split, first, last)
            for (node, first, last), name in zip(said, names, strict=True)
        ),
        leaves,
        words,
    )


def telling(members: Members, words: Words) -> list[str]:
    """The words that tell these points from all others."""
    return _names([members], words)[0]


def _tree(vectors: Vectors, most: int, fewest: int) -> _Node:
    """Bisecting 2-means: the cluster whose points differ most is split, again and again."""
    everything = np.arange(len(vectors), dtype=np.int32)
    root = _Node(everything, 1)
    open_: list[tuple[float, int, _Node]] = [(-_differences(vectors), 0, root)]
    leaves, made = 1, 0
    while open_ and leaves < most:
        _, _, node = heapq.heappop(open_)
        side = _halves(vectors[node.members])
        pair = node.members[side], node.members[~side]
        if min(map(len, pair)) < fewest:
            continue
        leaves += 1
        node.split = leaves
        node.parts = tuple(_Node(members, leaves) for members in pair)
        for part in node.parts:
            made += 1
            heapq.heappush(open_, (-_differences(vectors[part.members]), made, part))
    return root


def _differences(held: Vectors) -> float:
    return float(np.square(held - held.mean(axis=0)).sum())


def _halves(held: Vectors) -> NDArray[np.bool_]:
    """Which points are in the first of two clusters, begun along the axis of most difference."""
    side = np.asarray(principal(held, 1).project(held)[:, 0] > 0)
    for _ in range(ROUNDS):
        if side.all() or not side.any():
            break
        first, second = held[side].mean(axis=0), held[~side].mean(axis=0)
        way = first - second
        now = np.asarray(held @ way > (first + second) @ way / 2)
        if (now == side).all():
            break
        side = now
    return side


def _number(
    node: _Node, leaves: NDArray[np.uint8], found: list[tuple[_Node, int, int]], first: int
) -> int:
    """Number the leaves below, and note each node with its range; the next number."""
    place, last = len(found), first
    found.append((node, first, first))
    for part in node.parts:
        last = _number(part, leaves, found, last)
    if not node.parts:
        leaves[node.members] = first
        last = first + 1
    found[place] = (node, first, last)
    return last


def _names(clusters: Sequence[Members], words: Words) -> list[list[str]]:
    """Class-based tf-idf: the share of a cluster's texts with a word, times how rare it is."""
    everywhere, texts = words.texts_with, len(words.of)
    names = []
    for cluster in clusters:
        members = cluster[:: -(-len(cluster) // READ)]
        inside = Counter(word for point in members.tolist() for word in words.of[point])
        least = min(len(members), max(2, len(members) // 50))
        scored = [
            (count / len(members) * math.log(texts / everywhere[word]), words.spelled[word])
            for word, count in inside.items()
            if count >= least and everywhere[word] <= COMMON * texts
        ]
        names.append(
            [word for _, word in sorted(scored, key=lambda one: (-one[0], one[1]))[:NAMED_BY]]
        )
    return names
