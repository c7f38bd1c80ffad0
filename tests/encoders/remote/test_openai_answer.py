"""An embeddings answer, in every form that is right and many that are not."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from tests.embedding_stub import rows

vectors = OpenAIEncoder("m", "http://x").parse
number = st.floats(-1e3, 1e3, width=32).filter(lambda value: value == 0 or abs(value) > 1e-3)
vector = st.lists(number, min_size=3, max_size=3).filter(any)
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["data", "index", "embedding", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(vector, min_size=1, max_size=6), st.randoms())
def test_unit_vectors_come_in_the_order_of_the_texts(given_vectors, random):
    answer = rows(given_vectors)
    random.shuffle(answer["data"])

    made = vectors(answer)

    for one, other in zip(made, given_vectors, strict=True):
        assert math.hypot(*one) == pytest.approx(1, abs=1e-6)
        assert one == pytest.approx([x / math.hypot(*other) for x in other], abs=1e-6)


@given(anything)
def test_whatever_is_answered_is_vectors_or_one_kind_of_fault(answer):
    with contextlib.suppress(EncoderUnavailable):  # and nothing else
        assert all(math.hypot(*one) for one in vectors(answer))


def test_answers_without_indexes_are_taken_as_they_come():
    answer = {"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0]}]}

    assert vectors(answer) == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("indexes", [[0, 0], [1, 2], [0, None], [0, "1"], [True, 0], [0.0, 1.0]])
def test_indexes_that_do_not_name_the_texts_are_refused(indexes):
    answer = {"data": [{"index": i, "embedding": [1.0]} for i in indexes]}

    with pytest.raises(EncoderUnavailable, match="distinct indexes"):
        vectors(answer)
