"""A file that others could have written is told from one's own."""

import os
import sys
from itertools import product

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


IT = "others can write to it: run chmod go-w {file}"
FOLDER = "others can write to its folder: run chmod go-w {folder}"


@pytest.mark.parametrize(
    ("modes", "folders", "fault"),
    [
        ([0o600, 0o644, 0o444], [0o700], None),
        ([0o620, 0o602, 0o666], [0o700], IT),
        ([0o600], [0o770, 0o707, 0o777], FOLDER),
        ([0o600], [0o1777], None),  # as of /tmp, where nobody can replace it
    ],
)
def test_a_file_is_trusted_where_nobody_else_can_write_or_replace_it(file, modes, folders, fault):
    told = fault and fault.format(file=file, folder=file.parent)
    for mode, folder in product(modes, folders):
        file.chmod(mode)
        file.parent.chmod(folder)

        assert others_may_write(file) == told, (oct(mode), oct(folder))


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
