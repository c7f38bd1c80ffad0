"""Variables of earlier versions: still accepted, with a word on where their values belong now."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_server_qdrant.core.fields import pairs

STEPS, SIZES, ALPHA = "HYBRID_ALPHA_STEPS", "HYBRID_ALPHA_SIZES", "HYBRID_ALPHA"

# Old variable -> the new one, with the name in its group if it is one.
FORMER = {
    "QDRANT_FUZZY_WEIGHT": "QDRANT_FUZZY_BOOST",
    STEPS: ALPHA,
    SIZES: ALPHA,
    "QDRANT_SHARD_NUMBER": "QDRANT_CLUSTER shards",
    "QDRANT_REPLICATION_FACTOR": "QDRANT_CLUSTER replicas",
    "QDRANT_WRITE_CONSISTENCY_FACTOR": "QDRANT_CLUSTER write_consistency",
    "QDRANT_ON_DISK_VECTORS": "QDRANT_CLUSTER on_disk_vectors",
    "QDRANT_ON_DISK_PAYLOAD": "QDRANT_CLUSTER on_disk_payload",
    "QDRANT_QUANTIZATION": "QDRANT_CLUSTER quantization",
    "QDRANT_READ_CONSISTENCY": "QDRANT_CLUSTER read_consistency",
    "EMBEDDING_QUERY_PREFIX": "EMBEDDING_OPTIONS query_prefix",
    "EMBEDDING_PASSAGE_PREFIX": "EMBEDDING_OPTIONS passage_prefix",
    "EMBEDDING_DIMENSIONS": "EMBEDDING_OPTIONS dimensions",
    "SYNC_SHARE": "EMBEDDING_OPTIONS background",
    "EMBEDDING_TIMEOUT": "EMBEDDING_OPTIONS seconds",
    "EMBEDDING_QUERY_TIMEOUT": "EMBEDDING_OPTIONS query_seconds",
    "EMBEDDING_COOLDOWN": "EMBEDDING_OPTIONS cooldown",
    "EMBEDDING_BATCH_SIZE": "EMBEDDING_OPTIONS texts",
    "EMBEDDING_BATCH_TOKENS": "EMBEDDING_OPTIONS tokens",
    "EMBEDDING_MAX_TOKENS": "EMBEDDING_OPTIONS text_tokens",
    "EMBEDDING_TOKEN_BYTES": "EMBEDDING_OPTIONS token_bytes",
    "EMBEDDING_CACHE_SIZE": "EMBEDDING_OPTIONS query_cache",
    "EMBEDDING_CACHE_DISK": "EMBEDDING_OPTIONS disk",
    "EMBEDDING_THREADS": "EMBEDDING_OPTIONS threads",
    "QDRANT_SEARCH_TIMEOUT": "SEARCH_LIMITS seconds",
    "SEARCH_MAX_COLLECTIONS": "",
    "RERANK_POOL": "RERANK_LIMITS pool",
    "RERANK_TIMEOUT": "RERANK_LIMITS seconds",
    "RERANK_COOLDOWN": "RERANK_LIMITS cooldown",
    # Every call goes over REST.
    "QDRANT_PREFER_GRPC": "",
    "QDRANT_GRPC_PORT": "",
    # Constants now.
    "HTTP_MAX_BODY": "",
    "HTTP_MAX_STREAMS": "",
    "HTTP_MAX_SESSIONS": "",
    "HTTP_CALLER_SHARE": "",
    "QDRANT_SEARCH_LIMIT_FACTOR": "",
    "QDRANT_SEARCH_CONCURRENCY": "",
    "QDRANT_FOLD_DUPLICATES": "",
    "QDRANT_TITLE_FACTOR": "",
    "METRICS_COLLECTIONS": "",
    "AUTH_LEEWAY": "",
    "TENANT_CHECK_TIMEOUT": "",
}
# Parts of variables: the variable that each is now, or nothing.
PARTS = {
    "HTTP_LIMITS": {
        **dict.fromkeys(("body", "streams", "sessions", "share"), ""),
        "calls": "HTTP_MAX_CALLS",
        "drain": "HTTP_DRAIN_SECONDS",
    },
    "QDRANT_CLUSTER": {"grpc": "", "grpc_port": ""},
    "SEARCH_LIMITS": {"collections": ""},
}


def former(given: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each old variable, or part of one, among those given."""
    present = {name.upper(): value for name, value in given.items()}
    for group, parts in PARTS.items():
        written = _parts(present.get(group)) or ()
        for key, new in parts.items():
            if key in written and new:
                yield f"{key} in {group} is now {new}: set that instead"
            elif key in written:
                yield f"{key} in {group} is no longer a setting and does nothing: remove it"
    for old, new in FORMER.items():
        if old not in present:
            continue
        name, _, key = new.partition(" ")
        if not name:
            yield f"{old} is no longer a setting and does nothing: remove it"
        elif key:
            yield f"{old} is now a part of {name}: set {name}={key}=…"
        else:
            yield f"{old} is now {name}: set that instead"


def modern(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables, in lower case, with the values of old ones moved to the new.

    What is set under a new name wins.
    """
    found = dict(given)
    steps, sizes = found.pop(STEPS.lower(), None), found.pop(SIZES.lower(), None)
    if steps:
        _fill(found, ALPHA, _by_size(steps, sizes or "500,5000"))
    for group, parts in PARTS.items():
        kept = _parts(found.get(group.lower())) or {}
        for key in kept.keys() & parts.keys():
            written = str(kept.pop(key))
            if parts[key]:
                _fill(found, parts[key], written)
            found[group.lower()] = json.dumps(kept)
    for old, new in FORMER.items():
        value = found.pop(old.lower(), None)
        name, _, key = new.partition(" ")
        if value and key:
            _join(found, name, key, value)
        elif value and name:
            _fill(found, name, value)
    return found


def _fill(found: dict[str, str | None], name: str, value: str) -> None:
    found[name.lower()] = found.get(name.lower()) or value


def _join(found: dict[str, str | None], name: str, key: str, value: str) -> None:
    if (parts := _parts(found.get(name.lower()))) is not None:
        found[name.lower()] = json.dumps({key: value} | parts)


def _parts(written: str | None) -> dict[str, Any] | None:
    """The parts of a group; None where it cannot be read, which its own validator reports."""
    try:
        group = pairs(written or "")
    except ValueError:
        return None
    return group if isinstance(group, dict) else None


def _by_size(steps: str, sizes: str) -> str:
    """Shares and numbers of points, a list each, as one text."""
    first, *shares = (part.strip() for part in steps.strip("[]").split(","))
    limits = [part.strip() for part in sizes.strip("[]").split(",") if part.strip()]
    if len(limits) != len(shares):
        raise ValueError(f"{STEPS} must be one value more than {SIZES}")
    return ",".join(
        [first, *(f"{size}:{share}" for size, share in zip(limits, shares, strict=True))]
    )
