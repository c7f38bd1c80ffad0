"""Everything that can go wrong, in one tree. The text of each error is for the caller.

QdrantMcpError
├── ConfigError              a setting is wrong: the operator mends it, the server does not start
├── Unauthorized             the token is missing, or not one that is let in
├── RequestError             the caller can mend it and call again
│   ├── UnknownCollection    no such collection (names near it are offered)
│   ├── Outdated             the text has changed since the caller saw it
│   ├── InvalidFilter        the filter does not say what it seems to say
│   ├── InvalidPoint         a point that must not reach the engine
│   └── UnusableFile         a file that no text can be got from
└── BackendError             nothing the caller can mend
    ├── EngineUnavailable    Qdrant or the engine host cannot be reached
    ├── EngineTimeout        it was reached and did not answer in time
    ├── EngineFailure        it answered with a failure (one collection damaged, say)
    │   ├── EngineTooOld     it does not know a call that is needed
    │   └── AccessRefused    its key may not do this
    │       └── KeyRefused   it does not know the key
    ├── DiskFull             a write was refused before it could hurt
    ├── EncoderUnavailable   no embedding model: not loaded, not reachable
    ├── RerankerUnavailable  no reranking: not set up, not loaded, not reachable, no sound answer
    ├── VerifierUnavailable  tokens cannot be checked: no keys of their issuer, no sound file
    └── Unforeseen           whatever else a library, or our own code, raised

No text holds a path, a key or a stack trace.
"""

import copyreg
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

UNSURE = (
    "It may or may not have happened: look with qdrant-get or qdrant-find before you repeat it."
)


class QdrantMcpError(Exception):
    """Base of all errors whose text may be shown to the caller; hosts send them to clients."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is: a constructor may take other arguments than the text."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


def unsure(error: QdrantMcpError) -> QdrantMcpError:
    """The error with a note that the outcome of the write is unknown."""
    return error if UNSURE in str(error) else type(error)(f"{error} {UNSURE}")


class ConfigError(QdrantMcpError):
    """A setting is wrong; the text names the setting and the value it wants."""


class Unauthorized(QdrantMcpError):
    """No valid token; the text says what is wrong with it in words of ours alone."""


class RequestError(QdrantMcpError):
    """The call cannot be done as asked; the text says what to change."""


class UnknownCollection(RequestError):
    """No such collection, or none that this server may show."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        self.name = name
        self.near = tuple(near)
        hint = (
            f" Did you mean {' or '.join(repr(n) for n in near)}?"
            if near
            else " Call qdrant-collections for the names."
        )
        super().__init__(f"There is no collection {name!r}.{hint}")


class Outdated(RequestError):
    """The text is no more what the caller saw; nothing was changed."""

    def __init__(self, after: str = "Nothing was changed") -> None:
        super().__init__(
            f"{after}: somebody else has changed or deleted this text meanwhile. Read it again, "
            "then repeat the call if it still makes sense."
        )


class InvalidFilter(RequestError):
    """The filter is not one Qdrant understands."""


class InvalidPoint(RequestError):
    """The point would be refused or would damage the collection."""


class UnusableFile(RequestError):
    """No text can be got from the file; the text of the error follows its name.

    `kept`: what was stored of it earlier stays, for it may be read another time.
    """

    def __init__(self, sentence: str, *, kept: bool = False) -> None:
        self.kept = kept
        super().__init__(sentence)


class BackendError(QdrantMcpError):
    """Something behind this server failed."""


class EngineUnavailable(BackendError):
    """The engine cannot be reached."""


class EngineTimeout(BackendError):
    """The engine did not answer within the deadline."""


class EngineFailure(BackendError):
    """The engine answered with a failure."""


class EngineTooOld(EngineFailure):
    """The server is of a version that cannot do this."""


class AccessRefused(EngineFailure):
    """The engine does not let this server do what was asked."""


class KeyRefused(AccessRefused):
    """The engine does not know this server's key, or wants one."""


class DiskFull(BackendError):
    """Too little free space to write safely."""


class EncoderUnavailable(BackendError):
    """No vector can be made: the model is not there, or not yet."""


class RerankerUnavailable(BackendError):
    """No scores from the reranker; a search goes on without them.

    `tried` tells a failure from a reranker that is not there yet; `retry_after` is how many
    seconds it asked to be left alone.
    """

    def __init__(
        self, sentence: str, *, tried: bool = True, retry_after: float | None = None
    ) -> None:
        self.tried = tried
        self.retry_after = retry_after
        super().__init__(sentence)


class VerifierUnavailable(BackendError):
    """No token can be checked: there never were keys of the issuer, or the file is not sound."""


class Unforeseen(BackendError):
    """An unforeseen fault; its cause is what was raised."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"an unexpected {fault}")


@contextmanager
def contained(error: Callable[[str], QdrantMcpError] = Unforeseen) -> Iterator[None]:
    """Turn any error raised inside that is not one of ours into `error` of its class's name.

    For work on other people's data, or in the background: its faults must not end anything else.
    """
    try:
        yield
    except (QdrantMcpError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as fault:
        from asyncio import CancelledError  # a short command does without asyncio

        if isinstance(fault, CancelledError):
            raise
        raise error(type(fault).__name__) from fault
