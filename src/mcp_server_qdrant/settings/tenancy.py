"""The settings of tenants who share the collections: a part of `Settings`, which reads them."""

import re
from typing import Any, Self

from pydantic import AliasChoices, BaseModel, Field, SecretStr, field_validator, model_validator

_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")
# What this server writes itself; a field inside `metadata` is free.
_TAKEN = frozenset(
    {"document", "metadata", "title", "source", "tags", "created_at", "updated_at", "doc"}
)


def _variable(name: str, default: Any, description: str) -> Any:
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class TenancySettings(BaseModel):
    """Who may see which points."""

    tenant_field: str | None = _variable(
        "TENANT_FIELD",
        None,
        "Payload field that says whose a point is; set, each caller is confined to its tenant's.",
    )
    tenant_claim: str | None = _variable(
        "TENANT_CLAIM",
        None,
        "Claim of a caller's token that names its tenant. Default: as TENANT_FIELD.",
    )
    tenant_id: str | None = _variable(
        "TENANT_ID", None, "The tenant of all calls without a token: over stdio, and of commands."
    )
    tenant_shared_field: str = _variable(
        "TENANT_SHARED_FIELD",
        "shared_with",
        "Payload field that lists other tenants who may read a point.",
    )
    tenant_check_url: str | None = _variable(
        "TENANT_CHECK_URL",
        None,
        "Asked which hits of a find or get may be shown, by ids; no answer: none.",
    )
    tenant_check_key: SecretStr | None = _variable(
        "TENANT_CHECK_KEY", None, "Its key, sent as a bearer token."
    )
    tenant_check_timeout: float = _variable(
        "TENANT_CHECK_TIMEOUT", 2.0, "Seconds that its answer may take."
    )

    @field_validator("tenant_field", "tenant_shared_field")
    @classmethod
    def _free_field(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not _PATH.fullmatch(value):
            raise ValueError("must be a payload key such as tenant or metadata.tenant")
        if value in _TAKEN or value.startswith("doc."):
            raise ValueError("is a field that this server writes; choose another")
        return value

    @field_validator("tenant_id")
    @classmethod
    def _tenant_named(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("is blank; name a tenant, or leave it out")
        return value

    @field_validator("tenant_check_timeout")
    @classmethod
    def _check_time(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be more than 0")
        return value

    @field_validator("tenant_check_url")
    @classmethod
    def _check_http(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL such as https://policy.example/check")
        return value

    @model_validator(mode="after")
    def _tenancy_whole(self) -> Self:
        field, shared = self.tenant_field, self.tenant_shared_field
        if field is None and (self.tenant_id or self.tenant_claim or self.tenant_check_url):
            raise ValueError(
                "TENANT_ID, TENANT_CLAIM and TENANT_CHECK_URL mean nothing without TENANT_FIELD: "
                "set it to the payload field that says whose a point is"
            )
        if field and (f"{field}.".startswith(f"{shared}.") or shared.startswith(f"{field}.")):
            raise ValueError("TENANT_FIELD and TENANT_SHARED_FIELD must not lie in each other")
        return self
