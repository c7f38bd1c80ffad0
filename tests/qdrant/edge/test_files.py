"""Trees of files, also while the engine renames some."""

import sys
from pathlib import Path

import pytest

from mcp_server_qdrant.qdrant.edge import files
from mcp_server_qdrant.qdrant.edge.files import allocated, copy_sparse, read_ahead, sync_tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with a file that the engine renames as soon as the tree has been listed."""
    log = tmp_path / "log"
    (log / "sub").mkdir(parents=True)
    (log / "open-1").write_bytes(b"entry" * 1000)
    (log / "sub" / "tmp-open-2").write_bytes(b"entry" * 2000)
    listed = Path.rglob

    def renaming(path: Path, pattern: str):
        found = [*listed(path, pattern)]
        late = log / "sub" / "tmp-open-2"
        if late.exists():
            late.rename(log / "sub" / "open-2")
        return found

    monkeypatch.setattr(Path, "rglob", renaming)
    return log


def test_a_copy_has_a_file_that_is_renamed_meanwhile(tree, tmp_path):
    copy_sparse(tree, tmp_path / "copy")

    copied = {path.name: path.stat().st_size for path in (tmp_path / "copy").glob("**/*-*")}
    assert copied == {"open-1": 5_000, "open-2": 10_000}


def test_a_sync_and_a_count_of_bytes_bear_a_file_that_is_renamed_meanwhile(tree):
    sync_tree(tree)

    (tree / "sub" / "open-2").rename(tree / "sub" / "tmp-open-2")
    assert allocated(tree) >= 15_000


def test_a_sync_of_a_tree_that_is_gone_fails(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync_tree(tmp_path / "none")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is needed")
def test_files_are_read_ahead_from_the_smallest_up_to_a_limit(tmp_path, monkeypatch):
    (tmp_path / "segment").mkdir()
    (tmp_path / "segment" / "codes").write_bytes(bytes(3 << 20))
    (tmp_path / "segment" / "vectors").write_bytes(bytes(90 << 20))
    monkeypatch.setattr(files, "_READ_AHEAD", 10 << 20)

    before = _bytes_read()
    read_ahead(tmp_path).join()

    assert 3 << 20 <= _bytes_read() - before < 90 << 20


def test_a_tree_that_is_gone_is_not_read_ahead(tmp_path):
    read_ahead(tmp_path / "none").join()


def _bytes_read() -> int:
    counts = Path("/proc/self/io").read_text(encoding="ascii").split()
    return int(counts[counts.index("rchar:") + 1])
