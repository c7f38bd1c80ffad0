"""What `upgrade` and `copy` say and refuse; tests/e2e/test_upkeep.py kills them."""

import asyncio

import pytest

from mcp_server_qdrant.cli.upkeep import (
    describe_export,
    describe_loss,
    describe_rebuild,
    describe_upgrade,
)
from mcp_server_qdrant.ingest.collections.export import Exported
from mcp_server_qdrant.ingest.collections.upgrade import Upgraded
from tests.e2e.test_loss import ended
from tests.local_mode import leave


@pytest.mark.parametrize(
    ("done", "model", "sentence"),
    [
        (Upgraded("n", "bm25", 0, 0), None, "n: all points already have BM25 vectors."),
        (Upgraded("n", "bm25", 1234, 0), None, "n: added BM25 vectors to 1,234 points."),
        (
            Upgraded("n", "bm25", 5, 2),
            None,
            "n: added BM25 vectors to 5 points. 2 points without a text left out.",
        ),
        (
            Upgraded("n", "fast-new", 5, 0, kept=("fast-old", "")),
            "org/New",
            "n: added the vectors of org/New to 5 points. Kept for other programs: fast-old, "
            "(unnamed); --drop-old removes old vectors.",
        ),
        (
            Upgraded("n", "fast-new", 0, 1, dropped=("fast-old", "")),
            "org/New",
            "n: all points already have the vectors of org/New. 1 point without a text left out. "
            "Removed: fast-old, (unnamed).",
        ),
    ],
)
def test_an_upgrade_is_told_in_sentences(done, model, sentence):
    assert describe_upgrade(done, model) == sentence


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (describe_loss("n", 0, 9), "n: no points are missing; it has 9."),
        (describe_loss("n", 9, 5), "n: continues with 5 points, without the 9 that are missing."),
        (describe_rebuild("n", 1234, 0), "n: 1,234 points, none is lost."),
        (describe_rebuild("n", 1, 1), "n: 1 point, 1 is lost."),
        (describe_rebuild("n", 0, 1234), "n: 0 points, 1,234 are lost."),
        (describe_export("n", Exported(1, 1)), "n: 1 text in 1 file."),
        (
            describe_export("n", Exported(1234, 2, textless=1, torn=2)),
            "n: 1,234 texts in 2 files. 1 point without a text left out. 2 texts incomplete: parts "
            "are missing in the collection.",
        ),
    ],
)
def test_a_loss_a_rebuild_and_an_export_are_told_in_sentences(said, sentence):
    assert said == sentence


@pytest.fixture
def run(invoke, tmp_path):
    """Runs a command on an engine's folder; its status, output and errors."""

    def run(*arguments: str, **settings: str) -> tuple[int, str, str]:
        done = invoke(*arguments, **{"QDRANT_LOCAL_PATH": str(tmp_path / "engine")} | settings)
        return done.exit_code, done.stdout, done.stderr

    return run


def test_wrong_requests_end_with_2_and_one_sentence(run, tmp_path):
    for arguments, sentence in (
        (("upgrade", "nowhere"), "There is no collection 'nowhere'."),
        (("upgrade", "--", "-nowhere"), "There is no collection '-nowhere'."),
        (("copy", "notes", "--from", str(tmp_path / "nowhere")), "no engine uses this folder."),
        (("copy", "notes"), "--from and --to must differ: name another"),
        (
            ("copy", "notes", "--to", str(tmp_path / "engine")),
            "--from and --to must differ: name another",
        ),
        (("upgrade", "notes", "--drop-old"), "--drop-old needs --model."),
        (("upgrade",), "Missing argument"),
        (("describe", "notes"), "Give a text, --folder or --expires."),
        (("describe", "notes", "--folder", str(tmp_path / "no")), "no is not a folder."),
        (("init", "--client", "vscode", "--recall", "--yes"), "--recall needs --client claude"),
        (("accept-loss", "nowhere"), "There is no collection 'nowhere'."),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), err
        assert sentence in err.splitlines()[-1]


def test_the_allow_list_holds_for_commands_too(run, tmp_path):
    asyncio.run(leave(tmp_path / "official"))
    assert run("copy", "notes", "--from", str(tmp_path / "official"))[0] == 0

    code, _, err = run("upgrade", "notes", QDRANT_COLLECTIONS="other*")

    assert code == 2
    assert "QDRANT_COLLECTIONS" in err

    assert run("accept-loss", "notes", QDRANT_COLLECTIONS="other*")[0] == 2
    assert run("describe", "notes", "Facts of all kinds")[:2] == (0, "notes: described.\n")
    code, _, err = run("describe", "zzz", "moss")

    assert (code, err.split("zzz")[1]) == (2, "'. Did you mean 'notes'?\n")


def test_a_collection_without_keywords_is_a_finding_and_a_backup_is_not_replaced_unasked(
    run, tmp_path
):
    asyncio.run(leave(tmp_path / "official"))
    assert run("copy", "notes", "--from", str(tmp_path / "official"))[0] == 0
    _, found, _ = run("doctor", QDRANT_SHARE_PROCESS="false")
    saved = str(tmp_path / "saved")
    codes = [run("backup", saved, *more)[0] for more in ((), (), ("--overwrite",))]

    assert "-> mcp-server-qdrant upgrade notes\n" in found
    assert codes == [0, 2, 0]


def test_read_only_holds_for_commands_too(run, tmp_path):
    asyncio.run(leave(tmp_path / "official"))
    for arguments in (
        ("upgrade", "notes"),
        ("rebuild",),
        ("accept-loss", "notes"),
        ("restore", str(tmp_path)),
        ("copy", "notes", "--from", str(tmp_path / "official")),
    ):
        code, out, err = run(*arguments, QDRANT_READ_ONLY="true")
        assert (code, out) == (2, "")
        assert "QDRANT_READ_ONLY is set" in err


def test_an_export_needs_no_permission_to_write_and_respects_the_allow_list(run, tmp_path):
    asyncio.run(leave(tmp_path / "official"))
    assert run("copy", "notes", "--from", str(tmp_path / "official"))[0] == 0

    code, out, _ = run("export", "notes", "out", QDRANT_READ_ONLY="true")
    assert (code, out) == (0, "notes: 40 texts in 40 files.\n")
    assert len([*(tmp_path / "out").glob("*.md")]) == 40
    code, out, err = run("export", "notes", "out", "--format", "jsonl")
    assert (code, out) == (2, "")
    assert "out holds an export: name another folder, or pass --overwrite" in err
    code, out, _ = run("export", "notes", "out", "--format", "jsonl", "--overwrite")
    assert (code, out) == (0, "notes: 40 texts in 1 file.\n")
    code, _, err = run("export", "notes", "other", QDRANT_COLLECTIONS="other*")
    assert (code, "'notes' is not among QDRANT_COLLECTIONS." in err) == (2, True)
    code, _, err = run("export", "zzz", "other")
    assert (code, err.split("zzz")[1]) == (2, "'. Did you mean 'notes'?\n")
    assert not (tmp_path / "other").exists()


def test_only_the_embedded_engine_is_rebuilt(run):
    code, out, err = run("rebuild", QDRANT_URL="http://127.0.0.1:9", QDRANT_LOCAL_PATH="")

    assert (code, out) == (2, "")
    assert "QDRANT_URL names a server" in err


def test_a_damaged_store_is_rebuilt_as_doctor_advises(run, tmp_path):
    folder = tmp_path / "engine"
    asyncio.run(leave(tmp_path / "official"))
    assert run("copy", "notes", "--from", str(tmp_path / "official"))[0] == 0
    with ended(folder):
        (config,) = folder.glob("spaces/*/g-*/segments/*/payload_storage/config.json")
        config.write_text("{")

    alone = {"EMBEDDING_PROVIDER": "none", "QDRANT_SHARE_PROCESS": "false"}
    code, out, _ = run("doctor", **alone)
    assert (code, out.count("-> mcp-server-qdrant rebuild\n")) == (1, 1)
    assert "notes" in out
    assert run("rebuild") == (
        0,
        "notes: 40 points, none is lost.\n"
        f"The damaged files are kept in {folder / 'damaged'}: delete them when you are sure that "
        "nothing is missing.\n",
        "",
    )
    assert len([*(folder / "damaged").iterdir()]) == 1
    assert run("rebuild", QDRANT_COLLECTIONS="other*")[1].startswith("The damaged files")
    assert "-> mcp-server-qdrant rebuild" not in run("doctor", **alone)[1]
