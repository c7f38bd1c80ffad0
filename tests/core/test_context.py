"""How long the work under way may still take, and who asked for it."""

import pytest

from mcp_server_qdrant.core.context import (
    MOMENT,
    READ,
    Caller,
    caller_details,
    calling,
    expand_scopes,
    seconds_left,
    serving_client,
    within,
)

ANA = Caller("ana", frozenset({READ}), {"team": "blue"})


def test_inside_less_and_less_is_left_and_outside_nothing_is_said():
    with within(10):
        first, second = seconds_left(), seconds_left()

    assert 9 < second <= first <= 10
    assert seconds_left() is None


def test_after_the_end_a_call_has_a_moment_and_not_all_of_its_own_time():
    with within(-5):
        assert seconds_left() == MOMENT


def test_who_speaks_is_the_program_and_the_caller_as_far_as_they_are_known():
    assert caller_details() == {}
    with serving_client(("cursor", "1.2")):
        assert caller_details() == {"client": "cursor", "version": "1.2"}
        with calling(ANA):
            assert caller_details() == {"client": "cursor", "version": "1.2", "caller": "ana"}


@pytest.mark.parametrize(
    ("named", "held"),
    [
        ([], set()),
        (["read"], {"read"}),
        (["write"], {"read", "write"}),
        (["admin"], {"read", "write", "admin"}),
        (["read", "admin"], {"read", "write", "admin"}),
        (["openid", "profile"], set()),
        (["Read", "READ", "reader"], set()),
    ],
)
def test_a_scope_includes_those_before_it_and_other_words_grant_nothing(named, held):
    assert expand_scopes(named) == held
