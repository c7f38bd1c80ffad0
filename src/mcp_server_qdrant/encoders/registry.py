"""The models of a server: an encoder each, loaded once; which one a collection is asked with."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase
from typing import Any, get_args

from mcp_server_qdrant.core.datatypes import MODEL_KEY, ModelChoice, Provider
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.local.listed import LISTED
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES
from mcp_server_qdrant.encoders.remote.openai import SIZES as OPENAI_MODELS
from mcp_server_qdrant.hosting.link import Link

LOAD_SECONDS = 6.0  # that a query waits for a model that is being loaded, not downloaded
# Ends the name of a model for collections whose passages were encoded without its prefix.
PLAIN = " without prefixes"
PROVIDER_KEY = "embedding_provider"
PREFIX_KEY = "embedding_passage_prefix"
FAST = "fast-"
NONE = "none"
LOCAL = ("fastembed", NONE)  # texts go nowhere, so that a collection alone may name it
NO_MODEL = "keywords only: EMBEDDING_PROVIDER is none"


class Registry:
    """The default encoder, and others for collections that were filled by another model.

    `make` opens the encoder of a model, with its prefixes; `host` holds the local models. A model
    is named `model`, or `provider:model` where that is not the server's own `provider`.

    A collection's model is that of COLLECTION_MODELS, else of its metadata, else the one that its
    vector is named after, else the default. `mapping` are (name or glob, model); names count before
    globs. `fixed_prefixes` says that a setting gives the default model's prefixes, which then hold
    for collections of any maker.
    """

    def __init__(
        self,
        default: Encoder,
        make: Callable[[str], Encoder],
        host: Link | None = None,
        *,
        provider: str = "fastembed",
        mapping: Sequence[tuple[str, str]] = (),
        fixed_prefixes: bool = False,
    ) -> None:
        self._make = make
        self.host = host
        self.default = default
        self._encoders = {default.name: default}
        self._provider = provider
        self._mapping = sorted(mapping, key=lambda pair: any(mark in pair[0] for mark in "*?["))
        self._fixed = fixed_prefixes

    def known(self, model: str) -> Encoder:
        """The encoder of a model, not started."""
        if model not in self._encoders:
            if model.endswith(PLAIN):
                encoder = copy(self.known(model.removesuffix(PLAIN)))
                encoder.prefixes = NO_PREFIXES
            else:
                encoder = self._make(model)
            self._encoders[model] = encoder
        return self._encoders[model]

    def of(self, model: str | None) -> Encoder:
        """The encoder of a model, started; None means the default one."""
        encoder = self.default if model is None else self.known(model)
        encoder.start()
        return encoder

    async def encode_query(self, model: str, text: str) -> Any:
        """A unit vector. Raises EncoderUnavailable with the reason."""
        encoder = self.of(model)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        return await encoder.encode_query(text)

    async def close(self) -> None:
        """Let all models go."""
        for encoder in self._encoders.values():
            await encoder.close()
        if self.host is not None:
            await self.host.close()

    async def choose(
        self, collection: str, metadata: Mapping[str, Any], vectors: Sequence[str]
    ) -> ModelChoice:
        """The model of a collection with these dense vectors ("": unnamed)."""
        model = self.mapped(collection)
        if model is None:
            if self._provider == NONE:
                return ModelChoice(None, fault=NO_MODEL)
            model = self._recorded(metadata) or self._named(vectors)
        return self._prefixed(model or self.default.name, metadata, certain=model is not None)

    def mapped(self, collection: str) -> str | None:
        """The model that COLLECTION_MODELS gives a collection, existing or new."""
        for pattern, model in self._mapping:
            if pattern == collection or fnmatchcase(collection, pattern):
                return self._short(model)
        return None

    async def shape(self, model: str) -> tuple[str, int | None]:
        """The name that a model's vector has in collections of ours, and its size if known."""
        encoder = self.known(model)
        return encoder.vector_name, await encoder.known_size()

    def _recorded(self, metadata: Mapping[str, Any]) -> str | None:
        model, provider = metadata.get(MODEL_KEY), metadata.get(PROVIDER_KEY)
        if not isinstance(model, str) or not model:
            return None
        if _last(model) == _last(self.default.name):
            return self.default.name  # served by another provider, but the same model
        return self._short(f"{provider}:{model}" if _is_provider(provider) else model)

    def _named(self, vectors: Sequence[str]) -> str | None:
        """The model that a vector is named after."""
        if self.default.vector_name in vectors:
            return self.default.name
        for name in sorted(vectors):
            if name.removeprefix(FAST) == _last(self.default.name):
                return self.default.name
            if name in OPENAI_MODELS:
                return self._short(f"openai:{name}")
            if name.startswith(FAST) and (found := LISTED.get(name.removeprefix(FAST))):
                return self._short(f"fastembed:{found}")
        return None

    def _prefixed(self, model: str, metadata: Mapping[str, Any], *, certain: bool) -> ModelChoice:
        """The model with or without its prefixes, as the collection's passages were encoded."""
        wanted = self.known(model).prefixes.passage
        found = metadata.get(PREFIX_KEY, "") if self._records(metadata, model) else wanted
        if found == wanted or (self._fixed and model == self.default.name and not found):
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
