"""Importing qdrant-client without fastembed.

qdrant-client imports it to encode texts itself; here the models are in the model host. A server
has 38 MB less without it, and everything works the same.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without(package: str) -> Iterator[None]:
    """Meanwhile the package seems not to be installed, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop(package, None)


def import_qdrant_client() -> None:
    """Import it for the first time."""
    with without("fastembed"):
        importlib.import_module("qdrant_client")
