"""BM25's parameters."""

import pytest

from mcp_server_qdrant.core.bm25 import AVERAGE_LENGTH, K1, B, of_index


@pytest.mark.parametrize("average", [0.0, 7.5, 54.6, 256.0, 4000.0])
@pytest.mark.parametrize("length", [1, 40, 900])
def test_a_text_index_weighs_a_text_as_the_vectors_do_whatever_its_average_length(average, length):
    k, b, factor = of_index(average)

    part = length / average if average else 0.0
    ours = K1 * (1 - B + B * length / AVERAGE_LENGTH) if average else K1 * (1 - B)
    for tf in (1, 2, 9):
        theirs = factor * tf * (k + 1) / (tf + k * (1 - b + b * part))
        assert theirs == pytest.approx(tf * (K1 + 1) / (tf + ours), rel=1e-12)


def test_at_the_average_of_the_vectors_nothing_is_changed():
    assert of_index(AVERAGE_LENGTH) == pytest.approx((K1, B, 1.0))
