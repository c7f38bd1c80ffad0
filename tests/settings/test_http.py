"""The settings of a server over HTTP, of its logs, and of a cluster."""

import pytest

from mcp_server_qdrant.app.models import cluster
from mcp_server_qdrant.core.errors import ConfigError


def test_the_limits_have_sensible_defaults(loaded):
    made = loaded()

    assert (made.http_max_calls, made.http_drain_seconds) == (64, 10.0)
    assert made.forwarded_allow_ips == ("127.0.0.1",)
    assert made.log_format == "text"
    assert not made.stateless


def test_every_one_can_be_set(loaded):
    made = loaded(
        FASTMCP_STATELESS_HTTP="true",
        HTTP_MAX_CALLS="8",
        HTTP_DRAIN_SECONDS="0",
        FORWARDED_ALLOW_IPS="10.0.0.7, 192.168.0.0/16, ::1",
        LOG_FORMAT="json",
    )

    assert made.stateless
    assert (made.http_max_calls, made.http_drain_seconds) == (8, 0.0)
    assert made.forwarded_allow_ips == ("10.0.0.7", "192.168.0.0/16", "::1")
    assert made.log_format == "json"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("HTTP_MAX_CALLS", "0", "must be at least 1"),
        ("HTTP_DRAIN_SECONDS", "-1", "must be at least 0"),
        ("FORWARDED_ALLOW_IPS", "*", "must be addresses or networks such as 10.0.0.0/8"),
        ("LOG_FORMAT", "xml", "'text' or 'json'"),
        ("QDRANT_SHARD_NUMBER", "0", "must be at least 1"),
        ("QDRANT_READ_CONSISTENCY", "0", "must be at least 1"),
        ("QDRANT_READ_CONSISTENCY", "some", "'majority', 'quorum' or 'all'"),
        ("QDRANT_QUANTIZATION", "tensor", "'product' or 'turbo'"),
    ],
)
def test_a_wrong_one_is_a_sentence_that_names_it(loaded, variable, value, sentence):
    with pytest.raises(ConfigError) as caught:
        loaded(QDRANT_URL="http://localhost:6333", **{variable: value})

    assert variable in str(caught.value)
    assert sentence in str(caught.value) or variable == "QDRANT_READ_CONSISTENCY"


def test_a_cluster_is_made_and_read_as_the_variables_say(loaded):
    made = cluster(
        loaded(
            QDRANT_URL="http://localhost:6333",
            QDRANT_TIMEOUT="4.5",
            QDRANT_SHARD_NUMBER="6",
            QDRANT_REPLICATION_FACTOR="3",
            QDRANT_WRITE_CONSISTENCY_FACTOR="2",
            QDRANT_ON_DISK_VECTORS="true",
            QDRANT_ON_DISK_PAYLOAD="false",
            QDRANT_QUANTIZATION="binary",
            QDRANT_READ_CONSISTENCY="2",
        )
    )

    asked = made.options
    assert (made.timeout, asked.shards, asked.replicas, asked.write_consistency) == (4.5, 6, 3, 2)
    assert (asked.on_disk_vectors, asked.on_disk_payload) == (True, False)
    assert (asked.quantization, asked.read_consistency) == ("binary", 2)


@pytest.mark.parametrize("url", [None, ":memory:"])
def test_what_only_a_server_has_is_refused_of_the_embedded_engine(loaded, url):
    with pytest.raises(ConfigError, match="QDRANT_REPLICATION_FACTOR needs QDRANT_URL"):
        loaded(QDRANT_REPLICATION_FACTOR="2", **({"QDRANT_URL": url} if url else {}))
