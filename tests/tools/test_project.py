"""qdrant-project as a client sees it: the whole server, only the model is a fake."""

import re

import numpy as np
import pytest
from mcp import Client
from mcp.client.extension import advertise
from qdrant_client import models

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.app.services import assemble
from mcp_server_qdrant.http.page.app import app_html
from mcp_server_qdrant.projection import map as maps
from mcp_server_qdrant.projection.shapes import Neighbours, Region
from mcp_server_qdrant.tools.project import APP
from tests.fakes import FakeEncoder
from tests.support import (
    corpus,
    dense,
    foreign,
    make_settings,
    memory_engine,
    memory_server,
    refusal,
    registry,
    said,
)

UI = "io.modelcontextprotocol/ui"
MIME = "text/html;profile=mcp-app"


@pytest.fixture(autouse=True)
def unlaid(monkeypatch):
    """The layout by neighbours takes a process and seconds: one test has it made."""

    async def nothing(_):
        return None

    monkeypatch.setattr(maps, "is_installed", lambda: True)
    monkeypatch.setattr(maps, "lay_out_neighbours", nothing)


async def store(client: Client, collection: str, *texts: str) -> None:
    for text in texts:
        arguments = {"information": text, "collection_name": collection, "create": True}
        result = await client.call_tool("qdrant-store", arguments)
        assert not result.is_error, said(result)


async def project(client: Client, **arguments):
    result = await client.call_tool("qdrant-project", arguments)
    assert not result.is_error, said(result)
    return result


async def test_hits_and_their_order_are_those_of_qdrant_find():
    async with memory_server() as client:
        await store(client, "notes", *corpus(40))
        await store(client, "letters", *corpus(90)[40:])
        for arguments in (
            {"query": "copper ember"},
            {"query": "falcon", "collections": ["notes"]},
            {"query": "alpha n3 bridge", "collections": ["*"]},
        ):
            found = await client.call_tool(
                "qdrant-find", arguments | {"explain": True, "point_ids": True}
            )
            hits = (await project(client, **arguments)).structured_content["hits"]

            assert len(hits) > 3
            assert [(one["collection"], one["id"], one["relevance"]) for one in hits] == [
                (one["collection"], one["id"], one["relevance"])
                for one in found.structured_content["results"]
            ]


async def test_the_structured_result_tells_what_an_agent_needs():
    async with memory_server() as client:
        await store(client, "notes", *corpus(20), "quite another thing entirely")
        await store(client, "letters", "copper ember", "copper")
        result = await project(client, query="copper", limit=12)

        (panel,) = result.structured_content["panels"]
        assert set(panel) == {*("model", "explained", "collections", "regions", "query")}
        letters, notes = panel["collections"]
        assert (letters["name"], letters["points"], letters["drawn"]) == ("letters", 2, 2)
        assert (notes["name"], notes["points"], notes["drawn"]) == ("notes", 21, 10)
        assert set(letters) == {"name", "points", "drawn", "centre", "spread", "near"}
        assert next(iter(panel["query"]["near"])) == "letters"
        assert len(panel["explained"]) == len(panel["query"]["at"]) == len(notes["centre"]) == 2
        solid = (await project(client, query="copper", dimensions=3)).structured_content
        assert {len(hit["at"]) for hit in solid["hits"]} == {3}
        assert "map" not in result.structured_content
        assert all(
            set(h) == {"id", "collection", "relevance", "title", "at"}
            for h in result.structured_content["hits"]
        )


async def test_regions_are_told_by_name_and_size(monkeypatch):
    """How they are found: projection/test_neighbours.py."""

    async def laid(panel):
        region = Region("wing lift", ("wing lift", "drag"), 20, 0)
        return Neighbours(np.zeros((60, 2)), np.zeros(60, np.uint8), (region,))

    monkeypatch.setattr(maps, "lay_out_neighbours", laid)
    async with memory_server() as client:
        await store(client, "notes", *(f"wing lift {n}" for n in range(60)))
        result = await project(client)

    (region,) = result.structured_content["panels"][0]["regions"]
    assert region == {"name": "wing lift", "words": ["wing lift", "drag"], "points": 20}
    assert "Regions: wing lift (20)." in said(result)


async def test_the_text_stays_under_1500_bytes():
    async with memory_engine() as engine, memory_server(engine=engine) as client:
        for number in range(30):
            await foreign(
                *(engine, f"Sammlung Nummer {number} mit Ümläuten", {}), vectors={"d": COSINE}
            )
            await engine.upsert(
                f"Sammlung Nummer {number} mit Ümläuten",
                [
                    models.PointStruct(
                        id=n,
                        vector={"d": dense(f"copper {n} {number}")},
                        payload={"text": "копия медь " * 30, "title": "Ü" * 200},
                    )
                    for n in range(4)
                ],
            )
        text = said(await project(client, query="copper"))

        assert 1_200 < len(text.encode()) < 1_500
        assert text.startswith(
            "Map of 30 collections, 120 points, by fake/Bag-of-Words. Its 2 axes"
        )
        assert "The query is nearest to 'Sammlung" in text
        assert re.search(r"\(\d+ more\)$", text)


COSINE = models.VectorParams(size=64, distance=models.Distance.COSINE)


async def test_the_text_of_a_small_map():
    async with memory_server() as client:
        await store(client, "notes", "copper ember", "copper falcon")
        text = said(await project(client, query="copper ember"))

        map_line, fell, group = text.splitlines()
        assert map_line == (
            "Map of notes, 2 points, by fake/Bag-of-Words. Its 2 axes explain 100% of the variance."
        )
        assert fell == "The query is nearest to notes (0.87)."
        assert group == "- notes: 2 points, spread 0.50"


async def test_one_point_nothing_and_keywords_only():
    async with memory_engine() as engine, memory_server(engine=engine) as client:
        assert said(await project(client)) == "No map: there is nothing to draw."
        await store(client, "one", "alpha")
        assert "All its points coincide." in said(await project(client))
        bm25 = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        await foreign(engine, "words", {1: {"text": "alpha"}}, sparse=bm25)
        result = await project(client, collections=["words"])

        assert result.structured_content["panels"] == []
        assert said(result) == (
            "No map: there is nothing to draw.\nNote: words: keywords only: it has no dense vector"
        )


async def test_what_cannot_be_asked_is_refused_in_a_sentence():
    async with memory_server() as client:
        await store(client, "notes", "alpha")
        for arguments, sentence in (
            ({"collections": ["nots"]}, "There is no collection 'nots'. Did you mean 'notes'?"),
            ({"collections": []}, 'collections is empty: name some, or ["*"] for all.'),
            ({"limit": 10_001}, "limit must be at most 10000."),
            ({"limit": 0}, "limit must be at least 1."),
            ({"dimensions": 4}, "dimensions must be 2 or 3."),
            ({"query": "a\x00b"}, "query: The text contains a NUL character: remove it."),
            ({"query": "w" * 8_001}, "query is longer than 8000 characters: ask for less."),
            (
                {"colections": "red"},
                "There is no argument 'colections'. The arguments are: collections, query, "
                "dimensions, limit, points.",
            ),
        ):
            assert refusal(await client.call_tool("qdrant-project", arguments)) == sentence


async def test_points_come_for_hosts_that_render_apps_and_for_who_asks():
    async with memory_engine() as engine, memory_server(engine=engine) as client:
        await store(client, "notes", *corpus(9))
        asked = (await project(client, points=True)).structured_content["map"]
        assert asked["panels"][0]["groups"][0]["count"] == 9
        settings = make_settings()

        async def opened():
            return assemble(settings, engine, registry(FakeEncoder())).shared

        apps = advertise(UI, {"mimeTypes": [MIME]})
        for mode in ("auto", "legacy"):
            async with Client(make_server(settings, opened), extensions=[apps], mode=mode) as host:
                assert (await project(host)).structured_content["map"] == asked


async def test_the_app_is_a_resource_that_asks_for_nothing():
    async with memory_server() as client:
        tool = next(t for t in (await client.list_tools()).tools if t.name == "qdrant-project")
        assert tool.meta["ui"]["resourceUri"] == APP
        (listed,) = [r for r in (await client.list_resources()).resources if str(r.uri) == APP]
        (content,) = (await client.read_resource(APP)).contents

        assert listed.mime_type == content.mime_type == MIME
        assert content.text == app_html()
        assert listed.meta["ui"] == {
            "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": []},
            "prefersBorder": True,
        }


def test_the_app_holds_everything_it_needs():
    html = app_html()

    assert html.startswith("<!doctype html>")
    assert "{{" not in html
    assert not re.findall(r"(?:src|href)=|@import|url\(|innerHTML|eval\(", html)
    assert re.findall(r"https?://", html) == []
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; script-src")
    assert html.count("<script") == html.count("<style>") == 1
