"""Daily backups, on the real embedded engine."""

from datetime import UTC, datetime, timedelta

import pytest
from qdrant_client import models

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.core.notation import HISTORY
from mcp_server_qdrant.qdrant import daily
from mcp_server_qdrant.qdrant.backup import read_manifest
from mcp_server_qdrant.qdrant.daily import KEPT, back_up_daily, back_up_today
from mcp_server_qdrant.qdrant.edge.client import EdgeClient

MONDAY = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)


class Ended(Exception):
    """The clock of a test is at its end."""


@pytest.fixture
async def client(tmp_path):
    client = await EdgeClient.open(tmp_path / "store")
    vector = models.VectorParams(size=2, distance=models.Distance.COSINE)
    for name in ("notes", "private", HISTORY):
        await client.create_collection(name, {"v": vector})
        point = models.PointStruct(id=1, vector={"v": [1.0, 0.5]}, payload={})
        await client.upsert(name, [point])
    yield client
    await client.close()


def names(folder):
    return sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))


async def test_a_backup_of_a_day_has_the_allowed_collections_without_earlier_versions(
    client, tmp_path
):
    await back_up_today(client, tmp_path / "all", (), MONDAY)
    await back_up_today(client, tmp_path / "some", ("n*",), MONDAY)

    assert sorted(read_manifest(tmp_path / "all" / "2026-11-23")) == ["notes", "private"]
    assert list(read_manifest(tmp_path / "some" / "2026-11-23")) == ["notes"]


async def test_a_day_has_one_backup(client, tmp_path):
    await back_up_today(client, tmp_path / "all", (), MONDAY)
    before = (tmp_path / "all" / "2026-11-23").stat().st_ino
    await back_up_today(client, tmp_path / "all", (), MONDAY + timedelta(minutes=20))

    assert (tmp_path / "all" / "2026-11-23").stat().st_ino == before


async def test_the_last_ones_are_kept_and_other_folders_are_left_alone(client, tmp_path):
    folder = tmp_path / "all"
    others = ("2020-01-01", "before-the-move")  # neither is a daily backup
    for name in others:
        (folder / name).mkdir(parents=True)
    days = [MONDAY + timedelta(days=n) for n in range(KEPT + 2)]
    for day in days:
        await back_up_today(client, folder, (), day)

    kept = [f"{day:%Y-%m-%d}" for day in days[2:]]
    assert names(folder) == sorted([*others, *kept])


async def test_an_empty_store_has_no_backup(tmp_path):
    client = await EdgeClient.open(tmp_path / "store")
    await back_up_today(client, tmp_path / "all", (), MONDAY)
    await client.close()

    assert not (tmp_path / "all").exists()


async def test_one_that_fails_is_logged_and_tried_again(client, tmp_path, monkeypatch, caplog):
    outcomes = [EngineFailure("The disk is full."), None]
    paused = []

    async def made(*_):
        if error := outcomes.pop(0):
            raise error

    async def sleep(seconds):
        paused.append(seconds)
        if not outcomes:
            raise Ended

    monkeypatch.setattr(daily, "back_up_today", made)
    with pytest.raises(Ended):
        await back_up_daily(client, tmp_path / "all", (), sleep=sleep)

    assert caplog.messages == ["No daily backup was made: The disk is full."]
    assert paused == [daily.FIRST_SECONDS, daily.PAUSE_SECONDS, daily.PAUSE_SECONDS]


async def test_a_failure_keeps_those_of_the_days_before(client, tmp_path, monkeypatch):
    folder = tmp_path / "all"
    days = [MONDAY + timedelta(days=n) for n in range(KEPT)]
    for day in days:
        await back_up_today(client, folder, (), day)
    monkeypatch.setattr(EdgeClient, "save", _full)
    with pytest.raises(EngineFailure):
        await back_up_today(client, folder, (), days[-1] + timedelta(days=1))

    assert names(folder) == [f"{day:%Y-%m-%d}" for day in days]


async def _full(*_):
    raise OSError(28, "No space left on device")
