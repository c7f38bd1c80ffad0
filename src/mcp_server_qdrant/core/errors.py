"""All errors in one tree. The text of each error is shown to the caller.

QdrantMcpError
├── ConfigError              a setting is wrong; the server does not start
├── Unauthorized             the token is missing or invalid
├── RequestError             the caller can correct the call and retry
│   ├── UnknownCollection    no such collection (similar names are offered)
│   ├── Outdated             the text has changed since the caller read it
│   ├── InvalidFilter        the filter is invalid
│   ├── InvalidPoint         a point that must not reach the engine
│   └── UnusableFile         a file without readable text
└── BackendError             nothing that the caller can correct
    ├── EngineUnavailable    Qdrant is unreachable, or the embedded engine cannot be opened
    ├── EngineTimeout        the engine did not answer in time
    ├── EngineFailure        the engine answered with an error (such as a damaged collection)
    │   ├── EngineTooOld     its version lacks a call
    │   └── AccessRefused    the key lacks a permission
    │       └── KeyRefused   the key is missing or unknown
    ├── DiskFull             a write was refused before it could do damage
    ├── EncoderUnavailable   no embedding model: not loaded or unreachable
    ├── RerankerUnavailable  no reranking: not set up, not loaded, unreachable, invalid response
    ├── VerifierUnavailable  tokens cannot be checked: no issuer keys, or an invalid file
    └── Unforeseen           any other exception of a library or of our own code

No text contains a path, a key or a stack trace.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

UNSURE = (
    "It may or may not have happened: look with qdrant-get or qdrant-find before you repeat it."
)


class QdrantMcpError(Exception):
    """Base of all errors whose text may be shown to the caller."""


def unsure(error: QdrantMcpError) -> QdrantMcpError:
    """The error with a note that the outcome of the write is unknown."""
    return error if UNSURE in str(error) else type(error)(f"{error} {UNSURE}")


class ConfigError(QdrantMcpError):
    """A setting is wrong; the text names the setting and a valid value."""


class Unauthorized(QdrantMcpError):
    """No valid token; the text says why, and never quotes the token."""


class RequestError(QdrantMcpError):
    """The call is invalid; the text says what to change."""


class UnknownCollection(RequestError):
    """No such collection, or a hidden one."""

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
    """The text has changed since the caller read it; nothing was changed."""

    def __init__(self, after: str = "Nothing was changed") -> None:
        super().__init__(
            f"{after}: somebody else has changed or deleted this text meanwhile. Read it again, "
            "then repeat the call if it still makes sense."
        )


class InvalidFilter(RequestError):
    """The filter is not one Qdrant understands."""


class InvalidPoint(RequestError):
    """The point would be refused, or would damage the collection."""


class UnusableFile(RequestError):
    """The file has no readable text; the error is the predicate of a sentence on the file.

    `kept`: its stored texts stay, because it may be readable later.
    """

    def __init__(self, sentence: str, *, keep_texts: bool = False) -> None:
        self.keep_texts = keep_texts
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
    """The server's version lacks a call."""


class AccessRefused(EngineFailure):
    """The engine denies this server a permission."""


class KeyRefused(AccessRefused):
    """The engine rejects this server's key, or requires one."""


class DiskFull(BackendError):
    """Too little free space to write safely."""


class EncoderUnavailable(BackendError):
    """The model is not available, or not yet."""


class RerankerUnavailable(BackendError):
    """No scores from the reranker; a search goes on without them.

    `tried`: False for a reranker that is not ready yet; `retry_after`: the pause that it asked for,
    in seconds.
    """

    def __init__(
        self, sentence: str, *, tried: bool = True, retry_after: float | None = None
    ) -> None:
        self.tried = tried
        self.retry_after = retry_after
        super().__init__(sentence)


class VerifierUnavailable(BackendError):
    """No token can be checked: the issuer's keys were never fetched, or the file is invalid."""


class Unforeseen(BackendError):
    """An unforeseen fault; `__cause__` is the original exception."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"an unexpected {fault}")


@contextmanager
def contained(error: Callable[[str], QdrantMcpError] = Unforeseen) -> Iterator[None]:
    """Turn any exception except ours into `error`, called with its class name.

    For work on untrusted data and in background tasks, whose faults must not stop anything else.
    """
    try:
        yield
    except (QdrantMcpError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as fault:
        from asyncio import CancelledError  # not needed by short commands

        if isinstance(fault, CancelledError):
            raise
        raise error(type(fault).__name__) from fault
