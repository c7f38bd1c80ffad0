"""Edits as an agent makes them: scripts of calls on the real server, with the real model.

They run on the embedded engine, and on a Qdrant server where `QDRANT_TEST_URL` names one.
"""

from tests.e2e.raw import text_of
from tests.e2e.test_tending import Agent, agent, env, place
from tests.qdrant_server import EITHER_ENGINE

__all__ = ["agent", "env", "place"]
pytestmark = EITHER_ENGINE

RUNBOOK = "# Runbook\n\n" + "\n\n".join(
    f"## Step {n}\n\nOpen valve {n} of the cooling loop, wait {n} minutes, and write the pressure "
    f"of gauge {n} into the log of the harbour office before anything else is touched."
    for n in range(1, 60)
)


def test_a_long_text_is_added_to_and_corrected_without_being_sent(agent: Agent, place: str) -> None:
    own = agent.store(RUNBOOK, place, id="runbook")
    edit = {"append": "## After that\n\nThe night watch gets the brass key."}
    said, first = agent.ask("store", id=own, edit=edit)
    edit = {"replace": "wait 7\n minutes", "with": "wait for a quarter of an hour"}
    agent.ask("store", id=own, edit=edit)
    edit = {"section": "Runbook > Step 30", "with": "Valve 30 was removed."}
    agent.ask("store", id=own, edit=edit, tags=["cooling"])
    (now,) = agent.get(own, size=60_000)
    found = agent.find("who gets the brass key?", place)
    agent.ask("store", id=first["before"])
    (back,) = agent.get(own, size=60_000)

    assert "Changed: lines" in said
    assert now["text"].endswith("The night watch gets the brass key.")
    assert "wait for a quarter of an hour, and" in now["text"]
    assert "## Step 30\n\nValve 30 was removed.\n\n## Step 31" in now["text"]
    assert now["tags"] == ["cooling"]
    assert "brass key" in found[0]["text"]
    assert back["text"] == RUNBOOK


def test_an_edit_that_is_not_clear_names_the_places(agent: Agent, place: str) -> None:
    own = agent.store("# Crane\n\nIt lifts 40 t.\n\n# Ferry\n\nIt carries 40 t.", place)
    for edit, words in (
        ({"replace": "40 t", "with": "50 t"}, ("2 times", "line 3", "line 7")),
        ({"section": "Boat", "with": "x"}, ("Crane", "Ferry")),
        ({"replace": "It lifted 40 tons", "with": "x"}, ("nearest", "line 3")),
    ):
        answer = agent.server.call("qdrant-store", id=own, edit=edit)
        assert answer["isError"]
        assert all(word in text_of(answer) for word in words), text_of(answer)
