"""What a scope includes."""

import pytest

from mcp_server_qdrant.http.auth.scopes import granted


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
    assert granted(named) == held
