"""Renew the README's transcript and pictures: `python scripts/readme_run.py MODEL_CACHE`.

One run makes all. Needs the `dev` extra and a Chromium. The texts are the demo's.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from urllib.parse import urlencode

from mcp import Client, StdioServerParameters
from playwright.async_api import async_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "demo"))
from run import call, labelled, store, text_of  # noqa: E402

SHOWN = ("the lentil dish we cooked for the team lunch", "certificate ran out and nobody noticed")
PICTURED = "what happens to the servers during a blackout"
RESULTS = 1
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome-stable")
VIEW = {"width": 1280, "height": 800}


async def transcript(environment: dict[str, str], folder: str) -> str:
    """Store the texts, and ask: the first results as an agent gets them."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server_qdrant"], env=environment, cwd=folder
    )
    blocks = []
    async with Client(server) as client:
        await store(client)
        for query in SHOWN:
            where = labelled()[query]["collections"]
            found = await call(client, "qdrant-find", query=query, collections=where)
            lines = text_of(found).splitlines()
            end = next(n for n, line in enumerate(lines) if line.startswith(f"{RESULTS + 1}. "))
            asked = f'> qdrant-find(query="{query}", collections={where})'.replace("'", '"')
            blocks.append("\n".join([asked, "", *lines[:end]]))
    return "\n\n".join(blocks)


async def pictures(environment: dict[str, str], folder: Path) -> None:
    """The page with a search, and with a text open, as a person sees them."""
    command = [sys.executable, "-m", "mcp_server_qdrant", "viz"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        path = next(found for name in BROWSERS if (found := shutil.which(name)))
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = await browser.new_page(viewport=VIEW)
            await page.goto(f"{address}#{urlencode({'q': PICTURED})}")
            named = page.locator("canvas[data-regions]:not([data-regions='0'])")
            await named.wait_for(timeout=90_000)
            await page.wait_for_load_state("networkidle")
            await page.wait_for_timeout(2000)  # until nothing moves
            await page.screenshot(path=folder / "viz.png")
            await page.locator(".hit .open").first.click()
            await page.locator("#passage .text").wait_for()
            await page.wait_for_timeout(2000)
            await page.screenshot(path=folder / "viz-text.png")
            await browser.close()
    finally:
        process.terminate()
        process.wait()


async def main(cache: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "QDRANT_LOCAL_PATH": folder,
            "FASTEMBED_CACHE_PATH": str(Path(cache).resolve()),
        }
        told = await transcript(environment, folder)
        await pictures(environment, ROOT / "docs")
    block = f"```\n{told}\n```\n\nHow two answers begin, on {date.today():%d %B %Y}."
    readme = ROOT / "README.md"
    pattern = re.compile(r"(<!-- transcript -->\n).*?(\n<!-- /transcript -->)", re.DOTALL)
    text = pattern.sub(lambda found: found[1] + block + found[2], readme.read_text("utf-8"))
    readme.write_text(text, "utf-8")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
