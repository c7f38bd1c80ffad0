"""What all tests share: the real model, built once."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from mcp_server_qdrant.settings.environment import Settings, environment_names, load

ROOT = Path(__file__).parent.parent

# A runner in the background of a shell ignores SIGINT, and so would what is started from here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The engine host runs in another directory, where a relative path would lead elsewhere.
if path := os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))


# Tests that start a process, beside those marked so: by folder, by the real model or by engine.
PROCESS_FOLDERS = tuple(ROOT / "tests" / name for name in ("browser", "e2e", "live"))
PROCESS_FIXTURES = {"model_dir", "model_cache", "put_model"}
PROCESS_ENGINES = {"edge", "embedded"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests that start processes")
    parser.addoption(
        "--thorough", action="store_true", help="kill processes in 20 rounds instead of 5"
    )


def starts_processes(item: pytest.Item) -> bool:
    """Whether a test starts an engine host, a model host, a server or a browser."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return (
        item.get_closest_marker("process") is not None
        or any(item.path.is_relative_to(folder) for folder in PROCESS_FOLDERS)
        or not PROCESS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        or any(isinstance(value, str) and value in PROCESS_ENGINES for value in parameters)
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        slow = [item for item in items if starts_processes(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not starts_processes(item)]


@cache
def refuse_processes() -> None:
    """From now on a test that starts a process fails: it lacks the mark."""

    def hook(event: str, _: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            raise RuntimeError("a test that starts a process needs pytest.mark.process")

    sys.addaudithook(hook)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("fast"):
        refuse_processes()


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    """How often a test kills what it tests."""
    return 20 if pytestconfig.getoption("thorough") else 5


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests read no settings of the user's own, and leave the user's cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("QDRANT_CACHE_PATH", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Settings]:
    """Loads the settings from these variables alone."""
    monkeypatch.chdir(tmp_path)
    for names in environment_names().values():
        for name in names:
            monkeypatch.delenv(name, raising=False)

    def load_from(**variables: str) -> Settings:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return load()

    return load_from


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The folder of all-MiniLM-L6-v2: MCP_TEST_MODEL, or build/minilm, made on demand."""
    if given := os.environ.get("MCP_TEST_MODEL"):
        return Path(given)
    script = [sys.executable, str(ROOT / "scripts" / "build_model.py")]
    built = subprocess.run(
        [*script, str(ROOT / "build" / "minilm")], check=True, capture_output=True, text=True
    )
    return Path(built.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def put_model(model_dir: Path) -> Callable[[Path], None]:
    """Makes the model appear in a fastembed cache folder, as a finished download does."""

    def put(cache: Path) -> None:
        repo = cache / "models--Qdrant--all-MiniLM-L6-v2-onnx"
        (repo / "snapshots").mkdir(parents=True)
        (repo / "snapshots" / "local").symlink_to(model_dir.resolve(), target_is_directory=True)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text("local")

    return put


@pytest.fixture(scope="session")
def model_cache(
    put_model: Callable[[Path], None], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A fastembed cache, as FASTEMBED_CACHE_PATH wants it, that holds the model."""
    cache = tmp_path_factory.mktemp("model-cache")
    put_model(cache)
    return cache
