"""Files are replaced as a whole."""

import stat

import pytest

from mcp_server_qdrant.core.disk import write_atomically


def test_a_new_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "held"

    write_atomically(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "held"
    path.write_text("old")
    path.chmod(0o640)

    write_atomically(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_cannot_be_written_leaves_the_old_text_and_no_draft(tmp_path):
    path = tmp_path / "held"
    path.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
