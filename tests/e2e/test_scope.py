"""What an agent finds in a project's folder without naming collections, on each engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.qdrant_server import SERVER
from tests.support import (
    Engine,
    either_engine,
    find,
    memory_server,
    memory_services,
    remember,
    said,
)


def told(result: Any) -> dict[str, Any]:
    """The structured content of a result."""
    assert isinstance(result.structured_content, dict), said(result)
    return result.structured_content


PARTS = ("work/billing", "work/billing/web", "work/harbour")


class Desk:
    """The folders of a person with two projects, and the collections that belong to them."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.engine, self.root = engine, root

    @asynccontextmanager
    async def at(self, folder: str, **settings: object) -> AsyncIterator[Client]:
        """A client that works in a folder."""
        place = self.root / folder
        async with memory_server(engine=self.engine, qdrant_folder=place, **settings) as client:
            yield client

    async def asked(self, folder: str, query: str, **more: object) -> tuple[list[str], str]:
        """The collections and marks of what is found in a folder, and the page."""
        async with self.at(folder) as client:
            result = await client.call_tool("qdrant-find", {"query": query, **more})
        return [one["collection"] for one in told(result)["results"]], said(result)


@pytest.fixture(params=["edge", "memory", *SERVER])
async def engine(request: pytest.FixtureRequest, engine_folder: Path) -> AsyncIterator[Engine]:
    """Each engine, empty: a Qdrant server too, where QDRANT_TEST_URL names one."""
    async with either_engine(request.param, engine_folder) as engine:
        yield engine


@pytest.fixture
async def desk(engine: Engine, tmp_path: Path) -> Desk:
    for part in PARTS:
        (tmp_path / part).mkdir(parents=True)
    billing, web, harbour = (tmp_path / part for part in PARTS)
    async with memory_services(engine=engine) as services:
        for name, text in {
            "billing": "the ledger runs on postgres",
            "web": "the shop window uses svelte",
            "harbour": "zeppelin mast height is forty metres",
            "memory": "ada prefers short answers",
        }.items():
            await remember(services, name, text, f"filler words of {name}")
        for place, text in (
            (billing, "we agreed on invoices in blue"),
            (harbour, "we agreed on lanterns in green"),
        ):
            await remember(
                services, "sessions", text, metadata={"project": str(place), "client": "x"}
            )
    bulk = Bulk(engine, ())
    for name, place in (("billing", billing), ("web", web), ("harbour", harbour)):
        await bulk.assign(name, [place])
    return Desk(engine, tmp_path)


@pytest.mark.parametrize(
    ("folder", "query", "found"),
    [
        ("work/billing", "ledger postgres", "billing"),
        ("work/billing/web", "ledger postgres", "billing"),  # of the folder above
        ("work/billing/web", "shop window svelte", "web"),
        ("work/billing", "ada prefers short answers", "memory"),
        ("work/billing/web", "ada prefers short answers", "memory"),
        ("work/billing", "agreed on invoices blue", "sessions"),
        ("work/harbour", "agreed on lanterns green", "sessions"),
    ],
)
async def test_a_project_finds_its_own_what_lies_above_the_shared_and_its_sessions(
    desk, folder, query, found
):
    places, page = await desk.asked(folder, query)

    assert places[0] == found
    assert "elsewhere" not in page


async def test_other_projects_and_their_sessions_stay_out_where_something_fits(desk):
    _, page = await desk.asked("work/billing", "we agreed on invoices in blue", limit=20)
    listed, _ = await desk.asked("work/billing", "", limit=50)

    assert "lanterns" not in page
    assert "harbour" not in listed
    assert "web" not in listed
    assert listed.count("sessions") == 1


@pytest.mark.parametrize(
    ("query", "place"),
    [("zeppelin mast height", "harbour"), ("lanterns in green", "sessions")],
)
async def test_what_fits_elsewhere_alone_is_shown_and_marked(desk, query, place):
    places, page = await desk.asked("work/billing", query)

    first = page.splitlines()[0]
    assert places[0] == place
    assert "elsewhere: " in first
    assert f'collections=["{place}"] searches there' in page
    assert "Weak matches" not in page


async def test_a_collection_of_several_folders_is_of_each_of_them(desk):
    harbour = desk.root / "work" / "harbour"
    await Bulk(desk.engine, ()).assign("billing", [desk.root / "work" / "billing", harbour])

    for folder in ("work/billing", "work/harbour"):
        places, page = await desk.asked(folder, "ledger postgres")
        assert places[0] == "billing"
        assert "elsewhere" not in page


@pytest.mark.parametrize("project", ["harbour", "Harbour", "{root}/work/harbour"])
async def test_a_text_of_another_project_in_the_shared_memory_is_marked_and_never_lost(
    desk, project
):
    of = project.format(root=desk.root)
    async with desk.at("work/billing") as client:
        stored = await client.call_tool(
            "qdrant-store",
            {
                "information": "the crane opens at seven",
                "metadata": {"project": of},
                "collection_name": "memory",
            },
        )
    assert told(stored)["collection"] == "memory"

    there, page = await desk.asked("work/harbour", "crane opens")
    assert there[0] == "memory"
    assert "elsewhere" not in page

    places, page = await desk.asked("work/billing", "crane opens at seven")
    assert places[0] == "memory"
    assert page.splitlines()[0].count("elsewhere: ") == 1


async def test_a_text_of_all_projects_is_found_in_each(desk):
    async with desk.at("work/billing") as client:
        note = {"information": "commit messages are imperative", "metadata": {"project": "all"}}
        await client.call_tool("qdrant-store", {**note, "collection_name": "memory"})

    _, page = await desk.asked("work/harbour", "commit messages imperative")
    assert "elsewhere" not in page
    assert "> commit messages are imperative" in page


async def test_a_project_that_no_folder_has_hides_nothing_and_is_told(desk):
    async with desk.at("work/billing") as client:
        await client.call_tool(
            "qdrant-store",
            {
                "information": "apollo launches in may",
                "metadata": {"project": "Apollo"},
                "collection_name": "memory",
            },
        )
    places, page = await desk.asked("work/billing", "apollo launches")

    assert places[0] == "memory"
    assert page.startswith("1. [")
    assert "elsewhere" not in page


async def test_outside_of_projects_everything_is_searched(desk):
    for query, place in (("zeppelin mast", "harbour"), ("ledger postgres", "billing")):
        places, page = await desk.asked(".", query)
        assert places[0] == place
        assert "elsewhere" not in page


async def test_the_mark_of_one_folder_that_earlier_versions_wrote_is_read(engine, tmp_path):
    async with memory_services(engine=engine) as services:
        await remember(services, "old", "roses need sun")
        await remember(services, "other", "bread needs time")
    await Bulk(engine, ())._describe("old", {"folder": str(tmp_path), "folder_inode": ""})
    (tmp_path / "in").mkdir()

    async with memory_services(engine=engine, qdrant_folder=tmp_path / "in") as services:
        page = await find(services, "roses")

    assert [one.document.collection for one in page.results] == ["old"]
