"""The words of collections, sampled in the background and kept on disk."""

import asyncio
import json
import stat
import sys
from collections import Counter
from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import DenseLeg, Target
from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.search.words import lexicon
from mcp_server_qdrant.search.words.lexicon import REST_SECONDS, Lexicon, tally, words_of
from tests.support import Clock


def target(name: str = "notes", points: int = 10, **fields) -> Target:
    return Target(name, points, DenseLeg("d", 4, "cosine", "m"), None, **fields)


class Texts:
    """Collections of texts, in pages of two; reading waits for `gate` where there is one."""

    def __init__(self, **collections: list[str]) -> None:
        self.collections = collections
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.read: list[str] = []
        self.reading = 0

    async def __call__(self, target):
        self.read.append(target.collection)
        self.reading += 1
        assert self.reading == 1  # one at a time
        try:
            if self.gate:
                await self.gate.wait()
            if self.failure:
                raise self.failure
            texts = self.collections[target.collection]
            for first in range(0, len(texts), 2):
                yield texts[first : first + 2]
        finally:
            self.reading -= 1


async def known(words: Lexicon, word: str, *targets: Target) -> list[str]:
    """The collections that have the word now."""
    found = await words.vocabularies(targets or [target()])
    return [name for name, vocabulary in found.items() if word in vocabulary]


async def sampled(words: Lexicon, *targets: Target) -> None:
    await words.vocabularies(targets or [target()])
    await words.settled()


async def test_a_vocabulary_is_not_there_at_first_and_soon_is():
    words = Lexicon(Texts(notes=["boundary layer", "heat", "layer"]))
    assert await words.vocabularies([target()]) == {}

    await words.settled()
    assert await words.vocabularies([target()]) == {"notes": {"boundary": 1, "layer": 2, "heat": 1}}


@pytest.mark.parametrize(("points", "again"), [(110, 1), (90, 1), (111, 2), (89, 2)])
async def test_a_collection_that_changed_by_more_than_a_tenth_is_read_again(points, again):
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock)
    await sampled(words, target(points=100))
    clock.now += REST_SECONDS
    await sampled(words, target(points=points))

    assert len(texts.read) == again


async def test_a_collection_is_not_read_twice_within_half_a_minute():
    clock = Clock()
    texts = Texts(notes=["boundary"])
    words = Lexicon(texts, clock=clock)
    for points, seconds in ((1, 0.0), (2, REST_SECONDS - 1), (3, 1.0)):
        clock.now += seconds
        await sampled(words, target(points=points))

    assert len(texts.read) == 2


async def test_a_collection_that_cannot_be_read_is_tried_again_later_and_stops_no_other():
    clock = Clock()
    texts = Texts(notes=["boundary"])
    texts.failure = EngineFailure("down")
    words = Lexicon(texts, clock=clock)
    await sampled(words)
    await sampled(words)
    assert (texts.read, await known(words, "boundary")) == (["notes"], [])

    texts.failure = None
    clock.now += REST_SECONDS
    await sampled(words)
    assert await known(words, "boundary") == ["notes"]


async def test_a_sampling_that_dies_is_told_and_the_others_go_on():
    faults = []

    async def sleep(_: float) -> None:
        faults.extend(words.tasks.faults)
        texts.failure = None

    texts = Texts(notes=["boundary"], more=["harbour"])
    words = Lexicon(texts)
    words.tasks = Tasks(sleep=sleep)
    texts.failure = OverflowError()
    await sampled(words, target(), target("more"))

    assert faults == ["The sampling of words"]
    assert await known(words, "harbour", target(), target("more")) == ["more"]


async def test_a_collection_that_the_catalog_could_not_read_is_not_read():
    texts = Texts(notes=["boundary"])
    await sampled(Lexicon(texts), target(failed=True))

    assert texts.read == []


async def test_what_is_stored_is_known_at_once():
    words = Lexicon(Texts(notes=["boundary"]))
    words.stored("notes", ["a zeppelin lands"])
    assert await known(words, "zeppelin") == ["notes"]

    words.stored("notes", ["harbour"])
    assert await known(words, "harbour") == ["notes"]


async def test_the_words_of_collections_not_used_for_long_are_forgotten(monkeypatch):
    monkeypatch.setattr(lexicon, "MOST_HELD", 5)
    texts = Texts(a=["alpha adam aaron"], b=["bravo bert"], c=["charlie conrad"])
    words = Lexicon(texts)
    for name in "abc":
        await sampled(words, target(name))
    await sampled(words, target("b"))
    assert texts.read == ["a", "b", "c"]

    await sampled(words, target("a"))
    assert texts.read == ["a", "b", "c", "a"]


async def test_closing_ends_what_is_under_way():
    texts = Texts(notes=["boundary"])
    texts.gate = asyncio.Event()
    words = Lexicon(texts)
    await words.vocabularies([target()])
    await asyncio.sleep(0)
    await words.close()

    assert texts.reading == 0
    await Lexicon(texts).close()  # nor is there anything to end where nothing began


async def test_a_vocabulary_on_disk_serves_the_next_process_at_once(tmp_path):
    await sampled(Lexicon(Texts(notes=["straße"]), tmp_path, "engine"), target(points=7))

    texts = Texts(notes=[])
    assert await known(Lexicon(texts, tmp_path, "engine"), "straße", target(points=7)) == ["notes"]
    assert texts.read == []
    other = Lexicon(Texts(notes=[]), tmp_path, "another engine")
    assert await known(other, "straße", target(points=7)) == []
    await other.settled()


async def test_a_vocabulary_from_disk_is_made_anew_where_the_collection_grew_since(tmp_path):
    await sampled(Lexicon(Texts(notes=["boundary"]), tmp_path), target(points=10))
    words = Lexicon(Texts(notes=["zeppelin"]), tmp_path)

    assert await known(words, "boundary", target(points=20)) == ["notes"]
    await words.settled()
    assert await known(words, "zeppelin", target(points=20)) == ["notes"]


@pytest.mark.parametrize("name", ["a/b", "..", "näme", "x" * 255, "\ud800"])
async def test_any_name_is_kept_and_not_given_away(tmp_path, name):
    await sampled(Lexicon(Texts(**{name: ["boundary"]}), tmp_path), target(name))

    (file,) = tmp_path.iterdir()
    assert await known(Lexicon(Texts(), tmp_path), "boundary", target(name)) == [name]
    assert name == ".." or name.encode("utf-8", "surrogatepass") not in file.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
async def test_nobody_else_may_read_the_words(tmp_path):
    folder = tmp_path / "cache" / "words"
    await sampled(Lexicon(Texts(notes=["boundary"]), folder))

    (file,) = folder.iterdir()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, file)] == [0o700, 0o600]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"[]",
        b'{"points": 1}',
        b'{"points": [], "counts": {}}',
        b'{"points": 1, "counts": ["boundary"]}',
        b'{"points": 1, "counts": {"boundary": null}}',
        b"[" * 100_000,
        json.dumps({"points": 10, "words": "a\nb", "counts": [1, 2]}).encode(),  # as it was
    ],
)
async def test_a_damaged_file_is_sampled_again(tmp_path, damaged):
    await sampled(Lexicon(Texts(notes=["boundary"]), tmp_path))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damaged)
    words = Lexicon(Texts(notes=["zeppelin"]), tmp_path)
    await sampled(words)

    assert await known(words, "zeppelin") == ["notes"]
    assert await known(Lexicon(Texts(), tmp_path), "zeppelin") == ["notes"]


async def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    words = Lexicon(Texts(notes=["boundary"]), Path(tmp_path / "file" / "words"))
    await sampled(words)

    assert await known(words, "boundary") == ["notes"]


async def test_the_oldest_files_go(tmp_path, monkeypatch):
    size = len(json.dumps({"points": 100, "counts": {"boundary": 1}}))
    monkeypatch.setattr(lexicon, "MOST_CACHED", 2 * size)
    names = "abc"
    words = Lexicon(Texts(**{name: ["boundary"] for name in names}), tmp_path)
    for name in names:
        await sampled(words, target(name))

    kept = [await known(Lexicon(Texts(), tmp_path), "boundary", target(n)) for n in "bc"]
    assert kept == [["b"], ["c"]]
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The boundary layer, again: BOUNDARY.", {"boundary", "layer", "again"}),
        ("Straße naïve café", {"straße", "naïve", "café"}),
        ("cafe\u0301s \ufb01nal", {"cafés", "final"}),  # composed, and the ligature taken apart
        ("two-stage engine's", {"stage", "engine"}),
        ("get_user_name utf8mb4 v1.word word.method 3rd", set()),
        ("end of one.\nNext sentence", {"next", "sentence"}),
        ("備份資料庫 резервная копия", set()),
        ("a an the " + "x" * 31, set()),
        ("", set()),
    ],
)
def test_words_are_those_of_prose_in_the_latin_alphabet(text, expected):
    assert words_of(text) == expected


def test_a_word_counts_once_per_text():
    counts = Counter(layer=1)
    tally(counts, ["layer layer flow", "flow heat", ""])

    assert counts == {"layer": 2, "flow": 2, "heat": 1}


async def test_the_most_frequent_words_are_kept_and_rare_ones_dropped_before_they_are_many(
    monkeypatch,
):
    monkeypatch.setattr(lexicon, "MOST_WORDS", 1)
    counts: Counter[str] = Counter()
    tally(counts, ["heat flow wing tail", "heat", "tank"])
    assert counts == {"heat": 2}

    words = Lexicon(Texts(notes=["rare common", "common usual"]))
    await sampled(words)
    assert await words.vocabularies([target()]) == {"notes": {"common": 2}}


async def test_a_collection_is_told_by_its_own_words_and_not_by_everyday_ones():
    texts = Texts(
        soups=["wurde Suppe heiß", "wurde Suppe salzig"], boats=["wurde Hafen", "wurde Segel Hafen"]
    )
    words = Lexicon(texts)
    both = [target("soups", points=2), target("boats", points=2)]
    await sampled(words, *both)

    found = await words.about(both, lambda words: {"wurde"} if "suppe" in words else ())

    assert found == {"soups": "suppe, heiß, salzig", "boats": "hafen, segel, wurde"}


async def test_the_few_latin_words_of_texts_in_another_alphabet_are_not_what_these_are_about():
    texts = [f"港口的墙 {name}" for name in ("granite", "basalt", "powiat")] + ["石匠"] * 27
    words = Lexicon(Texts(notes=texts))
    notes = target(points=30)
    await sampled(words, notes)

    assert await words.about([notes], lambda _: ()) == {}


async def test_a_collection_of_everyday_words_alone_is_not_described():
    words = Lexicon(Texts(notes=["wurde"]))
    await sampled(words, target(points=1))

    assert await words.about([target(points=1)], lambda _: {"wurde"}) == {}
