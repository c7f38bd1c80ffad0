"""What makes the vectors, as the settings say."""

import pytest
from pydantic import ValidationError

from mcp_server_qdrant.settings.embedding import DEFAULT_MODEL, OPENAI_MODEL, OPENAI_URL
from mcp_server_qdrant.settings.environment import Settings, explain
from tests.support import make_settings

KEY, OTHER = "sk-openai", "service-key"
SERVICE = "http://localhost:11434/v1"


pytestmark = pytest.mark.usefixtures("no_settings")


def settings(**values) -> Settings:
    return make_settings(qdrant_url=None, **values)


def refusal(**values) -> str:
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    return explain(caught.value)


def test_an_openai_key_in_the_environment_sends_nothing_anywhere(monkeypatch):
    """As with the official server, whose default is the local model."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("EMBEDDING_SERVICE_URL", SERVICE)
    found = settings()

    assert (found.embedding_provider, found.chosen_model) == ("fastembed", DEFAULT_MODEL)
    assert not found.serves("openai")


@pytest.mark.parametrize(
    ("values", "url", "key"),
    [
        ({"openai_api_key": KEY}, OPENAI_URL, KEY),
        ({"openai_api_key": KEY, "embedding_api_key": OTHER}, OPENAI_URL, OTHER),
        ({"embedding_service_url": SERVICE, "embedding_api_key": OTHER}, SERVICE, OTHER),
        ({"embedding_service_url": SERVICE, "openai_api_key": KEY}, SERVICE, None),
    ],
)
def test_openais_key_is_never_sent_to_another_service(values, url, key):
    found = settings(embedding_provider="openai", embedding_model="m", **values)

    assert (found.service_url, found.service_key) == (url, key)


def test_openai_has_a_default_model_and_another_service_must_name_one():
    assert settings(embedding_provider="openai").chosen_model == OPENAI_MODEL
    said = refusal(embedding_provider="openai", embedding_service_url=SERVICE)
    assert "EMBEDDING_MODEL must name the model that the embedding service has" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("notes=a/One, docs-*=openai:b", (("notes", "a/One"), ("docs-*", "openai:b"))),
        ('{"a,b": "m=x", "c": "bge-m3:567m"}', (("a,b", "m=x"), ("c", "bge-m3:567m"))),
        ("", ()),
    ],
)
def test_models_of_collections_are_pairs_or_json(text, expected):
    assert settings(collection_models=text).collection_models == expected


@pytest.mark.parametrize("text", ["notes", "=m", "notes=", "{", "a=b,c"])
def test_models_of_collections_that_are_no_pairs_are_refused(text):
    assert "name=value pairs separated by commas, or a JSON object" in refusal(
        collection_models=text
    )
