"""The list of folders that agents have had the server follow."""

from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import SyncedFolder
from mcp_server_qdrant.core.errors import BackendError
from mcp_server_qdrant.ingest.files.followed import Followed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("work/notes", "work/plans", "private"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to(tmp_path / "private")
    (tmp_path / "desk").symlink_to(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("work", True),
        ("work/notes", True),
        ("desk/notes", True),
        ("work/link", False),
        ("work/../private", False),
        ("private", False),
        (".", False),
    ],
)
def test_folders_below_a_root_are_allowed_wherever_links_lead(root, folder, allowed):
    assert Followed(root / "list", [root / "desk"]).allows(root / folder) is allowed
    assert not Followed(root / "list", []).allows(root / folder)


def test_the_list_outlives_the_server_and_follows_the_roots(root):
    work, file = root / "work", root / "cache" / "list"
    Followed(file, [work]).keep(work / "notes", "notes")
    Followed(file, [work]).keep(work / "plans", "plans")
    both = Followed(file, [work]).folders()
    narrower = Followed(file, [work / "plans"]).folders()
    Followed(file, [work]).keep(work / "notes", None)

    assert both == [SyncedFolder(work / "notes", "notes"), SyncedFolder(work / "plans", "plans")]
    assert narrower == both[1:] == Followed(file, [work]).folders()


@pytest.mark.parametrize("text", ["", "[1]", '{"/x": 7}', "{"])
def test_a_list_that_is_damaged_is_empty(root, text):
    (root / "list").write_text(text)

    assert Followed(root / "list", [Path("/")]).folders() == []


def test_a_list_that_cannot_be_written_is_said_in_a_sentence(root):
    (root / "file").write_text("")

    with pytest.raises(BackendError, match="nothing was changed"):
        Followed(root / "file" / "list", [root]).keep(root / "work", "notes")
