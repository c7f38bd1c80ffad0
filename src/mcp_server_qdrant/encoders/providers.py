"""The embedding providers, ONE table. A new provider is a file with its class and a row here."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_server_qdrant.core.errors import ConfigError

if TYPE_CHECKING:
    from mcp_server_qdrant.encoders.encoder import Encoder


@dataclass(frozen=True, slots=True)
class Provider:
    """Where the class of a provider's encoders is, and which of the options it takes.

    `local`: texts go nowhere, so that a collection alone may name it. `prefixed`: it is sent the
    prefixes that a model is known to want.
    """

    encoder: str
    options: tuple[str, ...]
    local: bool = False
    prefixed: bool = True

    def open(self, options: Mapping[str, Any]) -> "Encoder":
        """The encoder, not yet started."""
        module, _, name = self.encoder.partition(":")
        kind = getattr(import_module(module), name)
        encoder: Encoder = kind(**{option: options[option] for option in self.options})
        return encoder


NONE = "none"
PROVIDERS = {
    "fastembed": Provider(
        "mcp_server_qdrant.encoders.local.hosted:HostedEncoder",
        ("host", "spec"),
        local=True,
    ),
    "openai": Provider(
        "mcp_server_qdrant.encoders.remote.openai:OpenAIEncoder",
        ("model", "url", "api_key", "dimensions", "bounds"),
    ),
    "qdrant": Provider(
        "mcp_server_qdrant.encoders.remote.inference:InferenceEncoder",
        ("model", "dimensions", "tokens"),
        prefixed=False,  # nobody says whether the server adds them itself
    ),
    NONE: Provider("mcp_server_qdrant.encoders.none:NoEncoder", ("model", "reason"), local=True),
}


def check_provider(name: str) -> None:
    """Refuse a provider that is not in the table. Raises ConfigError."""
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"EMBEDDING_PROVIDER is {name!r}; it must be one of: auto, {known}.")


def split_provider(model: str, own: str) -> tuple[str, str]:
    """(provider, model) of `provider:model`; the server's own provider where none is named.

    A server without a provider has local models where a setting names them.
    """
    before, colon, after = model.partition(":")
    if colon and named(before):
        return before, after
    return ("fastembed" if own == NONE and model != NONE else own), model


def named(provider: object) -> bool:
    """True where a model's name or a collection's metadata may name this provider."""
    return provider in PROVIDERS and provider != NONE
