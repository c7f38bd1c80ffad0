"""What all tests share: the real model, built once."""

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

from mcp_server_qdrant import __version__
from mcp_server_qdrant.encoders.local.hosted import host_name, service
from mcp_server_qdrant.hosting import link
from mcp_server_qdrant.hosting.link import connect
from mcp_server_qdrant.projection import neighbours
from mcp_server_qdrant.settings import engine as engine_settings
from mcp_server_qdrant.settings.environment import (
    Settings,
    environment_names,
    load,
    model_environment,
)
from tests import forked
from tests.qdrant.rest_stub import RestServer, rest_server
from tests.support import Engine, either_engine

ROOT = Path(__file__).parent.parent

# The engine syncs each write to the disk, and tests wait for little else: files in memory cost
# nothing to sync, and what a killed process wrote outlives it there too.
MEMORY, ENOUGH = Path("/dev/shm"), 4 << 30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# A runner in the background of a shell ignores SIGINT, and so would what is started from here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow to make examples, and that is no fault of theirs.
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
hypothesis_settings.register_profile("patient", max_examples=40, **patient)
hypothesis_settings.register_profile("thorough", max_examples=400, **patient)
hypothesis_settings.load_profile("patient")

# The engine host runs in another directory, where a relative path would lead elsewhere.
if path := os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))


# What --fast leaves out from the start: tests about processes, the real model, an engine host.
# Any other test that is about to start one is skipped at that moment.
PROCESS_FOLDERS = tuple(ROOT / "tests" / name for name in ("browser", "e2e", "live"))
PROCESS_FIXTURES = {"model_dir", "model_cache", "put_model"}
PROCESS_ENGINES = ("edge", "embedded")


class ProcessRefused(Exception):
    """A test of --fast was about to start a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests that start processes")
    parser.addoption(
        "--thorough", action="store_true", help="20 rounds of kills for 3, 400 examples for 40"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("thorough"):
        hypothesis_settings.load_profile("thorough")


def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: some always wait, for processes or the disk."""
    return (os.cpu_count() or 1) + 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whole folders are not even imported."""
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
    """What is collected stays: to look for garbage among it took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


refused: list[str] = []


@cache
def refuse_processes() -> None:
    """From now on no process is started."""

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
        call.excinfo = None  # to show where it was raised takes longer than most tests
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
    """How often a test kills what it tests."""
    return 20 if pytestconfig.getoption("thorough") else 3


@pytest.fixture(scope="session")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a person: one process holds the model for all tests, on all workers."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, one_cache: Path) -> Iterator[None]:
    """Tests read no settings of the user's own, and leave the user's cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("QDRANT_CACHE_PATH", str(one_cache))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(engine_settings, "user_cache_path", lambda *_, **__: one_cache)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_hosts() -> Iterator[None]:
    """Hosts and layouts are forked from a process that has done their imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "subprocess", forked.MODULE)
        patch.setattr(neighbours, "asyncio", forked.ASYNC_MODULE)
        yield


@pytest.fixture
def real_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts and layouts are started as users have them started."""
    monkeypatch.setattr(link, "subprocess", subprocess)
    monkeypatch.setattr(neighbours, "asyncio", asyncio)


@pytest.fixture(scope="session", autouse=True)
def quick_clients() -> Iterator[None]:
    """What takes each client 15 ms is done once.

    qdrant-client's copies its table of all models, httpx's reads the certificates of the system.
    """
    inspector, trusted = type_inspector.Inspector(), cache(httpx.create_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", trusted)
        for module in (qdrant_client, async_qdrant_client):
            patch.setattr(module, "Inspector", lambda: inspector)
        yield


@pytest.fixture(autouse=True)
def patient_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine starts hosts slowly."""
    monkeypatch.setattr("mcp_server_qdrant.hosting.link.CONNECT_SECONDS", 120.0)


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


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes that an answer of another server may have: few, so that they are reached soon."""
    for module in ("core.bounded", "qdrant.server.rest", "qdrant.server.remote"):
        monkeypatch.setattr(f"mcp_server_qdrant.{module}.LARGEST", 500_000)
    return 500_000


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server refused is tried again without a pause."""
    monkeypatch.setattr("mcp_server_qdrant.qdrant.server.remote.PAUSES", (0.0, 0.0))


@pytest.fixture
def server() -> Iterator[RestServer]:
    """Local mode behind Qdrant's REST interface."""
    with warnings.catch_warnings(), rest_server() as one:
        warnings.simplefilter("ignore")
        yield one


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For `empty_edge`: tests that only want an engine share one, and its host."""
    return tmp_path_factory.mktemp("engine")


@pytest.fixture(params=["edge", "memory"])
async def engine(request: pytest.FixtureRequest, engine_folder: Path) -> AsyncIterator[Engine]:
    """Each engine, empty: the embedded one, and qdrant-client's local mode."""
    async with either_engine(request.param, engine_folder) as engine:
        yield engine


@pytest.fixture(scope="session")
def model_dir(one_cache: Path) -> Iterator[Path]:
    """The folder of all-MiniLM-L6-v2: MCP_TEST_MODEL, or build/minilm, made on demand.

    The model host has a client until the tests end: it loads the model once.
    """
    name = host_name(__version__, sys.executable, model_environment())
    with connect(service(one_cache / "hosts", name, 60.0), 60.0):
        if given := os.environ.get("MCP_TEST_MODEL"):
            yield Path(given)
            return
        script = [sys.executable, str(ROOT / "scripts" / "build_model.py")]
        built = subprocess.run(
            [*script, str(ROOT / "build" / "minilm")], check=True, capture_output=True, text=True
        )
        yield Path(built.stdout.strip().splitlines()[-1])


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
