"""Importing the MCP SDK and qdrant-client without the work that a server has no use for.

qdrant-client imports fastembed to encode texts itself; here the models are in the model host. Both
define hundreds of pydantic models of which a server uses a few: a model is built when it is first
used, and qdrant-client's are not built a second time. Measured (medians of interleaved starts, RSS
of a server after its first find): 179 MB as it comes, 141 MB without fastembed, 127 MB without the
second building too. Building on first use takes 0.07 of 0.68 s of processor time off the handshake
and 0.2 of 1.3 s off the first answer. Without all of it, everything works the same.
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


def import_mcp() -> None:
    """Import the SDK for the first time."""
    with deferred():
        importlib.import_module("mcp")


def import_qdrant_client() -> None:
    """Import it for the first time."""
    with without("fastembed"), deferred(), _unbuilt("qdrant_client."):
        importlib.import_module("qdrant_client")


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Meanwhile the models that are defined are built when they are first used."""
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        BaseModel.model_config.pop("defer_build", None)


@contextlib.contextmanager
def _unbuilt(prefix: str) -> Iterator[None]:
    """Meanwhile models of modules with that prefix are not built again.

    Where pydantic has changed the method, nothing is done about it.
    """
    original: Any = BaseModel.__dict__.get("model_rebuild")
    if not isinstance(original, classmethod):
        yield
        return

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
