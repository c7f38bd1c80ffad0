"""Changes below a folder are told of."""

import asyncio
import os
from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.ingest.files import watch
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.ingest.files.watch import changed, follow, rest, watched

linux = pytest.mark.skipif(watch.WHOLE, reason="the system itself follows no links there")


async def test_a_change_made_after_the_first_step_is_told_of(tmp_path):
    change = asyncio.ensure_future(changed(watched(sources([tmp_path]), Selection())))
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


def test_runs_take_a_quarter_of_the_time_at_most_and_long_ones_rest_a_minute():
    assert [rest(took) for took in (0.0, 14.0, 3600.0)] == [0.0, 42.0, 60.0]


async def test_a_source_that_is_not_there_is_looked_for_again(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "RETRY_SECONDS", 0.0)
    (tmp_path / "notes").mkdir()
    source = sources([tmp_path / "notes"])
    (tmp_path / "notes").rmdir()

    async with asyncio.timeout(30):
        await changed(watched(source, Selection()))


@linux
def test_links_out_of_a_folder_and_what_is_kept_out_of_it_are_not_watched(tmp_path):
    """A link to / would make the watch go through all of the machine."""
    for name in ("notes/sub/deep", "notes/.hidden", "notes/node_modules/x", "notes/old", "other"):
        (tmp_path / name).mkdir(parents=True)
    for place in (".", ".hidden", "node_modules"):
        (tmp_path / "notes" / place / "root").symlink_to("/")
    (tmp_path / "notes" / "linked").symlink_to("../other")
    (tmp_path / "notes" / ".gitignore").write_text("old/")
    (tmp_path / "one.md").write_text("one")
    given = sources([tmp_path / "notes", tmp_path / "one.md"])
    below = [tmp_path / "one.md", *(tmp_path / "notes" / name for name in ("", "sub", "sub/deep"))]

    assert watched(given, Selection()) == below


async def test_a_folder_that_goes_before_it_is_watched_is_a_change(tmp_path):
    async with asyncio.timeout(30):
        await changed([tmp_path / "gone"])


async def test_what_is_made_in_a_new_folder_is_seen(tmp_path):
    runs: asyncio.Queue[list[str]] = asyncio.Queue()

    async def run(known):
        runs.put_nowait(sorted(file.name for file in tmp_path.rglob("*.md")))
        return {}

    following = asyncio.ensure_future(follow(sources([tmp_path]), run, lambda error: None))
    async with asyncio.timeout(60):
        await runs.get()
        (tmp_path / "new" / "deep").mkdir(parents=True)
        await runs.get()
        (tmp_path / "new" / "deep" / "a.md").write_text("new")
        while await runs.get() != ["a.md"]:
            pass
    following.cancel()
    await asyncio.wait([following])


async def test_what_cannot_be_watched_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*places, **options):
        raise OSError("OS file watch limit reached about /home/ada/notes")

    monkeypatch.setattr(watch, "awatch", refuse)
    with pytest.raises(BackendError, match=r"^Changes cannot be watched: OSError\.$"):
        await changed([tmp_path])
