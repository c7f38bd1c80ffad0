"""The names of embedding providers; `app/models.py` opens their encoders."""

from mcp_server_qdrant.core.errors import ConfigError

NONE = "none"
LOCAL = ("fastembed", NONE)  # texts go nowhere, so that a collection alone may name it
PROVIDERS = (*LOCAL, "openai")


def check_provider(name: str) -> None:
    """Refuse a provider that there is not. Raises ConfigError."""
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"EMBEDDING_PROVIDER is {name!r}; it must be one of: {known}.")


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
