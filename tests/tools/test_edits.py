"""qdrant-store with an edit: the text is changed without being sent."""

from typing import Any

import pytest

from tests.fakes import FakeEncoder
from tests.made_secrets import KEYS
from tests.support import COSINE, foreign, said
from tests.tools.memory import Memory, memory_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

LONG = "# Harbours\n\n" + "\n\n".join(
    f"## Harbour {n}\n\nSentence {n} speaks of boat {n}. It has {n} masts, and lies at pier {n}."
    for n in range(150)
)


async def edit(memory: Memory, own: str = "x", /, *, more: Any = None, **edit: str) -> Any:
    return await memory.ask("store", id=own, edit=edit, **(more or {}))


async def test_the_four_edits_change_the_text_and_keep_the_rest(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store("# Pump\n\nIt runs at 40 %.", title="Pump", tags=["cellar"])
        before = await memory.get("x")
        await edit(memory, append="It was cleaned in May.")
        await edit(memory, prepend="Of the cellar.\n\n")
        done = await edit(memory, replace="40 %", **{"with": "55 %"})
        text = (await memory.get("x"))["text"]
        await edit(memory, section="Pump", more={"tags": ["attic"]}, **{"with": "It is sold."})
        after = await memory.get("x")

        assert text == "Of the cellar.\n\n# Pump\n\nIt runs at 55 %.\nIt was cleaned in May."
        assert done["lines"] == [5, 5]
        assert after["text"] == "Of the cellar.\n\n# Pump\n\nIt is sold."
        assert (after["title"], after["tags"]) == ("Pump", ["attic"])
        assert after["created_at"] == before["created_at"]
        assert len(await memory.versions("x")) == 4
        assert (await memory.get(done["before"]))["text"].count("40 %") == 1
        await memory.ask("store", id=done["before"])
        assert (await memory.get("x"))["text"].count("40 %") == 1


async def test_it_is_found_by_what_is_new_and_the_answer_says_where_that_is(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store(LONG)
        asked = {"id": "x", "edit": {"append": "The zeppelin hangar is closed."}}
        done = said(await memory.client.call_tool("qdrant-store", asked))
        page = await memory.client.call_tool("qdrant-find", {"query": "zeppelin hangar"})

        assert f"Changed: line {LONG.count(chr(10)) + 2}." in done
        assert "Previous version: id " in done
        assert "The zeppelin hangar is closed." in said(page)


CHANGES: list[tuple[dict[str, str], str]] = [
    ({"append": "The end."}, f"{LONG}\nThe end."),
    ({"prepend": "The start."}, f"The start.\n{LONG}"),
    (
        {"replace": "boat 75.", "with": "ship 75, which is blue."},
        LONG.replace("boat 75.", "ship 75, which is blue."),
    ),
    (
        {"section": "Harbours > Harbour 30", "with": "Closed."},
        LONG.replace(LONG[LONG.index("Sentence 30 ") : LONG.index("\n\n## Harbour 31")], "Closed."),
    ),
]


async def test_only_the_parts_that_changed_get_new_vectors(engine, tenant):
    encoder = FakeEncoder()
    async with memory_of(engine, encoder, **tenant) as memory:
        parts = (await memory.store(LONG, title="Harbours"))["parts"]
        assert parts > 20
        for change, new in CHANGES:
            before = len(encoder.documents)
            done = await edit(memory, **change)

            assert 0 < len(encoder.documents) - before <= 3
            assert abs(done["parts"] - parts) <= 1
            assert (await memory.get("x", size=60_000))["text"] == new
            await memory.ask("store", id=done["before"])


async def test_many_edits_in_a_row_leave_the_text_whole_and_its_parts_few(engine):
    async with memory_of(engine) as memory:
        parts = (await memory.store(LONG))["parts"]
        text = LONG
        for n in range(6):
            old, new = f"lies at pier {n * 10}.", f"lies at quay {n} now."
            text = text.replace(old, new, 1)
            done = await edit(memory, replace=old, **{"with": new})
            text += f"\nNote {n}."
            done = await edit(memory, append=f"Note {n}.")

        assert (await memory.get("x", size=60_000))["text"] == text
        assert done["parts"] <= parts + 3


async def test_a_text_grows_beyond_one_part_and_shrinks_again(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store("Short.")
        assert (await edit(memory, append=LONG))["parts"] > 20
        done = await edit(memory, replace=f"\n{LONG}", **{"with": " It is short again."})

        assert done["parts"] == 1
        assert (await memory.get("x"))["text"] == "Short. It is short again."


async def test_the_id_of_a_part_edits_the_whole_text(engine):
    async with memory_of(engine) as memory:
        await memory.store(LONG)
        found = await memory.ask("find", query="boat 77 pier 77")
        await edit(memory, found["results"][0]["id"], append="The end.")

        assert (await memory.get("x", size=60_000))["text"] == f"{LONG}\nThe end."


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"edit": {"append": "a"}}, "edit needs the id of a stored text"),
    ({"id": "x", "edit": {"append": "a"}, "information": "b"}, "edit needs the id"),
    ({"id": "x", "edit": {"text": "a"}}, "edit is one of"),
    ({"id": "x", "edit": "a"}, "edit: An object was expected"),
    ({"id": "nowhere", "edit": {"append": "a"}}, "There is no text nowhere"),
    ({"id": "x", "edit": {"replace": "boat", "with": "b"}}, "The passage occurs 2 times"),
    ({"id": "x", "edit": {"replace": "car", "with": "b"}}, "The passage is not in the text"),
    ({"id": "x", "edit": {"section": "A", "with": "b"}}, "no section A: it has no headings"),
    ({"id": "x", "edit": {"append": "a"}, "collection_name": "other"}, "does not move it"),
    ({"id": "x", "edit": {"append": "a"}, "seen": "0" * 16}, "else has changed"),
    ({"id": "x", "edit": {"append": "a" * 2_000_000}}, "longer than 2,000,000 characters"),
    ({"edit": {"append": "a"}, "about": {"description": "b"}}, "about describes a collection"),
]


async def test_what_cannot_be_edited_is_refused_and_nothing_is_changed(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store("The boat is red. A boat leaks.")
        before = await memory.get("x")
        for asked, sentence in REFUSED:
            assert sentence in await memory.refused("store", **asked)
            assert await memory.get("x") == before


async def test_a_text_from_a_file_is_edited_as_a_file(engine):
    async with memory_of(engine) as memory:
        await memory.store("The boat is red.")
        await memory.engine.set_payload(
            "notes", {"file": {"path": "boat.md"}}, [(await parts(memory))[0].id], key="doc"
        )
        sentence = await memory.refused("store", id="x", edit={"append": "It leaks."})

        assert sentence.startswith("The text is from a file: nothing was changed. Edit the file")


async def parts(memory: Memory) -> list[Any]:
    return (await memory.engine.scroll("notes", limit=100, with_payload=True))[0]


async def test_secrets_that_an_edit_brings_are_masked(engine):
    key = KEYS["OpenAI, older"]
    async with memory_of(engine) as memory:
        await memory.store("The key of the service:")
        asked = {"id": "x", "edit": {"append": f"It is {key}, for all."}}
        done = said(await memory.client.call_tool("qdrant-store", asked))
        text = (await memory.get("x"))["text"]

        assert key not in text
        assert text == "The key of the service:\nIt is [masked], for all."
        assert "Masked 1 secret." in done


async def test_a_point_of_another_tool_is_edited_in_place(engine):
    await foreign(engine, "old", {2: {"text": "wet"}}, vectors={"fast-bag-of-words": COSINE})
    async with memory_of(engine) as memory:
        await edit(memory, "2", append="and cold", more={"collection_name": "old"})

        assert (await memory.get("2"))["text"] == "wet\nand cold"


async def test_a_superseded_text_is_not_edited_by_mistake(engine, tenant):
    async with memory_of(engine, **tenant) as memory:
        await memory.store("Ana works on Mondays.", id="old")
        await memory.store("Ana works on Fridays.", id="new", supersedes="old")
        sentence = await memory.refused("store", id="old", edit={"append": "And Tuesdays."})

        assert "was superseded by id " in sentence
        assert sentence.endswith("in notes: edit that one.")
