"""Changes below a folder are told of."""

import asyncio
import os
from pathlib import Path

import pytest

from mcp_server_qdrant.ingest import watch
from mcp_server_qdrant.ingest.walk import sources
from mcp_server_qdrant.ingest.watch import changed, follow


async def test_a_change_made_after_the_first_step_is_told_of(tmp_path):
    change = asyncio.ensure_future(changed(sources([tmp_path])))
    await asyncio.sleep(0)
    (tmp_path / "a.md").write_text("new")

    async with asyncio.timeout(30):
        await change


def replace_file(file: Path) -> None:
    """As editors save."""
    (file.parent / "other").write_text("new")
    os.replace(file.parent / "other", file)  # noqa: PTH105


def replace_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name(f"old {file.parent.stat().st_ino}"))
    file.parent.mkdir()
    file.write_text("new")


@pytest.mark.parametrize("replace", [replace_file, replace_folder])
async def test_what_replaces_a_source_is_watched_in_its_place(replace, tmp_path):
    file = tmp_path / "notes" / "a.md"
    file.parent.mkdir()
    file.write_text("old")
    runs: asyncio.Queue[None] = asyncio.Queue()

    async def run(known):
        runs.put_nowait(None)
        return {}

    source = file if replace is replace_file else file.parent
    following = asyncio.ensure_future(follow(sources([source]), run, lambda error: None))
    async with asyncio.timeout(60):
        for change in (replace, replace, lambda file: file.write_text("newer")):
            await runs.get()
            change(file)
        await runs.get()
    following.cancel()
    await asyncio.wait([following])


async def test_a_source_that_is_not_there_is_looked_for_again(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "RETRY_SECONDS", 0.0)
    (tmp_path / "notes").mkdir()
    source = sources([tmp_path / "notes"])
    (tmp_path / "notes").rmdir()

    async with asyncio.timeout(30):
        await changed(source)
