"""Why a text is not found is said with what would change it, over both engines."""

import re

import pytest

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.tools.recall import LEAST
from mcp_server_qdrant.tools.why import why_not, why_not_recalled
from tests.evaluation.test_run import on_both_engines, services  # noqa: F401  # the fixture
from tests.support import remember

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


async def why(services, question, wanted, *collections):  # noqa: F811
    asked = SearchRequest(query=question, collections=collections or None)
    return "\n".join(await why_not(services, asked, wanted))


@on_both_engines
async def test_a_text_that_is_found_has_its_place_its_ranks_and_its_words(services):  # noqa: F811
    said = await why(services, "key under the flower bed", "pot")

    assert said.startswith("Found: it is result 1 of ")
    assert "Rank by one leg alone: meaning 1, keywords 1." in said
    assert "Words that it has: key, flower." in said
    assert "Words that it lacks: bed. A title or tag with them helps." in said
    assert "Its best part has relevance " in said


OUT_OF_REACH = [  # the request, and the gate that hides the text
    ({"collections": ["notes"]}, "Scope: it is in mail, and the search covers notes."),
    ({"query_filter": {"must": [{"key": "title", "match": {"value": "Pot"}}]}}, "query_filter"),
    ({"tags": ["house"]}, "It has none of the tags: its own are none."),
    ({"since": "2030-01-01"}, "It is outside these dates: its own date is 20"),
    ({"score_threshold": 0.99}, "It is below score_threshold 0.99."),
    ({"query": '"spare key" parcel flower pot'}, "It does not have the words in quotes as"),
    (
        {"query": "late mail", "collections": ["notes"], "tags": ["house"]},
        "It has none of the tags",
    ),
]


@on_both_engines
async def test_the_gate_that_hides_a_text_is_named_and_the_change_brings_it_up(services):  # noqa: F811
    search, wrong = services.pipeline.search, []
    for request, gate in OUT_OF_REACH:
        asked = SearchRequest(**{"query": "parcel with the flower pot", **request})
        before = await search(asked)
        said = "\n".join(await why_not(services, asked, "parcel"))
        change, place = re.search(r"With (.*) it is result (\d+)\.", said).groups()
        named = eval("dict(" + re.sub(r"\bno (\w+)", r"\1=None", change) + ")")
        after = await search(asked.model_copy(update=named))
        ids = [one.document.document for one in after.results]
        if (
            gate not in said
            or ids.index("parcel") + 1 != int(place)
            or "parcel" in [one.document.document for one in before.results]
        ):
            wrong.append((request, said))

    assert wrong == []


@on_both_engines
async def test_a_text_below_the_page_is_shown_by_the_limit_that_is_named(services):  # noqa: F811
    await remember(
        services, "notes", *(f"The blue kettle of room {n}: a kettle." for n in range(30))
    )
    asked = SearchRequest(query="which kettle is blue", collections=["notes"])
    said = "\n".join(await why_not(services, asked, "lock"))
    least, limit, place = re.search(
        r"With score_threshold=([\d.]+), limit=(\d+) it is result (\d+)\.", said
    ).groups()
    shown = asked.model_copy(update={"score_threshold": float(least), "limit": int(limit)})
    page = await services.pipeline.search(shown)

    assert page.results[int(place) - 1].document.document == "lock"
    assert "It has none of the question's words." in said
    assert "less than a quarter of the best relevance is left out" in said


@on_both_engines
async def test_a_text_that_has_expired_can_be_brought_back(services):  # noqa: F811
    new = NewDocument("The parade is today.", id="parade", expires="2020-01-01T00:00:00+00:00")
    await services.store.store(new, "notes")
    said = await why(services, "parade today", "parade")

    assert "It expired on 2020-01-01T00:00:00+00:00: qdrant-store with only that id" in said


@on_both_engines
async def test_what_keeps_a_text_from_being_recalled_is_said(services, tmp_path):  # noqa: F811
    await remember(services, "web", "The pump needs oil.", id="pump", source="https://example.org")

    async def recalled(prompt, wanted):
        return " ".join(await why_not_recalled(services, prompt, wanted, tmp_path))

    told = await recalled("Is the key under the flower pot?", "pot")
    assert "Recalled: it is text 1 of" in told
    assert (await recalled("```\nls\n```", "pot")).startswith("Nothing is searched")
    assert "from the web" in await recalled("The pump needs oil?", "pump")
    far = await recalled("Does the train to Leeds stop here?", "pot")
    assert "Not recalled; 0 other texts would be." in far
    assert f"relevance is below {LEAST}" in far or "best match is weak" in far
    await services.annotate("mail", None, tmp_path / "other", unassign=False, create=False)
    await services.annotate("notes", None, tmp_path, unassign=False, create=False)
    assert "describe mail --folder" in await recalled("Is the parcel with the pot late?", "parcel")


@on_both_engines
async def test_a_copy_stands_for_the_text(services):  # noqa: F811
    await remember(services, "mail", "A barometer hangs in the hall.", id="first")
    await remember(services, "copies", "A barometer hangs in the hall.", id="second")
    both = [await why(services, "barometer hall", one) for one in ("first", "second")]

    assert sum("has the same text, and is shown in its place." in said for said in both) == 1


@on_both_engines
async def test_a_superseded_text_names_its_successor(services):  # noqa: F811
    (old,), _ = await services.lookup.locate(["shed"])
    new = NewDocument("The spare key hangs in the hall now.", id="new")
    await services.store.store(new, "notes", supersedes=[old])
    said = await why(services, "where is the spare key of the shed", "shed")

    assert "It was superseded by new, and ranks behind all others." in said


@on_both_engines
async def test_a_text_that_was_deleted_can_be_brought_back(services):  # noqa: F811
    (old,), _ = await services.lookup.locate(["shed"])
    await services.deletion.delete(old, keep=True)
    with pytest.raises(
        RequestError, match=r"'shed' any more\. Its last version is shed@.* restores"
    ):
        await why(services, "spare key", "shed")


@on_both_engines
async def test_an_id_that_never_was_is_unknown(services):  # noqa: F811
    with pytest.raises(RequestError, match="No text has the id 'zzz'"):
        await why(services, "key", "zzz")
