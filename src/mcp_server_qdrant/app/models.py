"""From the settings to the encoders, and to what a new collection says of its model."""

from functools import partial
from typing import Any

from mcp_server_qdrant import __version__
from mcp_server_qdrant.app.local_models import local_model, open_host
from mcp_server_qdrant.encoders.choice import (
    MODEL_KEY,
    PREFIX_KEY,
    PROVIDER_KEY,
    Choice,
    split_provider,
)
from mcp_server_qdrant.encoders.encoder import Encoder, counted
from mcp_server_qdrant.encoders.local.hosted import ModelHost
from mcp_server_qdrant.encoders.passages import PassageCache
from mcp_server_qdrant.encoders.prefixes import NONE, Prefixes, prefixes_of
from mcp_server_qdrant.encoders.providers import open_encoder
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.encoders.remote.openai import Bounds
from mcp_server_qdrant.qdrant.inference import key_header
from mcp_server_qdrant.qdrant.points import Blueprint
from mcp_server_qdrant.qdrant.remote import Cluster
from mcp_server_qdrant.settings.environment import Settings

NO_PROVIDER = "There is no embedding model: EMBEDDING_PROVIDER is none."


def open_encoders(settings: Settings, host: ModelHost | None = None) -> Registry:
    """The default encoder as configured, and how to open those of other models."""
    host = host or open_host(settings)
    cache = None
    if settings.embedding_cache_disk:
        cache = PassageCache(settings.cache_path / "vectors", settings.embedding_cache_disk)
    if settings.chosen_provider == "none":
        default = open_encoder("none", model="none", reason=NO_PROVIDER)
    else:
        default = _encoder(settings, host, settings.chosen_model)
    return Registry(
        default,
        partial(_encoder, settings, host),
        prefixes=partial(_prefixes, settings),
        cache=cache,
        host=host,
    )


def open_choice(settings: Settings, encoders: Registry) -> Choice:
    """What knows the models of collections."""
    return Choice(
        encoders,
        settings.chosen_provider,
        settings.collection_models,
        fixed_prefixes=settings.embedding_passage_prefix is not None,
    )


def inference_headers(settings: Settings) -> dict[str, str] | None:
    """What goes with requests to a Qdrant server that encodes texts; None where none does."""
    if not settings.serves("qdrant"):
        return None
    key = settings.embedding_api_key
    return key_header(settings.chosen_model, key.get_secret_value() if key else None)


async def blueprint(
    settings: Settings, encoders: Registry, choice: Choice, collection: str
) -> Blueprint:
    """How a new collection is made. Raises EncoderUnavailable where the size is not known."""
    model = choice.mapped(collection) or encoders.default.name
    encoder = encoders.known(model)
    metadata = described(settings, encoders, model)
    metadata = {key: said for key, said in metadata.items() if said}
    metadata["created_by"] = f"mcp-server-qdrant {__version__}"
    if model == "none":
        return Blueprint(None, 0, metadata)
    return Blueprint(encoder.vector_name, await encoder.size(), metadata)


def described(settings: Settings, encoders: Registry, model: str) -> dict[str, str]:
    """What a collection says of the model that filled it."""
    encoder = encoders.known(model)
    return {
        MODEL_KEY: encoder.name,
        PROVIDER_KEY: _split(settings, model)[0],
        PREFIX_KEY: encoder.prefixes.passage,
    }


def _encoder(settings: Settings, host: ModelHost, name: str) -> Encoder:
    """The encoder of `model` or `provider:model`; one that says why where it may not be used."""
    provider, model = _split(settings, name)
    default = name == settings.chosen_model
    if provider == "fastembed":
        spec = local_model(settings, model, settings.embedding_model_path if default else None)
        return open_encoder(
            provider, host=host, spec=spec, query_cache_size=settings.embedding_cache_size
        )
    options: dict[str, Any] = {"model": model}
    if not settings.serves(provider):
        reason = (
            f"{model} is not a model of this machine: EMBEDDING_PROVIDER={provider} would use it, "
            f"or {provider}:{model} in COLLECTION_MODELS."
        )
        return open_encoder("none", model=model, reason=reason)
    options["dimensions"] = settings.embedding_dimensions if default else None
    options |= _remote(settings) if provider == "openai" else {"tokens": _tokens(settings)}
    return open_encoder(provider, **options)


def _remote(settings: Settings) -> dict[str, Any]:
    return {
        "url": settings.service_url,
        "api_key": settings.service_key,
        "bounds": Bounds(
            seconds=settings.embedding_timeout,
            query_seconds=settings.embedding_query_timeout,
            cooldown=settings.embedding_cooldown,
            texts=settings.embedding_batch_size,
            tokens=settings.embedding_batch_tokens,
            text_tokens=settings.embedding_max_tokens,
            token_bytes=settings.embedding_token_bytes,
        ),
        "query_cache_size": settings.embedding_cache_size,
    }


def _tokens(settings: Settings) -> int:
    return counted(settings.embedding_max_tokens, settings.embedding_token_bytes)


def _split(settings: Settings, name: str) -> tuple[str, Any]:
    own = settings.chosen_provider
    return split_provider(name, "fastembed" if own == "none" and name != "none" else own)


def _prefixes(settings: Settings, name: str) -> Prefixes:
    """What a model is known to want, and for the default one what the settings say.

    Nobody says whether Qdrant's inference adds prefixes of its own: it is left to the settings.
    """
    provider, model = _split(settings, name)
    known = NONE if provider == "qdrant" else prefixes_of(model)
    if name != settings.chosen_model:
        return known
    return Prefixes(
        settings.prefix(settings.embedding_query_prefix, known.query),
        settings.prefix(settings.embedding_passage_prefix, known.passage),
    )


def cluster(settings: Settings) -> Cluster:
    """How a server or cluster is asked, and what its new collections are made with."""
    return Cluster(
        timeout=settings.qdrant_timeout,
        share=max(1, settings.search_concurrency * 3 // 4),
        shards=settings.shard_number,
        replicas=settings.replication_factor,
        write_consistency=settings.write_consistency_factor,
        on_disk_vectors=settings.on_disk_vectors,
        on_disk_payload=settings.on_disk_payload,
        quantization=settings.quantization,
        read_consistency=settings.read_consistency,
    )
