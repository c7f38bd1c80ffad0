"""The settings of a Qdrant server or cluster: a part of `Settings`, which reads them."""

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class ClusterSettings(BaseModel):
    """How collections are made and read on a server; the embedded engine has nothing of it."""

    shard_number: int | None = _variable(
        "QDRANT_SHARD_NUMBER", None, "Shards of a new collection. These seven need QDRANT_URL."
    )
    replication_factor: int | None = _variable(
        "QDRANT_REPLICATION_FACTOR", None, "Copies of each shard of a new collection."
    )
    write_consistency_factor: int | None = _variable(
        "QDRANT_WRITE_CONSISTENCY_FACTOR",
        None,
        "Copies that must have a write before it is acknowledged.",
    )
    on_disk_vectors: bool | None = _variable(
        "QDRANT_ON_DISK_VECTORS", None, "Keep vectors of a new collection on disk."
    )
    on_disk_payload: bool | None = _variable(
        "QDRANT_ON_DISK_PAYLOAD", None, "Keep payloads of a new collection on disk."
    )
    quantization: Literal["none", "scalar", "binary"] = _variable(
        "QDRANT_QUANTIZATION", "none", "Of a new collection's vectors: `none`, `scalar`, `binary`."
    )
    read_consistency: int | Literal["majority", "quorum", "all"] | None = _variable(
        "QDRANT_READ_CONSISTENCY",
        None,
        "Copies a read must agree on: a number, `majority`, `quorum` or `all`.",
    )

    @field_validator(
        "shard_number", "replication_factor", "write_consistency_factor", "read_consistency"
    )
    @classmethod
    def _one_copy_at_least(cls, value: Any) -> Any:
        if isinstance(value, int) and value < 1:
            raise ValueError("must be at least 1")
        return value

    def for_servers(self) -> str | None:
        """The first variable set that means something to a server only."""
        for name, info in ClusterSettings.model_fields.items():
            if getattr(self, name) != info.default:
                assert isinstance(info.validation_alias, AliasChoices)
                return str(info.validation_alias.choices[0])
        return None
