"""The settings of the embedding model: a part of `Settings`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, SecretStr, model_validator

from mcp_server_qdrant.core.datatypes import Provider
from mcp_server_qdrant.core.fields import variable
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

    embedding_provider: Provider = variable(
        "EMBEDDING_PROVIDER",
        "fastembed",
        "Where vectors are made: `fastembed` (this machine), `openai` (a service with that API) or "
        "`none` (no vectors: keywords only).",
    )
    embedding_model: str = variable(
        "EMBEDDING_MODEL", DEFAULT_MODEL, f"Embedding model. Default with OpenAI: {OPENAI_MODEL}."
    )
    embedding_model_path: Folder | None = variable(
        "EMBEDDING_MODEL_PATH",
        None,
        "Folder with the model's ONNX files, or with a folder of them; nothing is downloaded.",
    )
    embedding_cache_dir: WholePath | None = variable(
        "FASTEMBED_CACHE_PATH",
        None,
        "Folder of downloaded models. Default: one of temporary files, as fastembed has it.",
    )
    embedding_service_url: Url | None = variable(
        "EMBEDDING_SERVICE_URL",
        None,
        "OpenAI-compatible service, such as `http://localhost:11434/v1`. Default: OpenAI's own.",
        "OPENAI_BASE_URL",
    )
    embedding_api_key: SecretStr | None = variable(
        "EMBEDDING_API_KEY",
        None,
        "Its API key.",
    )
    openai_api_key: SecretStr | None = variable(
        "OPENAI_API_KEY",
        None,
        "Used if EMBEDDING_API_KEY is not set; never sent to EMBEDDING_SERVICE_URL.",
    )
    collection_models: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_mapping)] = variable(
        "COLLECTION_MODELS",
        (),
        "Models of single collections: `name=model` separated by commas, or JSON. Names may be "
        "globs, models may be `openai:model`.",
    )
    embedding_query_prefix: str | None = variable(
        "EMBEDDING_QUERY_PREFIX",
        None,
        "Text before queries; `none` for nothing. Default: what the model needs.",
    )
    embedding_passage_prefix: str | None = variable(
        "EMBEDDING_PASSAGE_PREFIX", None, "Text before stored texts, likewise."
    )
    embedding_dimensions: int | None = variable(
        "EMBEDDING_DIMENSIONS",
        None,
        "Requested from a service whose model can shorten vectors.",
        ge=1,
    )
    embedding_max_tokens: int = variable(
        "EMBEDDING_MAX_TOKENS",
        512,
        "Tokens of the longest part of a text for models of a service.",
        ge=32,
    )
    embedding_threads: int | None = variable(
        "EMBEDDING_THREADS", None, "CPU threads of the local model.", ge=1
    )

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
