"""Whose turn it is."""

import pytest

from mcp_server_qdrant.hosting import shares as shares_module
from mcp_server_qdrant.hosting.shares import Shares
from tests.support import Clock


def taken(shares: Shares[str], seconds: float = 1.0) -> str:
    """What is next, done in so much time."""
    caller, one = shares.take()
    shares.charge(caller, seconds)
    return one


def test_what_one_caller_has_waiting_keeps_its_order():
    shares: Shares[str] = Shares()
    for one in "abc":
        shares.put("ana", one)

    assert [taken(shares) for _ in range(3)] == ["a", "b", "c"]
    assert not shares


def test_one_that_has_much_waiting_does_not_keep_the_others_waiting():
    shares: Shares[str] = Shares()
    for number in range(50):
        shares.put("ana", f"ana {number}")
    shares.put("bob", "bob 0")
    shares.put("bob", "bob 1")

    assert [taken(shares) for _ in range(4)] == ["ana 0", "bob 0", "ana 1", "bob 1"]


def test_what_counts_is_time_and_not_the_number_of_calls():
    shares: Shares[str] = Shares()
    for number in range(30):
        shares.put("slow", "s")
        shares.put("quick", f"{number}")
    order = []
    for _ in range(12):
        caller, one = shares.take()
        shares.charge(caller, 10.0 if caller == "slow" else 1.0)
        order.append(one)

    assert order.count("s") == 2


def test_who_was_away_has_saved_up_nothing():
    shares: Shares[str] = Shares()
    for _ in range(10):
        shares.put("ana", "a")
        taken(shares)
    for number in range(4):
        shares.put("ana", f"a{number}")
        shares.put("bob", f"b{number}")

    assert sorted(taken(shares) for _ in range(4)) == ["a0", "a1", "b0", "b1"]


def test_who_used_much_while_nobody_waited_does_not_pay_for_ever():
    shares: Shares[str] = Shares()
    shares.put("ana", "a")
    taken(shares, 1_000.0)
    shares.put("ana", "a")
    shares.take()
    shares.put("bob", "b")
    shares.put("ana", "again")

    assert [taken(shares), taken(shares)] == ["b", "again"]


def test_nothing_waits():
    with pytest.raises(ValueError):
        Shares().take()


def test_callers_that_went_are_forgotten():
    shares: Shares[str] = Shares()
    for number in range(5_000):
        shares.put(number, "x")
        taken(shares)

    assert len(shares._used) < 2_000


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(shares_module.time, "monotonic", made)
    return made


def test_who_kept_others_waiting_rests_a_multiple_of_that_time(clock):
    shares: Shares[str] = Shares()
    shares.put("bob", "b")
    shares.take()
    shares.put("ana", "a")
    shares.take()
    shares.rest("ana", 0.1)
    shares.put("ana", "again")

    assert shares.pause() == pytest.approx(0.4)
    shares.put("bob", "quick")
    assert (shares.pause(), shares.take()) == (0.0, ("bob", "quick"))
    clock.now += 0.5
    assert (shares.pause(), shares.take()) == (0.0, ("ana", "again"))


def test_who_is_alone_never_rests_nor_does_who_was_quick(clock):
    shares: Shares[str] = Shares()
    shares.put("bob", "b")
    shares.take()
    shares.rest("ana", 0.005)
    shares.put("ana", "a")
    assert shares.pause() == 0.0

    clock.now += 60.0
    shares.rest("ana", 1.0)
    assert shares.pause() == 0.0
