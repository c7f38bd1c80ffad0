"""What holds of the formula for all numbers."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.core.datatypes import Candidate, DenseLeg, Scored, SparseLeg, Target
from mcp_server_qdrant.search.present import quote
from mcp_server_qdrant.search.relevance import calibrate
from mcp_server_qdrant.search.words.terms import (
    Terms,
    Words,
    document_frequency,
    global_idf,
)

few = settings(max_examples=60, deadline=None)
cosines = st.floats(-1.001, 1.001)
scores = st.floats(0, 50)
counts = st.integers(0, 100_000)


@few
@given(counts, counts)
def test_document_frequency_inverts_qdrants_idf_for_all_collections(one, other):
    df, documents = sorted((one, other))
    documents = max(documents, 1)
    df = max(df, 1)
    idf = math.log((documents - df + 0.5) / (df + 0.5) + 1)

    assert abs(document_frequency(documents, idf) - df) < 0.01


@few
@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 1)), min_size=1, max_size=6))
def test_a_cut_corpus_has_the_idf_of_the_whole(parts):
    """However the documents are spread over collections, idf is that of one big collection."""
    pairs = [(n, max(1, round(n * share))) for n, share in parts]
    total, df = sum(n for n, _ in pairs), sum(d for _, d in pairs)

    def idf(n: int, d: int) -> float:
        return math.log((n + 1) / (d + 0.5))

    cut = global_idf([[1]], [(n, {1: idf(n, d)}) for n, d in pairs])

    assert math.isclose(cut[1], idf(total, df), abs_tol=1e-9)


@st.composite
def found(draw):
    name = draw(st.sampled_from("abc"))
    ids = draw(st.lists(st.integers(0, 30), unique=True, max_size=8))
    target = Target(name, 10, DenseLeg("v", 4, "cosine", "m"), SparseLeg("bm25", idf=True))
    return Scored(
        [target],
        [Candidate(name, point, 0.01, draw(cosines), draw(scores), {}) for point in ids],
    )


@few
@given(st.lists(found(), max_size=3, unique_by=lambda f: f.targets[0].collection))
def test_calibrating_orders_everything_and_loses_nothing(parts):
    terms = Terms("q", {1: 2.0, 2: 1.0}, {})
    hits = calibrate(parts, terms, 0.4)

    assert {(h.collection, h.id) for h in hits} == {
        (c.collection, c.id) for f in parts for c in f.candidates
    }
    assert hits == sorted(hits, key=lambda h: (-h.relevance, h.collection, str(h.id)))
    assert calibrate(parts[::-1], terms, 0.4) == hits


@few
@given(st.text(alphabet="ab \n.!?#|`=-。备份", max_size=600), st.integers(1, 60))
def test_a_quote_is_one_stretch_of_the_text_and_fits(text, length):
    def tokens(piece):
        return [1] if "b" in piece or "备" in piece else []

    shown = quote(text, (), Words(Terms("b", {1: 1.0}, {}), lambda _: tokens), length)[0]

    assert "".join(shown.split()) in "".join(text.split())
    assert len(shown) <= length
