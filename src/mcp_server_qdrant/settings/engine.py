"""The settings of engine, collections, search and tenants: parts of `Settings`."""

import re
from pathlib import Path
from typing import Annotated, Self

from platformdirs import user_cache_path, user_data_path
from pydantic import AfterValidator, BaseModel, Field, PositiveInt, SecretStr, model_validator

from mcp_server_qdrant.core.datatypes import OURS
from mcp_server_qdrant.core.fields import Positive
from mcp_server_qdrant.core.notation import listed_in
from mcp_server_qdrant.settings.values import AbsolutePath, Collection, Names, is_http_url

CONTENT_FIELDS = ("document", "page_content", "text", "content", "chunk", "body")

_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


def _server_url(value: str) -> str:
    if value != ":memory:" and not is_http_url(value):
        raise ValueError("must be a URL such as http://host:6333, or :memory:")
    return value


def _no_file(path: Path) -> Path:
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise ValueError("is a file or lies below one; name a folder")
    return path


class EngineSettings(BaseModel):
    """The engine, its collections, and the limits of a search."""

    # engine
    qdrant_url: Annotated[str, AfterValidator(_server_url)] | None = None
    """URL of a Qdrant server. Not set: the embedded engine; `:memory:`: a trial in memory."""
    qdrant_api_key: SecretStr | None = None
    """API key of the Qdrant server."""
    qdrant_local_path: Annotated[AbsolutePath, AfterValidator(_no_file)] | None = None
    """Folder of the embedded engine. Default: the platform's user data folder."""
    qdrant_share_process: bool = True
    """One process serves all clients of an engine, and exits seconds after the last one. `false`:
    each client gets a server process of its own, and none stays behind; a second client of the
    embedded engine is refused."""
    qdrant_daily_backup: AbsolutePath | None = None
    """Folder for daily backups of the embedded engine's collections; the last seven are kept. Not
    set: no backups."""
    qdrant_timeout: Positive = 10.0
    """Timeout of a request to the engine, in seconds. A search returns what it has
    after four fifths of it."""
    # collections
    collection_name: Collection | None = None
    """Default collection of find and store. Not set: all, and `memory` for new texts."""
    qdrant_collections: Names = ()
    """Allowed collections: names and globs, separated by commas; `*,-private*` excludes some. No
    other is read or named. Default: all."""
    qdrant_content_fields: Names = CONTENT_FIELDS
    """Payload keys, or paths such as `metadata.text`, that may hold a point's text; the first
    present is used. If a collection has none of them, the longest text that most points have.
    """
    qdrant_folder: AbsolutePath | None = None
    """Folder whose own collections are searched by default. Default over stdio: the folder in which
    the client starts the server."""
    qdrant_recall_path: AbsolutePath | None = None
    """Folder through which `recall` finds this server. Not set: `recall` is off."""
    qdrant_read_only: bool = False
    """Hide all tools that write."""
    # search
    qdrant_search_limit: PositiveInt = 10
    """Default number of results of a find, per collection searched; at most three times that in
    total."""
    qdrant_cache_path: AbsolutePath | None = None
    """Cache folder. Default: the platform's user cache folder."""
    # tools
    history_days: Annotated[int, Field(ge=0, le=3_650)] = 30
    """Days for which a text that an agent replaced or deleted can be restored; 0: never."""
    mask_secrets: bool = True
    """Mask keys, tokens and passwords in texts before storing them; sessions of coding clients are
    always masked."""
    tool_find_description: str | None = None
    """Description of qdrant-find for agents, in place of the default."""
    tool_store_description: str | None = None
    """Description of qdrant-store for agents, in place of the default."""

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        if self.qdrant_local_path and (self.qdrant_url or self.qdrant_api_key):
            raise ValueError(
                "QDRANT_LOCAL_PATH cannot be set together with QDRANT_URL or QDRANT_API_KEY: "
                "choose the embedded engine or a server"
            )
        return self

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Self:
        name, allowed = self.collection_name, self.qdrant_collections
        if name and allowed and not listed_in(allowed, name):
            raise ValueError("COLLECTION_NAME is not among QDRANT_COLLECTIONS: add it there")
        return self

    @property
    def local_path(self) -> Path:
        """Folder of the embedded engine's collections."""
        return self.qdrant_local_path or user_data_path("mcp-server-qdrant", appauthor=False)

    @property
    def cache_path(self) -> Path:
        """Folder of vocabularies and cached vectors."""
        return self.qdrant_cache_path or user_cache_path("mcp-server-qdrant", appauthor=False)


def _free_field(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise ValueError("must be a payload key such as tenant or metadata.tenant")
    if value in OURS or value.startswith("doc."):
        raise ValueError("is a field that this server writes; choose another")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank; name a tenant, or leave it out")
    return value


class TenancySettings(BaseModel):
    """Tenants."""

    tenant_field: Annotated[str, AfterValidator(_free_field)] | None = None
    """Payload field with a point's tenant. If set, each caller sees only the points of its
    tenant."""
    tenant_claim: str | None = None
    """Claim with the tenant in a caller's token. Default: the same as TENANT_FIELD."""
    tenant_id: Annotated[str, AfterValidator(_not_blank)] | None = None
    """Tenant of calls without a token: over stdio, and commands."""

    @model_validator(mode="after")
    def _tenancy_complete(self) -> Self:
        if self.tenant_field is None and (self.tenant_id or self.tenant_claim):
            raise ValueError(
                "TENANT_ID and TENANT_CLAIM have no effect without TENANT_FIELD: set it to the "
                "payload field that names a point's tenant"
            )
        return self
