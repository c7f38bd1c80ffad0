"""Groups of settings that the parts of the server take as they are."""

from typing import Annotated, Literal

from pydantic import Field

from mcp_server_qdrant.core.fields import Group, Positive

Count = Annotated[int, Field(ge=1)]


class ClusterOptions(Group):
    """Requests to a server, and parameters of new collections; None leaves them to the server."""

    shards: int | None = Field(None, ge=1, description="shards of a new collection")
    replicas: int | None = Field(None, ge=1, description="copies of each shard")
    write_consistency: int | None = Field(
        None, ge=1, description="copies that must acknowledge a write"
    )
    on_disk_vectors: bool | None = Field(None, description="vectors stay on disk")
    on_disk_payload: bool | None = Field(None, description="payloads stay on disk")
    quantization: Literal["none", "scalar", "binary", "product", "turbo"] = Field(
        "none",
        description="of new vectors: none, scalar, binary, product or turbo (Qdrant 1.18)",
    )
    read_consistency: Count | Literal["majority", "quorum", "all"] | None = Field(
        None, description="copies that must agree on a read: a number, majority, quorum or all"
    )

    @property
    def unset(self) -> bool:
        """True if nothing is asked that only a server can do."""
        return self == ClusterOptions()


class EmbeddingOptions(Group):
    """Options of embedding: prefixes, sizes, times, caches."""

    query_prefix: str | None = Field(
        None, description="text before queries; `none`: no text; not set: what the model needs"
    )
    passage_prefix: str | None = Field(None, description="text before stored texts, likewise")
    dimensions: int | None = Field(
        None, ge=1, description="size of vectors, from a service whose model can shorten them"
    )

    seconds: Positive = Field(60.0, description="seconds for a request to a service, with retries")
    query_seconds: Positive = Field(
        3.0,
        description="seconds for a query's vector (twice that from a local model); then keywords",
    )
    cooldown: Positive = Field(30.0, description="seconds without requests after a failure")
    texts: int = Field(32, ge=1, description="texts in a request")
    tokens: int = Field(100_000, ge=1, description="tokens in a request, estimated")
    text_tokens: int = Field(
        512, ge=32, description="longest part of a text for models of a service"
    )
    token_bytes: Positive = Field(3.0, description="bytes of text per token of these")
    query_cache: int = Field(1000, ge=0, description="query vectors in memory, per model")
    disk: int = Field(
        256, ge=0, description="megabytes of vectors of stored texts on disk; 0 is off"
    )
    threads: int | None = Field(None, ge=1, description="CPU threads of the local model")
    background: float = Field(
        0.25, gt=0, le=1, description="part of the time that background sync keeps a model busy"
    )


class SearchLimits(Group):
    """Limits of a find."""

    seconds: Positive = Field(8.0, description="seconds until it answers with what it has")


class RerankLimits(Group):
    """The best `pool` hits are reranked in `seconds`; after a failure none for `cooldown`."""

    pool: int = Field(30, ge=2, le=200, description="results that are reranked")
    seconds: Positive = Field(3.0, description="seconds until the order stays as it is")
    cooldown: Positive = Field(30.0, description="seconds without reranking after a failure")
