"""Where the texts of points are."""

import pytest

from mcp_server_qdrant.qdrant.texts import Texts, find_text_path, text_at

KNOWN = ("document", "text")


@pytest.mark.parametrize(
    ("payload", "paths", "found"),
    [
        ({"text": "a b"}, KNOWN, ("text", "a b")),
        ({"text": "a b", "document": " "}, KNOWN, ("text", "a b")),
        ({"text": ["a b", "c"]}, KNOWN, ("text", "a b\nc")),
        ({"text": None, "document": ""}, KNOWN, None),
        ({"text": [], "document": [1]}, KNOWN, None),
        ({"a.b": "dotted"}, ("a.b",), ("a.b", "dotted")),
        ({"a": {"b": {"c": "deep"}}}, ("a.b.c",), ("a.b.c", "deep")),
        ({"a": '{"b": "in JSON"}'}, ("a.b",), ("a.b", "in JSON")),
        ({"a": "{broken"}, ("a.b",), None),
        ({"a": {"b": 3}}, ("a.b",), None),
        (None, ("a.b",), None),
    ],
)
def test_a_path_leads_into_objects_and_json(payload, paths, found):
    assert text_at(payload, paths) == found


@pytest.mark.parametrize(
    ("payloads", "path"),
    [
        ([{"q": "one two three"}] * 3, "q"),
        ([{"q": "one two", "long": "one two three"}] * 3, "long"),
        ([{"q": "one two"}] * 2 + [{"long": "much longer than the others"}], "q"),
        ([{"text": "x", "q": "one two"}] * 3, None),
        ([{"text": "x", "q": "one two"}] + [{"q": "one two"}] * 3, "q"),
        ([{"text": "x"}, {"q": "one two"}], None),
        ([{"q": "向量数据库"}] * 2, "q"),
        ([{"url": "https://example.org/a", "id": "a-b", "at": "2026-01-01 10:00:00"}] * 3, None),
        ([{"n": 1, "list": ["a b", "c d"]}] * 3, "list"),
        ([{"n": 1, "list": ["a b", "c"]}] * 3, None),
        ([{"x": {"y": {"z": {"deep": "one two"}}}}] * 3, None),
        ([{"x": '{"y": "one two"}'}] * 3, "x.y"),
        ([{"x": "{" * 100_000}] * 3, None),
        ([], None),
    ],
)
def test_the_longest_texts_of_most_points_are_the_ones(payloads, path):
    assert find_text_path(payloads, KNOWN) == path


def test_what_was_found_is_behind_what_the_settings_name():
    texts = Texts(KNOWN)
    texts._found["theirs"] = "data"

    assert texts.paths("theirs") == ("document", "text", "data")
    assert texts.paths("ours") == KNOWN
    assert texts.note("ours") is None
