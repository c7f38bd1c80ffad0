"""The only reader of the environment. Frozen, typed, secrets masked.

Precedence: environment variable, then the settings file, then the default. A field is called as its
variable, and the text below it is its row of docs/settings.md. A client starts the server in the
folder that it has open, which may be a stranger's, so nothing is read there unasked.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args

from dotenv import dotenv_values
from platformdirs import user_config_path
from pydantic import AliasChoices, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mcp_server_qdrant.core.disk import others_may_write
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.fields import wanted
from mcp_server_qdrant.core.find import Preferences
from mcp_server_qdrant.core.notation import printable
from mcp_server_qdrant.settings.embedding import EmbeddingSettings
from mcp_server_qdrant.settings.engine import EngineSettings, TenancySettings
from mcp_server_qdrant.settings.http import AuthSettings, HttpSettings
from mcp_server_qdrant.settings.ranking import FilterSettings, RankingSettings
from mcp_server_qdrant.settings.sync import SyncSettings
from mcp_server_qdrant.settings.values import from_home

ENV_FILE = ".env"
LOOKED_AT = 65_536  # bytes of a file that is not ours to read
ASSIGNMENT = re.compile(
    rb"^\s*(?:export\s+)?[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*=", re.MULTILINE
)
ENVIRONMENT = "the environment"
HIDDEN = "**********"
# Of our settings; others have those of other programs too.
PREFIXES = ("QDRANT_", "EMBEDDING_", "RERANK_", "TENANT_", "HYBRID_", "SYNC_", "STORE_")
FORMER_CHECK = "TENANT_CHECK_URL"  # without which more is shown, so that it is not ignored


# The order of the parts, from last to first, is that of docs/settings.md.
class Settings(
    TenancySettings,
    SyncSettings,
    HttpSettings,
    AuthSettings,
    FilterSettings,
    RankingSettings,
    Preferences,
    EmbeddingSettings,
    EngineSettings,
    BaseSettings,
):
    """All settings of the server, read once at start."""

    model_config = SettingsConfigDict(
        enable_decoding=False,  # the types read their own notation
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        populate_by_name=False,  # or PRIORITY would be a variable too
        env_ignore_empty=True,
    )

    @model_validator(mode="after")
    def _folders_of_a_tenant(self) -> Self:
        if self.sync_sources and self.tenant_field and not self.tenant_id:
            raise ValueError("SYNC_SOURCES needs TENANT_ID here: the tenant of the folders")
        return self


def model_environment() -> str:
    """Other variables that affect how a local model is found and run, as JSON."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(("HF_", "HUGGINGFACE_", "OMP_", "ORT_", "SSL_CERT_"))
        or name.upper().endswith(("_PROXY", "_CA_BUNDLE"))
    }
    return json.dumps(found, sort_keys=True)


def environment_names() -> dict[str, tuple[str, ...]]:
    """Field name -> the environment variables that set it, the preferred one first."""
    found: dict[str, tuple[str, ...]] = {}
    for name, info in Settings.model_fields.items():
        alias = info.validation_alias or name.upper()
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        found[name] = tuple(map(str, choices))
    return found


def given(env_file: Path | None = None) -> dict[str, tuple[str, str]]:
    """Each variable that is set: its value, and whether the environment or which file sets it.

    Raises ConfigError where the file cannot be used.
    """
    found = _assigned(settings_file(env_file))
    return {name: found[name] for name in sorted({*_variables(), FORMER_CHECK} & found.keys())}


def _assigned(file: Path | None) -> dict[str, tuple[str, str]]:
    """All variables of the environment and the file, ours or not, as `given` tells them."""
    written = dotenv_values(file, encoding="utf-8") if file else {}
    found = {name.upper(): (value, str(file)) for name, value in written.items() if value}
    return found | {name.upper(): (one, ENVIRONMENT) for name, one in os.environ.items() if one}


def _strays(assigned: Collection[str]) -> Iterator[str]:
    """A sentence for each variable that looks like a setting and is none, or none any more.

    Raises ConfigError where ignoring one would show texts that it hid.
    """
    if FORMER_CHECK in assigned:
        raise ConfigError(
            f"{FORMER_CHECK} is no longer a setting, and what it hid would be shown: remove it if "
            "tenants alone may keep callers apart."
        )
    ours = (name for name in assigned if name.startswith(PREFIXES) and "__" not in name)
    for name in sorted({*ours} - _variables()):
        yield f"{name} is no setting and does nothing: docs/settings.md has all of them"


def shown(variable: str, value: str) -> str:
    """The value as it may be printed: keys and passwords are masked."""
    for field, names in environment_names().items():
        if variable in names and SecretStr in get_args(Settings.model_fields[field].annotation):
            return HIDDEN
    return re.sub(r"://[^/@\s]+@", f"://{HIDDEN}@", value)


def without_settings() -> dict[str, str]:
    """The environment of this process without any setting of ours, as a client's own may be."""
    ours = {*_variables(), FORMER_CHECK}
    return {name: value for name, value in os.environ.items() if name.upper() not in ours}


def _variables() -> set[str]:
    return {name for choices in environment_names().values() for name in choices}


def load(
    env_file: Path | None = None,
    tell: Callable[[str], None] | None = None,
    first: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of this process: from the environment, and from `env_file` or the user's own.

    `tell` gets a sentence on each thing that a person may not expect; variables in `first` win over
    the environment. Raises ConfigError naming the variable that is wrong.
    """
    tell = tell or (lambda _: None)
    file = settings_file(env_file)
    if sentence := _left_alone(file):
        tell(sentence)
    try:
        for sentence in _strays(_assigned(file)):
            tell(sentence)
        given: dict[str, Any] = {name.lower(): value for name, value in (first or {}).items()}
        return Settings(_env_file=file, **given)
    except ValidationError as error:
        raise ConfigError(explained(error)) from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"The settings could not be read: {error}.") from error


def settings_file(named: Path | None) -> Path | None:
    """The file that was named, else the one in the user's configuration folder, if there is one.

    Raises ConfigError where it cannot be read, or where others may write it.
    """
    own = user_config_path("mcp-server-qdrant", appauthor=False) / ENV_FILE
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


def _left_alone(file: Path | None) -> str | None:
    """A warning about settings in a .env where the server started, unless that is the `file`."""
    try:
        path = Path.cwd() / ENV_FILE
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
        f"{shown} is not read, since the folder may be a stranger's: "
        f"if its settings are yours, start with --env-file {shown}"
    )


def explained(error: ValidationError) -> str:
    """A sentence on the first thing that is wrong, after the variable that was set."""
    first = error.errors(include_input=False, include_url=False)[0]
    text = wanted(first)
    if not first["loc"]:
        return f"{text}."
    name, *inside = map(str, first["loc"])
    names = environment_names()
    field = next((field for field, choices in names.items() if name in (field, *choices)), name)
    choices = names.get(field, (name,))
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        text = "is no part of this setting, or none any more; remove it"
    variable = next((choice for choice in choices if choice in os.environ), choices[0])
    return f"{': '.join([variable, *inside[-1:], text])}."
