"""The only reader of the environment. Frozen, typed, secrets masked.

Precedence: environment variable, settings file, default. A field is named after its variable, and
its docstring is its row in docs/settings.md. A client starts the server in its open folder, which
may be untrusted, so no file is read there by default.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

from dotenv import dotenv_values
from platformdirs import user_config_path
from pydantic import AliasChoices, PrivateAttr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from typing_extensions import override

from mcp_server_qdrant.core.context import binding, client_folder
from mcp_server_qdrant.core.disk import others_may_write
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.fields import requirement
from mcp_server_qdrant.core.notation import printable
from mcp_server_qdrant.settings.embedding import EmbeddingSettings
from mcp_server_qdrant.settings.engine import EngineSettings, TenancySettings
from mcp_server_qdrant.settings.http import AuthSettings, HttpSettings
from mcp_server_qdrant.settings.ranking import FilterSettings, RankingSettings
from mcp_server_qdrant.settings.sync import SyncSettings
from mcp_server_qdrant.settings.values import from_home

APP, ENV_FILE = "mcp-server-qdrant", ".env"
LOOKED_AT = 65_536  # bytes read of a .env that is only checked for settings
ASSIGNMENT = re.compile(
    rb"^\s*(?:export\s+)?[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*=", re.MULTILINE
)
ENVIRONMENT = "the environment"
HIDDEN = "**********"
# Prefixes that only our settings have.
PREFIXES = (
    *("QDRANT_", "EMBEDDING_", "RERANK_", "TENANT_", "HYBRID_", "SYNC_", "STORE_", "BM25_"),
    *("AUTH_SCOPE_", "AUTH_RESOURCE_", "HTTP_MAX_"),
)
_VARIABLES: ContextVar[Mapping[str, str]] = ContextVar("variables", default=os.environ)


# The order of the parts, from last to first, is that of docs/settings.md.
class _Variables(EnvSettingsSource):
    """A settings source that reads from `variables`."""

    @override
    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in variables().items() if value}


class Settings(
    TenancySettings,
    SyncSettings,
    HttpSettings,
    AuthSettings,
    FilterSettings,
    RankingSettings,
    EmbeddingSettings,
    EngineSettings,
    BaseSettings,
):
    """All settings, read once when a client connects or a command starts."""

    _zone: ZoneInfo | None = PrivateAttr(None)
    model_config = SettingsConfigDict(
        enable_decoding=False,  # the types parse their own notation
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        env_ignore_empty=True,
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
        return init_settings, _Variables(settings_cls), dotenv_settings

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of days, that of the client's TZ; None: the system's."""
        return self._zone

    @override
    def model_post_init(self, _: Any, /) -> None:
        with suppress(ValueError, KeyError, OSError):  # TZ may be a POSIX rule instead of a name
            self._zone = ZoneInfo(variables().get("TZ", "").removeprefix(":"))

    @model_validator(mode="after")
    def _folders_of_a_tenant(self) -> Self:
        if self.sync_sources and self.tenant_field and not self.tenant_id:
            raise ValueError("SYNC_SOURCES needs TENANT_ID here: the tenant of the folders")
        return self


def variables() -> Mapping[str, str]:
    """The environment variables of this process, or those set by `use_variables`."""
    return _VARIABLES.get()


def use_variables(given: Mapping[str, str]) -> AbstractContextManager[None]:
    """Use another process's environment variables in the body."""
    return binding(_VARIABLES, given)


def environment_names() -> dict[str, tuple[str, ...]]:
    """Field name -> the environment variables that set it, the preferred one first."""
    found: dict[str, tuple[str, ...]] = {}
    for name, info in Settings.model_fields.items():
        alias = info.validation_alias or name.upper()
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        found[name] = tuple(map(str, choices))
    return found


def given_variables(env_file: Path | None = None) -> dict[str, tuple[str, str]]:
    """Each variable that is set -> (value, source: the environment or a file).

    Raises ConfigError if the file cannot be used.
    """
    found = _read_variables(settings_file(env_file))
    return {name: found[name] for name in sorted(_variables() & found.keys())}


def _read_variables(file: Path | None) -> dict[str, tuple[str, str]]:
    """All variables of the environment and the file, ours or not, as in `given_variables`."""
    written = dotenv_values(file, encoding="utf-8") if file else {}
    found = {name.upper(): (value, str(file)) for name, value in written.items() if value}
    return found | {name.upper(): (one, ENVIRONMENT) for name, one in variables().items() if one}


def _unknown_settings(assigned: Collection[str]) -> Iterator[str]:
    """A sentence for each variable that looks like a setting but is none."""
    ours = (name for name in assigned if name.startswith(PREFIXES) and "__" not in name)
    for name in sorted({*ours} - _variables()):
        yield f"{name} is not a setting and has no effect: docs/settings.md has all of them"


def masked_value(variable: str, value: str) -> str:
    """The value for printing, with keys and passwords masked."""
    for field, names in environment_names().items():
        if variable in names and "SecretStr" in str(Settings.model_fields[field].annotation):
            return HIDDEN
    return re.sub(r"://[^/@\s]+@", f"://{HIDDEN}@", value)


def without_settings() -> dict[str, str]:
    """The environment of this process without our settings, like that of a client."""
    ours = _variables()
    return {name: value for name, value in variables().items() if name.upper() not in ours}


def _variables() -> set[str]:
    return {name for choices in environment_names().values() for name in choices}


def load(
    env_file: Path | None = None,
    warn: Callable[[str], None] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    """Load the settings from the environment, and from `env_file` or the user's own file.

    `tell` gets a sentence on everything unexpected; variables in `first` override the environment.
    Raises ConfigError naming the wrong variable.
    """
    warn = warn or (lambda _: None)
    file = settings_file(env_file)
    if sentence := _ignored_env_file(file):
        warn(sentence)
    try:
        for sentence in _unknown_settings(_read_variables(file)):
            warn(sentence)
        given: dict[str, Any] = {name.lower(): value for name, value in (overrides or {}).items()}
        return Settings(_env_file=file, **given)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"The settings could not be read: {error}.") from error


def settings_file(named: Path | None) -> Path | None:
    """The named file, else the one in the user's configuration folder, if it exists.

    Raises ConfigError if it cannot be read, or others can write it.
    """
    home = variables().get("XDG_CONFIG_HOME", "").strip() if sys.platform != "win32" else ""
    usual = user_config_path(APP, appauthor=False)
    own = (Path(home) / APP if Path(home).is_absolute() else usual) / ENV_FILE
    path = from_home(named or own).absolute()
    if named is None and not path.is_file():
        return None
    try:
        fault = others_may_write(path)
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"The settings file {path} cannot be read: {error.strerror}.") from error
    if fault:
        raise ConfigError(f"The settings file {path} is not read: {fault}.")
    return path


def _ignored_env_file(file: Path | None) -> str | None:
    """A warning if a .env in the working directory has settings and is not the `file` in use."""
    try:
        path = (client_folder() or Path.cwd()) / ENV_FILE
        if not path.is_file() or (file and path.samefile(file)):
            return None
        with path.open("rb") as opened:
            text = opened.read(LOOKED_AT)
    except OSError:
        return None
    if _variables().isdisjoint(name.decode().upper() for name in ASSIGNMENT.findall(text)):
        return None
    shown = printable(str(path))
    return (
        f"{shown} is not read, since the folder may be untrusted: "
        f"if its settings are yours, start with --env-file {shown}"
    )


def explain(error: ValidationError) -> str:
    """A sentence on the first error, beginning with the variable."""
    first = error.errors(include_input=False, include_url=False)[0]
    text = requirement(first)
    if not first["loc"]:
        return f"{text}."
    name, *inside = map(str, first["loc"])
    names = environment_names()
    field = next((field for field, choices in names.items() if name in (field, *choices)), name)
    choices = names.get(field, (name,))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        text = "is not part of this setting: remove it"
    variable = next((choice for choice in choices if choice in variables()), choices[0])
    return f"{': '.join([variable, *inside[-1:], text])}."
