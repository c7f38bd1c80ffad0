"""The settings: their names, their defaults, and the sentence for a wrong one."""

import importlib.util
import re
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.find import FilterableField
from mcp_server_qdrant.settings.environment import Settings, environment_names, load, masked_value

ROOT = Path(__file__).parent.parent.parent
VARIABLES = [name for names in environment_names().values() for name in names]

OFFICIAL = {  # of mcp-server-qdrant 0.8.1, and of its README
    "QDRANT_URL",
    "QDRANT_API_KEY",
    "QDRANT_LOCAL_PATH",
    "COLLECTION_NAME",
    "QDRANT_SEARCH_LIMIT",
    "QDRANT_READ_ONLY",
    "QDRANT_ALLOW_ARBITRARY_FILTER",
    "FILTERABLE_FIELDS",
    "EMBEDDING_PROVIDER",
    "EMBEDDING_MODEL",
    "TOOL_FIND_DESCRIPTION",
    "TOOL_STORE_DESCRIPTION",
    "FASTMCP_HOST",
    "FASTMCP_PORT",
    "FASTMCP_LOG_LEVEL",
    "FASTMCP_SERVER_HOST",
    "FASTMCP_SERVER_PORT",
    "FASTMCP_SERVER_LOG_LEVEL",
}
FIELD = '{"name": "year", "description": "Year", "field_type": "integer", "condition": ">="}'


pytestmark = pytest.mark.usefixtures("no_settings")


def test_every_official_variable_is_read():
    assert set(VARIABLES) >= OFFICIAL


def test_what_looks_like_a_setting_and_is_none_is_told_and_no_error(monkeypatch, tmp_path):
    file = tmp_path / "any.env"
    file.write_text("SYNC_SHARE=1\nCOLLECTION_NAME=notes\n")
    file.chmod(0o600)
    monkeypatch.setenv("QDRANT_COLECTIONS", "notes")
    for removed in ("HTTP_MAX_CALLS", "AUTH_RESOURCE_URL", "BM25_LANGUAGE"):
        monkeypatch.setenv(removed, "1")
    monkeypatch.setenv("RERANKER_PORT", "another program's")
    monkeypatch.setenv("HTTP_PROXY", "another program's")
    monkeypatch.setenv("QDRANT__SERVICE__API_KEY", "the server's own")
    said: list[str] = []
    load(file, said.append)

    assert [sentence.partition(" is not a setting")[0] for sentence in said] == [
        "AUTH_RESOURCE_URL",
        "BM25_LANGUAGE",
        "HTTP_MAX_CALLS",
        "QDRANT_COLECTIONS",
        "SYNC_SHARE",
    ]


@pytest.mark.parametrize("prefix", ["FASTMCP", "FASTMCP_SERVER"])
def test_both_fastmcp_spellings_are_read(loaded, prefix):
    settings = loaded(
        **{f"{prefix}_HOST": "0.0.0.0", f"{prefix}_PORT": "9001", f"{prefix}_LOG_LEVEL": "debug"},
    )

    assert (settings.fastmcp_host, settings.fastmcp_port, settings.fastmcp_log_level) == (
        "0.0.0.0",
        9001,
        "DEBUG",
    )


def test_of_both_spellings_the_shorter_wins(loaded):
    assert loaded(FASTMCP_PORT="1", FASTMCP_SERVER_PORT="2").fastmcp_port == 1


def test_an_empty_variable_is_not_set(loaded):
    assert loaded(QDRANT_URL="", FASTMCP_PORT="").fastmcp_port == 8000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("notes", ("notes",)),
        ("notes, team-*,recipes ,", ("notes", "team-*", "recipes")),
        ('["notes", "a, b"]', ("notes", "a, b")),
    ],
)
def test_lists_are_written_by_comma_or_as_json(loaded, text, expected):
    settings = loaded(QDRANT_COLLECTIONS=text, QDRANT_CONTENT_FIELDS=text)

    assert settings.qdrant_collections == settings.qdrant_content_fields == expected


def test_filterable_fields_are_a_json_list(loaded):
    settings = loaded(FILTERABLE_FIELDS=f"[{FIELD}]")

    assert settings.filterable_fields == (
        FilterableField(name="year", description="Year", field_type="integer", condition=">="),
    )


@pytest.mark.parametrize(
    ("fields", "allow", "expected"),
    [("", "", True), (f"[{FIELD}]", "", False), (f"[{FIELD}]", "true", True), ("", "false", False)],
)
def test_any_filter_may_be_sent_unless_fields_are_named_or_it_is_forbidden(
    loaded, fields, allow, expected
):
    settings = loaded(FILTERABLE_FIELDS=fields, QDRANT_ALLOW_ARBITRARY_FILTER=allow)

    assert settings.arbitrary_filter is expected


@pytest.mark.parametrize("other", [{"QDRANT_URL": "http://x"}, {"QDRANT_API_KEY": "k"}])
def test_the_embedded_engine_and_a_server_exclude_each_other(loaded, other):
    with pytest.raises(ConfigError) as caught:
        loaded(QDRANT_LOCAL_PATH="/data", **other)

    assert str(caught.value) == (
        "QDRANT_LOCAL_PATH cannot be set together with QDRANT_URL or QDRANT_API_KEY: choose the "
        "embedded engine or a server."
    )


def test_no_key_is_ever_shown(loaded):
    secret = [name for name in VARIABLES if name.endswith(("_KEY", "_TOKEN"))]
    assert len(secret) == 5
    keys = dict.fromkeys(secret, "s3cret-s3cret-s3cret")
    settings = loaded(QDRANT_URL="http://x", AUTH_MODE="token", **keys)
    told = [repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())]
    told += [masked_value(name, value) for name, value in keys.items()]
    with pytest.raises(ConfigError) as caught:
        loaded(QDRANT_LOCAL_PATH="/data")

    assert settings.qdrant_api_key.get_secret_value() == "s3cret-s3cret-s3cret"
    assert not any("s3cret" in text for text in [*told, str(caught.value)])


@pytest.mark.parametrize(
    ("variable", "value", "what"),
    [
        ("LOG_FORMAT", "xml", "'text' or 'json'"),
        ("QDRANT_RECENCY_WEIGHT", "1.1", "must be at most 1."),
        ("RERANK_URL", "host:8080", "must be a URL such as https://host:8080/path."),
        *(("HYBRID_ALPHA", value, "must be a") for value in ("1.1", "-1", "much")),
        ("FASTMCP_PORT", "eighty", "must be a whole number"),
        ("FASTMCP_PORT", "70000", "must be at most 65535"),
        ("FASTMCP_LOG_LEVEL", "loud", "'DEBUG', 'INFO', 'WARNING', 'ERROR' or 'CRITICAL'"),
        ("COLLECTION_NAME", "notes/2026", "'notes/2026' cannot be a collection's name"),
        ("QDRANT_LOCAL_PATH", __file__, "is a file or lies below one"),
        ("QDRANT_LOCAL_PATH", f"{__file__}/data", "is a file or lies below one"),
        ("QDRANT_URL", "http://a host", "must be a URL such as"),
        ("EMBEDDING_SERVICE_URL", "http://host:99999", "must be a URL such as"),
        ("QDRANT_SEARCH_LIMIT", "0", "must be greater than 0"),
        ("QDRANT_READ_ONLY", "maybe", "must be true or false"),
        ("QDRANT_COLLECTIONS", '["a"', "names separated by commas, or a JSON list"),
        ("QDRANT_COLLECTIONS", '["a", 1]', "must be a string"),
        ("AUTH_MODE", "nobody", "'none', 'token' or 'oauth'"),
        ("FILTERABLE_FIELDS", "nonsense", "it must be a JSON list of objects"),
        ("FILTERABLE_FIELDS", FIELD, "it must be a JSON list of objects"),
        ("FILTERABLE_FIELDS", '[{"name": "a"}]', "description: is required"),
        ("FILTERABLE_FIELDS", f"[{FIELD.replace('>=', '~')}]", "condition: must be"),
        ("FILTERABLE_FIELDS", f"[{FIELD.replace('year', 'a.b')}]", "name: must match ^"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_variable(loaded, variable, value, what):
    with pytest.raises(ConfigError) as caught:
        loaded(**{variable: value})

    text = str(caught.value)
    assert text.startswith(f"{variable}: ")
    assert what in text
    assert text.endswith(".")
    assert "\n" not in text
    assert "pydantic" not in text


def test_only_known_names_can_be_given_in_code():
    assert Settings(qdrant_url="http://x").qdrant_url == "http://x"
    assert Settings(QDRANT_RECENCY_WEIGHT=1).qdrant_recency_weight == 1


def test_a_setting_has_no_name_but_its_own(loaded):
    others = {"HOST": "0.0.0.0", "PORT": "1", "RECENCY_WEIGHT": "1"}

    assert loaded(**others, STATELESS="true", CACHE_DIR="/tmp") == Settings()
    assert (load().fastmcp_port, load().qdrant_recency_weight) == (8000, 0.15)


def example_script():
    path = ROOT / "scripts" / "env_example.py"
    spec = importlib.util.spec_from_file_location("env_example", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_example_file_is_what_the_settings_say():
    assert (ROOT / ".env.example").read_text("utf-8") == example_script().example()


def test_the_example_file_with_everything_uncommented_is_the_defaults(tmp_path):
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    assigned = [line[2:] for line in lines if re.match(r"# [A-Z][A-Z0-9_]+=", line)]
    file = tmp_path / "any.env"
    file.write_text("\n".join(assigned))

    assert len(assigned) == len(environment_names())
    assert load(file) == Settings()


def test_every_description_is_a_sentence():
    meanings = example_script().meanings()

    assert meanings.keys() == Settings.model_fields.keys()
    wrong = [text for text in meanings.values() if not re.match(r"[A-Z`].*\.$", text)]
    assert wrong == []
