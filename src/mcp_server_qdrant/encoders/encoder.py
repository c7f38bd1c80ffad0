"""What every dense encoder can do, wherever its model runs."""

from collections.abc import Awaitable, Collection, Sequence
from typing import Any, Protocol

Span = tuple[int, int]  # start and end in characters
BYTES_PER_TOKEN = 3  # what ingest/chunk.py counts with where there is no tokenizer


class Encoder(Protocol):
    """One model. Vectors are unit vectors; all calls that make some raise EncoderUnavailable."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""

    @property
    def vector_name(self) -> str:
        """What its vector is called in collections of ours."""

    def identity(self) -> str | None:
        """What tells its vectors from those of any other model; None: they are not to be kept.

        May read the disk.
        """

    def start(self) -> None:
        """Begin to load what has to be loaded."""

    async def ready(self, timeout: float) -> bool:
        """Wait up to so many seconds; whether vectors can be made now."""

    async def encode_query(self, text: str) -> Any:
        """The query's vector, or what stands for it (`Inferred`)."""

    async def encode_documents(self, texts: Sequence[str]) -> list[Any]:
        """One vector per text, in order."""

    async def size(self) -> int:
        """The dimensions."""

    async def known_size(self) -> int | None:
        """The dimensions, None where a service would have to be asked."""

    def token_limit(self) -> int | None:
        """Tokens a text may have, special ones counted. None where that is not known yet."""

    async def tokenizer_json(self) -> str | None:
        """The model's tokenizer, if it is to be had."""

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        """Where a text is cut, counted by the model's tokenizer. None where that is not here."""

    async def common(self, words: Sequence[str]) -> Collection[str]:
        """Which of the words the model's vocabulary has whole. None where it is not here."""

    def close(self) -> Awaitable[None] | None:
        """Let go of what it holds."""


class Untokenized:
    """An encoder whose tokenizer and vocabulary are with the model, elsewhere."""

    async def tokenizer_json(self) -> str | None:
        """It is not here."""
        return None

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:  # noqa: ARG002
        """The tokenizer is not here."""
        return None

    async def common(self, words: Sequence[str]) -> Collection[str]:  # noqa: ARG002
        """The vocabulary is not here."""
        return ()


def counted(tokens: int, token_bytes: float) -> int:
    """A limit in tokens of so many bytes, in those of three bytes that chunks are counted in."""
    return int(tokens * token_bytes / BYTES_PER_TOKEN)


def vector_name(model: str) -> str:
    """The name of the vector of a model that fastembed does not serve: its last part, lowercase.

    Ollama's tags stay, apart from `latest`: they are other models.
    """
    return model.rstrip("/").split("/")[-1].lower().removesuffix(":latest").replace(":", "-")
