"""Preferred collections."""

import pytest

from mcp_server_qdrant.search.ranking import boost_preferred
from mcp_server_qdrant.search.relevance import Hit


def hit(collection: str, score: float) -> Hit:
    return Hit(collection, 1, score, score, 0.0, None, None)


ORDER = ("work", "home")


@pytest.mark.parametrize(
    ("level", "work", "home"),
    [("soft", 1.1**2, 1.1), ("medium", 1.25**2, 1.25), ("hard", 1.5**2, 1.5)],
)
def test_a_collections_factor_is_its_levels_base_to_the_power_of_its_place(level, work, home):
    ranked = boost_preferred([hit("work", 0.1), hit("home", 0.1), hit("other", 0.1)], ORDER, level)

    assert [(one.collection, one.score) for one in ranked] == [
        ("work", pytest.approx(0.1 * work)),
        ("home", pytest.approx(0.1 * home)),
        ("other", 0.1),
    ]
    assert ranked[0].factors == (("priority", pytest.approx(work)),)


def test_natural_priority_and_an_empty_order_change_nothing():
    hits = [hit("other", 0.3), hit("work", 0.2)]

    assert boost_preferred(hits, ORDER, "natural") == hits
    assert boost_preferred(hits, (), "hard") == hits
