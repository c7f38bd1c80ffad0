"""Words of the query in a title count more than in the text.

In what this server stores they do so in the BM25 vector already. How the vectors of other points
were made is not known: there the title is compared here.
"""

from collections.abc import Callable, Iterable

from mcp_server_qdrant.core.datatypes import Hit, Terms, by_score
from mcp_server_qdrant.search.lift import Tokens, lifted, share, term_weights

# A factor of 3 makes 0.2, which is measured (docs/ranking.md); 1 changes nothing.
SHARE = 0.1


def lift_titles(
    hits: Iterable[Hit],
    terms: Terms,
    alpha: float,
    factor: float,
    title: Callable[[Hit], str | None],
    tokens: Tokens,
) -> list[Hit]:
    """The hits, best first, raised by the part of the query that their title holds.

    `factor` is how often the words of a title count.
    """
    most = min(SHARE * (factor - 1), 1.0)
    if most <= 0 or alpha >= 1:
        return list(hits)
    weights = term_weights(terms, tokens)

    def raised(hit: Hit) -> Hit:
        words = None if stored_with_title(hit) else title(hit)
        if not words:
            return hit
        part = share(set(tokens(words)), weights, terms.ceiling)
        return lifted(hit, "title", most * part, alpha)

    return by_score(map(raised, hits))


def stored_with_title(hit: Hit) -> bool:
    """True where the BM25 score has the title in it: this server wrote the point."""
    return hit.sparse is not None and isinstance((hit.payload or {}).get("doc"), dict)
