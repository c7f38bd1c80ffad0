"""That a model does not know a language is said where a text is stored, once, and by doctor."""

import json

from tests.e2e.raw import RawServer, run, text_of
from tests.qdrant_server import EITHER_ENGINE

pytestmark = EITHER_ENGINE

UNKNOWN = "all-minilm-l6-v2 does not know German"
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


def test_a_german_text_is_said_to_be_unknown_to_an_english_model(env, tmp_path):
    server = RawServer(env, tmp_path)
    try:
        answers = [
            text_of(server.call("qdrant-store", information=text))
            for text in (
                "Ana prefers no video calls before 10.",
                "Ana mag keine Videokonferenzen vor 10 Uhr",
                "Der Kran im Hafen wird erst im Mai wieder repariert.",
            )
        ]
    finally:
        server.close()
    done = run(env, "doctor", "--json", cwd=tmp_path)
    said = [one for one in json.loads(done.stdout) if one["check"] == "language"]

    assert [UNKNOWN in one for one in answers] == [False, True, False]
    assert f"upgrade --model {MULTILINGUAL} memory" in answers[1]
    assert [one["fix"] for one in said] == [
        f"mcp-server-qdrant upgrade --model {MULTILINGUAL} memory"
    ]
    assert said[0]["text"].startswith(f"memory: {UNKNOWN}")
