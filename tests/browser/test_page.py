"""What a person sees and does on the page."""

import os
from pathlib import Path

import pytest

SHOTS = os.environ.get("MCP_SCREENSHOTS")


def shot(page, name, **options):
    """A screenshot to look at, where somebody wants to."""
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), **options)


def ask(page, query):
    page.get_by_role("searchbox", name="Query").fill(query)
    page.keyboard.press("Enter")
    page.wait_for_selector("#progress", state="hidden")
    page.wait_for_selector(".hit h3")


def test_try(open_page):
    page = open_page()
    page.wait_for_selector("canvas")
    page.wait_for_selector("#progress", state="hidden")
    shot(page, "start")
    ask(page, "certificate ran out and nobody noticed")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("table")
    shot(page, "light")
