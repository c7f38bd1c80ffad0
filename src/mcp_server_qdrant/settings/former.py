"""Variables that earlier versions read, and what is said of those that are still set."""

from collections.abc import Container, Iterator

from mcp_server_qdrant.core.errors import ConfigError

# Those that others replace.
REPLACED = {
    "EMBEDDING_OPTIONS": "EMBEDDING_QUERY_PREFIX and the other EMBEDDING_… of docs/settings.md",
    "HYBRID_ALPHA_STEPS": "HYBRID_ALPHA",
    "HYBRID_ALPHA_SIZES": "HYBRID_ALPHA",
    "OPENAI_BASE_URL": "EMBEDDING_SERVICE_URL",
    "RERANK_LIMITS": "RERANK_TIMEOUT",
    "SEARCH_LIMITS": "QDRANT_SEARCH_TIMEOUT",
}
FORMER = REPLACED.keys() | {
    "AUTH_LEEWAY",
    "EMBEDDING_BATCH_SIZE",
    "EMBEDDING_BATCH_TOKENS",
    "EMBEDDING_CACHE_DISK",
    "EMBEDDING_CACHE_SIZE",
    "EMBEDDING_COOLDOWN",
    "EMBEDDING_QUERY_TIMEOUT",
    "EMBEDDING_TOKEN_BYTES",
    "HTTP_CALLER_SHARE",
    "HTTP_LIMITS",
    "HTTP_MAX_BODY",
    "HTTP_MAX_SESSIONS",
    "HTTP_MAX_STREAMS",
    "METRICS_COLLECTIONS",
    "QDRANT_CLUSTER",
    "QDRANT_CORRECT_TYPOS",
    "QDRANT_DIVERSITY",
    "QDRANT_FOLD_DUPLICATES",
    "QDRANT_FUZZY_BOOST",
    "QDRANT_FUZZY_WEIGHT",
    "QDRANT_GRPC_PORT",
    "QDRANT_ON_DISK_PAYLOAD",
    "QDRANT_ON_DISK_VECTORS",
    "QDRANT_OTHER_API_KEY",
    "QDRANT_PREFER_GRPC",
    "QDRANT_QUANTIZATION",
    "QDRANT_READ_CONSISTENCY",
    "QDRANT_REPLICATION_FACTOR",
    "QDRANT_SEARCH_CONCURRENCY",
    "QDRANT_SEARCH_LIMIT_FACTOR",
    "QDRANT_SHARD_NUMBER",
    "QDRANT_TITLE_FACTOR",
    "QDRANT_WRITE_CONSISTENCY_FACTOR",
    "RERANK_COOLDOWN",
    "RERANK_POOL",
    "SEARCH_MAX_COLLECTIONS",
    "STORE_MAX_METADATA",
    "SYNC_SHARE",
    "TENANT_CHECK_KEY",
    "TENANT_CHECK_TIMEOUT",
    "TENANT_CHECK_URL",
    "TENANT_SHARED_FIELD",
}


def former(given: Container[str]) -> Iterator[str]:
    """A sentence for each of them that is given.

    Raises ConfigError where ignoring one would show texts that it hid.
    """
    if "TENANT_CHECK_URL" in given:
        raise ConfigError(
            "TENANT_CHECK_URL is no longer a setting, and what it hid would be shown: remove it if "
            "tenants alone may keep callers apart."
        )
    for name in sorted(FORMER):
        if name in given:
            instead = f"set {REPLACED[name]} instead" if name in REPLACED else "remove it"
            yield f"{name} is no longer a setting and does nothing: {instead}"
