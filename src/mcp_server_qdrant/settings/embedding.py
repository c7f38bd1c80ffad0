"""The settings of the embedding model: a part of `Settings`."""

from typing import Annotated, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    model_validator,
)

from mcp_server_qdrant.core.datatypes import Provider
from mcp_server_qdrant.settings.values import AbsolutePath, Folder, Url, parse_pairs, reveal

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OPENAI_MODEL = "text-embedding-3-small"
OPENAI_URL = "https://api.openai.com/v1"


class EmbeddingSettings(BaseModel):
    """The source of the vectors of queries and texts."""

    embedding_provider: Provider = "fastembed"
    """Where vectors are made: `fastembed` (this machine), `openai` (a service with that API) or
    `none` (no vectors: keywords only)."""
    embedding_model: str = DEFAULT_MODEL
    """Embedding model. Default with OpenAI: text-embedding-3-small. `NAME@256` asks a service for
    vectors of that size."""
    embedding_model_path: Folder | None = None
    """Folder with the model's ONNX files, or with a folder of them; nothing is downloaded."""
    fastembed_cache_path: AbsolutePath | None = None
    """Folder for downloaded models. Default: fastembed's, in the folder of temporary files."""
    embedding_service_url: Url | None = Field(
        None, validation_alias=AliasChoices("EMBEDDING_SERVICE_URL", "OPENAI_BASE_URL")
    )
    """URL of an OpenAI-compatible service, such as `http://localhost:11434/v1`. Default: OpenAI."""
    embedding_api_key: SecretStr | None = None
    """API key of the embedding service."""
    openai_api_key: SecretStr | None = None
    """OpenAI's API key, if EMBEDDING_API_KEY is not set. Never sent to EMBEDDING_SERVICE_URL."""
    collection_models: Annotated[tuple[tuple[str, str], ...], BeforeValidator(parse_pairs)] = ()
    """Models of single collections: `name=model` separated by commas, or JSON. Names may be globs,
    models may be `openai:model`."""

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        service = self.embedding_provider == "openai" and self.service_url != OPENAI_URL
        if service and "embedding_model" not in self.model_fields_set:
            raise ValueError("EMBEDDING_MODEL must name the model that the embedding service has")
        return self

    @property
    def chosen_model(self) -> str:
        """The embedding model; OpenAI has a default of its own."""
        if self.embedding_provider == "openai" and "embedding_model" not in self.model_fields_set:
            return OPENAI_MODEL
        return self.embedding_model

    @property
    def service_url(self) -> str:
        """URL of the OpenAI-compatible service."""
        return self.embedding_service_url or OPENAI_URL

    @property
    def service_key(self) -> str | None:
        """The key for that URL; OPENAI_API_KEY is sent to OpenAI only."""
        openai = None if self.embedding_service_url else self.openai_api_key
        return reveal(self.embedding_api_key or openai)

    def serves(self, provider: str) -> bool:
        """True if a provider is configured for all collections or for some."""
        named = any(model.startswith(f"{provider}:") for _, model in self.collection_models)
        return named or self.embedding_provider == provider
