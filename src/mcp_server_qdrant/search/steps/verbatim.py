"""What the query writes exactly, a hit has as it is written: then it ranks higher.

BM25 finds `1.2.12` in every text that has a 1, a 2 and a 12, and vectors in texts on any version. A
text with the compound itself is raised by the part of the query, by idf, that it is, whatever the
share of the words: no vector knows better. Of a sentence that mentions a number that part is less
than HALF, and it raises nothing. A quoted phrase must occur: other hits are left out.
"""

from collections.abc import Callable, Sequence

from mcp_server_qdrant.core.datatypes import Hit, Terms, by_score
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.search.lift import Tokens, lifted, share, term_weights

HALF = 0.5  # of the query: measured (docs/ranking.md)


def lift_verbatim(
    hits: Sequence[Hit],
    exact: Exact,
    terms: Terms,
    alpha: float,
    text: Callable[[Hit], str],
    tokens: Tokens,
) -> list[Hit]:
    """The hits that have the phrases, best first; `text` gives all that is written in one.

    Where words count nothing (`alpha` 1), none is raised.
    """
    if not exact:
        return list(hits)
    weights = term_weights(terms, tokens)
    phrases = set(exact.phrases)
    raised = []
    for hit in hits:
        held = exact.held(text(hit))
        if phrases <= set(held):
            words = {token for written in held for token in tokens(written)}
            part = share(words, weights, terms.ceiling) if alpha < 1 else 0.0
            raised.append(lifted(hit, "verbatim", part if part >= HALF else 0.0, alpha=0.0))
    return by_score(raised)
