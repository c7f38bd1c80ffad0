"""What a search covers in a project's folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.context import in_folder
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from tests.support import find, memory_services, remember

QUERY = "spreading factor chirp"


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    """Two projects, one within a third, and what belongs to all."""
    engine = await EdgeClient.open(tmp_path / "store", timeout=20)
    async with memory_services(engine=engine, qdrant_read_only=False) as services:
        for name, folder in (("firm", "work"), ("radio", "work/radio"), ("boats", "work/boats")):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            await remember(services, name, f"{name.title()}: budget settled.", id=f"{name}-budget")
            await Bulk(services.shared.client, ()).set_folders(name, [tmp_path / folder])
        services.catalog.forget_all()
        yield services


def collections(page) -> set[str]:
    return {one.document.collection for one in page.results}


def ids(page) -> list[str]:
    return [one.document.document for one in page.results]


async def said_in(services, folder: Path, query: str, **fields):
    with in_folder(folder):
        return await find(services, query, **fields)


async def test_the_memory_of_all_projects_is_searched_too(services, tmp_path):
    await remember(services, "memory", "Spreading factor chirp: twelve.", id="factor")
    page = await said_in(services, tmp_path / "work" / "radio", QUERY)

    assert ids(page)[0] == "factor"
    assert not page.weak
    assert not any(one.elsewhere for one in page.results)


async def test_of_the_memory_texts_of_other_projects_stay_out(services, tmp_path):
    for project in ("radio", "RADIO", "all", "apollo", "boats", None):
        metadata = {"project": project} if project else None
        text = f"Spreading factor chirp, says {project}."
        await remember(services, "memory", text, id=str(project), metadata=metadata)
    page = await said_in(services, tmp_path / "work" / "radio", QUERY)

    found = [one for one in ids(page) if not one.endswith("budget")]
    assert sorted(found) == ["None", "RADIO", "all", "apollo", "radio"]


async def test_what_sessions_said_in_the_folder_is_found(services, tmp_path):
    for folder in ("work/radio", "work/boats"):
        await remember(
            services,
            "sessions",
            f"user: spreading factor chirp in {folder}?",
            id=folder,
            metadata={"project": str(tmp_path / folder), "client": "claude-code"},
        )
    page = await said_in(services, tmp_path / "work" / "radio" / "src", QUERY)

    assert "work/radio" in ids(page)
    assert "work/boats" not in ids(page)


async def test_where_nothing_in_scope_fits_what_fits_elsewhere_leads_the_page(services, tmp_path):
    await remember(services, "boats", "Spreading factor chirp: twelve.", id="factor")
    page = await said_in(services, tmp_path / "work" / "radio", QUERY)

    assert (ids(page)[0], page.results[0].elsewhere) == ("factor", True)
    assert page.notes[0].startswith("Result 1 is from elsewhere, outside firm, radio")
    assert 'collections=["boats"] searches there' in page.notes[0]
    assert not any("Weak" in note for note in page.notes)


async def test_a_text_of_another_project_in_the_memory_is_shown_where_nothing_else_fits(
    services, tmp_path
):
    text = "Spreading factor chirp: twelve."
    await remember(services, "memory", text, id="factor", metadata={"project": "boats"})
    page = await said_in(services, tmp_path / "work" / "radio", QUERY)

    assert (ids(page)[0], page.results[0].elsewhere) == ("factor", True)
    assert "of another project" in page.notes[0]


async def test_the_newest_texts_are_those_of_the_scope(services, tmp_path):
    for project in ("radio", "boats"):
        text = f"A note of {project}."
        await remember(services, "memory", text, id=project, metadata={"project": project})
    page = await said_in(services, tmp_path / "work" / "radio", "")

    assert set(ids(page)) == {"radio", "radio-budget", "firm-budget"}


async def test_named_collections_are_searched_whole(services, tmp_path):
    await remember(services, "memory", "A note.", id="other", metadata={"project": "boats"})
    with in_folder(tmp_path / "work" / "radio"):
        page = await find(services, "note", "memory")

    assert ids(page) == ["other"]
    assert not page.results[0].elsewhere
