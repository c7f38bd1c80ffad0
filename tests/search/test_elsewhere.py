"""Results of another collection, where the default one has weak matches only or none."""

import asyncio
from dataclasses import replace

import pytest

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.search import elsewhere
from tests.fakes import FakeEncoder
from tests.support import find, memory_engine, memory_services, remember

QUERY = "zeppelin harbour mast"
WEAK = "moss needs a zeppelin of shade"
# Their relevance, each beside another text: 0.86, 0.80, 0.74, 0.15. The weak one has 0.17.
FAR, LESS, LEAST = QUERY, f"{QUERY} repair", f"{QUERY} repair and more"
NEAR = "zeppelin prices of the year before the war"


async def fill(services, default=WEAK, **others) -> None:
    if default:
        await remember(services, "garden", default, "roses need sun")
    for name, text in others.items():
        await remember(services, name, text, "bread needs time")


def better(page) -> list[str]:
    return [note for note in page.notes if "elsewhere" in note]


async def test_the_query_is_embedded_once_though_the_answer_is_elsewhere():
    encoder = FakeEncoder()
    async with memory_services(encoder, collection_name="garden") as services:
        await fill(services, ships=NEAR)
        weak = await find(services, QUERY)
        looked = [*encoder.queries]
        await remember(services, "ships", FAR)
        page = await find(services, QUERY)

    assert (better(weak), looked) == ([], [QUERY])
    assert better(page)
    assert encoder.queries == [QUERY] * 2


@pytest.mark.parametrize(
    ("default", "others", "asked", "fields", "expected"),
    [
        (WEAK, {"ships": FAR, "notes": NEAR}, (), {}, "ships"),
        (None, {"ships": FAR}, (), {}, "ships"),
        (None, {"ships": NEAR}, (), {}, None),
        (WEAK, {"ships": FAR}, (), {"algorithm": "semantic"}, "ships"),
        (WEAK, {"ships": FAR}, (), {"algorithm": "keyword"}, "ships"),
        (WEAK, {"ships": FAR}, (), {"score_threshold": 0.5}, "ships"),
        (WEAK, {"ships": FAR}, (), {"score_threshold": 0.9}, None),
        (WEAK, {"ships": FAR}, ("garden",), {}, None),
        (WEAK, {"ships": NEAR}, (), {}, None),
        (LEAST, {"ships": FAR}, (), {}, None),
        (LEAST, {"ships": FAR}, (), {"score_threshold": 0.75}, "ships"),
        (LEAST, {"ships": LESS}, (), {"score_threshold": 0.75}, None),
        (WEAK, {}, (), {}, None),
    ],
)
async def test_a_weak_or_empty_answer_is_led_by_what_another_collection_has(
    default, others, asked, fields, expected
):
    async with memory_services(collection_name="garden") as services:
        await fill(services, default, **others)
        page = await find(services, QUERY, *asked, **fields)

    marked = [one.document.collection for one in page.results if one.elsewhere]
    assert marked[:1] == ([expected] if expected else [])
    assert bool(better(page)) == bool(expected)


async def test_the_line_says_what_to_do_and_no_weak_match_is_said():
    async with memory_services(collection_name="garden") as services:
        await fill(services, **{"the ships": FAR})
        page = await find(services, QUERY)
        there = await find(services, QUERY, "the ships")

    assert page.notes == [
        'Result 1 is from elsewhere, outside garden: collections=["the ships"] searches there.'
    ]
    first, *others = page.results
    assert first == replace(there.results[0], elsewhere=True)
    assert [one.document.collection for one in others] == ["garden"]
    assert not page.weak


async def test_the_limit_counts_all_results_and_what_is_there_is_not_called_missing():
    async with memory_services(collection_name="garden") as services:
        await fill(services, ships=f"{QUERY} ts-003")
        page = await find(services, f"{QUERY} ts-003 ts-004", limit=1)
        both = await find(services, f"{QUERY} ts-003", limit=1)

    assert [one.document.collection for one in page.results] == ["ships"]
    assert page.more
    assert [note for note in page.notes if "No text" in note] == ["No text found contains ts-004."]
    assert [note for note in both.notes if "No text" in note] == []
    assert both.results[0].elsewhere


async def test_a_word_is_looked_for_as_written_though_it_was_corrected_for_the_default():
    async with memory_services(collection_name="garden") as services:
        await fill(services, "a zeppelins of shade", ships="zepelins anchor")
        page = await find(services, "zepelins anchor harbour captain")

    assert [correction.to for correction in page.corrections] == ["zeppelins"]
    assert page.results[0].document.collection == "ships"
    assert page.results[0].elsewhere


@pytest.mark.parametrize(("tag", "expected"), [("red", False), ("blue", True)])
async def test_the_filter_holds_elsewhere_too(tag, expected):
    async with memory_services(collection_name="garden") as services:
        await remember(services, "garden", WEAK, tags=("red", "blue"))
        await remember(services, "ships", FAR, tags=("blue",))
        condition = {"must": [{"key": "tags", "match": {"value": tag}}]}
        page = await find(services, QUERY, query_filter=condition)

    assert bool(better(page)) == expected


async def test_a_phrase_that_must_occur_is_not_promised_elsewhere():
    async with memory_services(collection_name="garden") as services:
        await fill(services, ships="mast harbour zeppelin")
        page = await find(services, '"zeppelin harbour mast"')

    assert page.notes[0] == "No text found contains 'zeppelin harbour mast'."
    assert better(page) == []


@pytest.mark.parametrize(
    ("default", "name", "searched"),
    [(FAR, "garden", ["garden"]), (WEAK, None, ["garden", "ships"])],
)
async def test_no_call_more_is_made_where_the_answer_is_good_or_all_were_searched(
    default, name, searched
):
    calls = []
    async with (
        memory_engine() as engine,
        memory_services(engine=engine, collection_name=name) as services,
    ):
        await fill(services, default, ships=NEAR)
        for asked in ([], [], searched):  # the first to warm up
            engine.calls.clear()
            await find(services, QUERY, *asked, correct=False)
            calls.append(sorted(engine.calls))

    assert calls[1] == calls[2]


@pytest.mark.parametrize("fault", ["fails", "hangs"])
async def test_that_not_all_other_collections_answered_is_said(fault, monkeypatch):
    monkeypatch.setattr(elsewhere, "SECONDS", 0.05)
    async with (
        memory_engine() as engine,
        memory_services(engine=engine, collection_name="garden") as services,
    ):
        await fill(services, ships=FAR)
        await services.catalog.resolve(["*"])
        if fault == "fails":
            engine.broken["ships"] = EngineFailure("Its files are damaged.")
        else:
            engine.hanging.add("ships")
        page = await asyncio.wait_for(find(services, QUERY), 5)

    weak, unseen = page.notes
    assert weak.startswith("Weak matches only")
    assert unseen == elsewhere.UNSEEN
    assert len(page.results) == 1


async def test_a_collection_that_this_server_may_not_show_is_never_named():
    async with memory_engine() as engine:
        async with memory_services(engine=engine) as everything:
            await fill(everything, ships=FAR, notes=NEAR)
        values = {"collection_name": "garden", "qdrant_collections": ("garden", "notes")}
        async with memory_services(engine=engine, **values) as services:
            page = await find(services, QUERY)

    assert [note.split(":")[0] for note in page.notes] == ["Weak matches only"]


async def test_of_many_collections_the_largest_are_asked(monkeypatch):
    monkeypatch.setattr(elsewhere, "MOST", 2)
    async with (
        memory_engine() as engine,
        memory_services(engine=engine, collection_name="garden") as services,
    ):
        await fill(services, **{f"other{n}": f"lantern number {n}" for n in range(4)}, ships=FAR)
        await remember(services, "ships", "bread again")
        engine.calls.clear()
        page = await find(services, QUERY)

    assert page.results[0].document.collection == "ships"
    assert page.results[0].elsewhere
    asked = {name for call, name in engine.calls if call == "query_batch_points"}
    assert len(asked - {"garden"}) == 2
