"""The settings of ranking and filters: parts of `Settings`."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, SecretStr

from mcp_server_qdrant.core.find import RECENCY_WEIGHT, FilterableField, Weight
from mcp_server_qdrant.settings.values import Names, Url, from_json

TIME_FIELDS = ("doc.date", "date", "created_at", "timestamp", "updated_at", "modified_at")


class RankingSettings(BaseModel):
    """Ranking, and the defaults of a call."""

    hybrid_alpha: Weight = 0.4
    """Weight of vectors in the relevance; 1: vectors only, 0: keywords only."""
    qdrant_recency_weight: Weight = RECENCY_WEIGHT
    """How much of its score a text can lose by age; 0 is off."""
    qdrant_collection_priority_order: Names = ()
    """Preferred collections, the most preferred first."""
    qdrant_recency_fields: Names = TIME_FIELDS
    """Payload paths that may hold a text's time; the first present is used."""
    rerank: bool = False
    """Rerank the best results with a second model."""
    rerank_model: str | None = None
    """Reranking model. Default on this machine: Xenova/ms-marco-MiniLM-L-6-v2; of a service: its
    own."""
    rerank_url: Url | None = None
    """Endpoint of a reranking service, such as `http://host:8080/rerank`. Default: none, a local
    model reranks."""
    rerank_api_key: SecretStr | None = None
    """API key of RERANK_URL, sent as a bearer token."""


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
