"""What the points of a file tell of it."""

from typing import Any

import pytest

from mcp_server_qdrant.ingest.files.state import Point, known_files

FILE = {"path": "n/a.md", "hash": "h", "model": "m", "mtime": 7, "size": 3, "documents": 1}


def point(number: int, chunks: int, document: str = "n/a.md", **file: Any) -> Point:
    doc = {"id": document, "chunk": number, "chunks": chunks, "file": FILE | file}
    return f"{document}{number}{file}", doc


def test_a_file_whose_points_are_all_there_needs_no_look():
    known = known_files([point(1, 2), point(0, 2)])["n/a.md"]

    assert known.has((3, 7), "m")
    assert known.documents == {"n/a.md"}
    assert known.hashes == {"h"}
    assert [known.has((4, 7), "m"), known.has((3, 8), "m"), known.has((3, 7), "x")] == [False] * 3


@pytest.mark.parametrize(
    "points",
    [
        [point(0, 2)],
        [point(1, 2)],
        [point(0, 1), point(1, 2)],
        [point(0, 1, "one", documents=2)],
        [point(0, 1, documents=2)],
        [point(0, 2), point(1, 2, hash="old")],
        [point(0, 2), point(1, 2, model="old")],
        [(0, point(0, 2)[1] | {"writing": 1}), point(1, 2)],
    ],
)
def test_a_file_whose_points_are_not_all_of_one_finished_write_is_stored_again(points):
    (known,) = known_files(points).values()

    assert (known.version, known.has((3, 7), "m")) == (None, False)
    assert len(known.points) == len(points), "all can be removed"
    assert known.hashes == {doc["file"]["hash"] for _, doc in points}


def test_a_list_is_there_when_all_its_texts_are():
    known = known_files([point(0, 1, "one", documents=2), point(0, 1, "two", documents=2)])

    assert known["n/a.md"].has((3, 7), "m")


def test_a_point_without_state_is_of_no_file_that_could_be_known():
    assert not known_files([("x", {"file": {}})])["None"].has((0, 0), "m")
