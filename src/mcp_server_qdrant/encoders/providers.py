"""Texts to vectors: dense ones from a model, sparse ones from BM25."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.errors import ConfigError

if TYPE_CHECKING:
    from mcp_server_qdrant.encoders.encoder import Encoder


def open_encoder(provider: str, **options: Any) -> "Encoder":
    """The encoder of a provider, not yet started; `options` are what its class takes."""
    if provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"EMBEDDING_PROVIDER is {provider!r}; it must be one of: {known}.")
    return PROVIDERS[provider](**options)


def _fastembed(**options: Any) -> "Encoder":
    from mcp_server_qdrant.encoders.local.hosted import HostedEncoder

    return HostedEncoder(**options)


def _openai(**options: Any) -> "Encoder":
    from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder

    return OpenAIEncoder(**options)


def _qdrant(**options: Any) -> "Encoder":
    from mcp_server_qdrant.encoders.remote.inference import InferenceEncoder

    return InferenceEncoder(**options)


def _none(**options: Any) -> "Encoder":
    from mcp_server_qdrant.encoders.none import NoEncoder

    return NoEncoder(**options)


PROVIDERS: dict[str, Callable[..., "Encoder"]] = {
    "fastembed": _fastembed,
    "openai": _openai,
    "qdrant": _qdrant,
    "none": _none,
}
