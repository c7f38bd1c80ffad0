"""From the settings to encoders and rerankers, and to the metadata of new collections."""

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app.local_models import local_model, open_host
from mcp_server_qdrant.core.datatypes import MODEL_KEY
from mcp_server_qdrant.encoders.encoder import Encoder, NoEncoder
from mcp_server_qdrant.encoders.local.hosted import (
    DEFAULT_RERANKER,
    HostedEncoder,
    HostedReranker,
)
from mcp_server_qdrant.encoders.prefixes import Prefixes, prefixes_of
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
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.qdrant.write.points import Blueprint
from mcp_server_qdrant.search.rerank import Rerank
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import revealed

NO_PROVIDER = "There is no embedding model: EMBEDDING_PROVIDER is none."


def open_encoders(settings: Settings, host: Link | None = None) -> Registry:
    """The default encoder as configured, and how to open those of other models."""
    host = host or open_host(settings)
    model = NONE if settings.embedding_provider == NONE else settings.chosen_model

    def made(name: str) -> Encoder:
        encoder = _encoder(settings, host, name)
        encoder.prefixes = _prefixes(settings, name)
        return encoder

    return Registry(
        made(model),
        made,
        host,
        provider=settings.embedding_provider,
        mapping=settings.collection_models,
        fixed_prefixes=settings.embedding_passage_prefix is not None,
    )


async def blueprint(settings: Settings, encoders: Registry, collection: str) -> Blueprint:
    """The plan of a new collection. Raises EncoderUnavailable where the size is not known."""
    model = encoders.mapped(collection) or encoders.default.name
    encoder = encoders.known(model)
    metadata = described(settings, encoders, model)
    metadata = {key: value for key, value in metadata.items() if value}
    metadata["created_by"] = f"mcp-server-qdrant {__version__}"
    if model == NONE:
        return Blueprint(None, 0, metadata)
    return Blueprint(encoder.vector_name, await encoder.size(), metadata)


def described(settings: Settings, encoders: Registry, model: str) -> dict[str, str]:
    """The metadata of a collection about the model that filled it."""
    encoder = encoders.known(model)
    return {
        MODEL_KEY: encoder.name,
        PROVIDER_KEY: split_provider(model, settings.embedding_provider)[0],
        PREFIX_KEY: encoder.prefixes.passage,
    }


def _encoder(settings: Settings, host: Link, name: str) -> Encoder:
    """The encoder of `model` or `provider:model`; one that says why where it may not be used."""
    provider, model = split_provider(name, settings.embedding_provider)
    default = name == settings.chosen_model
    if provider == NONE:
        return NoEncoder(model, NO_PROVIDER)
    if provider not in LOCAL and not settings.serves(provider):
        return NoEncoder(
            model,
            f"{model} is not a model of this machine: EMBEDDING_PROVIDER={provider} would use it, "
            f"or {provider}:{model} in COLLECTION_MODELS.",
        )
    if provider == "fastembed":
        path = settings.embedding_model_path if default else None
        return HostedEncoder(host, local_model(settings, model, path))
    return OpenAIEncoder(
        model,
        settings.service_url,
        api_key=settings.service_key,
        dimensions=settings.embedding_dimensions if default else None,
        max_tokens=settings.embedding_max_tokens,
    )


def _prefixes(settings: Settings, name: str) -> Prefixes:
    """The prefixes that a model is known to want; those of the default model may be set."""
    known = prefixes_of(split_provider(name, settings.embedding_provider)[1])
    if name != settings.chosen_model:
        return known
    return Prefixes(
        settings.prefix(settings.embedding_query_prefix, known.query),
        settings.prefix(settings.embedding_passage_prefix, known.passage),
    )


def open_rerank(settings: Settings, host: Link | None = None) -> Rerank:
    """Reranking as configured. Its model is loaded by the first call, or now where all need it."""
    reranker = _reranker(settings, host)
    if reranker and settings.rerank:
        reranker.start()
    return Rerank(reranker, settings.rerank_timeout)


def _reranker(settings: Settings, host: Link | None) -> HostedReranker | HttpReranker | None:
    provider = settings.rerank_provider
    if provider == "none":
        return None
    if provider == "fastembed" or not settings.reranks_by_service:
        model = settings.rerank_model or DEFAULT_RERANKER
        spec = local_model(settings, model, settings.rerank_model_path, "rerank")
        return HostedReranker(host or open_host(settings), spec)
    return HttpReranker(
        settings.rerank_url,
        service=provider,
        model=settings.rerank_model,
        api_key=revealed(settings.rerank_api_key),
    )
