"""The settings of the embedding model: a part of `Settings`."""

from typing import Annotated, Any, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    PositiveInt,
    SecretStr,
    model_validator,
)

from mcp_server_qdrant.core.datatypes import Provider
from mcp_server_qdrant.settings.values import Folder, Url, WholePath, pairs, revealed

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OPENAI_MODEL = "text-embedding-3-small"
OPENAI_URL = "https://api.openai.com/v1"
NO_PREFIX = "none"


def _mapping(value: Any) -> Any:
    read = pairs(value)
    return tuple(read.items()) if isinstance(read, dict) else read


class EmbeddingSettings(BaseModel):
    """The source of the vectors of queries and texts."""

    embedding_provider: Provider = "fastembed"
    """Where vectors are made: `fastembed` (this machine), `openai` (a service with that API) or
    `none` (no vectors: keywords only)."""
    embedding_model: str = DEFAULT_MODEL
    """Embedding model. Default with OpenAI: text-embedding-3-small."""
    embedding_model_path: Folder | None = None
    """Folder with the model's ONNX files, or with a folder of them; nothing is downloaded."""
    fastembed_cache_path: WholePath | None = None
    """Folder of downloaded models. Default: one of temporary files, as fastembed has it."""
    embedding_service_url: Url | None = Field(
        None, validation_alias=AliasChoices("EMBEDDING_SERVICE_URL", "OPENAI_BASE_URL")
    )
    """OpenAI-compatible service, such as `http://localhost:11434/v1`. Default: OpenAI's own."""
    embedding_api_key: SecretStr | None = None
    """Its API key."""
    openai_api_key: SecretStr | None = None
    """Used if EMBEDDING_API_KEY is not set; never sent to EMBEDDING_SERVICE_URL."""
    collection_models: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_mapping)] = ()
    """Models of single collections: `name=model` separated by commas, or JSON. Names may be globs,
    models may be `openai:model`."""
    embedding_query_prefix: str | None = None
    """Text before queries; `none` for nothing. Default: what the model needs."""
    embedding_passage_prefix: str | None = None
    """Text before stored texts, likewise."""
    embedding_dimensions: PositiveInt | None = None
    """Requested from a service whose model can shorten vectors."""
    embedding_max_tokens: Annotated[int, Field(ge=32)] = 512
    """Tokens of the longest part of a text for models of a service."""
    embedding_threads: PositiveInt | None = None
    """CPU threads of the local model."""

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        service = self.embedding_provider == "openai" and self.service_url != OPENAI_URL
        if service and "embedding_model" not in self.model_fields_set:
            raise ValueError("EMBEDDING_MODEL must name the model that the embedding service has")
        return self

    @property
    def chosen_model(self) -> str:
        """The embedding model; OpenAI has none of the name that is the default otherwise."""
        if self.embedding_provider == "openai" and "embedding_model" not in self.model_fields_set:
            return OPENAI_MODEL
        return self.embedding_model

    @property
    def service_url(self) -> str:
        """URL of the OpenAI-compatible service."""
        return self.embedding_service_url or OPENAI_URL

    @property
    def service_key(self) -> str | None:
        """The key for that URL. OpenAI's goes nowhere else."""
        openai = None if self.embedding_service_url else self.openai_api_key
        return revealed(self.embedding_api_key or openai)

    def serves(self, provider: str) -> bool:
        """True if a provider is configured: for all collections, or for one by name."""
        named = any(model.startswith(f"{provider}:") for _, model in self.collection_models)
        return named or self.embedding_provider == provider

    def prefix(self, value: str | None, known: str) -> str:
        """A prefix as set, `none` for none, else the known one."""
        if value is None:
            return known
        return "" if value.strip().lower() == NO_PREFIX else value
