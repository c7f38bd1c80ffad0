"""Vocabularies on disk."""

import os
import stat
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.words import cache as word_cache
from mcp_server_qdrant.search.words.cache import WordCache, packed, unpacked
from mcp_server_qdrant.search.words.vocabulary import Vocabulary

WORDS = Vocabulary.of({"layer": 3, "straße": 1})


@pytest.fixture
def cache(tmp_path):
    return WordCache(tmp_path / "words", "http://localhost:6333")


def kept(cache: WordCache, collection: str = "notes") -> dict[str, int] | None:
    found = cache.load(collection)
    return found and dict(zip(found[0].text.split("\n"), found[0].counts.tolist(), strict=True))


def test_what_was_saved_is_there(cache):
    cache.save("notes", WORDS, 42)
    found = cache.load("notes")

    assert kept(cache) == {"layer": 3, "straße": 1}
    assert found[1] == 42


def test_an_empty_vocabulary_is_kept_too(cache):
    cache.save("notes", Vocabulary.of({}), 0)

    assert len(cache.load("notes")[0]) == 0


def test_there_is_nothing_before_it_was_saved(cache):
    assert cache.load("notes") is None


def test_collections_and_engines_are_kept_apart(cache, tmp_path):
    cache.save("notes", WORDS, 1)

    assert cache.load("Notes") is None
    assert WordCache(tmp_path / "words", "http://elsewhere:6333").load("notes") is None


@pytest.mark.parametrize("name", ["a/b", "..", "näme", "x" * 255, "\ud800"])
def test_any_name_has_a_file_that_does_not_tell_it(cache, name):
    cache.save(name, WORDS, 1)

    assert kept(cache, name)
    assert name not in cache.path(name).name


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_the_user_may_read_it(cache):
    cache.save("notes", WORDS, 1)
    path = cache.path("notes")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_saving_again_replaces_it_and_leaves_nothing_else(cache):
    cache.save("notes", WORDS, 1)
    cache.save("notes", Vocabulary.of({"wing": 7}), 2)

    assert kept(cache) == {"wing": 7}
    assert list(cache.path("notes").parent.iterdir()) == [cache.path("notes")]


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 100])
def test_a_damaged_file_counts_as_none_and_is_replaced(cache, damage):
    cache.save("notes", WORDS, 1)
    cache.path("notes").write_bytes(damage)
    assert cache.load("notes") is None

    cache.save("notes", WORDS, 1)
    assert kept(cache)


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, 10_000), value=st.integers(1, 255), cut=st.booleans())
def test_no_damage_is_taken_for_words(tmp_path_factory, place, value, cut):
    cache = WordCache(tmp_path_factory.mktemp("words"), "e")
    cache.save("notes", WORDS, 1)
    content = bytearray(cache.path("notes").read_bytes())
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= value
    cache.path("notes").write_bytes(content)

    assert cache.load("notes") is None


def test_a_file_that_is_too_large_is_not_read(cache, monkeypatch):
    cache.save("notes", WORDS, 1)
    monkeypatch.setattr(word_cache, "LARGEST", 10)

    assert cache.load("notes") is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = WordCache(tmp_path / "file" / "words", "e")
    cache.save("notes", WORDS, 1)

    assert cache.load("notes") is None


def test_a_folder_in_place_of_the_file_is_left_and_nothing_remains(cache):
    path = cache.path("notes")
    path.mkdir(parents=True)
    cache.save("notes", WORDS, 1)

    assert cache.load("notes") is None
    assert list(path.parent.iterdir()) == [path]


def test_the_oldest_files_go_beyond_the_most(cache, monkeypatch):
    monkeypatch.setattr(word_cache, "MOST_FILES", 2)
    for age, name in enumerate(("a", "b", "c")):
        cache.save(name, WORDS, 1)
        os.utime(cache.path(name), (1000 + age, 1000 + age))
    cache.save("d", WORDS, 1)

    assert [bool(cache.load(name)) for name in "abcd"] == [False, False, True, True]


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text("abcdß", min_size=1), st.integers(1, 2**31 - 1)), st.integers(0, 9))
def test_unpacking_is_the_inverse_of_packing(counts, points):
    made = Vocabulary.of(counts)
    again, number = unpacked(packed(made, points))

    assert (again.text, again.counts.tolist(), number) == (made.text, made.counts.tolist(), points)
