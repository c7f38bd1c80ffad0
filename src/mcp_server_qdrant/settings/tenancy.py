"""The settings of tenants who share the collections: a part of `Settings`."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, model_validator

from mcp_server_qdrant.core.datatypes import OURS
from mcp_server_qdrant.core.fields import variable

_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


def _free_field(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise ValueError("must be a payload key such as tenant or metadata.tenant")
    if value in OURS or value.startswith("doc."):
        raise ValueError("is a field that this server writes; choose another")
    return value


def _named(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank; name a tenant, or leave it out")
    return value


class TenancySettings(BaseModel):
    """Tenants."""

    tenant_field: Annotated[str, AfterValidator(_free_field)] | None = variable(
        "TENANT_FIELD",
        None,
        "Payload field that names a point's tenant. If it is set, each caller is confined to "
        "its tenant's points.",
    )
    tenant_claim: str | None = variable(
        "TENANT_CLAIM",
        None,
        "Claim of a caller's token that names its tenant. Default: as TENANT_FIELD.",
    )
    tenant_id: Annotated[str, AfterValidator(_named)] | None = variable(
        "TENANT_ID", None, "Tenant of all calls without a token: stdio, and commands."
    )

    @model_validator(mode="after")
    def _tenancy_complete(self) -> Self:
        if self.tenant_field is None and (self.tenant_id or self.tenant_claim):
            raise ValueError(
                "TENANT_ID and TENANT_CLAIM mean nothing without TENANT_FIELD: set it to the "
                "payload field that names a point's tenant"
            )
        return self
