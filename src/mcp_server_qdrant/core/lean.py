"""Importing qdrant-client without the parts that a server never uses.

It imports fastembed to encode texts itself; here the models are in the model host. And it builds
the validators of its 400 models a second time, which pydantic does anyway when a model is first
used. Measured (medians of 7 interleaved starts, RSS of a server after its first find): 179 MB as
it comes, 141 MB without fastembed, 127 MB without the second building too, which also takes 0.3 of
2.0 s of processor time until the first answer. Without either, everything works the same.
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
    with without("fastembed"), _unbuilt("qdrant_client."):
        importlib.import_module("qdrant_client")


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
