"""Variables that earlier versions read."""

from collections.abc import Container, Iterator

# The variables in whose place others are, and those others; empty where there is none.
FORMER = {
    "EMBEDDING_OPTIONS": "EMBEDDING_QUERY_PREFIX and the other EMBEDDING_… of docs/settings.md",
    "SEARCH_LIMITS": "QDRANT_SEARCH_TIMEOUT",
    "RERANK_LIMITS": "RERANK_POOL and RERANK_TIMEOUT",
    "HTTP_LIMITS": "HTTP_MAX_CALLS and HTTP_DRAIN_SECONDS",
    "HTTP_MAX_BODY": "",
    "HTTP_MAX_STREAMS": "",
    "HTTP_MAX_SESSIONS": "",
    "HTTP_CALLER_SHARE": "",
    # what new collections have is the server's to say (docs/server.md)
    "QDRANT_CLUSTER": "",
    "QDRANT_SHARD_NUMBER": "",
    "QDRANT_REPLICATION_FACTOR": "",
    "QDRANT_WRITE_CONSISTENCY_FACTOR": "",
    "QDRANT_ON_DISK_VECTORS": "",
    "QDRANT_ON_DISK_PAYLOAD": "",
    "QDRANT_QUANTIZATION": "",
    "QDRANT_READ_CONSISTENCY": "",
    "QDRANT_FUZZY_WEIGHT": "QDRANT_FUZZY_BOOST",
    "HYBRID_ALPHA_STEPS": "HYBRID_ALPHA",
    "HYBRID_ALPHA_SIZES": "HYBRID_ALPHA",
    "QDRANT_PREFER_GRPC": "",  # every call goes over REST
    "QDRANT_GRPC_PORT": "",
    "EMBEDDING_COOLDOWN": "",
    "EMBEDDING_BATCH_TOKENS": "",
    "EMBEDDING_CACHE_SIZE": "",
    "EMBEDDING_CACHE_DISK": "",  # vectors of stored texts are kept in the collection alone
    "EMBEDDING_TOKEN_BYTES": "",
    "RERANK_COOLDOWN": "",
    "SEARCH_MAX_COLLECTIONS": "",
    "QDRANT_SEARCH_LIMIT_FACTOR": "",
    "QDRANT_SEARCH_CONCURRENCY": "",
    "QDRANT_FOLD_DUPLICATES": "",
    "QDRANT_TITLE_FACTOR": "",
    "METRICS_COLLECTIONS": "",
    "AUTH_LEEWAY": "",
    "TENANT_CHECK_TIMEOUT": "",
}


def former(given: Container[str]) -> Iterator[str]:
    """A sentence for each of them that is given."""
    for old, new in FORMER.items():
        if old in given:
            instead = f"set {new} instead" if new else "remove it"
            yield f"{old} is no longer a setting and does nothing: {instead}"
