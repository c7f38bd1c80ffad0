"""Real servers in a folder of their own."""

from pathlib import Path

import pytest


@pytest.fixture
def env(tmp_path: Path, model_dir: Path, one_cache: Path) -> dict[str, str]:
    """The embedded engine in a fresh folder, the real model."""
    return settings_of(tmp_path, model_dir, one_cache)


def settings_of(folder: Path, model_dir: Path, one_cache: Path) -> dict[str, str]:
    """The embedded engine in this folder, the real model."""
    return {
        "QDRANT_LOCAL_PATH": str(folder / "engine"),
        "QDRANT_CACHE_PATH": str(one_cache),
        "EMBEDDING_OPTIONS": "disk=10",
        "EMBEDDING_MODEL_PATH": str(model_dir),
        "FASTMCP_LOG_LEVEL": "WARNING",
    }
