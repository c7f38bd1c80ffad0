"""The command as a person calls it: what it prints, writes and returns."""

import json

from tests.e2e.raw import RawServer, run

NOTES = {
    "key": ("The key is under the flower pot.", "house"),
    "parcel": ("Your parcel with the lamp is late.", "mail"),
}
QUERIES = [
    {"query": "key flower pot", "expect": {"ids": ["key"]}, "category": "plain"},
    {"query": "late parcel", "expect": {"tags": ["mail"]}, "category": "tags"},
]


def test_the_tables_go_to_stdout_and_every_figure_to_the_json_file(env, tmp_path):
    server = RawServer(env, tmp_path)
    for name, (text, tag) in NOTES.items():
        server.call("qdrant-store", information=text, id=name, tags=[tag], collection_name="notes")
    assert server.close()[0] == 0
    queries, out = tmp_path / "queries.json", tmp_path / "out.json"
    queries.write_text(json.dumps(QUERIES), "utf-8")
    done = run(env, "eval", "--queries", queries, "--json", out)
    told = json.loads(out.read_text("utf-8"))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 queries on notes\n")
    assert "\nkeyword " in done.stdout
    assert "missed" not in done.stdout
    assert list(told) == ["hybrid", "semantic", "keyword", "fuzzy"]
    assert told["keyword"]["mean"]["hit@1"] == told["keyword"]["queries"][1]["hit@1"] == 1
    assert told["keyword"]["queries"][0]["found"][0] == told["keyword"]["queries"][0]["expected"][0]
    assert set(told["hybrid"]["latency_ms"]) == {"p50", "p95"}
