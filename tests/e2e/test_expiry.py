"""A text that expires, over stdio: found until its end, then no more, and brought back."""

import time

from tests.e2e.raw import RawServer, text_of
from tests.qdrant_server import EITHER_ENGINE

pytestmark = EITHER_ENGINE

OFFER = "The ferry offers half price to students."
PATIENCE = 30.0  # seconds


def test_a_text_expires_while_the_server_runs_and_comes_back(env, tmp_path):
    server = RawServer(env, tmp_path)
    server.call("qdrant-store", information="The ferry leaves at noon.", collection_name="notes")
    done = server.call(
        "qdrant-store", information=OFFER, collection_name="notes", id="offer", expires="3 seconds"
    )
    end = done["structuredContent"]["expires_at"]
    assert f"Expires {end}" in text_of(done)

    asked = {"query": "ferry price for students"}
    until = time.monotonic() + PATIENCE
    while "half price" in text_of(server.call("qdrant-find", **asked)):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "half price" not in text_of(server.call("qdrant-find"))
    got = text_of(server.call("qdrant-get", ids=["offer"]))
    assert "half price" in got
    assert f"offer@{end}: qdrant-store with that id alone brings it back" in got

    back = text_of(server.call("qdrant-store", id=f"offer@{end}"))
    assert back.startswith("Brought back in collection notes")
    assert "half price" in text_of(server.call("qdrant-find", **asked))
    assert server.close()[0] == 0
