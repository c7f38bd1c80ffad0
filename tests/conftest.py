"""Fixtures for all tests, among them the real model, built once."""

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from qdrant_client import async_qdrant_client, qdrant_client
from qdrant_client.embed import type_inspector

from mcp_server_qdrant.hosting import reach
from mcp_server_qdrant.projection import neighbours
from mcp_server_qdrant.settings import engine as engine_settings
from mcp_server_qdrant.settings.environment import Settings, environment_names, load
from tests import forked
from tests.qdrant.rest_stub import RestServer, rest_server
from tests.support import Engine, either_engine

ROOT = Path(__file__).parent.parent
SPAWN = reach.spawn

# The engine syncs each write to the disk, which tests would mostly wait for. In memory a sync costs
# nothing, and the files of a killed process survive too.
MEMORY, ENOUGH = Path("/dev/shm"), 4 << 30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# In the background of a shell SIGINT is ignored, and child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Slow examples on a busy machine are no error.
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
hypothesis_settings.register_profile("patient", max_examples=40, **patient)
hypothesis_settings.register_profile("thorough", max_examples=400, **patient)
hypothesis_settings.load_profile("patient")

# Services run in another directory, where a relative path would be wrong.
if path := os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))


# Deselected by --fast: tests of processes, the real model, a service. Any other test is skipped
# when it starts a process.
PROCESS_FOLDERS = tuple(ROOT / "tests" / name for name in ("browser", "e2e", "live"))
PROCESS_FIXTURES = {"model_dir", "model_cache", "put_model"}
PROCESS_ENGINES = ("edge", "embedded")


class ProcessRefused(Exception):
    """A test under --fast tried to start a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests that start processes")
    parser.addoption(
        "--thorough", action="store_true", help="20 rounds of kills for 3, 400 examples for 40"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("thorough"):
        hypothesis_settings.load_profile("thorough")


def pytest_xdist_auto_num_workers() -> int:
    """Two more workers than cores, since some always wait for processes or the disk."""
    return (os.cpu_count() or 1) + 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of whole folders."""
    return (config.getoption("fast") and collection_path in PROCESS_FOLDERS) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_fast(item: pytest.Item) -> bool:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        return (
            item.get_closest_marker("process") is None
            and not any(item.path.is_relative_to(folder) for folder in PROCESS_FOLDERS)
            and PROCESS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
            and not any(isinstance(one, str) and one in PROCESS_ENGINES for one in parameters)
        )

    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
        items[:] = filter(is_fast, items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable the garbage collector, which took a tenth of the collection's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


refused: list[str] = []


@cache
def refuse_processes() -> None:
    """Refuse to start processes from now on."""

    def hook(event: str, _: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            refused.append(event)
            raise ProcessRefused

    sys.addaudithook(hook)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    raised = call.excinfo and call.excinfo.value
    skips = isinstance(raised, ProcessRefused) or (raised and refused)
    if skips and not isinstance(raised, pytest.skip.Exception):
        call.excinfo = None  # formatting the traceback takes longer than most tests
    report = yield
    if report.passed and skips:
        report.outcome = "skipped"
        report.longrepr = (__file__, 1, "starts a process (--fast)")
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    refused.clear()
    if item.config.getoption("fast"):
        refuse_processes()


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    """The number of kills per test."""
    return 20 if pytestconfig.getoption("thorough") else 3


@pytest.fixture(scope="session")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache, shared by all tests on all workers."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, one_cache: Path) -> Iterator[None]:
    """Isolates tests from the user's settings and cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("QDRANT_CACHE_PATH", str(one_cache))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(engine_settings, "user_cache_path", lambda *_, **__: one_cache)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_hosts() -> Iterator[None]:
    """Forks services and layouts from a process that has done their imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "spawn", forked.spawn)
        patch.setattr(neighbours, "asyncio", forked.ASYNC_MODULE)
        yield


@pytest.fixture
def real_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts services and layouts as in production."""
    monkeypatch.setattr(reach, "spawn", SPAWN)
    monkeypatch.setattr(neighbours, "asyncio", asyncio)


@pytest.fixture(scope="session", autouse=True)
def quick_clients() -> Iterator[None]:
    """Caches what costs each new client 15 ms.

    qdrant-client copies its table of all models, httpx reads the system's certificates.
    """
    inspector, trusted = type_inspector.Inspector(), cache(httpx.create_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", trusted)
        for module in (qdrant_client, async_qdrant_client):
            patch.setattr(module, "Inspector", lambda: inspector)
        yield


@pytest.fixture(autouse=True)
def patient_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows slow starts of services on a busy machine."""
    monkeypatch.setattr(reach, "_CONNECT_SECONDS", 120.0)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of ours is set, and the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    for names in environment_names().values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loaded(no_settings: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Loads the settings from only these variables."""

    def load_from(**variables: str) -> Settings:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return load()

    return load_from


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> int:
    """A small limit of a response's bytes, so that tests reach it soon."""
    for module in ("core.bounded", "qdrant.server.rest", "qdrant.server.remote"):
        monkeypatch.setattr(f"mcp_server_qdrant.{module}.LARGEST", 500_000)
    return 500_000


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a backoff."""
    monkeypatch.setattr("mcp_server_qdrant.qdrant.server.remote.PAUSES", (0.0, 0.0))


@pytest.fixture
def server() -> Iterator[RestServer]:
    """Local mode behind Qdrant's REST interface."""
    with warnings.catch_warnings(), rest_server() as one:
        warnings.simplefilter("ignore")
        yield one


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root on Linux")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new folder for the embedded engine, removed afterwards: a store takes 50 MB.

    Creating a store is faster than emptying one.
    """
    folder = tmp_path_factory.mktemp("engine")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def engine(request: pytest.FixtureRequest, engine_folder: Path) -> AsyncIterator[Engine]:
    """The embedded engine, empty; for a tenant, and in --fast, qdrant-client's local mode.

    Tests of tests/qdrant run over each: they show that the two are alike.
    """
    tenant = "tenant" in request.fixturenames and request.getfixturevalue("tenant")
    light = tenant or request.config.getoption("fast")
    kind = getattr(request, "param", "memory" if light else "edge")
    async with either_engine(kind, engine_folder) as engine:
        yield engine


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
    """A fastembed cache with the model, for FASTEMBED_CACHE_PATH."""
    cache = tmp_path_factory.mktemp("model-cache")
    put_model(cache)
    return cache
