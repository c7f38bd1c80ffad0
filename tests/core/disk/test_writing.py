"""Files are replaced as a whole."""

import os
import stat
import struct
import time
from pathlib import Path

import pytest

from mcp_server_qdrant.core import disk
from mcp_server_qdrant.core.disk import write_atomically


def test_a_new_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "held"

    write_atomically(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_is_on_the_disk_before_it_takes_the_place_of_another(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, Path.replace
    monkeypatch.setattr(disk.os, "fsync", lambda one: (done.append("fsync"), fsync(one)))
    monkeypatch.setattr(Path, "replace", lambda *how: (done.append("replace"), replace(*how)))

    write_atomically(tmp_path / "held", "new")

    assert done == ["fsync", "replace", "fsync"], "the folder's comes last"


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "held"
    path.write_text("old")
    path.chmod(0o640)

    write_atomically(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_is_replaced_keeps_owner_group_and_access_list(tmp_path):
    path = tmp_path / "held"
    path.write_text("old")
    os.chown(path, 12_345, 23_456)
    path.chmod(0o640)
    entries = [(1, 6, -1), (2, 4, 4_242), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, rights, who & 0xFFFFFFFF) for kind, rights, who in entries
    )
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError:
        acl = None  # a file system without such lists

    began = time.time_ns() - 10**9
    write_atomically(path, "new")

    found = path.stat()
    assert (found.st_uid, found.st_gid) == (12_345, 23_456)
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert acl is None or os.getxattr(path, "system.posix_acl_access") == acl
    assert found.st_mtime_ns > began


def test_a_file_whose_group_cannot_be_kept_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "held"
    path.write_text("old")
    was = path.stat()
    other = os.stat_result((*was[:5], was.st_gid + 1, *was[6:]))
    monkeypatch.setattr(type(path), "stat", lambda self: other if self == path else was)

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    with pytest.raises(PermissionError):
        write_atomically(path, "new")

    assert path.read_text() == "old"


def test_what_cannot_be_written_leaves_the_old_text_and_no_draft(tmp_path):
    path = tmp_path / "held"
    path.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
