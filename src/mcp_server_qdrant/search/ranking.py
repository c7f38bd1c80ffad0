"""The ranking steps in their order."""

from collections.abc import Iterable, Sequence

from mcp_server_qdrant.core.datatypes import Hit, Scored
from mcp_server_qdrant.search.copies import fold
from mcp_server_qdrant.search.order import (
    boost,
    cut,
    decay,
    document_id,
    fuzzy,
    group,
    likeness_factor,
    retire,
    spread,
)
from mcp_server_qdrant.search.query import Query
from mcp_server_qdrant.search.relevance import (
    calibrate,
    lift_neighbours,
    lift_tags,
    lift_titles,
    lift_verbatim,
)
from mcp_server_qdrant.search.texts import Texts


def candidates(found: Iterable[Scored], query: Query, texts: Texts) -> list[Hit]:
    """All candidates as one ranking, best first."""
    hits = calibrate(found, query.terms, query.alpha)
    hits = lift_tags(hits, query.tags, query.terms, query.alpha, texts.tokens)
    return boost(hits, query.rules.order, query.request.priority)


def rank(hits: Sequence[Hit], query: Query, texts: Texts) -> list[Hit]:
    """The best candidates, with payloads, as one hit per text, best first."""
    request, rules, terms, alpha = query.request, query.rules, query.terms, query.alpha
    hits = lift_titles(hits, terms, alpha, texts.title, texts.tokens)
    hits = lift_verbatim(hits, query.exact, terms, alpha, texts.written, texts.tokens)
    hits = group(hits)
    hits = lift_neighbours(hits, lambda hit: document_id(hit.payload))
    hits = decay(hits, request.recency_weight, rules.decay, rules.time_fields, query.now)
    hits = retire(hits, texts.first_of)
    shown = len(hits) if request.rerank or request.diversity > 0 else query.limit
    return fold(hits, texts.document, shown, likeness_factor(100, query.likeness))


def finish(hits: Sequence[Hit], query: Query, texts: Texts) -> list[Hit]:
    """The hits that may be shown, in their final order; `hits` as a reranker left them.

    Spelling does not count beside a reranker that read the texts.
    """
    diversity = query.request.diversity
    if not any(hit.reranked is not None for hit in hits):
        shown = len(hits) if diversity > 0 else query.limit
        hits = fuzzy(hits, query.terms.query, query.likeness, texts.document, shown)
    hits = cut(hits, query.request.score_threshold)
    return spread(hits, diversity, texts.document)
