"""The page in a real browser, over the demo's collections."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_server_qdrant.ingest.demo import NAMES
from tests import forked
from tests.e2e.raw import COMMAND, clean_environment, settings_of
from tests.listening import await_answer, free_port

WIDE, PHONE = {"width": 1440, "height": 960}, {"width": 390, "height": 844}
BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
PATIENCE = 90_000  # milliseconds
WANTED = "no browser: apt-get install chromium-headless-shell (as root), and pip install playwright"


def browser_path() -> str | None:
    """The path of the system's browser."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@dataclass
class Served:
    """A separate server, whose engine and process a test may end."""

    env: dict[str, str]
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = forked.Popen(
            [*COMMAND, "--transport", "streamable-http"],
            env=clean_environment(self.env | {"FASTMCP_PORT": str(self.port)}),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await_answer(self.address, self.process)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=90)


def call(address: str, route: str, **asked: Any) -> Any:
    """Make one of the page's calls."""
    headers = {"Content-Type": "application/json", "X-Requested-With": "mcp-server-qdrant"}
    url = f"{address}/viz/api/{route}"
    return httpx.post(url, headers=headers, json=asked, timeout=PATIENCE).raise_for_status().json()


def laid_out(address: str) -> None:
    """Wait until the map has its layout, so that pages opened later keep their regions."""
    while call(address, "map", collections=["*"], points=False)["coming"]:
        time.sleep(0.05)


@pytest.fixture(scope="session")
def served(
    tmp_path_factory: pytest.TempPathFactory, model_dir: Path, one_cache: Path
) -> Iterator[Served]:
    """The demo's collections on the embedded engine, one preferred."""
    folder = tmp_path_factory.mktemp("page")
    env = settings_of(folder, model_dir, one_cache)
    env["QDRANT_COLLECTION_PRIORITY_ORDER"] = "meetings"
    server = Served(env, folder)
    server.start()
    try:
        for name in NAMES:
            call(server.address, "demo", name=name)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; closed with the module, since its event loop allows no other."""
    playwright = pytest.importorskip("playwright.sync_api", reason=WANTED)
    path = browser_path()
    with playwright.sync_playwright() as running:
        try:
            opened = running.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
        except playwright.Error as error:
            if path is not None:
                raise
            pytest.skip(f"{WANTED} ({error.message.splitlines()[0]})")
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any, served: Served) -> Iterator[Callable[..., Any]]:
    """Opens the page in a new window; fails at the end if errors occurred in it.

    `page.faults` are console errors and requests to other hosts; a test that expects them
    clears them. Motion is reduced unless requested, since animation takes half of a page's
    processor time. `routes` are answered by the test from the first request on.
    """
    opened = []
    usual = {"viewport": WIDE, "accept_downloads": True, "reduced_motion": "reduce"}

    def open_(routes: dict[str, Callable[[Any], None]] | None = None, **options: Any) -> Any:
        context = browser.new_context(**usual | options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda said: _note(page, said.type == "error", said.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on(
            "request",
            lambda asked: _note(page, not _ours(asked.url, served.address), asked.url),
        )
        for pattern, answer in (routes or {}).items():
            page.route(pattern, answer)
        opened.append(page)
        page.goto(f"{served.address}/viz")
        return page

    yield open_
    for page in opened:
        faults = page.faults
        page.unroute_all(behavior="ignoreErrors")
        page.context.close()
        assert faults == []


def _note(page: Any, is_fault: bool, text: str) -> None:
    if is_fault:
        page.faults.append(text)


def _ours(url: str, address: str) -> bool:
    return url.startswith((address, "blob:", "data:"))
