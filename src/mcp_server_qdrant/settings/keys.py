"""Keys of the environment that would go to an address which a settings file names."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mcp_server_qdrant.settings.embedding import EmbeddingSettings
from mcp_server_qdrant.settings.sources import printable


def keys_sent(
    settings: EmbeddingSettings,
    given: Collection[str],
    names: Mapping[str, tuple[str, ...]],
    file: Path,
) -> Iterator[str]:
    """A sentence for each key of the environment that goes to an address which the file names.

    `given` are the fields that the environment sets, `names` all fields' variables.
    """
    for key, address in _destinations(settings):
        host = urlsplit(getattr(settings, address) or "").hostname
        if key in given and host and address not in given:
            yield (
                f"{names[key][0]} of the environment goes to {host}, "
                f"the {names[address][0]} of {printable(file)}"
            )


def _destinations(settings: EmbeddingSettings) -> Iterator[tuple[str, str]]:
    """Pairs of a key and the address that gets it, both as fields."""
    yield "qdrant_api_key", "qdrant_url"
    yield "rerank_api_key", "rerank_url"
    yield "tenant_check_key", "tenant_check_url"
    if settings.serves("qdrant"):
        yield "embedding_api_key", "qdrant_url"
    if settings.serves("openai"):
        own = settings.service_url == settings.embedding_service_url
        for key in ("embedding_api_key", "openai_api_key"):
            secret = getattr(settings, key)
            if secret and secret.get_secret_value() == settings.service_key:
                yield key, "embedding_service_url" if own else "openai_base_url"
