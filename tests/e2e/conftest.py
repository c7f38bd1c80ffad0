"""Real servers over an engine of their own.

A module whose `pytestmark` is `EITHER_ENGINE` runs on the embedded engine, and on the Qdrant server
of QDRANT_TEST_URL, if set; the others run on the embedded one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.raw import settings_on


@pytest.fixture(scope="module")
def engine_kind(request: pytest.FixtureRequest) -> str:
    """The engine of a test."""
    return getattr(request, "param", "edge")


@pytest.fixture
def env(
    request: pytest.FixtureRequest,
    engine_kind: str,
    tmp_path: Path,
    model_dir: Path,
    one_cache: Path,
) -> Iterator[dict[str, str]]:
    """The engine, empty; its service ends with the test.

    It has the real model, unless the nearest mark `model` says no: without it a service takes
    half the time to start.
    """
    mark = request.node.get_closest_marker("model")
    with settings_on(engine_kind, tmp_path, model_dir, one_cache) as env:
        if mark and not mark.args[0]:
            env |= {"EMBEDDING_PROVIDER": "none"}
            del env["EMBEDDING_MODEL_PATH"]
        yield env
