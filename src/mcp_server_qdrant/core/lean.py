"""Importing qdrant-client and the MCP SDK without what this process does not need of them.

qdrant-client imports fastembed, and with it 40 MB of machine learning libraries, in case it is
asked to encode texts: here the models are in the model host. And it builds the validators of all
its 400 models again, one by one, where some have forward references: 14 MB and 0.2 s of processor
time for what pydantic does by itself when a model is first used. Its httpx brings along what draws
on terminals, 4 MB, for a command line of its own. The SDK imports a web server, 1.4 MB, to hear of
its end: over stdio there is none.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


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
    with without("fastembed"), without("httpx._main"), _unbuilt("qdrant_client."):
        importlib.import_module("qdrant_client")


@contextlib.contextmanager
def _unbuilt(prefix: str) -> Iterator[None]:
    """Meanwhile models of modules with that prefix are not built again."""
    original: Any = BaseModel.__dict__["model_rebuild"]

    def rebuild(cls: type[BaseModel], /, **options: Any) -> bool | None:
        if cls.__module__.startswith(prefix):
            return None
        depth = options.pop("_parent_namespace_depth", 2) + 1  # this function is one frame more
        built: bool | None = original.__func__(cls, _parent_namespace_depth=depth, **options)
        return built

    setattr(BaseModel, "model_rebuild", classmethod(rebuild))  # noqa: B010
    try:
        yield
    finally:
        setattr(BaseModel, "model_rebuild", original)  # noqa: B010
