"""Variables of earlier versions are accepted, and what became of them is told."""

import pytest

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.options import ClusterOptions
from mcp_server_qdrant.settings.environment import environment_names, load
from mcp_server_qdrant.settings.former import FORMER

VALUES = {  # of variables whose value is no small number
    "HYBRID_ALPHA_STEPS": "0.5,0.7,0.8",
    "HYBRID_ALPHA_SIZES": "500,5000",
    "QDRANT_PREFER_GRPC": "true",
    "QDRANT_ON_DISK_VECTORS": "true",
    "QDRANT_ON_DISK_PAYLOAD": "true",
    "QDRANT_QUANTIZATION": "scalar",
    "EMBEDDING_MAX_TOKENS": "64",
    "RERANK_POOL": "2",
    "QDRANT_FOLD_DUPLICATES": "false",
}


def test_each_leads_to_a_setting_or_is_a_constant_now():
    variables = {name for names in environment_names().values() for name in names}

    assert {new.partition(" ")[0] for new in FORMER.values() if new} <= variables
    assert not variables & FORMER.keys()


@pytest.mark.parametrize("old", FORMER)
@pytest.mark.parametrize("in_file", [False, True])
def test_each_is_told_of_and_never_an_error(loaded, old, in_file, tmp_path, monkeypatch):
    loaded(QDRANT_URL="http://localhost:6333")
    value = VALUES.get(old, "1")
    file = tmp_path / "any.env"
    file.write_text(f"{old}={value}" if in_file else "")
    file.chmod(0o600)
    if not in_file:
        monkeypatch.setenv(old, value)
    said: list[str] = []
    settings = load(file, said.append)

    (sentence,) = said
    name, _, key = FORMER[old].partition(" ")
    assert sentence.startswith(f"{old} is no")
    assert name in sentence
    if key:
        group = next(f for f, names in environment_names().items() if name in names)
        assert str(getattr(getattr(settings, group), key)).lower() in (value, f"{value}.0")


def test_what_is_set_under_the_new_name_wins(loaded):
    settings = loaded(
        QDRANT_FUZZY_WEIGHT="0.15",
        QDRANT_FUZZY_BOOST="0.05",
        RERANK_POOL="7",
        RERANK_TIMEOUT="2",
        RERANK_LIMITS="pool=9",
    )

    assert settings.fuzzy_boost == 0.05
    assert (settings.rerank_limits.pool, settings.rerank_limits.seconds) == (9, 2)


def test_the_old_limit_of_the_boost_is_taken_for_the_new_one(loaded):
    assert loaded(QDRANT_FUZZY_WEIGHT="1").fuzzy_boost == 0.2


def test_prefixes_keep_their_spaces_and_commas(loaded):
    options = loaded(EMBEDDING_QUERY_PREFIX="Given a query, find: ").embedding_options

    assert options.query_prefix == "Given a query, find: "


@pytest.mark.parametrize(
    "written",
    ["grpc=true,grpc_port=6334,shards=3", '{"grpc": true, "grpc_port": 6334, "shards": 3}'],
)
def test_parts_that_do_nothing_any_more_are_told_of_and_the_others_are_taken(
    loaded, monkeypatch, written
):
    loaded(QDRANT_URL="http://localhost:6333")
    monkeypatch.setenv("QDRANT_CLUSTER", written)
    said: list[str] = []
    settings = load(None, said.append)

    assert settings.cluster == ClusterOptions(shards=3)
    assert said == [
        f"{key} in QDRANT_CLUSTER is no longer a setting and does nothing: remove it"
        for key in ("grpc", "grpc_port")
    ]


def test_parts_of_a_group_that_is_gone_become_settings_of_their_own(loaded, monkeypatch):
    loaded()
    monkeypatch.setenv("HTTP_LIMITS", "calls=8,drain=0.5,share=1")
    said: list[str] = []
    settings = load(None, said.append)

    assert (settings.http_max_calls, settings.http_drain_seconds) == (8, 0.5)
    assert said == [
        "share in HTTP_LIMITS is no longer a setting and does nothing: remove it",
        "calls in HTTP_LIMITS is now HTTP_MAX_CALLS: set that instead",
        "drain in HTTP_LIMITS is now HTTP_DRAIN_SECONDS: set that instead",
    ]


def test_a_group_that_cannot_be_read_is_named(loaded):
    with pytest.raises(ConfigError, match=r"^QDRANT_CLUSTER: "):
        loaded(QDRANT_URL="http://localhost:6333", QDRANT_CLUSTER="grpc")
