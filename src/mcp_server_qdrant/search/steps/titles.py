"""Words of the query in a title count more than in the text.

In what this server stores they do so in the BM25 vector already. Of other points nobody knows what
their vectors were made of: there the title is compared here.
"""

from collections.abc import Callable, Iterable, Mapping

from mcp_server_qdrant.core.datatypes import Hit, Terms, by_score
from mcp_server_qdrant.search.steps.lift import Tokens, lifted, share, weights

# A factor of 3 makes 0.2, which is measured (docs/ranking.md); 1 changes nothing.
SHARE = 0.1


class Titles:
    """Compares titles. `title` finds that of a hit; `factor` is how often its words count."""

    def __init__(self, title: Callable[[Hit], str | None], tokens: Tokens, factor: float) -> None:
        self._title = title
        self._tokens = tokens
        self._share = min(SHARE * (factor - 1), 1.0)

    def lift(self, hits: Iterable[Hit], terms: Terms, alpha: float) -> list[Hit]:
        """The hits, best first, raised by the part of the query that their title holds."""
        if self._share <= 0 or alpha >= 1:
            return list(hits)
        counted = weights(terms, self._tokens)
        return by_score(self._lifted(hit, counted, terms.ceiling, alpha) for hit in hits)

    def _lifted(
        self, hit: Hit, counted: Mapping[int, float], ceiling: float | None, alpha: float
    ) -> Hit:
        title = None if stored_with_title(hit) else self._title(hit)
        if not title:
            return hit
        part = share(set(self._tokens(title)), counted, ceiling)
        return lifted(hit, "title", self._share * part, alpha)


def stored_with_title(hit: Hit) -> bool:
    """Whether the BM25 score has the title in it: this server wrote the point."""
    return hit.sparse is not None and isinstance((hit.payload or {}).get("doc"), dict)
