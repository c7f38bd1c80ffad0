"""Whose turn it is."""

from mcp_server_qdrant.hosting.queues import Queues


def test_items_of_one_caller_keep_their_order():
    queues: Queues[str] = Queues()
    for one in "abc":
        queues.put("ana", one)

    assert [queues.take() for _ in range(3)] == ["a", "b", "c"]
    assert not queues


def test_a_caller_with_many_items_does_not_keep_the_others_waiting():
    queues: Queues[str] = Queues()
    for number in range(50):
        queues.put("ana", f"ana {number}")
    queues.put("bob", "bob 0")
    queues.put("bob", "bob 1")

    assert [queues.take() for _ in range(5)] == ["ana 0", "bob 0", "ana 1", "bob 1", "ana 2"]


def test_a_caller_that_comes_waits_for_one_item_of_each_other_caller_at_most():
    queues: Queues[str] = Queues()
    for caller in ("ana", "bob"):
        for number in range(5):
            queues.put(caller, f"{caller} {number}")
    queues.take()
    queues.put("eve", "eve 0")

    assert [queues.take() for _ in range(3)] == ["bob 0", "ana 1", "eve 0"]
