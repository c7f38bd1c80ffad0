"""Tasks of an agent that tends a memory, each a script of calls on the real server.

After each the text and the structured content are what an agent needs for its next step. They run
on the embedded engine, and on a Qdrant server where `QDRANT_TEST_URL` names one.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.raw import RawServer, settings_on, text_of
from tests.qdrant_server import EITHER_ENGINE

pytestmark = EITHER_ENGINE
PRINTED = re.compile(r"\bid (?!(?:as|in)\b)([\w./:-]*\w)")  # ids as answers print them


class Agent:
    """One client program, with a name of its own."""

    def __init__(self, env: dict[str, str], folder: Path, name: str) -> None:
        self.server = RawServer(env, folder, name=name)
        self.printed: set[str] = set()

    def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str, dict[str, Any]]:
        result = self.server.call(f"qdrant-{tool}", **arguments)
        return bool(result.get("isError")), text_of(result), result.get("structuredContent", {})

    def ask(self, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """The text and the data of a call that succeeds."""
        failed, text, data = self._call(tool, arguments)
        assert not failed, text
        own = [line for line in text.splitlines() if not line.startswith(">")]
        if tool in ("find", "store"):
            self.printed |= set(PRINTED.findall("\n".join(own)))
        return text, data

    def store(self, text: str | None, place: str, **arguments: Any) -> str:
        """Store a text; its id."""
        given = {"information": text} if text is not None else {}
        _, data = self.ask("store", **given, collection_name=place, **arguments)
        return data["id"]

    def find(self, query: str, place: str, **arguments: Any) -> list[dict[str, Any]]:
        return self.ask("find", query=query, collections=[place], **arguments)[1]["results"]

    def get(self, *ids: str, **arguments: Any) -> list[dict[str, Any]]:
        return self.ask("get", ids=list(ids), **arguments)[1]["documents"]


@pytest.fixture(scope="module")
def env(
    engine_kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    model_dir: Path,
    one_cache: Path,
) -> Iterator[dict[str, str]]:
    with settings_on(
        engine_kind, tmp_path_factory.mktemp("tending"), model_dir, one_cache
    ) as given:
        yield given


@pytest.fixture(scope="module")
def agent(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """After the tasks none of the ids in the answers to it is unknown."""
    one = Agent(env, tmp_path_factory.mktemp("agent"), "claude-code")
    with closing(one.server):
        yield one
        if one.printed:
            _, got = one.ask("get", ids=sorted(one.printed)[:50], size=60_000)
            assert got["missing"] == []


@pytest.fixture
def place() -> str:
    """A collection that no other task has: its letters tell it from near names."""
    return f"task-{uuid4().hex}"


def test_a_text_of_another_program_or_from_the_web_is_said_to_be(agent, env, place, tmp_path):
    other = Agent(env, tmp_path, "cursor")
    theirs = other.store("The staging password rotates monthly.", place)
    page = {"url": "https://example.org/rotation"}
    web = agent.store("Passwords should rotate rarely, says a page.", place, metadata=page)
    own = other.find("rotating passwords", place)
    text, found = agent.ask("find", query="rotating passwords", collections=[place])
    only = {"must": [{"key": "stored_by.client", "match": {"value": "cursor"}}]}
    filtered = agent.find("rotating passwords", place, query_filter=only)
    end, told = time.monotonic() + 30, {"collections": []}
    while not told["collections"] and time.monotonic() < end:  # names are two seconds old
        listed, told = agent.ask("collections", pattern=place)
    other.server.close()

    by_id = {one["id"]: one for one in found["results"]}
    heads = [line for line in text.splitlines() if re.match(r"\d\. ", line)]
    assert any(f"id {theirs}" in head and "stored with cursor" in head for head in heads)
    assert any(f"id {web}" in head and "from the web: " in head for head in heads)
    assert by_id[theirs]["stored_by"]["client"] == "cursor"
    assert "stored_by" not in by_id[web]
    assert "stored_by" not in next(one for one in own if one["id"] == theirs)
    assert [one["id"] for one in filtered] == [theirs]
    assert "by " in listed
    assert sorted(told["collections"][0]["stored_by"]) == ["claude-code", "cursor"]


@pytest.mark.parametrize(
    ("before", "now", "other"),
    [
        (
            "Billing uses SQLite.",
            "The billing database was moved to Postgres 16.",
            "The oak in the garden is old.",
        ),
        (
            "Backups are kept for a week.",
            "Backups are kept for three months since the audit.",
            "Ana plays the cello.",
        ),
        (
            "Our office is at Lindenweg 4.",
            "Our office is at Hafenstrasse 22.",
            "The rent is due on the third.",
        ),
    ],
)
def test_a_text_that_says_otherwise_names_what_it_may_correct(
    agent: Agent, place: str, before: str, now: str, other: str
) -> None:
    old = agent.store(before, place)
    text, unrelated = agent.ask("store", information=other, collection_name=place)
    told, done = agent.ask("store", information=now, collection_name=place)

    assert "near" not in unrelated, text
    assert old in [one["id"] for one in done["near"]]
    assert f"id {old}" in told


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "what database does billing use",
            [
                "Billing uses SQLite.",
                "The billing database was moved to Postgres 16.",
                "Billing database: upgraded to Postgres 17.",
            ],
        ),
        (
            "which CI do we use",
            [
                "CI runs on Jenkins.",
                "We migrated CI to GitHub Actions.",
                "CI is on Buildkite now.",
            ],
        ),
        (
            "what is my favourite tea",
            [
                "My favourite tea is Earl Grey.",
                "My favourite tea is Lapsang Souchong.",
                "My favourite tea is Darjeeling.",
            ],
        ),
        (
            "Was trinke ich morgens?",
            [
                "Ich trinke morgens Kaffee.",
                "Ich trinke morgens jetzt grünen Tee.",
                "Statt Tee trinke ich morgens nur noch Wasser.",
            ],
        ),
    ],
)
def test_what_is_newer_and_says_otherwise_comes_first_and_is_marked(
    agent: Agent, place: str, query: str, said: list[str]
) -> None:
    for text in said:
        agent.store(text, place)
    found = agent.find(query, place)

    assert [one["text"] for one in found] == said[::-1]
    assert [one["in_time"] for one in found] == ["newest of 3", "older", "older"]


@pytest.mark.parametrize(
    ("query", "said", "near"),
    [
        (
            "what is the wifi password of the office",
            "The wifi password of the office is tulip.",
            "The wifi of the office is slow in the afternoon.",
        ),
        (
            "who leads the design team",
            "Nora leads the design team.",
            "The design team meets in the blue room.",
        ),
    ],
)
def test_what_is_newer_and_only_on_the_same_topic_stays_behind(
    agent: Agent, place: str, query: str, said: str, near: str
) -> None:
    for text in (said, near):
        agent.store(text, place)
    found = agent.find(query, place)

    assert [one["text"] for one in found] == [said, near]
    assert "in_time" not in found[0]
