"""The names of embedding providers."""

from pathlib import Path

import pytest

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.encoders.providers import PROVIDERS, check_provider
from tests.support import make_settings

ROOT = Path(__file__).parent.parent.parent


def test_an_unknown_provider_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"^EMBEDDING_PROVIDER is 'acme'; .*one of: fastembed, "):
        check_provider("acme")
    with pytest.raises(ConfigError, match="EMBEDDING_PROVIDER is 'acme'"):
        open_encoders(make_settings(embedding_provider="acme"))


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_in_the_docs(name):
    assert f"\n| `{name}` |" in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
