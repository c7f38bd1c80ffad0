"""The order of the ranking steps: one table. A step is a file in `steps/` and a row here."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from mcp_server_qdrant.core.datatypes import Found, Hit
from mcp_server_qdrant.search.query import Query
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

# candidates: all of them, by their scores; texts: the best of these, with payloads; reread: after
# the reranker.
Stage = Literal["candidates", "texts", "reread"]


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
        lambda hits, q, texts: lift_tags(hits, q.tags, q.terms, q.alpha, texts.tokens),
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
    Step("decay", "texts", _decay),
    Step("retire", "texts", lambda hits, _, texts: retire(hits, texts.first_of)),
    Step("fold", "texts", _fold),
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
