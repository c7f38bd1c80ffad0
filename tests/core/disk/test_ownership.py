"""A file that others could have written is told from one's own."""

import os
import sys

import pytest

from mcp_server_qdrant.core.disk import others_may_write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own" / "settings"
    path.parent.mkdir(mode=0o700)
    path.write_text("X=1")
    path.chmod(0o600)
    return path


def test_a_file_of_ones_own_is_trusted(file):
    assert others_may_write(file) is None


@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_others_may_read_it(file, mode):
    file.chmod(mode)

    assert others_may_write(file) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_trusted(file, mode):
    file.chmod(mode)

    assert others_may_write(file) == f"others can write to it: run chmod go-w {file}"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_nor_is_one_in_a_folder_where_others_may_put_another_in_its_place(file, mode):
    file.parent.chmod(mode)

    assert others_may_write(file) == (
        f"others can write to its folder: run chmod go-w {file.parent}"
    )


def test_in_a_folder_like_tmp_nobody_can_replace_it(file):
    file.parent.chmod(0o1777)

    assert others_may_write(file) is None


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_belongs_to_another_user_is_not_trusted(file, which):
    os.chown(file if which == "file" else file.parent, 12_345, 12_345)

    called = "it" if which == "file" else "its folder"
    assert others_may_write(file) == (
        f"{called} belongs to another user: change its owner with chown"
    )


def test_of_a_link_both_ends_count(file, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    link = shared / "link"
    link.symlink_to(file)
    assert others_may_write(link) is None

    shared.chmod(0o777)
    assert "its folder" in others_may_write(link)

    shared.chmod(0o755)
    file.chmod(0o666)
    assert "to it" in others_may_write(link)


def test_what_is_mounted_read_only_nobody_here_can_write(file, monkeypatch):
    file.chmod(0o666)
    found = list(os.statvfs(file))
    found[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))

    assert others_may_write(file) is None


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        others_may_write(tmp_path / "none")
