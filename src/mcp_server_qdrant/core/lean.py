"""Importing qdrant-client without fastembed.

qdrant-client imports fastembed for its own text encoding, which this server does not use. With an
embedding service this saves 38 MB per process.
"""

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator

importing = threading.Lock()  # held while a package is hidden


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """Hide the package from imports in the body, unless it is already being imported.

    Another thread must hold `importing` to import it.
    """
    if package in sys.modules:
        yield
        return
    with importing:
        sys.modules.setdefault(package, None)  # type: ignore[arg-type]
        try:
            yield
        finally:
            if sys.modules[package] is None:
                del sys.modules[package]


def import_qdrant_client() -> None:
    """Import qdrant-client, which must not have been imported before."""
    with hidden("fastembed"):
        importlib.import_module("qdrant_client")
