"""The settings of the embedding model: a part of `Settings`, which reads them."""

import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from mcp_server_qdrant.settings.sources import WholePath

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OPENAI_MODEL = "text-embedding-3-small"
OPENAI_URL = "https://api.openai.com/v1"
NO_PREFIX = "none"


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class EmbeddingSettings(BaseModel):
    """What makes the vectors of queries and texts."""

    embedding_provider: str = _variable(
        "EMBEDDING_PROVIDER",
        "fastembed",
        "Where vectors are made: `fastembed` (this machine), `none` (keywords only), another "
        "provider of docs/models.md, or `auto`: OpenAI if OPENAI_API_KEY is set, else "
        "EMBEDDING_SERVICE_URL if set, else fastembed.",
    )
    embedding_model: str = _variable(
        "EMBEDDING_MODEL",
        DEFAULT_MODEL,
        f"Embedding model. Default with OpenAI: {OPENAI_MODEL}.",
    )
    embedding_model_path: WholePath | None = _variable(
        "EMBEDDING_MODEL_PATH", None, "Folder with the model's ONNX files; nothing is downloaded."
    )
    embedding_cache_dir: WholePath | None = _variable(
        "FASTEMBED_CACHE_PATH", None, "Where downloaded models are kept."
    )
    embedding_threads: int | None = _variable(
        "EMBEDDING_THREADS", None, "CPU threads of the local model. Default: the runtime's choice."
    )
    embedding_service_url: str | None = _variable(
        "EMBEDDING_SERVICE_URL",
        None,
        "OpenAI-compatible service, such as `http://localhost:11434/v1`.",
    )
    embedding_api_key: SecretStr | None = _variable(
        "EMBEDDING_API_KEY",
        None,
        "Its API key; with `qdrant`, that of the maker of the model (`openai/…`, `cohere/…`).",
    )
    openai_base_url: str | None = _variable(
        "OPENAI_BASE_URL", None, f"Used where EMBEDDING_SERVICE_URL is not set. Else {OPENAI_URL}."
    )
    openai_api_key: SecretStr | None = _variable(
        "OPENAI_API_KEY",
        None,
        "Used where EMBEDDING_API_KEY is not set; never sent to EMBEDDING_SERVICE_URL.",
    )
    embedding_dimensions: int | None = _variable(
        "EMBEDDING_DIMENSIONS",
        None,
        "Dimensions asked of a service, for models that can shorten. Default: learnt from it.",
    )
    embedding_query_prefix: str | None = _variable(
        "EMBEDDING_QUERY_PREFIX",
        None,
        "Put before queries; `none` for nothing. Default: what the model is known to want.",
    )
    embedding_passage_prefix: str | None = _variable(
        "EMBEDDING_PASSAGE_PREFIX", None, "Put before stored texts, likewise."
    )
    collection_models: Annotated[tuple[tuple[str, str], ...], NoDecode] = _variable(
        "COLLECTION_MODELS",
        (),
        "Models of single collections: `name=model` by comma, or JSON. Globs and "
        "`openai:model` may be used.",
    )
    embedding_timeout: float = _variable(
        "EMBEDDING_TIMEOUT", 60.0, "Seconds for one request to a service, with all tries."
    )
    embedding_query_timeout: float = _variable(
        "EMBEDDING_QUERY_TIMEOUT",
        3.0,
        "Seconds for a query's vector from a service (6 from a local model); then the search is "
        "by keyword.",
    )
    embedding_cooldown: float = _variable(
        "EMBEDDING_COOLDOWN", 30.0, "Seconds without requests after a service has failed."
    )
    embedding_batch_size: int = _variable(
        "EMBEDDING_BATCH_SIZE", 32, "Texts sent to a service at once."
    )
    embedding_batch_tokens: int = _variable(
        "EMBEDDING_BATCH_TOKENS", 100_000, "Tokens sent to a service at once, as guessed."
    )
    embedding_max_tokens: int = _variable(
        "EMBEDDING_MAX_TOKENS", 512, "Longest part of a text for models that are not here."
    )
    embedding_token_bytes: float = _variable(
        "EMBEDDING_TOKEN_BYTES", 3.0, "Bytes of text taken for one token of such a model."
    )
    embedding_cache_size: int = _variable(
        "EMBEDDING_CACHE_SIZE", 1000, "Query vectors kept in memory, per model."
    )
    embedding_cache_disk: int = _variable(
        "EMBEDDING_CACHE_DISK", 256, "Megabytes of vectors of stored texts kept on disk; 0 is off."
    )

    @field_validator("embedding_model_path")
    @classmethod
    def _model_folder(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError("is not a folder")
        return value

    @field_validator("embedding_service_url", "openai_base_url")
    @classmethod
    def _service(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL such as http://localhost:11434/v1")
        return value

    @field_validator(
        "embedding_threads",
        "embedding_dimensions",
        "embedding_batch_size",
        "embedding_batch_tokens",
    )
    @classmethod
    def _counts(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError("must be at least 1")
        return value

    @field_validator("embedding_max_tokens")
    @classmethod
    def _room(cls, value: int) -> int:
        if value < 32:
            raise ValueError("must be at least 32")
        return value

    @field_validator("embedding_cache_size", "embedding_cache_disk")
    @classmethod
    def _none_or_more(cls, value: int) -> int:
        if value < 0:
            raise ValueError("must be at least 0")
        return value

    @field_validator(
        "embedding_timeout",
        "embedding_query_timeout",
        "embedding_cooldown",
        "embedding_token_bytes",
    )
    @classmethod
    def _more_than_nothing(cls, value: float) -> float:
        if not 0 < value < float("inf"):
            raise ValueError("must be more than 0")
        return value

    @field_validator("collection_models", mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            try:
                held = json.loads(value)
            except ValueError:
                raise ValueError("it must be name=model by comma, or a JSON object") from None
            return tuple(held.items())
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and model.strip() for name, _, model in pairs):
            raise ValueError("it must be name=model by comma, or a JSON object")
        return tuple((name.strip(), model.strip()) for name, _, model in pairs)

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        asked = self.chosen_provider == "openai" and self.service_url != OPENAI_URL
        if asked and "embedding_model" not in self.model_fields_set:
            raise ValueError("EMBEDDING_MODEL must name the model that the embedding service has")
        return self

    @property
    def chosen_provider(self) -> str:
        """What makes the vectors, `auto` decided."""
        if self.embedding_provider != "auto":
            return self.embedding_provider
        return "openai" if self.openai_api_key or self.embedding_service_url else "fastembed"

    @property
    def chosen_model(self) -> str:
        """The embedding model; OpenAI has none of the name that is the default otherwise."""
        if self.chosen_provider == "openai" and "embedding_model" not in self.model_fields_set:
            return OPENAI_MODEL
        return self.embedding_model

    @property
    def service_url(self) -> str:
        """Where an OpenAI-compatible service is; `auto` prefers OpenAI if there is a key for it."""
        openai = self.openai_base_url or OPENAI_URL
        if self.embedding_provider == "auto" and self.openai_api_key:
            return openai
        return self.embedding_service_url or openai

    @property
    def service_key(self) -> str | None:
        """What is sent there. OpenAI's key goes to OpenAI alone, or where its base URL leads."""
        own, openai = self.embedding_api_key, self.openai_api_key
        if self.service_url == self.embedding_service_url:
            key = own
        else:
            key = openai or own if self.embedding_provider == "auto" else own or openai
        return key.get_secret_value() if key else None

    def serves(self, provider: str) -> bool:
        """Whether a provider was asked for: for all collections, or for one by its name."""
        named = any(model.startswith(f"{provider}:") for _, model in self.collection_models)
        return named or self.chosen_provider == provider

    def prefix(self, value: str | None, known: str) -> str:
        """A prefix as set, `none` for none, else the known one."""
        if value is None:
            return known
        return "" if value.strip().lower() == NO_PREFIX else value
