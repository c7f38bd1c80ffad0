"""What a sync has to do, from what is seen and what is stored."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.ingest.files.plan import plan
from mcp_server_qdrant.ingest.files.state import KnownFile, SyncRequest
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, Source


def file(name: str, size: int = 3, mtime: int = 7) -> Found:
    return Found("n", f"n/{name}", Path(name), size, mtime)


def looked(
    files: Sequence[Found] = (), problems: Sequence[Problem] = (), unseen: Sequence[str] = ()
) -> Seen:
    return Seen([*files], [], [*problems], [*unseen])


def known(*stamp: int, model: str = "m", whole: bool = True) -> KnownFile:
    return KnownFile({"p": "d"}, {"h"}, ("h", model) if whole else None, stamp)


def bad(name: str, *stamp: int, kept: bool = True) -> Problem:
    return Problem(f"n/{name}", "cannot be read", kept, stamp)


A, B = file("a.md"), file("b.md")
STORED = {"n/a.md": known(3, 7), "n/b.md": known(3, 7)}


@pytest.mark.parametrize(
    ("seen", "stored", "before", "expected"),
    [
        # (files to read, unchanged, problems, files to remove)
        (looked([A, B]), {}, [], ("ab", "", "", "")),
        (looked([A, B]), STORED, [], ("", "ab", "", "")),
        (looked([A]), STORED, [], ("", "a", "", "b")),
        (looked([A, file("b.md", size=4)]), STORED, [], ("b", "a", "", "")),
        (looked([A, file("b.md", mtime=8)]), STORED, [], ("b", "a", "", "")),
        (looked([A, B]), STORED | {"n/b.md": known(3, 7, model="x")}, [], ("b", "a", "", "")),
        (looked([A, B]), STORED | {"n/b.md": known(3, 7, whole=False)}, [], ("b", "a", "", "")),
        # A file that was renamed is read again under its new name.
        (looked([A, file("c.md")]), STORED, [], ("c", "a", "", "b")),
        # What could not be read is left alone until it changes.
        (looked([A, B]), {"n/a.md": known(3, 7)}, [bad("b.md", 3, 7)], ("", "a", "b", "")),
        (looked([A, B]), {"n/a.md": known(3, 7)}, [bad("b.md", 3, 6)], ("b", "a", "", "")),
        (looked([A, B]), STORED, [bad("b.md")], ("", "ab", "", "")),
        # A file that is not usable any more goes, one that cannot be looked at now stays.
        (looked([A], [bad("b.md")]), STORED, [], ("", "a", "b", "")),
        (looked([A], [bad("b.md", kept=False)]), STORED, [], ("", "a", "b", "b")),
        (
            looked([A, file("b.md", 4)]),
            STORED,
            [bad("b.md", 4, 7, kept=False)],
            ("", "a", "b", "b"),
        ),
        (looked([A], [], ["n/sub/"]), STORED | {"n/sub/c.md": known(3, 7)}, [], ("", "a", "", "b")),
        # Formats that may take long come last, the largest at the end; others keep their order.
        (
            looked([file("e.eml", 900), file("c.pdf", 5), file("d.html", 8), B, A]),
            {},
            [],
            ("bacde", "", "", ""),
        ),
        # The only file of a folder may be replaced by another.
        (looked([B]), {"n/a.md": known(3, 7)}, [], ("b", "", "", "a")),
    ],
)
def test_the_plan_follows_from_what_is_seen_and_what_is_stored(seen, stored, before, expected):
    request = SyncRequest((Source("n", Path("n"), folder=True),), "c", mirror=True)
    todo = plan(request, seen, stored, "m", before)
    paths = (
        [one.path for one in todo.read],
        todo.unchanged,
        [one.path for one in todo.problems],
        todo.remove,
    )

    assert tuple("".join(path[2] for path in each) for each in paths) == expected
    assert plan(SyncRequest(request.sources, "c"), seen, stored, "m", before).remove == ()


@pytest.mark.parametrize(
    ("seen", "stored", "moved"),
    [
        (looked([A, file("c.md", 4)]), {"n/a.md": known(3, 7), "n/b.md": known(4, 7)}, "cb"),
        (looked([A, file("c.md")]), STORED, "cb"),
        # Another time or size, or two files that have them.
        (looked([A, file("c.md", 3, 8)]), STORED, ""),
        (looked([A, file("c.md"), file("d.md")]), STORED, ""),
        (looked([A, file("d.md")]), STORED | {"n/c.md": known(3, 7)}, ""),
        # What takes the place of another is there already.
        (looked([A, file("b.md", 4)]), STORED | {"n/c.md": known(4, 7)}, ""),
        (looked([A, file("c.md")], [], ["n/b"]), STORED, ""),
    ],
)
def test_a_file_that_moved_is_known_by_its_size_and_time(seen, stored, moved):
    request = SyncRequest((Source("n", Path("n"), folder=True),), "c", mirror=True)
    found = plan(request, seen, stored, "m").moved

    assert "".join(new[2] + old[2] for new, old in found.items()) == moved
    assert plan(SyncRequest(request.sources, "c"), seen, stored, "m").moved == {}


def test_a_folder_of_which_half_the_files_have_moved_is_the_same():
    request = SyncRequest((Source("n", Path("n"), folder=True),), "c", mirror=True)
    stored = {f"n/{name}.md": known(size, 7) for size, name in enumerate("abcd")}
    two = looked([file("x.md", 0), file("y.md", 1)])

    assert plan(request, two, stored, "m").remove == [*stored]
    with pytest.raises(RequestError, match="holds 5 files of 'n'"):
        plan(request, two, {**stored, "n/e.md": known(4, 7)}, "m")


def test_a_folder_that_holds_nothing_of_before_is_refused_unless_it_may_be_emptied():
    request = SyncRequest((Source("n", Path("n"), folder=True),), "c", mirror=True)
    for seen in (looked(), looked([file("c.md")])):
        with pytest.raises(
            RequestError, match=r"holds 2 files of 'n', which are not in this folder\. If it"
        ):
            plan(request, seen, STORED, "m")
    with pytest.raises(RequestError, match="holds 1 file of 'n'"):
        plan(request, looked(), {"n/a.md": known(3, 7)}, "m")
    allowed = SyncRequest(request.sources, "c", mirror=True, empty=True)

    assert plan(allowed, looked(), STORED, "m").remove == ["n/a.md", "n/b.md"]
    away = looked([], [Problem("n/", "cannot be looked into", kept=True)], ["n/"])
    assert plan(request, away, STORED, "m").remove == []
    # The rest is stored where all that was is in a folder that cannot be read.
    below = {"n/sub/a.md": known(3, 7)}
    assert plan(request, looked([A], unseen=["n/sub/"]), below, "m").read == [A]
