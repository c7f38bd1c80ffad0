"""How long the work under way may still take."""

import asyncio

from mcp_server_qdrant.core.context import left, within


def test_nobody_set_an_end():
    assert left() is None


def test_inside_less_and_less_is_left_and_outside_nothing_is_said():
    with within(10):
        first, second = left(), left()

    assert 9 < second <= first <= 10
    assert left() is None


async def test_tasks_started_inside_have_the_same_end():
    async def asked():
        return left()

    with within(10):
        task = asyncio.ensure_future(asked())

    assert 9 < await task <= 10


def test_an_end_that_is_past_binds_nobody():
    with within(0):
        assert left() is None


def test_the_inner_end_counts_inside():
    with within(10):
        with within(5):
            assert left() <= 5
        assert left() > 5
