"""The settings of a Qdrant server or cluster: a part of `Settings`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from mcp_server_qdrant.core.fields import variable
from mcp_server_qdrant.settings.values import Group

Count = Annotated[int, Field(ge=1)]


class Cluster(Group):
    """Requests to a server, and parameters of new collections; None leaves them to the server."""

    grpc: bool | Literal["auto"] = Field(
        "auto", description="speak gRPC: `true`, `false`, or `auto`, where the server answers on it"
    )
    grpc_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of gRPC, 6334 by default; `auto` tries that beside REST on 6333 alone",
    )
    shards: int | None = Field(None, ge=1, description="shards of a new collection")
    replicas: int | None = Field(None, ge=1, description="copies of each shard")
    write_consistency: int | None = Field(
        None, ge=1, description="copies that must acknowledge a write"
    )
    on_disk_vectors: bool | None = Field(None, description="vectors stay on disk")
    on_disk_payload: bool | None = Field(None, description="payloads stay on disk")
    quantization: Literal["none", "scalar", "binary", "product", "turbo"] = Field(
        "none", description="of new vectors: none, scalar, binary, product or turbo (Qdrant 1.18)"
    )
    read_consistency: Count | Literal["majority", "quorum", "all"] | None = Field(
        None, description="copies that must agree on a read: a number, majority, quorum or all"
    )

    @property
    def unset(self) -> bool:
        """True if nothing is asked that only a server can do."""
        return self.model_copy(update={"grpc": "auto", "grpc_port": None}) == Cluster()


class ClusterSettings(BaseModel):
    """The settings of a server; the embedded engine has none of them."""

    cluster: Cluster = variable(
        "QDRANT_CLUSTER",
        Cluster(),
        "Requests to a Qdrant server, and parameters of its new collections.",
    )
