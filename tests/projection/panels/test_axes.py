"""The axes of a map, in exact numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.projection.map import shares
from mcp_server_qdrant.projection.panels import find_axes, normalise


def test_four_corners_of_a_rectangle_lie_on_their_own_axes():
    corners = np.array([[2, 1, 0], [2, -1, 0], [-2, 1, 0], [-2, -1, 0]], np.float32) + 5

    basis = find_axes(corners, 3)

    assert basis.mean.tolist() == [5, 5, 5]
    assert basis.explained == pytest.approx((0.8, 0.2, 0))  # 16 and 4 of 20
    assert basis.components == pytest.approx(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]]), abs=1e-6)
    assert basis.project(corners) == pytest.approx(
        np.array([[2, 1, 0], [2, -1, 0], [-2, 1, 0], [-2, -1, 0]]), abs=1e-6
    )
    assert basis.project([5, 5, 9]).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_a_tilted_line_is_one_axis():
    along = np.outer([-1.0, 0.0, 1.0], [3.0, -4.0])

    basis = find_axes(along, 2)

    assert basis.components[0] == pytest.approx([-0.6, 0.8])  # its largest entry is positive
    assert find_axes(along[:, ::-1], 2).components[0] == pytest.approx([0.8, -0.6])
    assert basis.explained == pytest.approx((1, 0))
    assert basis.project(along)[:, 0] == pytest.approx([5, 0, -5])


def test_more_dimensions_than_points_give_the_same_as_the_singular_vectors():
    vectors = np.random.default_rng(1).normal(size=(5, 40))

    basis = find_axes(vectors, 3)

    _, values, right = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    assert basis.explained == pytest.approx((values[:3] ** 2 / (values**2).sum()).tolist())
    assert np.abs((basis.components * right[:3]).sum(axis=1)) == pytest.approx(np.ones(3))


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_equal_points_all_lie_in_the_middle(count: int):
    vectors = normalise(np.tile([0.1, -0.7, 0.3, 0.2], (count, 1)))

    basis = find_axes(vectors, 3)

    assert basis.explained == (0, 0, 0)
    assert not basis.project(vectors).any()


def test_one_dimension_leaves_the_other_axes_empty():
    basis = find_axes([[1.0], [3.0]], 3)

    assert basis.components.tolist() == [[1], [0], [0]]
    assert basis.explained == (1, 0, 0)


def test_vectors_are_made_one_long_and_what_is_not_finite_is_zero():
    made = normalise([[3, 4], [0, 0], [np.nan, 1], [np.inf, 1], [3e38, 4e38]])

    assert made == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, 0], [0, 0], [0.6, 0.8]]))


@pytest.mark.parametrize(
    ("sizes", "most", "drawn"),
    [
        ([5, 100, 100], 65, [5, 30, 30]),
        ([100, 5, 10], 1_000, [100, 5, 10]),
        ([0, 50], 10, [0, 10]),
        ([9, 9, 9], 2, [1, 1, 1]),
        ([9, 9, 9], 10, [3, 3, 4]),
        ([], 10, []),
    ],
)
def test_every_collection_has_an_even_share(sizes: list[int], most: int, drawn: list[int]):
    assert shares(sizes, most) == drawn


@given(st.lists(st.integers(0, 500), max_size=20), st.integers(1, 1_000))
def test_shares_use_all_that_may_be_drawn_and_no_more(sizes: list[int], most: int):
    drawn = shares(sizes, most)

    assert all(0 <= one <= size for one, size in zip(drawn, sizes, strict=True))
    assert all(one > 0 for one, size in zip(drawn, sizes, strict=True) if size)
    assert sum(drawn) <= max(most, sum(size > 0 for size in sizes))
    if sum(size > 0 for size in sizes) <= most:
        assert sum(drawn) == min(sum(sizes), most)
