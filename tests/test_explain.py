"""Why a result ranks where it does, from the tool call to the answer."""

import math
import re

import pytest
from mcp import Client

from tests.support import COSINE, IDF, dense, foreign, memory_engine, memory_server, said


async def store(client: Client, text: str, **arguments) -> None:
    arguments = {"information": text, "collection_name": "notes"} | arguments
    result = await client.call_tool("qdrant-store", arguments)
    assert not result.is_error, said(result)


async def find(client: Client, query: str, **arguments):
    result = await client.call_tool("qdrant-find", {"query": query, "explain": True} | arguments)
    assert not result.is_error, said(result)
    return result


def line(result, number: int = 0) -> str:
    """The line of a result that says why."""
    return [one for one in said(result).splitlines() if one.startswith("why:")][number]


async def test_legs_places_tags_and_every_factor_make_the_score():
    async with memory_server(
        qdrant_recency_weight=0.5, qdrant_collection_priority_order=("notes",)
    ) as client:
        await store(client, "freeze and upload", tags=["Apollo"], metadata={"date": 0})
        await store(client, "upload the zeppelin", tags=["zeus"])
        result = await find(client, "apollo upload", score_threshold=0)
        await store(client, "an old harbour", metadata={"date": "2020-01-01"})
        aged, kept = [
            (await find(client, "old harbour", **more)).structured_content["results"][0]["why"]
            for more in ({}, {"recency_decay": 1e-9})
        ]

    assert (aged["factors"]["recency"], kept["factors"]["recency"]) == (0.5, 1.0)
    first, second = result.structured_content["results"]
    why = first["why"]
    assert why["tags"] == ["Apollo"]
    assert list(why["factors"]) == ["tags", "priority", "recency"]
    assert why["factors"]["priority"] == 1.1
    base = why["alpha"] * why["meaning"] + (1 - why["alpha"]) * why["words"]
    relevance = base + why["gains"]["tags"]
    assert first["relevance"] == pytest.approx(relevance, abs=2e-3)
    assert why["score"] == pytest.approx(relevance * math.prod(why["factors"].values()), abs=2e-3)
    assert (second["why"]["tags"], second["why"]["gains"]) == ([], {})
    assert list(second["why"]["factors"]) == ["priority", "recency"]
    assert re.fullmatch(
        r"why: 0\.40 x meaning 0\.\d{3} \+ 0\.60 x words 0\.\d{3}"
        r" \+ tags Apollo 0\.\d{3} = 0\.800 x tags 1\.\d{3} x priority 1\.100"
        r" x recency [01]\.\d{3} -> \d\.\d{3}; rrf 0\.\d{4}",
        line(result),
    )


async def test_a_title_of_another_tool_is_a_gain():
    async with memory_engine() as engine:
        await foreign(
            engine,
            "papers",
            {1: {"text": "notes on that", "title": "Harbour"}},
            vectors={"fast-bag-of-words": COSINE},
            sparse={"bm25": IDF},
            values=lambda _: {"fast-bag-of-words": dense("harbour notes")},
        )
        async with memory_server(engine=engine) as client:
            result = await find(client, "harbour", collections=["papers"])

    (found,) = result.structured_content["results"]
    assert found["why"]["words"] == 0.0
    # 0.4 * cos + 0.6 * 0.2, with cos = 1 / sqrt(2)
    assert found["relevance"] == pytest.approx(0.4 / math.sqrt(2) + 0.12, abs=1e-3)
    assert found["why"]["gains"] == {"title": 0.12}
    assert " + title 0.120 = 0.403 -> 0.403;" in line(result)


@pytest.mark.parametrize(("algorithm", "alpha"), [("semantic", 1.0), ("keyword", 0.0)])
async def test_one_leg_alone_has_all_of_the_share(algorithm, alpha):
    async with memory_server() as client:
        await store(client, "freeze and upload", tags=["upload"])
        result = await find(client, "upload", algorithm=algorithm)

    why = result.structured_content["results"][0]["why"]
    assert why["alpha"] == alpha
    assert why["tags"] == ([] if algorithm == "semantic" else ["upload"])


async def test_nothing_is_explained_unless_asked():
    async with memory_server() as client:
        await store(client, "freeze and upload", tags=["upload"])
        result = await find(client, "upload", explain=False)

    assert "why" not in result.structured_content["results"][0]
    assert "why:" not in said(result)
