"""What an agent can ask for is in the list of tools: scripts of calls made from that alone."""

import json
import shlex
import time
from pathlib import Path

import pytest

from mcp_server_qdrant.hosting.reach import guess_path
from tests.e2e.raw import RawServer, end_service, text_of
from tests.qdrant_server import EITHER_ENGINE

pytestmark = [EITHER_ENGINE, pytest.mark.model(False)]


@pytest.fixture
def agent(env, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    server = RawServer(env, folder)
    yield server
    server.close()


def test_each_is_named_in_the_list_and_a_folder_is_followed_by_the_command_told(agent, tmp_path):
    tools = {one["name"]: one for one in agent.request("tools/list", {})["result"]["tools"]}
    listed = json.dumps(tools["qdrant-store"])

    for word in (
        "pinned",
        "open",
        "from the web",
        "project (or all)",
        "description",
        "folder",
        "follow",
        "restores",
    ):
        assert word in listed, word
    assert tools["qdrant-store"]["annotations"]["readOnlyHint"] is False
    assert tools["qdrant-collections"]["annotations"]["readOnlyHint"] is True
    about = {"folder": ".", "follow": True}
    told = agent.call("qdrant-store", collection_name="notes", about=about)
    command = told["structuredContent"]["command"]
    followed = f"{tmp_path}/work=notes"
    assert command in text_of(told)
    assert shlex.split(command) == ["mcp-server-qdrant", "init", "--folder", followed]


def test_a_collection_gets_a_description_and_a_folder(agent, tmp_path):
    about = {"description": "Letters since 2019", "folder": "."}
    told = agent.call("qdrant-store", collection_name="letters", about=about)
    listed = agent.call("qdrant-collections")["structuredContent"]["collections"]
    agent.call("qdrant-store", information="The mayor wrote about the crane.")
    found = agent.call("qdrant-find", query="mayor crane")["structuredContent"]["results"]
    second = {"folder": str(tmp_path)}
    both = text_of(agent.call("qdrant-store", collection_name="letters", about=second))
    taken = {"description": "", "folder": ""}
    gone = text_of(agent.call("qdrant-store", collection_name="letters", about=taken))
    again = agent.call("qdrant-collections")["structuredContent"]["collections"]

    assert told["structuredContent"]["folder"] == str(tmp_path / "work")
    assert both == f"Updated collection letters. It belongs to '{tmp_path}/work' and '{tmp_path}'."
    assert gone == "Updated collection letters. It has no description. It has no folder."
    assert [one["description"] for one in listed] == ["Letters since 2019"]
    assert [one["collection"] for one in found] == ["letters"]
    assert [one.get("description") for one in again] != ["Letters since 2019"]


REFUSED = [
    ({"about": {"describe": "x"}, "collection_name": "notes"}, "about takes description"),
    ({"about": {"folder": 7}, "collection_name": "notes"}, "about takes description"),
    ({"about": {"description": "x"}}, "about needs collection_name"),
    ({"about": {"folder": "nowhere"}, "collection_name": "notes"}, "is not a folder"),
    ({"about": {"follow": True}, "collection_name": "notes"}, "follow needs folder"),
    ({"about": {"description": "x"}, "information": "y"}, "store the text in a separate call"),
]


def test_a_folder_below_an_allowed_one_is_followed_until_the_agent_ends_it(env, tmp_path):
    work, private = tmp_path / "work", tmp_path / "private"
    for folder in (work, private):
        folder.mkdir()
        (folder / "crane.md").write_text(f"The crane of {folder.name} is blue.")

    def about(server, folder, **more):
        about = {"folder": str(folder), **more}
        return server.call("qdrant-store", collection_name="notes", about=about)

    def found(server):
        page = server.call("qdrant-find", query="which colour has the crane", collections=["*"])
        return text_of(page)

    def until(server, words):
        end = time.monotonic() + 120
        while words not in found(server):
            assert time.monotonic() < end

    env = env | {"QDRANT_FOLLOW_ROOTS": str(work)}
    server = RawServer(env, work)
    outside = about(server, private, follow=True)["structuredContent"]
    told = about(server, ".", follow=True)
    until(server, "crane of work is blue")
    server.close()
    end_service(Path(guess_path(env)).parent, Path(guess_path(env)).name)
    (work / "crane.md").write_text("The crane of work is red.")
    server = RawServer(env, work)
    until(server, "crane of work is red")
    ended = about(server, ".", follow=False)
    again = about(server, ".", follow=False)
    page = found(server)
    server.close()

    command = ["mcp-server-qdrant", "init", "--folder", f"{private}=notes"]
    assert shlex.split(outside["command"]) == command
    assert "private" not in page
    assert told["structuredContent"]["followed"] is True
    assert "follow=false ends that" in text_of(told)
    assert ended["structuredContent"]["followed"] is False
    assert "its texts stay" in text_of(ended)
    assert "crane of work is red" in page
    assert "--remove" in again["structuredContent"]["command"]


def test_what_cannot_be_said_of_a_collection_is_refused_and_makes_none(agent):
    for arguments, sentence in REFUSED:
        refused = agent.call("qdrant-store", **arguments)
        assert refused["isError"]
        assert sentence in text_of(refused)
    assert not agent.call("qdrant-collections")["structuredContent"]["collections"]
