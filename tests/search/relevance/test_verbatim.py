"""What is written exactly ranks higher; quoted phrases must occur."""

import pytest

from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.search.relevance import Hit, lift_verbatim
from mcp_server_qdrant.search.words.terms import Terms, Words
from tests.support import read_hit

TERMS = Terms("release 1.2", {1: 2.0, 2: 2.0, 12: 4.0, 7: 2.0}, {})  # 1, 2, 1.2, release
TEXTS = {1: "a release of 1, then 2", 2: "the release 1.2", 3: "release notes"}
HITS = [
    read_hit(Hit("c", n, 0.7 - n / 10, 0.7 - n / 10, 0.01, 0.5, 0.5, {"text": text}))
    for n, text in TEXTS.items()
]


def tokens(text: str) -> list[int]:
    return {"1.2": [1, 2, 12]}.get(text, [])


def lifted(query: str, alpha: float = 0.5, terms: Terms = TERMS) -> list[tuple[int, float]]:
    exact = Exact.in_query(query)
    hits = lift_verbatim(HITS, exact, Words(terms, lambda _: tokens), alpha)
    return [(hit.id, round(hit.relevance, 6)) for hit in hits]


@pytest.mark.parametrize(
    ("query", "alpha", "expected"),
    [
        # 0.5 + 0.8 = 1.3: 0.8 + 0.2 * (1 - exp(-0.5 / 0.2))
        ("release 1.2", 0.5, [(2, 0.983583), (1, 0.6), (3, 0.4)]),
        ("release 1.2", 1.0, [(1, 0.6), (2, 0.5), (3, 0.4)]),
        ("release 1", 0.5, [(1, 0.6), (2, 0.5), (3, 0.4)]),
        ('"release notes"', 1.0, [(3, 0.4)]),
        ('"no release"', 0.5, []),
    ],
)
def test_a_compound_raises_and_a_phrase_is_required(query, alpha, expected):
    assert lifted(query, alpha) == expected


@pytest.mark.parametrize(("other", "expected"), [(8.0, 2), (8.1, 1)])
def test_a_compound_that_is_less_than_half_of_the_query_raises_nothing(other, expected):
    terms = Terms("release 1.2", TERMS.idf | {7: other}, {})

    assert lifted("release 1.2", terms=terms)[0][0] == expected
