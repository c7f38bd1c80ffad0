"""The order of the ranking steps: one table. A step is a file in `steps/` and a row here."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mcp_server_qdrant.core.datatypes import Found, Hit, Target
from mcp_server_qdrant.search.query import POOL, Query
from mcp_server_qdrant.search.steps.boost import boost
from mcp_server_qdrant.search.steps.calibrate import calibrate
from mcp_server_qdrant.search.steps.cut import cut
from mcp_server_qdrant.search.steps.decay import decay
from mcp_server_qdrant.search.steps.fold import fold
from mcp_server_qdrant.search.steps.fuzzy import factor, fuzzy
from mcp_server_qdrant.search.steps.group import document_id, group
from mcp_server_qdrant.search.steps.neighbours import lift_neighbours
from mcp_server_qdrant.search.steps.retire import retire
from mcp_server_qdrant.search.steps.spread import spread
from mcp_server_qdrant.search.steps.tags import lift_tags
from mcp_server_qdrant.search.steps.titles import lift_titles
from mcp_server_qdrant.search.steps.verbatim import lift_verbatim
from mcp_server_qdrant.search.texts import Texts

# candidates: all of them, by their scores; texts: the best of these, with payloads; page: the same,
# once it is known which collections could have better ones; reread: after the reranker.
Stage = Literal["candidates", "texts", "page", "reread"]


TOP = 10
RAISING = ("title", "neighbours")  # steps after which a text can be more relevant than before


class Step(NamedTuple):
    """A row of the table; `file` is its name in `steps/`."""

    file: str
    stage: Stage
    apply: Callable[[Sequence[Hit], Query, Texts], list[Hit]]


def _decay(hits: Sequence[Hit], query: Query, _: Texts) -> list[Hit]:
    rules, weight = query.rules, query.request.recency_weight
    return decay(hits, weight, rules.decay, rules.time_fields, query.now)


def _fold(hits: Sequence[Hit], query: Query, texts: Texts) -> list[Hit]:
    request = query.request
    shown = len(hits) if request.rerank or request.diversity > 0 else query.limit
    return fold(hits, texts.document, shown, factor(100, query.likeness))


def _fuzzy(hits: Sequence[Hit], query: Query, texts: Texts) -> list[Hit]:
    if any(hit.reranked is not None for hit in hits):  # a reranker that read the texts knows better
        return list(hits)
    shown = len(hits) if query.request.diversity > 0 else query.limit
    return fuzzy(hits, query.terms.query, query.likeness, texts.document, shown)


STEPS: tuple[Step, ...] = (
    Step(
        "tags",
        "candidates",
        lambda hits, q, texts: lift_tags(hits, q.plan.tags, q.terms, q.alpha, texts.tokens),
    ),
    Step("boost", "candidates", lambda hits, q, _: boost(hits, q.rules.order, q.request.priority)),
    Step(
        "titles",
        "texts",
        lambda hits, q, texts: lift_titles(hits, q.terms, q.alpha, texts.title, texts.tokens),
    ),
    Step(
        "verbatim",
        "texts",
        lambda hits, q, texts: lift_verbatim(
            hits, q.exact, q.terms, q.alpha, texts.written, texts.tokens
        ),
    ),
    Step("group", "texts", lambda hits, _, __: group(hits)),
    Step(
        "neighbours",
        "texts",
        lambda hits, _, __: lift_neighbours(hits, lambda hit: document_id(hit.payload)),
    ),
    Step("decay", "page", _decay),
    Step("retire", "page", lambda hits, _, __: retire(hits)),
    Step("fold", "page", _fold),
    Step("fuzzy", "reread", _fuzzy),
    Step("cut", "reread", lambda hits, q, _: cut(hits, q.request.score_threshold)),
    Step(
        "spread",
        "reread",
        lambda hits, q, texts: spread(hits, q.request.diversity, texts.document),
    ),
)


def candidates(found: Iterable[Found], query: Query, texts: Texts) -> list[Hit]:
    """All candidates as one ranking, best first: what the steps begin with."""
    return rank("candidates", calibrate(list(found), query.terms, query.alpha), query, texts)


def rank(stage: Stage, hits: list[Hit], query: Query, texts: Texts) -> list[Hit]:
    """The hits after the steps of this stage."""
    for step in STEPS:
        if step.stage == stage:
            hits = step.apply(hits, query, texts)
    return hits


def worth_reading(
    scored: Sequence[Hit], documents: Sequence[Hit], hits: Sequence[Hit], query: Query
) -> int:
    """The number of candidates, best first, that could be among the hits of the page.

    `documents` are those that were read, `hits` the same after the steps of the page. A candidate
    that was not read is taken to be no newer than the newest of them. Where a title or a neighbour
    raised one of them, it may raise others: then as many count as one collection gives.
    """
    if len(hits) < query.limit:
        return len(scored)
    before = {(hit.collection, hit.id): hit.score for hit in documents}
    most = max(hit.score / (before[hit.collection, hit.id] or 1.0) for hit in hits)
    most *= factor(100, query.likeness)
    cut = hits[query.limit - 1].score
    raised = any(step in RAISING for hit in documents for step, _ in hit.gains)
    least = min(query.plan.depth, len(scored)) if raised else 0
    return max(least, bisect_right(scored, -cut, key=lambda hit: -hit.score * most))


def least(scored: Sequence[Hit], query: Query) -> tuple[float, float]:
    """The relevance of the last candidate on the page, and of the last one worth reading.

    Those are read that are among the first 30, or that spelling can lift among the first ten. With
    the age of texts, a new one can pass all that are better by less than that weighs.
    """
    request = query.request
    page = query.plan.pool if request.rerank or request.diversity > 0 else query.limit
    last, read, top = (
        scored[place - 1].relevance if len(scored) >= place else 0.0
        for place in (page, max(page, POOL), min(page, TOP))
    )
    aged = max(1 - request.recency_weight, 0.0)
    return aged * last, aged * min(read, top / factor(100, query.likeness))


def unfinished(
    found: Mapping[str, Found], scored: Sequence[Hit], shown: Sequence[Hit], query: Query
) -> list[Target]:
    """The targets that may have better candidates than some of the hits of the page.

    Such a target gave as many candidates as it was asked for, and even the lowest of them could
    rank with those shown; or these are too few.
    """
    cut = shown[query.limit - 1].score if len(shown) >= query.limit else 0.0
    lowest = {hit.collection: hit.score for hit in scored}
    return [
        part.target
        for name, part in found.items()
        if len(part.candidates) >= query.plan.depth and lowest[name] >= cut
    ]
