"""Rankings to figures: recall of evidence, nDCG@10, tokens and times, as Markdown tables."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

DEPTHS = {"recall": (1, 5, 10, 40), "any": (1, 5, 10), "all": (5, 10)}
Key = tuple[str, str]  # collection, and id of a turn or session
Found = Sequence[frozenset[Key]]  # keys of each result: more than one where copies are folded


@dataclass(frozen=True)
class Asked:
    """A question asked in one way: what was found, best first, and what should have been.

    `level` is what counts, turns or sessions; `stored` how they are kept; `searched` whether the
    conversation's own texts were searched, or all. `page`: tokens, milliseconds, and
    whether it says that nothing fits.
    """

    level: str
    stored: str
    searched: str
    algorithm: str
    kind: str
    evidence: frozenset[Key]
    found: Found
    page: tuple[float, float, bool] | None


def recall(asked: Asked, depth: int) -> float:
    """The share of the evidence among the first results."""
    seen = frozenset[Key]().union(*asked.found[:depth])
    return len(asked.evidence & seen) / len(asked.evidence)


def ndcg(asked: Asked, depth: int = 10) -> float:
    """The nDCG with one gain for each piece of evidence, where it first is."""
    gain, seen = 0.0, frozenset[Key]()
    for place, keys in enumerate(asked.found[:depth]):
        if keys & asked.evidence - seen:
            gain += 1 / math.log2(place + 2)
        seen |= keys
    pieces = min(len(asked.evidence), depth)
    return gain / sum(1 / math.log2(place + 2) for place in range(pieces))


def distinct(found: Iterable[frozenset[Key]]) -> list[frozenset[Key]]:
    """The results without those that repeat an earlier one: sessions of turns."""
    return list(dict.fromkeys(found))


def table(rows: Sequence[Asked], head: str, name: Callable[[Asked], str]) -> str:
    """A row of figures for each name, in the order of the first of that name."""
    groups: dict[str, list[Asked]] = {}
    for one in rows:
        groups.setdefault(name(one), []).append(one)
    figures = {"recall": recall, "any": _any, "all": _all}
    columns = [
        (f"{kind}@{depth}" if depth == depths[0] else f"@{depth}", figures[kind], depth)
        for kind, depths in DEPTHS.items()
        for depth in depths
    ]
    titles = [head, "questions", *(title for title, *_ in columns), "nDCG@10"]
    titles += ["tokens", "p50 ms", "p95 ms"]
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for group, asked in groups.items():
        means = [np.mean([figure(one, depth) for one in asked]) for _, figure, depth in columns]
        means.append(np.mean([ndcg(one) for one in asked]))
        cells = [group, str(len(asked)), *(f"{mean:.3f}" for mean in means), *_costs(asked)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def doubts(rows: Sequence[Asked], head: str, name: Callable[[Asked], str]) -> str:
    """How often a page says that nothing fits, where there is no answer and where there is one."""
    lines = [f"| {head} | without an answer | said so | with one | said so |", f"|{'---|' * 5}"]
    for group in dict.fromkeys(map(name, rows)):
        pages = [
            (bool(one.evidence), one.page[2]) for one in rows if name(one) == group and one.page
        ]
        cells = [group]
        for answered in (False, True):
            said = [says for has, says in pages if has is answered]
            cells += [str(len(said)), f"{np.mean(said):.3f}" if said else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _costs(asked: Sequence[Asked]) -> list[str]:
    """The mean tokens of a page, and the median and 95th percentile of its milliseconds."""
    pages = np.array([one.page for one in asked if one.page])
    if not len(pages):
        return ["", "", ""]
    p50, p95 = np.percentile(pages[:, 1], (50, 95))
    return [f"{pages[:, 0].mean():.0f}", f"{p50:.1f}", f"{p95:.1f}"]


def _any(asked: Asked, depth: int) -> float:
    return float(recall(asked, depth) > 0)


def _all(asked: Asked, depth: int) -> float:
    return float(recall(asked, depth) == 1)
