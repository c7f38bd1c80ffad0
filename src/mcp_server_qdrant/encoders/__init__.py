"""Texts to vectors: dense ones from a model, sparse ones from BM25."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.errors import ConfigError

if TYPE_CHECKING:
    from mcp_server_qdrant.encoders.fastembed import FastEmbedEncoder


def open_encoder(provider: str, **options: Any) -> "FastEmbedEncoder":
    """The encoder of a provider, not yet started; `options` are what its class takes."""
    if provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"EMBEDDING_PROVIDER is {provider!r}; it must be one of: {known}.")
    return PROVIDERS[provider](**options)


def _fastembed(**options: Any) -> "FastEmbedEncoder":
    from mcp_server_qdrant.encoders.fastembed import FastEmbedEncoder

    return FastEmbedEncoder(**options)


PROVIDERS: dict[str, Callable[..., "FastEmbedEncoder"]] = {"fastembed": _fastembed}
