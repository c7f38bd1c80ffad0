"""Which files are found below a path."""

import contextlib
import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.disk import NO_FILE, OUTSIDE
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.files.walk import Seen, Source, sources, walk_all
from tests.made_secrets import KEYS


def put(folder: Path, *places: str, text: str = "text") -> None:
    for place in places:
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def walk(folder: Path, **selection: Any) -> Seen:
    return walk_all([Source("notes", folder, folder=True)], Selection(**selection))


def found(folder: Path, **selection: Any) -> list[str]:
    """What is found below a folder, without its name."""
    return [one.path.removeprefix("notes/") for one in walk(folder, **selection).files]


def problems(folder: Path, **selection: Any) -> dict[str, str]:
    seen = walk(folder, **selection).problems
    return {one.path.removeprefix("notes/"): one.reason for one in seen}


def test_files_are_found_in_the_same_order_whoever_made_them_first(tmp_path):
    put(tmp_path, "b.md", "a/z.md", "a/b/c.md", "a.md", "C.md")

    assert found(tmp_path) == ["C.md", "a.md", "b.md", "a/z.md", "a/b/c.md"]


def test_a_file_is_told_of_with_its_size_and_time(tmp_path):
    put(tmp_path, "sub/a.md", text="four")
    os.utime(tmp_path / "sub/a.md", ns=(5, 1_700_000_000_123_456_789))

    (one,) = walk(tmp_path).files

    assert (one.source, one.path) == ("notes", "notes/sub/a.md")
    assert one.stamp == (4, 1_700_000_000_123_456_789)


def test_names_are_without_secrets_and_one_that_is_told_apart_by_one_is_a_problem(tmp_path):
    key, other = KEYS["GitHub"], "ghp_" + "b1" * 18
    put(tmp_path, f"{key}.md", f"{key[:-1]}9/password=hunter22.pdf", "z/notes-2026.md")
    put(tmp_path, f"{other}.md")

    assert found(tmp_path) == ["[masked].md", "[masked]/password=[masked].pdf", "z/notes-2026.md"]
    assert problems(tmp_path) == {"[masked].md": "another file has this name without secrets"}
    assert [one.name for one in sources([tmp_path / f"{key[:-1]}9"])] == ["[masked]"]


IGNORED = {  # (files, rules of each folder, the folder that is walked, what is found)
    "hidden files, and what tools leave behind, are left out": (
        ".env .git/config node_modules/x.js a/__pycache__/x.pyc a/x.py",
        {},
        "",
        ["a/x.py"],
    ),
    "those of the repository around hold": (
        "docs/x.md docs/y.log .git/HEAD",
        {"": "*.log"},
        "docs",
        ["x.md"],
    ),
    "without a repository those around mean nothing": (
        "docs/y.log",
        {"": "*.log"},
        "docs",
        ["y.log"],
    ),
    "an ignored folder that is named is wanted": (
        "build/x.md .git/HEAD",
        {"": "build/"},
        "build",
        ["x.md"],
    ),
}


@pytest.mark.parametrize(("files", "rules", "walked", "left"), IGNORED.values(), ids=IGNORED)
def test_what_is_ignored_is_left_out(files, rules, walked, left, tmp_path):
    put(tmp_path, *files.split())
    for folder, text in rules.items():
        put(tmp_path / folder, ".gitignore", text=text)

    assert found(tmp_path / walked) == left


def test_only_what_is_included_and_not_excluded_is_wanted(tmp_path):
    put(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/old/d.md")

    assert found(tmp_path, include=("*.md",)) == ["a.md", "docs/c.md", "docs/old/d.md"]
    assert found(tmp_path, include=("/docs/",)) == ["docs/c.md", "docs/old/d.md"]
    assert found(tmp_path, exclude=("old/", "*.txt")) == ["a.md", "docs/c.md"]
    assert found(tmp_path, include=("*.md",), exclude=("docs",)) == ["a.md"]


def test_what_is_no_file_is_told_of_by_name(tmp_path):
    put(tmp_path, "a.md", "sub/b.md")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nothing").symlink_to("gone.md")
    (tmp_path / "folder").symlink_to("sub", target_is_directory=True)
    (tmp_path / "linked.md").symlink_to("a.md")
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x")

    assert problems(tmp_path) == {
        "loop": "cannot be read: Too many levels of symbolic links",
        "nothing": "cannot be read: No such file or directory",
        "folder": "is a link to a folder, which is not followed",
        "pipe": "is not a regular file",
        "?.md": "its name is not UTF-8",
    }
    assert found(tmp_path) == ["a.md", "linked.md", "sub/b.md"]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """As a user whom modes of files hold for; root may read all."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such modes")
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_folder_that_may_not_be_read_is_named_and_the_rest_is_found(mode):
    with tempfile.TemporaryDirectory() as made:
        (folder := Path(made)).chmod(0o755)
        put(folder, "a.md", "sub/b.md", "sub/deep/c.md", "z/d.md")
        (folder / "sub" / "link.md").symlink_to("b.md")
        (folder / "sub").chmod(mode)
        with as_nobody():
            seen = walk(folder)
        (folder / "sub").chmod(0o755)

    below = ["notes/sub/b.md", "notes/sub/link.md", "notes/sub/deep/"] if mode else ["notes/sub/"]
    assert [one.path for one in seen.files] == ["notes/a.md", "notes/z/d.md"]
    assert [one.path for one in seen.problems] == below
    assert {one.reason.rpartition(": ")[2] for one in seen.problems} == {"Permission denied"}
    assert [one.path for one in seen.problems if not one.kept] == []
    assert seen.unseen == below[-1:]
    assert [one.name for one in seen.folders[1:]] == (["sub", "z"] if mode else ["z"])


def test_a_folder_that_cannot_be_looked_into_is_unseen(tmp_path):
    seen = walk(tmp_path / "gone")

    assert seen.unseen == ["notes/"]
    assert [one.kept for one in seen.problems] == [True]


def test_one_name_spelt_in_two_ways_is_taken_once(tmp_path):
    for form in ("NFC", "NFD"):
        put(tmp_path, unicodedata.normalize(form, "é.md"))
    assert found(tmp_path) == [unicodedata.normalize("NFC", "é.md")]
    assert not problems(tmp_path)


def test_a_path_is_named_after_its_folder_or_as_given(tmp_path, monkeypatch):
    put(tmp_path, "docs/a.md", "docs/b.md")
    monkeypatch.chdir(tmp_path / "docs")
    named = sources([Path("a.md"), Path("b.md")])

    assert [one.only for one in named] == ["docs/a.md", "docs/b.md"]
    assert [one.path for one in walk_all(named, Selection()).files] == ["docs/a.md", "docs/b.md"]
    assert [sources([Path()], name)[0].name for name in (None, "manual")] == ["docs", "manual"]


@pytest.mark.parametrize(
    ("paths", "name", "sentence"),
    [
        (["none"], None, "none does not exist"),
        (["loop"], None, "loop does not exist or is not accessible"),
        (["a/docs", "b/docs"], None, "Two of the paths are named 'docs'"),
        (["a", "b"], "x", "one path at a time"),
        (["a"], "x/y", "must not contain a slash"),
    ],
)
def test_paths_that_cannot_be_told_apart_are_refused(paths, name, sentence, tmp_path):
    put(tmp_path, "a/docs/x.md", "b/docs/x.md")
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(RequestError, match=sentence):
        sources([tmp_path / path for path in paths], name)
    assert len(sources([tmp_path, tmp_path])) == 1, "the same path twice is one"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder with links of every kind that lead out of it, and some that do not."""
    folder = tmp_path / "notes"
    put(tmp_path, "secret/key.md", "secret/deep/more.md", "notes/sub/a.md")
    for name, target in {
        "key.md": "../secret/key.md",
        "absolute.md": str(tmp_path / "secret" / "key.md"),
        "dots.md": "sub/../../secret/key.md",
        "second.md": "key.md",
        "zero.md": "/dev/zero",
        "folder": "../secret",
        "all": "..",
        "root": "/",
        "sub/key.md": "../../secret/key.md",
        "inside.md": "sub/a.md",
        "inside": "sub",
        "here": ".",
    }.items():
        (folder / name).symlink_to(target)
    return folder


OUT = ["key.md", "absolute.md", "dots.md", "second.md", "zero.md", "folder", "all", "root"]


def test_links_out_of_the_folder_are_left_out_and_named(linked):
    assert found(linked) == ["inside.md", "sub/a.md"]
    assert problems(linked) == dict.fromkeys([*OUT, "sub/key.md"], OUTSIDE) | dict.fromkeys(
        ["inside", "here"], "is a link to a folder, which is not followed"
    )


def test_to_include_a_link_does_not_follow_it(linked):
    assert found(linked, include=("key.md", "/folder/", "folder/**")) == []
    assert problems(linked, include=("key.md",)) == dict.fromkeys(["key.md", "sub/key.md"], OUTSIDE)


def test_a_link_that_is_named_is_what_the_person_means(tmp_path):
    put(tmp_path, "real/a.md")
    (tmp_path / "named").symlink_to("real")
    (tmp_path / "named.md").symlink_to("real/a.md")

    assert found(tmp_path / "named") == ["a.md"]
    (file,) = walk_all(sources([tmp_path / "named.md"], "n"), Selection()).files
    assert file.path == "n/named.md"


@pytest.mark.parametrize("target", ["pipe", "../secret.txt", "/dev/zero"])
def test_rules_that_are_elsewhere_or_no_file_are_named_and_not_heeded(target, tmp_path):
    put(tmp_path, "notes/a.md")
    put(tmp_path, "secret.txt", text="*.md")
    os.mkfifo(tmp_path / "notes" / "pipe")
    (tmp_path / "notes" / ".gitignore").symlink_to(target)

    assert found(tmp_path / "notes", include=("*.md",)) == ["a.md"]
    reason = NO_FILE if target == "pipe" else OUTSIDE
    assert problems(tmp_path / "notes", include=("*.md",)) == {".gitignore": reason}


def test_rules_of_the_folders_around_that_are_no_file_are_not_waited_for(tmp_path):
    put(tmp_path, "notes/a.md", ".git/HEAD")
    os.mkfifo(tmp_path / ".gitignore")

    assert found(tmp_path / "notes") == ["a.md"]


def test_rules_that_are_too_many_are_named_and_not_heeded(tmp_path):
    put(tmp_path, "a.md")
    (tmp_path / ".gitignore").write_text("*.md\n" * 300_000)

    assert found(tmp_path) == ["a.md"]
    assert problems(tmp_path) == {".gitignore": "is larger than 1 MB and ignored"}
