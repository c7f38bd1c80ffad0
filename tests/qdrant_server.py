"""The tests' optional Qdrant server: QDRANT_TEST_URL=http://localhost:6333."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import quote

import httpx
import pytest
from filelock import FileLock

URL = os.environ.get("QDRANT_TEST_URL")
SERVER = ["server"] if URL else []  # a parameter of tests
EITHER_ENGINE = pytest.mark.parametrize("engine_kind", ["edge", *SERVER], indirect=True)


@contextmanager
def lent(url: str) -> Iterator[None]:
    """Lock the server for one test, and empty it afterwards. It must be empty before."""
    lock = FileLock(Path(gettempdir(), f"qdrant-test-{sha256(url.encode()).hexdigest()[:16]}.lock"))
    with lock, httpx.Client(base_url=url, timeout=20) as http:
        there = _names(http)
        assert there == [], f"the server that QDRANT_TEST_URL names has collections: {there}"
        try:
            yield
        finally:
            for name in _names(http):
                http.delete(f"/collections/{quote(name, safe='')}").raise_for_status()


def _names(http: httpx.Client) -> list[str]:
    answer = http.get("/collections").raise_for_status().json()
    return [one["name"] for one in answer["result"]["collections"]]
