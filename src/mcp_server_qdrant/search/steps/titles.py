"""Words of the query in a title count more than in the text.

In what this server stores they do so in the BM25 vector already. How the vectors of other points
were made is not known: there the title is compared here.
"""

from collections.abc import Callable, Iterable

from mcp_server_qdrant.core.datatypes import Hit, Terms, by_score
from mcp_server_qdrant.search.lift import Tokens, lifted, share, term_weights

MOST = 0.2  # a title that holds the whole query gains so much: measured (docs/ranking.md)


def lift_titles(
    hits: Iterable[Hit],
    terms: Terms,
    alpha: float,
    title: Callable[[Hit], str | None],
    tokens: Tokens,
) -> list[Hit]:
    """The hits, best first, raised by the part of the query that their title holds."""
    if alpha >= 1:
        return list(hits)
    weights = term_weights(terms, tokens)

    def raised(hit: Hit) -> Hit:
        words = None if stored_with_title(hit) else title(hit)
        if not words:
            return hit
        part = share(set(tokens(words)), weights, terms.ceiling)
        return lifted(hit, "title", MOST * part, alpha)

    return by_score(map(raised, hits))


def stored_with_title(hit: Hit) -> bool:
    """True where the BM25 score has the title in it: this server wrote the point."""
    return hit.sparse is not None and isinstance((hit.payload or {}).get("doc"), dict)
