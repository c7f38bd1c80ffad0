"""The command as a person calls it: what it prints, writes and returns."""

import json
from pathlib import Path

import pytest

from tests.e2e.raw import RawServer, run, settings_of

KEY, PARCEL = "The key is under the flower pot.", "Your parcel with the lamp is late."


@pytest.fixture
def queries(tmp_path: Path) -> str:
    """Labelled queries of the two notes that `fill` stores."""
    path = tmp_path / "queries.json"
    rows = [
        {"query": "key flower pot", "expect": {"ids": ["key"]}, "category": "plain"},
        {"query": "late parcel", "expect": {"tags": ["mail"]}, "category": "tags"},
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory, model_dir: Path, one_cache: Path) -> dict[str, str]:
    """The settings of a server that holds two notes."""
    folder = tmp_path_factory.mktemp("filled")
    env = settings_of(folder, model_dir, one_cache)
    server = RawServer(env, folder)
    for text, name, tag in ((KEY, "key", "house"), (PARCEL, "parcel", "mail")):
        server.call("qdrant-store", information=text, id=name, tags=[tag], collection_name="notes")
    assert server.close()[0] == 0
    return env


def test_the_tables_go_to_stdout_and_every_figure_to_the_json_file(filled, tmp_path, queries):
    out = tmp_path / "out.json"
    done = run(filled, "eval", "--queries", queries, "--json", str(out))
    told = json.loads(out.read_text("utf-8"))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 queries on notes\n")
    assert "\nkeyword " in done.stdout
    assert "missed" not in done.stdout
    assert list(told) == ["hybrid", "semantic", "keyword", "fuzzy"]
    assert told["keyword"]["mean"]["hit@1"] == told["keyword"]["queries"][1]["hit@1"] == 1
    assert told["keyword"]["queries"][0]["found"][0] == told["keyword"]["queries"][0]["expected"][0]
    assert set(told["hybrid"]["latency_ms"]) == {"p50", "p95"}
