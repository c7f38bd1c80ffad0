"""The settings of a server over HTTP, of its logs, and of a cluster."""

import pytest

from mcp_server_qdrant.core.errors import ConfigError


def test_the_limits_have_sensible_defaults(loaded):
    made = loaded()

    assert made.http_max_calls == 64
    assert made.forwarded_allow_ips == ("127.0.0.1",)
    assert made.log_format == "text"
    assert not made.stateless


def test_every_one_can_be_set(loaded):
    made = loaded(
        FASTMCP_STATELESS_HTTP="true",
        HTTP_MAX_CALLS="8",
        FORWARDED_ALLOW_IPS="10.0.0.7, 192.168.0.0/16, ::1",
        LOG_FORMAT="json",
    )

    assert made.stateless
    assert made.http_max_calls == 8
    assert made.forwarded_allow_ips == ("10.0.0.7", "192.168.0.0/16", "::1")
    assert made.log_format == "json"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("HTTP_MAX_CALLS", "0", "must be greater than or equal to 1"),
        ("FORWARDED_ALLOW_IPS", "*", "must be addresses or networks such as 10.0.0.0/8"),
        ("LOG_FORMAT", "xml", "'text' or 'json'"),
    ],
)
def test_a_wrong_one_is_a_sentence_that_names_it(loaded, variable, value, sentence):
    with pytest.raises(ConfigError) as caught:
        loaded(QDRANT_URL="http://localhost:6333", **{variable: value})

    assert variable in str(caught.value)
    assert sentence in str(caught.value)
