"""Points that vanish from the disk are missed by what an agent and an operator read."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from qdrant_client import models

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.e2e.raw import RawServer, ended, text_of
from tests.e2e.test_upkeep import run

pytestmark = pytest.mark.model(False)

FACTS = 12


async def elsewhere(folder: Path) -> None:
    """Make a collection whose vectors are of their own: no file is shared with others."""
    client = await EdgeClient.open(folder)
    vector = models.VectorParams(size=384, distance=models.Distance.COSINE)
    await client.create_collection("songs", {"fast-all-minilm-l6-v2": vector})
    await client.close()


def stored(env: dict[str, str], cwd: Path) -> RawServer:
    """A server that was told some facts, and has another collection, which shares no file."""
    asyncio.run(elsewhere(Path(env["QDRANT_LOCAL_PATH"])))
    server = RawServer(env, cwd)
    for number in range(FACTS):
        text = f"Fact {number}: the boat is moored at pier {number}."
        server.call("qdrant-store", information=text, collection_name="facts", create=True)
    server.call("qdrant-store", information="A boat song.", collection_name="songs")
    return server


def lose(folder: Path) -> None:
    """End the service, so that its log has no fact any more, and delete a part of the facts."""
    with ended(folder):
        facts = json.loads((folder / "collections" / "c-facts.json").read_text())
        segments = [*(folder / "spaces" / facts["space"]).glob("g-*/segments/*")]
        assert segments
        for segment in segments:
            shutil.rmtree(segment)


def search(server: RawServer) -> dict:
    return server.call("qdrant-find", query="boat", collections=["*"])


@pytest.mark.model(True)
def test_a_lost_segment_is_told_by_every_answer_until_it_is_accepted(env, tmp_path):
    folder = Path(env["QDRANT_LOCAL_PATH"])
    server = stored(env, tmp_path)
    whole = search(server)
    lose(folder)
    found = search(server)
    listed = server.call("qdrant-collections")
    again = search(server)
    _, log = server.close()

    assert "collections" not in whole["structuredContent"]
    states = found["structuredContent"]["collections"]
    missing = int(text_of(found).partition("Note: facts: ")[2].split()[0])
    sentence = f"{missing} of its {FACTS} points are missing on the disk."
    assert missing >= FACTS - 1, "one may be in the log yet"
    assert states["facts"].startswith(f"degraded: {sentence}")
    assert "songs" not in states
    assert "A boat song." in text_of(found)
    assert sentence in text_of(listed)
    assert again["structuredContent"]["collections"] == states
    assert log.count(sentence) == 1
    told = (folder / "service.log").read_text()
    assert re.findall(r"missing on the disk: \{'\w+': (\d+)\}", told) == [str(missing)]

    code, out, _ = run(env, "accept-loss", "facts", "songs")
    left = FACTS - missing
    points = "1 point" if left == 1 else f"{left} points"
    assert (code, out.splitlines()) == (
        0,
        [
            f"facts: continues with {points}, without the {missing} that are missing.",
            "songs: no points are missing; it has 1.",
        ],
    )
    server = RawServer(env, tmp_path)
    assert "collections" not in search(server)["structuredContent"]
    assert "missing" not in text_of(server.call("qdrant-collections"))
    server.close()
