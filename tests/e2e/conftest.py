"""Real servers in a folder of their own."""

from pathlib import Path

import pytest

from tests.e2e.raw import settings_of


@pytest.fixture
def env(tmp_path: Path, model_dir: Path, one_cache: Path) -> dict[str, str]:
    """The embedded engine in a fresh folder, the real model."""
    return settings_of(tmp_path, model_dir, one_cache)
