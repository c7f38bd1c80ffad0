"""A real browser; tests that need one are skipped, and say so, where there is none."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WANTED = "no browser: apt-get install chromium (as root), and pip install playwright"


def browser_path() -> str | None:
    """The browser of the system."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; let go with the module, since no other loop runs beside its own."""
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
