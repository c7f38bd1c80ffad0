"""One bad shard or node of a server; and that each row of docs/degradation.md has its tests."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from mcp_server_qdrant.app.services import Services
from tests.qdrant.rest_stub import BROKEN
from tests.qdrant.server.test_remote import searching
from tests.support import find, remember, states, texts

pytestmark = pytest.mark.usefixtures("at_once")

ROOT = Path(__file__).parent.parent
QUERY = "/collections/forest/points/query/batch"
GARBAGE: list[object] = [{}, [], {"result": 7}, {"result": {"points": [{}]}}, "x"]
PAGE = (ROOT / "docs" / "degradation.md").read_text("utf-8")
SHOWN_BY = tomllib.loads((ROOT / "tests" / "degradation.toml").read_text("utf-8"))
CONDITIONS = ["down at the start", "dies", "is slow", "answers garbage", "recovers"]


async def filled(services: Services) -> None:
    await remember(services, "notes", "moss on the roof")
    await remember(services, "forest", "moss likes shade")


def hang(server):
    server.held.add(QUERY)


def fail(status):
    return lambda server: server.faults.update({f"POST {QUERY}": [status] * 9})


def say(answer):
    return lambda server: server.garbage.update({QUERY: answer})


@pytest.mark.parametrize(
    ("harm", "state"),
    [
        *((fail(status), "failed") for status in (BROKEN, 500, 503)),
        *((say(answer), "failed") for answer in GARBAGE),
        (hang, "timeout"),
    ],
)
async def test_a_shard_that_dies_hangs_or_answers_garbage_is_named_and_the_others_answer(
    server, harm, state
):
    async with searching(server, **({"qdrant_timeout": 0.6} if harm is hang else {})) as services:
        await filled(services)
        harm(server)
        page = await find(services, "moss")

    assert texts(page) == ["moss on the roof"]
    assert states(page) == {"notes": "ok", "forest": state}


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
        server.faults[f"POST {QUERY}"] = [500] * 2  # of its words, and of the search
        broken = await find(services, "moss")
        whole = await find(services, "moss")

    assert states(broken)["forest"] == "failed"
    assert states(whole) == {"notes": "ok", "forest": "ok"}
    assert sorted(texts(whole)) == ["moss likes shade", "moss on the roof"]


def page_rows() -> dict[str, dict[str, str]]:
    """Heading -> first column -> what a caller sees."""
    parts = [part.splitlines() for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]]
    rows = {
        heading: [line.split("|")[1:-1] for line in lines if line.startswith("| ")][1:]
        for heading, *lines in parts
    }
    return {
        heading: {condition.strip(): seen.strip() for condition, seen in cells}
        for heading, cells in rows.items()
    }


@cache
def defined(file: str) -> frozenset[str]:
    """The names of a file's functions; none of a file that is gone."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text("utf-8") if path.exists() else "")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_every_row_of_the_page_says_what_is_seen_and_has_tests_that_exist():
    rows = page_rows()
    gone = [
        f"{heading}, {condition}: {test}"
        for heading, conditions in SHOWN_BY.items()
        for condition, tests in conditions.items()
        for test in tests
        if test.split("::")[1] not in defined(test.split("::")[0])
    ]

    assert gone == []
    assert {heading: list(cells) for heading, cells in rows.items()} == {
        heading: list(conditions) for heading, conditions in SHOWN_BY.items()
    }
    assert [
        (heading, condition)
        for heading, cells in rows.items()
        for condition, seen in cells.items()
        if not seen or not SHOWN_BY[heading][condition]
    ] == []


def test_the_page_has_every_condition_of_every_part():
    rows = page_rows()

    assert list(rows)[:5] == [
        "The engine",
        "One shard, node or collection",
        "The encoder",
        "The reranker",
        "The disk",
    ]
    for heading, cells in rows.items():
        if heading != "This server":
            assert list(cells) == CONDITIONS, heading
