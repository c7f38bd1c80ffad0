"""The settings of reranking and diversity: a part of `Settings`, which reads them."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import AliasChoices, BaseModel, Field, SecretStr, field_validator, model_validator

from mcp_server_qdrant.settings.sources import WholePath


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class RankingSettings(BaseModel):
    """How hits that have been found are looked at again."""

    fold_duplicates: bool = _variable(
        "QDRANT_FOLD_DUPLICATES",
        default=True,
        description="Show a passage that is in several places once, and name the others.",
    )
    rerank_provider: Literal["fastembed", "cohere", "jina", "infinity", "tei", "none"] | None = (
        _variable(
            "RERANK_PROVIDER",
            None,
            "`fastembed`, `none`, or what RERANK_URL speaks: `cohere`, `jina`, `infinity`, `tei`. "
            "Default: found out from RERANK_URL; without one, fastembed.",
        )
    )
    rerank_model: str | None = _variable(
        "RERANK_MODEL",
        None,
        "Reranking model. Default: the provider's own; fastembed: Xenova/ms-marco-MiniLM-L-6-v2.",
    )
    rerank_model_path: WholePath | None = _variable(
        "RERANK_MODEL_PATH", None, "Folder with the reranker's files; nothing is downloaded."
    )
    rerank_url: str | None = _variable(
        "RERANK_URL", None, "Endpoint of a reranking service, such as `http://host:8080/rerank`."
    )
    rerank_api_key: SecretStr | None = _variable(
        "RERANK_API_KEY", None, "Its API key, sent as a bearer token."
    )
    rerank_pool: int = _variable("RERANK_POOL", 30, "How many of the best hits are reranked.")
    rerank_timeout: float = _variable(
        "RERANK_TIMEOUT", 3.0, "Seconds that reranking may take; then the order stays as it is."
    )
    rerank_cooldown: float = _variable(
        "RERANK_COOLDOWN", 30.0, "Seconds without reranking after it has failed."
    )

    @field_validator("rerank_pool")
    @classmethod
    def _some(cls, value: int) -> int:
        if not 2 <= value <= 200:
            raise ValueError("must be between 2 and 200")
        return value

    @field_validator("rerank_timeout", "rerank_cooldown")
    @classmethod
    def _above_zero(cls, value: float) -> float:
        if not 0 < value < float("inf"):
            raise ValueError("must be more than 0")
        return value

    @field_validator("rerank_model_path")
    @classmethod
    def _existing(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError("is not a folder")
        return value

    @field_validator("rerank_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL such as http://host:8080/rerank")
        return value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.rerank_provider in ("infinity", "tei") and not self.rerank_url:
            raise ValueError(f"RERANK_PROVIDER={self.rerank_provider} needs RERANK_URL")
        if self.rerank_provider in ("fastembed", "none") and self.rerank_url:
            raise ValueError(f"RERANK_URL is not used with RERANK_PROVIDER={self.rerank_provider}")
        return self
