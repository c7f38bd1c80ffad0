"""Vocabularies on disk."""

import json
import stat
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.search.words import cache as word_cache
from mcp_server_qdrant.search.words.cache import WordCache
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
def test_any_name_is_kept_and_not_given_away(cache, tmp_path, name):
    cache.save(name, WORDS, 1)

    assert kept(cache, name)
    assert [cache.place(name)] == list((tmp_path / "words").iterdir())
    content = cache.place(name).read_bytes()
    assert name == ".." or name.encode("utf-8", "surrogatepass") not in content


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_the_user_may_read_it(cache, tmp_path):
    cache.save("notes", WORDS, 1)

    assert stat.S_IMODE(cache.place("notes").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "words").stat().st_mode) == 0o700


def test_saving_again_replaces_it_and_leaves_nothing_else(cache, tmp_path):
    cache.save("notes", WORDS, 1)
    cache.save("notes", Vocabulary.of({"wing": 7}), 2)

    assert kept(cache) == {"wing": 7}
    assert list((tmp_path / "words").iterdir()) == [cache.place("notes")]


def test_files_of_the_format_of_earlier_versions_go_when_a_vocabulary_is_saved(cache, tmp_path):
    (tmp_path / "words").mkdir()
    names = ("1f2e.words", "words-1.sqlite3", "words-1.sqlite3-wal")
    old, other = [tmp_path / "words" / name for name in names], tmp_path / "words" / "notes.txt"
    for one in old:
        one.write_bytes(b"packed")
    other.write_text("not ours")
    assert cache.load("notes") is None

    cache.save("notes", WORDS, 1)

    assert kept(cache)
    assert not any(one.exists() for one in old)
    assert other.exists()


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 100, b"x" * 20_000])
def test_a_damaged_file_counts_as_none_and_is_replaced(cache, damage):
    cache.save("notes", WORDS, 1)
    cache.place("notes").write_bytes(damage)
    assert cache.load("notes") is None

    cache.save("notes", WORDS, 1)
    assert kept(cache)


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255), cut=st.booleans())
def test_no_damage_raises_or_lasts(tmp_path_factory, place, value, cut):
    folder = tmp_path_factory.mktemp("words")
    cache = WordCache(folder, "e")
    cache.save("notes", WORDS, 1)
    content = bytearray(cache.place("notes").read_bytes())
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= value
    cache.place("notes").write_bytes(content)

    cache.load("notes")
    cache.save("notes", WORDS, 1)
    assert kept(cache) == {"layer": 3, "straße": 1}


@pytest.mark.parametrize(
    ("part", "value"),
    [("words", "layer"), ("words", 7), ("counts", [123]), ("counts", [2**31, 1]), ("points", "x")],
)
def test_a_file_that_contradicts_itself_counts_as_none(cache, part, value):
    cache.save("notes", WORDS, 1)
    held = json.loads(cache.place("notes").read_text())
    cache.place("notes").write_text(json.dumps(held | {part: value}))

    assert cache.load("notes") is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = WordCache(tmp_path / "file" / "words", "e")
    cache.save("notes", WORDS, 1)

    assert cache.load("notes") is None


def test_a_folder_in_place_of_the_file_is_left_and_nothing_remains(cache):
    path = cache.place("notes")
    path.mkdir(parents=True)
    cache.save("notes", WORDS, 1)

    assert cache.load("notes") is None
    assert list(path.parent.iterdir()) == [path]


def test_the_oldest_go_beyond_the_most(cache, monkeypatch):
    monkeypatch.setattr(word_cache, "MOST", 2)
    for name in ("a", "b", "c", "b", "d"):
        cache.save(name, WORDS, 1)

    assert [bool(cache.load(name)) for name in "abcd"] == [False, True, False, True]


def test_processes_share_the_folder(tmp_path):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from mcp_server_qdrant.search.words.cache import WordCache\n"
        "from mcp_server_qdrant.search.words.vocabulary import Vocabulary\n"
        "cache = WordCache(Path(sys.argv[1]), 'e')\n"
        "for n in range(20):\n"
        "    cache.save(f'{sys.argv[2]}{n}', Vocabulary.of({'layer': n + 1}), n)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen([*command, who]) for who in "ab"]
    assert [process.wait() for process in running] == [0, 0]

    cache = WordCache(tmp_path, "e")
    names = [f"{who}{n}" for who in "ab" for n in range(20)]
    assert [kept(cache, name) for name in names] == [{"layer": n + 1} for n in range(20)] * 2


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text("abcdß", min_size=1), st.integers(1, 2**31 - 1)), st.integers(0, 9))
def test_what_is_loaded_is_what_was_saved(tmp_path_factory, counts, points):
    cache = WordCache(tmp_path_factory.mktemp("words"), "e")
    made = Vocabulary.of(counts)
    cache.save("notes", made, points)
    again, number = cache.load("notes")

    assert (again.text, again.counts.tolist(), number) == (made.text, made.counts.tolist(), points)
