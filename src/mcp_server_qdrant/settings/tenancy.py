"""The settings of tenants who share the collections: a part of `Settings`."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, SecretStr, model_validator

from mcp_server_qdrant.core.datatypes import OURS
from mcp_server_qdrant.core.fields import variable
from mcp_server_qdrant.settings.values import Url

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


FreeField = Annotated[str, AfterValidator(_free_field)]


class TenancySettings(BaseModel):
    """Tenants, and the check of results."""

    tenant_field: FreeField | None = variable(
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
    tenant_shared_field: FreeField = variable(
        "TENANT_SHARED_FIELD",
        "shared_with",
        "Payload field that lists other tenants who may read a point.",
    )
    tenant_check_url: Url | None = variable(
        "TENANT_CHECK_URL",
        None,
        "Service that says which results of a find or get may be shown, by id; without its "
        "answer none are.",
    )
    tenant_check_key: SecretStr | None = variable(
        "TENANT_CHECK_KEY", None, "Its key, sent as a bearer token."
    )

    @model_validator(mode="after")
    def _tenancy_complete(self) -> Self:
        field, shared = self.tenant_field, self.tenant_shared_field
        if field is None and (self.tenant_id or self.tenant_claim or self.tenant_check_url):
            raise ValueError(
                "TENANT_ID, TENANT_CLAIM and TENANT_CHECK_URL mean nothing without TENANT_FIELD: "
                "set it to the payload field that names a point's tenant"
            )
        if field and (f"{field}.".startswith(f"{shared}.") or shared.startswith(f"{field}.")):
            raise ValueError("TENANT_FIELD and TENANT_SHARED_FIELD must not lie in each other")
        return self
