"""The degradation matrix: one bad shard or node of a server; and that its tests exist."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_server_qdrant.app.services import Services
from tests.qdrant.rest_stub import BROKEN, RestServer, rest_server
from tests.qdrant.test_remote import searching
from tests.support import find, remember, states, texts

ROOT = Path(__file__).parent.parent
QUERY = "/collections/forest/points/query"
MATRIX = (ROOT / "docs" / "degradation.md").read_text("utf-8")
CONDITIONS = ["down at the start", "dies", "is slow", "answers garbage", "recovers"]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", MATRIX)))


@pytest.fixture
def server() -> Iterator[RestServer]:
    with warnings.catch_warnings(), rest_server() as one:
        warnings.simplefilter("ignore")
        yield one


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.qdrant.remote.PAUSES", (0.0, 0.0))


async def filled(services: Services) -> None:
    await remember(services, "notes", "moss on the roof")
    await remember(services, "forest", "moss likes shade")


@pytest.mark.parametrize("status", [BROKEN, 500, 503])
async def test_a_shard_that_dies_is_named_and_the_others_answer(server, status):
    async with searching(server) as services:
        await filled(services)
        server.faults[f"POST {QUERY}"] = [status] * 9
        page = await find(services, "moss")

    assert texts(page) == ["moss on the roof"]
    assert states(page) == {"notes": "ok", "forest": "failed"}


async def test_a_shard_that_hangs_is_given_up_and_the_others_answer(server):
    async with searching(server, search_timeout=0.5) as services:
        await filled(services)
        server.held.add(QUERY)
        page = await find(services, "moss")

    assert texts(page) == ["moss on the roof"]
    assert states(page) == {"notes": "ok", "forest": "timeout"}


@pytest.mark.parametrize("answer", [{}, [], {"result": 7}, {"result": {"points": [{}]}}, "x"])
async def test_a_shard_that_answers_garbage_is_named_and_the_others_answer(server, answer):
    async with searching(server) as services:
        await filled(services)
        server.garbage[QUERY] = answer
        page = await find(services, "moss")

    assert texts(page) == ["moss on the roof"]
    assert states(page) == {"notes": "ok", "forest": "failed"}


async def test_a_collection_that_was_never_reached_is_named_and_the_others_answer(server):
    async with searching(server) as services:
        await filled(services)
    server.faults["GET /collections/forest"] = [500] * 9
    async with searching(server) as services:
        page = await find(services, "moss")

    assert texts(page) == ["moss on the roof"]
    assert states(page) == {"notes": "ok", "forest": "failed"}


async def test_a_shard_that_recovers_is_searched_again(server):
    async with searching(server) as services:
        await filled(services)
        server.faults[f"POST {QUERY}"] = [500]
        broken = await find(services, "moss")
        whole = await find(services, "moss")

    assert states(broken)["forest"] == "failed"
    assert states(whole) == {"notes": "ok", "forest": "ok"}
    assert sorted(texts(whole)) == ["moss likes shade", "moss on the roof"]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_matrix_names_exists(file, name):
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    defined = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }

    assert name in defined


def test_every_cell_says_what_is_seen_and_which_test_shows_it():
    parts = re.split(r"^## ", MATRIX, flags=re.MULTILINE)[1:]
    for part in parts:
        rows = [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("| ")][1:]
        assert all(seen.strip() and "`tests/" in shown for _, seen, shown in rows), part
        if not part.startswith("This server"):
            assert [condition.strip() for condition, _, _ in rows] == CONDITIONS
    titles = [part.split("\n")[0] for part in parts]
    assert titles[:6] == [
        "The engine",
        "One shard, node or collection",
        "The encoder",
        "The reranker",
        "The disk",
        "The tenant webhook",
    ]
