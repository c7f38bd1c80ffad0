"""The only reader of the environment. Frozen, typed, secrets masked.

Precedence: environment variable, then the settings file (settings/sources.py), then the default.
Every field's description is a row of docs/settings.md (tests/test_readme.py keeps it true).
"""

import json
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from platformdirs import user_cache_path, user_data_path
from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from typing_extensions import override

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.fields import within
from mcp_server_qdrant.core.find import Preferences
from mcp_server_qdrant.core.notation import name_fault
from mcp_server_qdrant.settings.auth import AuthSettings
from mcp_server_qdrant.settings.cluster import ClusterSettings
from mcp_server_qdrant.settings.embedding import EmbeddingSettings
from mcp_server_qdrant.settings.filter import FilterSettings
from mcp_server_qdrant.settings.http import HttpSettings
from mcp_server_qdrant.settings.keys import keys_sent
from mcp_server_qdrant.settings.ranking import RankingSettings
from mcp_server_qdrant.settings.sources import (
    WholePath,
    check_certificates,
    left_alone,
    paths_below,
    settings_file,
)
from mcp_server_qdrant.settings.sync import SyncSettings
from mcp_server_qdrant.settings.tenancy import TenancySettings
from mcp_server_qdrant.settings.weights import WeightSettings

CONTENT_FIELDS = ("document", "page_content", "text", "content", "chunk", "body")
TIME_FIELDS = ("created_at", "updated_at", "modified_at", "date", "timestamp")
# fmt: off
LANGUAGES = (
    "arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch",
    "english", "finnish", "french", "german", "greek", "hebrew", "hinglish", "hungarian",
    "indonesian", "italian", "japanese", "kazakh", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "slovene", "spanish", "swedish", "tajik", "turkish", "none",
)
# fmt: on

OUT_OF_BOUNDS = {
    *("greater_than_equal", "greater_than", "less_than_equal", "less_than", "finite_number")
}

Names = Annotated[tuple[str, ...], NoDecode]


def _variable(name: str, default: Any, description: str) -> Any:
    """A field read from the environment variable `name`."""
    return Field(default=default, validation_alias=AliasChoices(name), description=description)


class Settings(
    AuthSettings,
    ClusterSettings,
    SyncSettings,
    EmbeddingSettings,
    WeightSettings,
    RankingSettings,
    FilterSettings,
    HttpSettings,
    TenancySettings,
    Preferences,
    BaseSettings,
):
    """All settings of the server, read once at start."""

    model_config = SettingsConfigDict(
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        env_ignore_empty=True,
    )

    # engine
    qdrant_url: str | None = _variable(
        "QDRANT_URL", None, "Qdrant server. Not set: the embedded engine; `:memory:`: a trial."
    )
    qdrant_api_key: SecretStr | None = _variable(
        "QDRANT_API_KEY", None, "API key of the Qdrant server."
    )
    qdrant_other_api_key: SecretStr | None = _variable(
        "QDRANT_OTHER_API_KEY", None, "API key of a server that `copy` or `upgrade` is told of."
    )
    qdrant_prefer_grpc: bool = _variable(
        "QDRANT_PREFER_GRPC", default=False, description="Speak gRPC to the Qdrant server."
    )
    qdrant_local_path: WholePath | None = _variable(
        "QDRANT_LOCAL_PATH",
        None,
        "Folder of the embedded engine. Default: the platform's user data folder.",
    )
    qdrant_timeout: float = _variable(
        "QDRANT_TIMEOUT", 10.0, "Seconds that one request to the engine may take."
    )
    # collections
    collection_name: str | None = _variable(
        "COLLECTION_NAME", None, "Default collection of find and store."
    )
    qdrant_collections: Names = _variable(
        "QDRANT_COLLECTIONS",
        (),
        "Allow-list: names and globs, by comma. Nothing else is read or named. Default: all.",
    )
    qdrant_content_fields: Names = _variable(
        "QDRANT_CONTENT_FIELDS",
        CONTENT_FIELDS,
        "Payload keys that may hold a point's text; the first present is used.",
    )
    qdrant_read_only: bool = _variable(
        "QDRANT_READ_ONLY", default=False, description="Hide every tool that writes."
    )
    # search
    qdrant_search_limit: int = _variable(
        "QDRANT_SEARCH_LIMIT", 10, "Results of a find that names no limit, per collection searched."
    )
    search_limit_factor: int = _variable(
        "QDRANT_SEARCH_LIMIT_FACTOR",
        3,
        "A find over many collections returns at most this many times the limit.",
    )
    search_timeout: float = _variable(
        "QDRANT_SEARCH_TIMEOUT", 8.0, "Seconds after which a find answers with what it has."
    )
    search_concurrency: int = _variable(
        "QDRANT_SEARCH_CONCURRENCY", 64, "Collections searched at the same time."
    )
    # ranking
    priority_order: Names = _variable(
        "QDRANT_COLLECTION_PRIORITY_ORDER", (), "Preferred collections, the most preferred first."
    )
    recency_decay: float = _variable(
        "QDRANT_RECENCY_DECAY", 0.01, "How fast, per day; 0.01 is a half-life of 69 days."
    )
    recency_fields: Names = _variable(
        "QDRANT_RECENCY_FIELDS",
        TIME_FIELDS,
        "Payload paths that may hold a text's time; the first present is used.",
    )
    cache_dir: WholePath | None = _variable(
        "QDRANT_CACHE_PATH",
        None,
        "Folder of what can be made again. Default: the platform's user cache folder.",
    )
    bm25_language: str = _variable(
        "BM25_LANGUAGE", "english", "Stemming and stop words of keyword search; `none` for neither."
    )
    # server
    tool_find_description: str | None = _variable(
        "TOOL_FIND_DESCRIPTION", None, "Replaces the description of qdrant-find."
    )
    tool_store_description: str | None = _variable(
        "TOOL_STORE_DESCRIPTION", None, "Replaces the description of qdrant-store."
    )

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The usual ones; relative paths in a settings file are relative to it."""
        file = dotenv_settings
        if isinstance(file, DotEnvSettingsSource) and isinstance(file.env_file, Path):
            file.env_vars = paths_below(file.env_file.parent, file.env_vars, _path_variables())
        return init_settings, env_settings, file

    @field_validator(
        "qdrant_collections",
        "qdrant_content_fields",
        "priority_order",
        "recency_fields",
        mode="before",
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("["):
            try:
                return tuple(json.loads(value))
            except ValueError:
                raise ValueError("it must be names by comma, or a JSON list of them") from None
        return tuple(part.strip() for part in value.split(",") if part.strip())

    @field_validator("qdrant_search_limit", "search_limit_factor", "search_concurrency")
    @classmethod
    def _at_least_one(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be at least 1")
        return value

    @field_validator("qdrant_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value and value != ":memory:" and not value.startswith(("http://", "https://")):
            raise ValueError("must be a URL such as http://host:6333, or :memory:")
        return value

    @field_validator("qdrant_local_path")
    @classmethod
    def _no_file(cls, value: Path | None) -> Path | None:
        for part in (value, *value.parents) if value else ():
            if part.exists() and not part.is_dir():
                raise ValueError("is a file or lies below one; name a folder")
        return value

    @field_validator("collection_name")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and (fault := name_fault(value)):
            raise ValueError(fault)
        return value

    @field_validator("bm25_language")
    @classmethod
    def _language(cls, value: str) -> str:
        if value.strip().lower() not in LANGUAGES:
            raise ValueError(f"must be one of {', '.join(LANGUAGES)}")
        return value

    @field_validator("qdrant_timeout", "search_timeout", "recency_decay")
    @classmethod
    def _positive(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be more than 0")
        return value

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        if self.qdrant_local_path and (self.qdrant_url or self.qdrant_api_key):
            raise ValueError(
                "QDRANT_LOCAL_PATH cannot be set together with QDRANT_URL or QDRANT_API_KEY: "
                "choose the embedded engine or a server"
            )
        return self

    @model_validator(mode="after")
    def _folders_of_somebody(self) -> Self:
        if self.sync_sources and self.tenant_field and not self.tenant_id:
            raise ValueError("SYNC_SOURCES needs TENANT_ID here: whose the folders are")
        return self

    @model_validator(mode="after")
    def _server_where_needed(self) -> Self:
        encodes = "EMBEDDING_PROVIDER=qdrant" if self.serves("qdrant") else None
        variable = self.for_servers() or encodes
        if variable and self.qdrant_url in (None, ":memory:"):
            raise ValueError(f"{variable} needs QDRANT_URL: a Qdrant server")
        return self

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Self:
        name, allowed = self.collection_name, self.qdrant_collections
        if name and allowed and not any(name == one or fnmatchcase(name, one) for one in allowed):
            raise ValueError("COLLECTION_NAME is not among QDRANT_COLLECTIONS: add it there")
        return self

    @property
    def local_path(self) -> Path:
        """Where the embedded engine keeps its collections."""
        return self.qdrant_local_path or user_data_path("mcp-server-qdrant", appauthor=False)

    @property
    def cache_path(self) -> Path:
        """Where collections' vocabularies are kept."""
        return self.cache_dir or user_cache_path("mcp-server-qdrant", appauthor=False)


def model_environment() -> str:
    """What else of the environment bears on how a local model is found and run."""
    told = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(("HF_", "HUGGINGFACE_", "OMP_", "ORT_", "SSL_CERT_"))
        or name.upper().endswith(("_PROXY", "_CA_BUNDLE"))
    }
    return json.dumps(told, sort_keys=True)


def _path_variables() -> set[str]:
    return {
        names[0]
        for field, names in environment_names().items()
        if WholePath in get_args(Settings.model_fields[field].annotation)
    }


def environment_names() -> dict[str, tuple[str, ...]]:
    """Field name -> the environment variables that set it, the preferred one first.

    In the order in which they are told of: inherited fields last.
    """
    names = {
        name: tuple(str(choice) for choice in info.validation_alias.choices)
        for name, info in Settings.model_fields.items()
        if isinstance(info.validation_alias, AliasChoices)
    }
    ranking = WeightSettings.model_fields.keys() | RankingSettings.model_fields.keys()
    inherited = (
        FilterSettings,
        EmbeddingSettings,
        ClusterSettings,
        SyncSettings,
        AuthSettings,
        HttpSettings,
    )
    parts = (TenancySettings.model_fields, ranking, *(part.model_fields for part in inherited))
    return dict(sorted(names.items(), key=lambda item: [item[0] in part for part in parts]))


def load(env_file: Path | None = None, tell: Callable[[str], None] | None = None) -> Settings:
    """The settings of this process: from the environment, and from `env_file` or the user's own.

    `tell` gets a sentence on each thing that a person may not expect. Raises ConfigError naming the
    variable that is wrong.
    """
    tell = tell or (lambda _: None)
    names = environment_names()
    file = settings_file(env_file)
    check_certificates(os.environ)
    if said := left_alone(file, {name for variables in names.values() for name in variables}):
        tell(said)
    try:
        settings = Settings(_env_file=file)
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"The settings could not be read: {error}.") from error
    if file:
        given = {name.upper() for name, value in os.environ.items() if value}
        fields = [field for field, variables in names.items() if given & set(variables)]
        for sentence in keys_sent(settings, fields, names, file):
            tell(sentence)
    return settings


def _sentence(error: ValidationError) -> str:
    """What is wrong first, after the variable that was set."""
    first = error.errors(include_input=False, include_url=False)[0]
    text = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return f"{text}."
    name, *inside = map(str, first["loc"])
    aliases = next((names for names in environment_names().values() if name in names), (name,))
    variable = next((alias for alias in aliases if alias in os.environ), aliases[0])
    field = next((f for f, names in environment_names().items() if name in (f, *names)), "")
    if first["type"] in OUT_OF_BOUNDS and field in Settings.model_fields:
        text = within(Settings.model_fields[field]) or text
    return f"{': '.join([variable, *inside[-1:], text])}."
