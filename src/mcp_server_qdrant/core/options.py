"""Values of settings that parts of the server take together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """Requests to an embedding service: seconds, and sizes.

    A request has at most `texts` texts; a part of a text has `text_tokens`. After a failure there
    is no request for `cooldown` seconds.
    """

    seconds: float = 60.0
    query_seconds: float = 3.0
    cooldown: float = 30.0
    texts: int = 32
    text_tokens: int = 512


@dataclass(frozen=True, slots=True)
class RerankLimits:
    """The best `pool` hits are reranked in `seconds`; after a failure none for `cooldown`."""

    pool: int = 30
    seconds: float = 3.0
    cooldown: float = 30.0
