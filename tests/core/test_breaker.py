"""When a service is left alone, and for how long."""

from mcp_server_qdrant.core.breaker import FAILURES, LONGEST, Breaker
from tests.support import Clock


def opened(seconds: float = 30.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(seconds, clock=clock), clock


def test_it_opens_at_the_third_failure_in_a_row_and_closes_after_the_pause():
    breaker, clock = opened()
    for number in range(1, FAILURES + 1):
        assert not breaker.open
        breaker.failed(f"fault {number}")
    assert breaker.open
    assert breaker.reason == "fault 3"

    clock.now += 29.9
    assert breaker.open
    clock.now += 0.2
    assert not breaker.open


def test_a_success_in_between_starts_the_count_anew():
    breaker, _ = opened()
    for _ in range(5):
        breaker.failed("fault")
        breaker.failed("fault")
        assert not breaker.open
        breaker.succeeded()
    assert (breaker.open, breaker.reason) == (False, None)


def test_after_the_pause_one_failure_is_enough():
    breaker, clock = opened()
    breaker.failed("wrong key", at_once=True)
    assert breaker.open
    clock.now += 31
    for _ in range(FAILURES - 1):
        breaker.failed("fault")
    assert breaker.open


def test_the_service_may_ask_for_longer_but_not_for_ever():
    breaker, clock = opened()
    breaker.failed("busy", wait=120.0)
    clock.now += 119
    assert breaker.open
    breaker.failed("busy", wait=1e9)
    clock.now += LONGEST + 1
    assert not breaker.open
