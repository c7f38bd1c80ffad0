"""The encoders of the models in use, and the choice of a model for a collection."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any, get_args

from mcp_server_qdrant.core.datatypes import MODEL_KEY, ModelChoice, Provider
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.encoders.language import model_reads
from mcp_server_qdrant.encoders.local.models import supported_models
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES
from mcp_server_qdrant.encoders.remote.openai import SIZES as OPENAI_MODELS

LOAD_SECONDS = 6.0  # that a query waits for a model to load, not to download
# Suffix of a model's name, for collections whose passages were encoded without its prefix.
PLAIN = " without prefixes"
PROVIDER_KEY = "embedding_provider"
PREFIX_KEY = "embedding_passage_prefix"
FAST = "fast-"
NONE = "none"
LOCAL = ("fastembed", NONE)  # no text leaves the machine, so a collection's metadata may name it
NO_MODEL = "keywords only: EMBEDDING_PROVIDER is none"


class Registry:
    """The default encoder, and those for collections filled by other models.

    `make` opens the encoder of a model, with its prefixes. A model is named `model`, or
    `provider:model` where that is not the server's own `provider`.

    A collection's model is that of COLLECTION_MODELS, else of its metadata, else the one that its
    vector is named after, else the default. `mapping` are (name or glob, model); names win over
    globs.
    """

    def __init__(
        self,
        default: Encoder,
        make: Callable[[str], Encoder],
        *,
        provider: str = "fastembed",
        mapping: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._make = make
        self.default = default
        self._encoders = {default.name: default}
        self._provider = provider
        self._mapping = sorted(mapping, key=lambda pair: any(mark in pair[0] for mark in "*?["))

    def get(self, model: str) -> Encoder:
        """The encoder of a model, without starting it."""
        if model not in self._encoders:
            if model.endswith(PLAIN):
                encoder = copy(self.get(model.removesuffix(PLAIN)))
                encoder.prefixes = NO_PREFIXES
            else:
                encoder = self._make(model)
            self._encoders[model] = encoder
        return self._encoders[model]

    def start_encoder(self, model: str | None) -> Encoder:
        """The started encoder of a model; None: the default one."""
        encoder = self.default if model is None else self.get(model)
        encoder.start()
        return encoder

    async def encode_query(self, model: str, text: str) -> Any:
        """A unit vector. Raises EncoderUnavailable with the reason."""
        encoder = self.start_encoder(model)
        if encoder.state == "loading":
            await encoder.ready(LOAD_SECONDS)
        return await encoder.encode_query(text)

    async def close(self) -> None:
        """Release all models."""
        for encoder in self._encoders.values():
            await encoder.close()

    async def choose(
        self, collection: str, metadata: Mapping[str, Any], vectors: Sequence[str]
    ) -> ModelChoice:
        """The model of a collection with these dense vectors ("": unnamed)."""
        model = self.configured_model(collection)
        if model is None:
            if self._provider == NONE:
                return ModelChoice(None, fault=NO_MODEL)
            model = self._model_in_metadata(metadata) or await self._model_of_vectors(vectors)
        return self._match_prefix(model or self.default.name, metadata, certain=model is not None)

    def configured_model(self, collection: str) -> str | None:
        """The collection's model in COLLECTION_MODELS, if any."""
        for pattern, model in self._mapping:
            if pattern == collection or fnmatchcase(collection, pattern):
                return self._strip_provider(model)
        return None

    async def shape(self, model: str) -> tuple[str, int | None]:
        """The name of a model's vector in our collections, and its size if known."""
        encoder = self.get(model)
        return encoder.vector_name, await encoder.known_size()

    async def hint(self, model: str, language: str, collection: str) -> str:
        """A sentence suggesting a model for a language that the local one lacks, or ""."""
        known = await supported_models()
        one = known.get(model.removesuffix(PLAIN).lower())
        if language == "english" or one is None or model_reads(one["description"], language):
            return ""
        fitting = [each for each in known.values() if model_reads(each["description"], language)]
        fitting = [each for each in fitting if "nimodal (text)" in each["description"]]
        names = [each["model"] for each in sorted(fitting, key=lambda each: each["size_in_GB"])]
        said = "its language" if language == NONE else language.capitalize()
        return (
            f"{_last(model)} does not know {said}: keywords find such texts, but meaning hardly "
            f"does. {', '.join(names[:3])} would do: run mcp-server-qdrant upgrade --model "
            f"{names[0]} {quote(collection)}, which recomputes all vectors"
        )

    def _model_in_metadata(self, metadata: Mapping[str, Any]) -> str | None:
        model, provider = metadata.get(MODEL_KEY), metadata.get(PROVIDER_KEY)
        if not isinstance(model, str) or not model:
            return None
        if _last(model) == _last(self.default.name):
            return self.default.name  # the same model from another provider
        return self._strip_provider(f"{provider}:{model}" if _is_provider(provider) else model)

    async def _model_of_vectors(self, vectors: Sequence[str]) -> str | None:
        """The model whose vector name is among these."""
        if self.default.vector_name in vectors:
            return self.default.name
        for name in sorted(vectors):
            if name.removeprefix(FAST) == _last(self.default.name):
                return self.default.name
            if name.partition("@")[0] in OPENAI_MODELS:
                return self._strip_provider(f"openai:{name}")
            if name.startswith(FAST):
                for model in (await supported_models()).values():
                    if _last(model["model"]) == name.removeprefix(FAST):
                        return self._strip_provider(f"fastembed:{model['model']}")
        return None

    def _match_prefix(
        self, model: str, metadata: Mapping[str, Any], *, certain: bool
    ) -> ModelChoice:
        """The model, with or without prefixes, to match the collection's passages."""
        wanted = self.get(model).prefixes.passage
        found = metadata.get(PREFIX_KEY, "") if self._describes_model(metadata, model) else wanted
        if found == wanted:
            return ModelChoice(model, certain)
        if not found:
            return ModelChoice(model + PLAIN, certain)
        fault = (
            f"its passages were encoded after {found!r}, which is not this model's prefix: run "
            f"mcp-server-qdrant upgrade --model {model} for it"
        )
        return ModelChoice(None, fault=fault)

    def _describes_model(self, metadata: Mapping[str, Any], model: str) -> bool:
        """True if the metadata names this model or none.

        After an upgrade the old model's vectors remain, whose prefix is not recorded.
        """
        recorded = metadata.get(MODEL_KEY)
        _, name = split_provider(model, self._provider)
        return not isinstance(recorded, str) or _last(recorded) == _last(name)

    def _strip_provider(self, model: str) -> str:
        """The model's name without the server's own provider."""
        return model.removeprefix(f"{self._provider}:")


def split_provider(model: str, own: str) -> tuple[str, str]:
    """(provider, model) of `provider:model`; default: the server's own provider.

    For a server with provider `none`, a model without a provider is local.
    """
    before, colon, after = model.partition(":")
    if colon and _is_provider(before):
        return before, after
    return ("fastembed" if own == NONE and model != NONE else own), model


def _is_provider(provider: object) -> bool:
    """True for a valid provider name."""
    return provider in get_args(Provider) and provider != NONE


def _last(model: str) -> str:
    return model.rsplit("/", maxsplit=1)[-1].lower().removeprefix(FAST)
