"""Corrections as an agent makes them: scripts of calls on the real server, with the real model.

They run on the embedded engine, and on a Qdrant server where `QDRANT_TEST_URL` names one.
"""

import pytest

from tests.e2e.test_tending import Agent, agent, elsewhere, env, place
from tests.qdrant_server import EITHER_ENGINE

__all__ = ["agent", "env", "place"]
pytestmark = EITHER_ENGINE


@pytest.mark.parametrize(
    ("before", "now", "other"),
    [
        (
            "Billing uses SQLite.",
            "The billing database was moved to Postgres 16.",
            "The oak in the garden is old.",
        ),
        (
            "The payment term is 14 days.",
            "The payment term is 30 days now.",
            "The harbour office opens at eight.",
        ),
        (
            "Backups are kept for a week.",
            "Backups are kept for three months since the audit.",
            "Ana plays the cello.",
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


def test_stored_texts_are_linked_lifted_and_freed_by_a_deletion(agent: Agent, place: str) -> None:
    first = agent.store("Invoices go out on Mondays.", place, id="first")
    second = agent.store("Invoices go out on Wednesdays.", elsewhere(place), id="second")
    new = agent.store("Invoices go out on Fridays.", place, id="third")
    said, _ = agent.ask("store", id=new, supersedes=[first, second])
    linked = [one["superseded_by"] for one in agent.get(first, second)]
    lifted, _ = agent.ask("store", id=new, supersedes=[])
    free = [one.get("superseded_by") for one in agent.get(first, second)]
    agent.ask("store", id=new, supersedes=first)
    agent.ask("delete", ids=[new])
    (alone,) = agent.get(first)
    found = agent.find("when do invoices go out?", place)

    assert f"Superseded: id {first}, {second}." in said
    assert linked == [new, new]
    assert f"No longer superseded: id {first}, {second}." in lifted
    assert free == [None, None]
    assert "superseded_by" not in alone
    assert [one["id"] for one in found] == [first]
    assert "superseded_by" not in found[0]
    agent.printed -= {new}


def test_a_superseded_text_that_is_stored_again_stays_so_and_that_is_said(
    agent: Agent, place: str
) -> None:
    old = agent.store("The release is on Monday.", place)
    new = agent.store("The release is on Thursday.", place, supersedes=old)
    said, done = agent.ask("store", information="The release is on Monday.", collection_name=place)
    (still,) = agent.get(old)
    agent.ask("store", id=old, supersedes=new)
    back, gone = agent.get(old, new)

    assert done["superseded_by"] == still["superseded_by"] == new
    assert f"superseded by id {new}" in said
    assert "superseded_by" not in back
    assert gone["superseded_by"] == old


def test_a_text_that_was_changed_says_since_when_it_stands_so(agent: Agent, place: str) -> None:
    before = {"metadata": {"created_at": "2026-03-01"}}
    own = agent.store("The pump runs at 40 percent.", place, id="pump-speed", **before)
    quiet, _ = agent.ask("get", ids=[own])
    agent.store("The pump runs at 60 percent.", place, id="pump-speed")
    changed, _ = agent.ask("get", ids=[own])
    asked = {"query": "how fast does the pump run", "collections": [place]}
    found, _ = agent.ask("find", **asked)
    text, then = agent.ask("find", **asked, until="2026-05")
    (read,) = agent.get(then["results"][0]["id"])

    assert "earlier version" not in quiet
    assert "1 earlier version: versions=true lists them." in changed
    assert "unchanged since" in found.splitlines()[0]
    assert found.splitlines()[0].endswith(", 1 earlier version)")
    assert "as of 2026-05-31" in text.splitlines()[0]
    assert then["results"][0]["text"] == read["text"] == "The pump runs at 40 percent."


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
            "what database does billing use",
            [
                "Billing uses the database SQLite.",
                "Billing moved its database to Postgres 16.",
                "Decision: the database of billing is upgraded to Postgres 17.",
            ],
        ),
        (
            "what does deploy run on",
            [
                "The deploy runs on Jenkins.",
                "The deploy was switched from Jenkins to GitHub Actions.",
                "Deploys now run on Buildkite.",
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
