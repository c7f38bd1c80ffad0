"""Builds encoders, rerankers and the metadata of new collections from the settings.

Imports little, so that the default model loads while everything else is imported.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_server_qdrant import __version__
from mcp_server_qdrant.core.datatypes import MODEL_KEY
from mcp_server_qdrant.encoders.encoder import Encoder, NoEncoder
from mcp_server_qdrant.encoders.local.model import Spec
from mcp_server_qdrant.encoders.local.models import DEFAULT_RERANKER, LocalReranker, Models
from mcp_server_qdrant.encoders.prefixes import prefixes_of
from mcp_server_qdrant.encoders.registry import (
    LOCAL,
    NONE,
    PREFIX_KEY,
    PROVIDER_KEY,
    Registry,
    split_provider,
)
from mcp_server_qdrant.encoders.remote.openai import OpenAIEncoder
from mcp_server_qdrant.encoders.remote.rerank import HttpReranker
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import reveal

if TYPE_CHECKING:
    from mcp_server_qdrant.qdrant.write.points import Blueprint
    from mcp_server_qdrant.search.rerank import Rerank

NO_PROVIDER = "There is no embedding model: EMBEDDING_PROVIDER is none."


def open_encoders(settings: Settings, models: Models) -> Registry:
    """The default encoder as configured, and a factory for those of other models."""
    model = NONE if settings.embedding_provider == NONE else settings.chosen_model

    def make(name: str) -> Encoder:
        encoder = _encoder(settings, models, name)
        encoder.prefixes = prefixes_of(split_provider(name, settings.embedding_provider)[1])
        return encoder

    return Registry(
        make(model), make, provider=settings.embedding_provider, mapping=settings.collection_models
    )


async def blueprint(settings: Settings, encoders: Registry, collection: str) -> "Blueprint":
    """The plan of a new collection. Raises EncoderUnavailable if its vector size is unknown."""
    from mcp_server_qdrant.qdrant.write.points import Blueprint

    model = encoders.configured_model(collection) or encoders.default.name
    encoder = encoders.get(model)
    metadata = model_metadata(settings, encoders, model)
    metadata = {key: value for key, value in metadata.items() if value}
    metadata["created_by"] = f"mcp-server-qdrant {__version__}"
    if model == NONE:
        return Blueprint(None, 0, metadata)
    return Blueprint(encoder.vector_name, await encoder.size(), metadata)


def model_metadata(settings: Settings, encoders: Registry, model: str) -> dict[str, str]:
    """The collection metadata that describes its model."""
    encoder = encoders.get(model)
    return {
        MODEL_KEY: encoder.name,
        PROVIDER_KEY: split_provider(model, settings.embedding_provider)[0],
        PREFIX_KEY: encoder.prefixes.passage,
    }


def _encoder(settings: Settings, models: Models, name: str) -> Encoder:
    """The encoder of `model` or `provider:model`; a NoEncoder with the reason if there is none."""
    provider, model = split_provider(name, settings.embedding_provider)
    if provider == NONE:
        return NoEncoder(model, NO_PROVIDER)
    if provider not in LOCAL and not settings.serves(provider):
        return NoEncoder(
            model,
            f"{model} is not a model of this machine: to use it, set EMBEDDING_PROVIDER={provider} "
            f"or put {provider}:{model} in COLLECTION_MODELS.",
        )
    if provider == "fastembed":
        path = settings.embedding_model_path if name == settings.chosen_model else None
        return models.encoder(_spec(settings, model, path))
    return OpenAIEncoder(model, settings.service_url, api_key=settings.service_key)


def open_rerank(settings: Settings, models: Models) -> "Rerank":
    """Reranking as configured; a local model loads at its first use."""
    from mcp_server_qdrant.search.rerank import Rerank

    return Rerank(_reranker(settings, models))


def _reranker(settings: Settings, models: Models) -> LocalReranker | HttpReranker:
    if settings.rerank_url is None:
        return models.reranker(_spec(settings, settings.rerank_model or DEFAULT_RERANKER))
    return HttpReranker(
        settings.rerank_url, model=settings.rerank_model, api_key=reveal(settings.rerank_api_key)
    )


def _spec(settings: Settings, model: str, path: Path | None = None) -> Spec:
    """A local model and how to load it."""
    cache = settings.fastembed_cache_path
    return Spec(model, str(cache) if cache else None, str(path) if path else None)
