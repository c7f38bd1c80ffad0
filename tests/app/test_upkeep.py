"""A folder of the official server becomes the embedded engine's, once and whole."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.app.upkeep import open_engine_at as engine_at
from mcp_server_qdrant.core.errors import DiskFull
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.ingest.collections.copying import import_local_mode
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.local_mode import LocalFiles
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.fakes import FakeEncoder
from tests.local_mode import TEXTS, VECTOR, files, leave, replace, stored
from tests.support import IDF, Engine, find, foreign, make_settings, registry, remember, texts


def settings_of(folder: Path, **values: Any) -> Any:
    return make_settings(qdrant_url=None, qdrant_local_path=folder, **values)


@asynccontextmanager
async def edge(folder: Path):
    client = await EdgeClient.open(folder, timeout=20)
    try:
        yield Engine(client)
    finally:
        await client.close()


async def brought_in(folder: Path, engine: Any) -> None:
    bulk = Bulk(engine, make_settings().qdrant_content_fields)
    await import_local_mode(folder, bulk, Bm25Encoder("auto"))


def reader(folder: Path, engine: Any) -> Any:
    """Services that write nothing."""
    return assemble(settings_of(folder, qdrant_read_only=True), engine, registry(FakeEncoder()))


async def points(engine: Any, name: str = "notes") -> dict:
    records, _ = await engine.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    return {record.id: record for record in records}


def journal(folder: Path) -> dict[str, str]:
    return json.loads((folder / "imported.json").read_text())


async def test_points_are_the_same_and_the_old_files_untouched(tmp_path, caplog):
    await leave(tmp_path)
    before, expected = files(tmp_path), await stored(tmp_path)

    async with edge(tmp_path) as engine:
        with caplog.at_level(logging.WARNING):
            await brought_in(tmp_path, engine)
        found = await points(engine)
        services = reader(tmp_path, engine.client)  # only the engine itself can be searched
        page = await find(services, "n37", "notes", explain=True)
        (info,) = await services.catalog.describe()
        await services.close()

    assert files(tmp_path) == before
    assert found.keys() == expected.keys()
    for point, record in found.items():
        assert record.payload == expected[point].payload
        assert record.vector[VECTOR] == pytest.approx(expected[point].vector[VECTOR], abs=1e-6)
    assert texts(page)[0] == TEXTS[37]
    assert page.results[0].why["words"] > 0  # it has keywords, too
    assert info.note.startswith("40 points imported from local mode on ")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The collection 'notes': 40 points imported from local mode on ")
    assert line.endswith("Its old files are untouched.")


async def test_it_is_imported_once(tmp_path):
    await leave(tmp_path)
    async with edge(tmp_path) as engine:
        await brought_in(tmp_path, engine)
        await engine.delete_collection("notes")

        await brought_in(tmp_path, engine)

        assert (await engine.get_collections()).collections == []


async def test_a_folder_without_local_mode_is_left_alone(tmp_path):
    async with edge(tmp_path) as engine:
        await brought_in(tmp_path, engine)

        assert engine.calls == []
    assert not (tmp_path / "imported.json").exists()


@pytest.mark.parametrize("method", ["create_collection", "upsert", "update_vectors"])
async def test_what_failed_in_the_middle_goes_on_at_the_next_start(tmp_path, caplog, method):
    await leave(tmp_path)
    async with edge(tmp_path) as engine:
        engine.broken_methods[method] = DiskFull("Nothing was written: the disk is full.")
        await brought_in(tmp_path, engine)
        assert "is not finished: Nothing was written" in caplog.text
        assert journal(tmp_path) == {"notes": "begun"}
        engine.broken_methods.clear()
        if method == "update_vectors":  # it is there already, and may be used
            services = assemble(settings_of(tmp_path), engine, registry(FakeEncoder()))
            await remember(services, "notes", "a zebra crossing")
            (info,) = await services.catalog.describe()
            assert "upgrade is running" in info.note
            await services.close()

        await brought_in(tmp_path, engine)

        found = await points(engine)
        assert set(range(1, 41)) <= set(found)
        assert all("bm25" in record.vector for record in found.values())
        assert len(found) == (41 if method == "update_vectors" else 40)
    assert journal(tmp_path) == {"notes": "done"}


async def test_a_collection_whose_name_is_taken_stays_where_it_is(tmp_path, caplog):
    await leave(tmp_path, "notes", "other")
    async with edge(tmp_path) as engine:
        await foreign(engine, "notes", {7: {"text": "mine"}}, vectors={}, sparse={"s": IDF})

        await brought_in(tmp_path, engine)

        assert [r.payload for r in (await points(engine)).values()] == [{"text": "mine"}]
        assert len(await points(engine, "other")) == len(TEXTS)
    assert "there is a collection 'notes' already" in caplog.text
    assert journal(tmp_path) == {"notes": "refused", "other": "done"}


async def test_points_that_cannot_be_read_are_counted_where_people_look(tmp_path, caplog):
    await leave(tmp_path)
    replace(tmp_path, 3, b"nonsense")
    replace(tmp_path, 4, b"")
    async with edge(tmp_path) as engine:
        await brought_in(tmp_path, engine)
        services = assemble(
            settings_of(tmp_path, qdrant_read_only=True), engine, registry(FakeEncoder())
        )
        (info,) = await services.catalog.describe()
        await services.close()

    assert info.points == 38
    assert info.note.endswith("; 2 could not be read")
    assert "2 could not be read" in caplog.text


async def test_a_damaged_list_of_collections_stops_nothing(tmp_path, caplog):
    await leave(tmp_path)
    (tmp_path / "meta.json").write_text("{")
    async with edge(tmp_path) as engine:
        await brought_in(tmp_path, engine)

        assert (await engine.get_collections()).collections == []
    assert "meta.json of local mode cannot be read" in caplog.text


async def test_servers_that_start_at_once_import_once(tmp_path):
    await leave(tmp_path)
    async with edge(tmp_path) as one:
        two, three = Engine(one.client), Engine(one.client)
        await asyncio.gather(*(brought_in(tmp_path, each) for each in (one, two, three)))

        assert len(await points(one)) == len(TEXTS)
        made = [c for each in (one, two, three) for c in each.calls if c[0] == "create_collection"]
        assert made == [("create_collection", "notes")]


async def test_a_folder_of_local_mode_is_the_embedded_engines_once_it_is_imported(tmp_path):
    await leave(tmp_path)
    async with engine_at(str(tmp_path), make_settings()) as local:
        before = type(local)
    async with edge(tmp_path) as engine:
        await brought_in(tmp_path, engine)
    async with engine_at(str(tmp_path), make_settings()) as embedded:
        after = type(embedded)

    assert (before, after) == (LocalFiles, Bulk)
