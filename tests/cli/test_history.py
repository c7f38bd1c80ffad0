"""The command `history`, over what a server stored in the embedded engine."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.fakes import FakeEncoder
from tests.hosts import until
from tests.support import make_settings, registry

WRONG = "--restore and --erase need an ID, and cannot be combined."


@pytest.fixture
def engine(tmp_path: Path) -> str:
    """A folder with a text that was replaced twice, and deleted."""

    async def fill() -> None:
        client = await EdgeClient.open(tmp_path / "engine")
        services = assemble(
            make_settings(embedding_provider="none"), client, registry(FakeEncoder())
        )
        for text in ("the first", "the second\nof two lines", "the third"):
            await services.store.store(NewDocument(text, id="x"), "notes", create=True)
        await services.deletion.by_ids(await services.deletion.named(["x"]))
        await services.close()

    asyncio.run(fill())
    return str(tmp_path / "engine")


@pytest.fixture
def history(invoke: Callable[..., Result], engine: str, tmp_path: Path) -> Callable[..., Result]:
    settings = {"QDRANT_LOCAL_PATH": engine, "QDRANT_CACHE_PATH": str(tmp_path / "cache")}
    settings |= {"EMBEDDING_PROVIDER": "none"}
    return lambda *asked, **more: invoke("history", *asked, **(settings | more))


def holding(engine: str, text: bytes) -> list[str]:
    """The files of the engine's folder that hold a text."""
    files = [path for path in Path(engine).rglob("*") if path.is_file()]
    return [path.name for path in files if text in path.read_bytes()]


def test_what_is_erased_is_in_no_file_of_the_engine_any_more(history, engine):
    assert holding(engine, b"two lines")
    done = history("x", "--erase")

    assert done.output.startswith("3 versions erased.\n")
    trash = Path(engine) / "trash"
    asyncio.run(until(lambda: not any(trash.iterdir())))
    for text in (b"the first", b"two lines", b"the third"):
        assert holding(engine, text) == []


def test_versions_are_listed_shown_brought_back_and_erased(history):
    everything = history().output.splitlines()
    of_one = history("x", "--collection", "notes").output.splitlines()
    ids = [re.search(r"id (\S+)\)", line)[1] for line in of_one]
    shown = history(ids[1]).output
    back = history(ids[1], "--restore")
    again = history("x").output.splitlines()
    erased = history(ids[2], "--erase").output
    rest = history("x", "--erase").output

    assert everything == of_one
    assert [line.partition(" · ")[2] for line in of_one] == [
        *("deleted · the third", "replaced · the second of two lines", "replaced · the first"),
    ]
    assert shown == "the second\nof two lines\n"
    assert (back.exit_code, back.output) == (0, "Restored in notes: id x.\n")
    assert again == of_one  # it took no other text's place
    anew = "The store was rewritten: no file of the embedded engine contains the text.\n"
    assert (erased, rest) == (f"1 version erased.\n{anew}", f"2 versions erased.\n{anew}")
    assert history().stdout == ""


@pytest.mark.parametrize(
    ("asked", "settings", "sentence"),
    [
        (("--restore",), {}, WRONG),
        (("x", "--restore", "--erase"), {}, WRONG),
        (("x", "--restore"), {}, "There is no version x: give a listed ID@TIME."),
        (("x", "--erase"), {"QDRANT_READ_ONLY": "true"}, "QDRANT_READ_ONLY is set"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(history, asked, settings, sentence):
    done = history(*asked, **settings)

    assert done.exit_code == 2
    assert sentence in done.output
