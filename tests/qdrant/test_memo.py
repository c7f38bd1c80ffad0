"""Results that are made once for all that share what they are made of."""

from mcp_server_qdrant.qdrant.memo import MOST, Memo


def test_values_are_compared_and_other_objects_are_told_apart_by_identity():
    made = []
    memo = Memo[int]()

    def make(*parts):
        made.append(parts)
        return len(made)

    vector, equal = [1.0], [1.0]
    asked = [(vector, "v", 3), (vector, "".join(["v"]), 3), (equal, "v", 3), (vector, "w", 3)]

    assert [memo.of(parts, make) for parts in asked] == [1, 1, 2, 3]


def test_few_are_kept():
    memo = Memo[list[int]]()
    first = memo.of((-1,), lambda _: [])
    for number in range(MOST):
        memo.of((number,), lambda _: [])

    assert memo.of((-1,), lambda _: []) is not first
