"""The settings of ranking and filters that no call can change: parts of `Settings`."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, model_validator

from mcp_server_qdrant.core.fields import Positive
from mcp_server_qdrant.core.find import FilterableField
from mcp_server_qdrant.settings.values import Folder, Names, Url, from_json

TIME_FIELDS = ("doc.date", "date", "created_at", "timestamp", "updated_at", "modified_at")


class RankingSettings(BaseModel):
    """The ranking, as far as only the operator sets it."""

    hybrid_alpha: Annotated[float, Field(ge=0, le=1)] = 0.4
    """Share of meaning in the relevance; 1: vectors only, 0: keywords only."""
    qdrant_collection_priority_order: Names = ()
    """Preferred collections, the most preferred first."""
    qdrant_recency_decay: Positive = 0.01
    """Aging per day; 0.01 is a half-life of 69 days."""
    qdrant_recency_fields: Names = TIME_FIELDS
    """Payload paths that may hold a text's time; the first present is used."""
    rerank_provider: Literal["fastembed", "cohere", "jina", "infinity", "tei", "none"] | None = None
    """`fastembed`, `none`, or the API at RERANK_URL: `cohere`, `jina`, `infinity`, `tei`. Default:
    like Cohere, else TEI, at RERANK_URL; without one, fastembed."""
    rerank_model: str | None = None
    """Reranking model. Default: the provider's own; fastembed: Xenova/ms-marco-MiniLM-L-6-v2."""
    rerank_model_path: Folder | None = None
    """Folder of the reranker's files; nothing is downloaded."""
    rerank_url: Url | None = None
    """Endpoint of a reranking service, such as `http://host:8080/rerank`."""
    rerank_api_key: SecretStr | None = None
    """Its API key, sent as a bearer token."""
    rerank_timeout: Positive = 3.0
    """Seconds of reranking, after which the order stays as it is."""

    @property
    def reranks_by_service(self) -> bool:
        """True where a service reranks, no model of this machine."""
        return self.rerank_url is not None or self.rerank_provider in ("cohere", "jina")

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.rerank_provider in ("infinity", "tei") and not self.rerank_url:
            raise ValueError(f"RERANK_PROVIDER={self.rerank_provider} needs RERANK_URL")
        if self.rerank_provider in ("fastembed", "none") and self.rerank_url:
            raise ValueError(f"RERANK_URL is not used with RERANK_PROVIDER={self.rerank_provider}")
        return self


def _fields(value: Any) -> Any:
    return from_json(value, (list,), "it must be a JSON list of objects")


class FilterSettings(BaseModel):
    """Filters that callers may use."""

    qdrant_allow_arbitrary_filter: bool | None = None
    """Offer `query_filter`. Default: yes, unless FILTERABLE_FIELDS is set."""
    filterable_fields: Annotated[tuple[FilterableField, ...], BeforeValidator(_fields)] = ()
    """JSON list of payload fields offered as parameters of find."""

    @property
    def arbitrary_filter(self) -> bool:
        """True if qdrant-find offers `query_filter`."""
        if self.qdrant_allow_arbitrary_filter is None:
            return not self.filterable_fields
        return self.qdrant_allow_arbitrary_filter
