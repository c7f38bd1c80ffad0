"""The model that a collection was filled with, and so must be asked with."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, get_args

from mcp_server_qdrant.core.datatypes import MODEL_KEY, ModelChoice, Provider
from mcp_server_qdrant.encoders.local.listed import LISTED
from mcp_server_qdrant.encoders.registry import PLAIN, Registry
from mcp_server_qdrant.encoders.remote.openai import SIZES as OPENAI_MODELS

PROVIDER_KEY = "embedding_provider"
PREFIX_KEY = "embedding_passage_prefix"
FAST = "fast-"
NONE = "none"
LOCAL = ("fastembed", NONE)  # texts go nowhere, so that a collection alone may name it
NO_MODEL = "keywords only: EMBEDDING_PROVIDER is none"


class Choice:
    """Chooses by COLLECTION_MODELS, else metadata, else the vector's name, else the default.

    A model is named `model`, or `provider:model` where its provider is not the server's own.
    `mapping` are (name or glob, model); names count before globs. `fixed_prefixes` says that a
    setting gives the default model's prefixes, which then hold for collections of any maker.
    """

    def __init__(
        self,
        encoders: Registry,
        provider: str,
        mapping: Sequence[tuple[str, str]] = (),
        *,
        fixed_prefixes: bool = False,
    ) -> None:
        self._encoders = encoders
        self._default = encoders.default.name
        self._provider = provider
        self._mapping = sorted(mapping, key=lambda pair: any(mark in pair[0] for mark in "*?["))
        self._fixed = fixed_prefixes

    async def of(
        self, collection: str, metadata: Mapping[str, Any], vectors: Sequence[str]
    ) -> ModelChoice:
        """The model of a collection with these dense vectors ("": unnamed)."""
        model = self.mapped(collection)
        if model is None:
            if self._provider == NONE:
                return ModelChoice(None, fault=NO_MODEL)
            model = self._recorded(metadata) or self._named(vectors)
        return self._prefixed(model or self._default, metadata, certain=model is not None)

    def mapped(self, collection: str) -> str | None:
        """The model that COLLECTION_MODELS gives a collection, existing or new."""
        for pattern, model in self._mapping:
            if pattern == collection or fnmatchcase(collection, pattern):
                return self._short(model)
        return None

    async def shape(self, model: str) -> tuple[str, int | None]:
        """The name that a model's vector has in collections of ours, and its size if known."""
        encoder = self._encoders.known(model)
        return encoder.vector_name, await encoder.known_size()

    def _recorded(self, metadata: Mapping[str, Any]) -> str | None:
        model, provider = metadata.get(MODEL_KEY), metadata.get(PROVIDER_KEY)
        if not isinstance(model, str) or not model:
            return None
        if _last(model) == _last(self._default):
            return self._default  # served by another provider, but the same model
        return self._short(f"{provider}:{model}" if _is_provider(provider) else model)

    def _named(self, vectors: Sequence[str]) -> str | None:
        """The model that a vector is named after."""
        if self._encoders.default.vector_name in vectors:
            return self._default
        for name in sorted(vectors):
            if name.removeprefix(FAST) == _last(self._default):
                return self._default
            if name in OPENAI_MODELS:
                return self._short(f"openai:{name}")
            if name.startswith(FAST) and (found := LISTED.get(name.removeprefix(FAST))):
                return self._short(f"fastembed:{found}")
        return None

    def _prefixed(self, model: str, metadata: Mapping[str, Any], *, certain: bool) -> ModelChoice:
        """The model with or without its prefixes, as the collection's passages were encoded."""
        wanted = self._encoders.known(model).prefixes.passage
        found = metadata.get(PREFIX_KEY, "") if self._records(metadata, model) else wanted
        if found == wanted or (self._fixed and model == self._default and not found):
            return ModelChoice(model, certain)
        if not found:
            return ModelChoice(model + PLAIN, certain)
        fault = f"its passages were encoded after {found!r}: set EMBEDDING_PASSAGE_PREFIX to that"
        return ModelChoice(None, fault=fault)

    def _records(self, metadata: Mapping[str, Any], model: str) -> bool:
        """True where the metadata is about this model, or names none.

        An upgrade leaves the vectors of the model before, whose prefix is not written down.
        """
        recorded = metadata.get(MODEL_KEY)
        _, name = split_provider(model, self._provider)
        return not isinstance(recorded, str) or _last(recorded) == _last(name)

    def _short(self, model: str) -> str:
        """The model's name without the server's own provider before it."""
        return model.removeprefix(f"{self._provider}:")


def split_provider(model: str, own: str) -> tuple[str, str]:
    """(provider, model) of `provider:model`; the server's own provider where none is named.

    A server without a provider has local models where a setting names them.
    """
    before, colon, after = model.partition(":")
    if colon and _is_provider(before):
        return before, after
    return ("fastembed" if own == NONE and model != NONE else own), model


def _is_provider(provider: object) -> bool:
    """True where a model's name or a collection's metadata may name this provider."""
    return provider in get_args(Provider) and provider != NONE


def _last(model: str) -> str:
    return model.rsplit("/", maxsplit=1)[-1].lower().removeprefix(FAST)
