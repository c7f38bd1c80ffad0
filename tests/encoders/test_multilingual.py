"""BM25 of texts in many languages."""

import subprocess
import sys
from datetime import date

import pytest

from mcp_server_qdrant.encoders import multilingual
from mcp_server_qdrant.encoders.bm25 import Bm25Encoder
from mcp_server_qdrant.encoders.multilingual import MultilingualBm25, likely, sure

ENGLISH = "The houses of the village were built long before the war."
GERMAN = "Die Häuser des Dorfes wurden lange vor dem Krieg gebaut."


def test_the_vector_of_an_english_text_is_that_of_the_english_encoder():
    for text in (ENGLISH, "sudo apt", "def get(self): return self.x", ""):
        assert MultilingualBm25().encode_document(text) == Bm25Encoder().encode_document(text)


def test_a_vector_in_another_language_has_its_stems_and_says_which():
    bm25 = MultilingualBm25()
    vector, stems = bm25.encode_document(GERMAN), Bm25Encoder("german").encode_document(GERMAN)

    assert vector.indices[: len(stems.indices)] == stems.indices
    assert vector.values == (*stems.values, 1.0, 1.0)
    foreign, marker = vector.indices[len(stems.indices) :]
    assert (foreign,) == bm25.markers.foreign
    assert bm25.markers.languages[marker] == "german"


def test_the_day_of_a_text_is_written_in_its_language():
    for language, text, month in (("english", ENGLISH, "March"), ("german", GERMAN, "März")):
        dated = MultilingualBm25().encode_document(text, date(2026, 3, 8))
        assert set(Bm25Encoder(language).tokens(f"8 {month} 2026")) <= set(dated.indices)


def test_a_word_is_asked_as_each_language_stems_it_and_stop_words_are_those_of_the_query():
    bm25 = MultilingualBm25()
    german, english = Bm25Encoder("german"), Bm25Encoder()

    words = bm25.words("Welche Häuser wurden im Krieg gebaut?", ["german"])

    forms = {(*german.tokens(word), *english.tokens(word)) for word in ("Häuser", "gebaut")}
    assert {tuple(dict.fromkeys(one)) for one in forms} <= set(words)
    assert len(words) == len(german.tokens("Welche Häuser wurden im Krieg gebaut?"))


def test_a_query_of_uncertain_language_has_the_stop_words_of_the_likeliest_one_searched():
    bm25 = MultilingualBm25()
    query = "un piano en la sala"  # which is Spanish, or else French

    asked = {word[0] for word in bm25.words(query, ["french", "german"])}

    assert asked == set(Bm25Encoder("french").tokens(query))


def test_where_all_texts_are_english_a_query_is_too():
    query = "the houses of Häuser"

    assert MultilingualBm25().words(query) == Bm25Encoder().words(query)


def test_a_fixed_language_loads_no_model():
    code = (
        "import sys\n"
        "from mcp_server_qdrant.encoders.multilingual import bm25_of\n"
        "bm25 = bm25_of('german')\n"
        f"bm25.encode_document({GERMAN!r}), bm25.words('Haus', ['spanish'])\n"
        "bm25_of('auto').words('house'), bm25_of('auto').reader('house')('house')\n"
        "assert 'fasttext' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The backup runs every night and is checked in the morning.", "english"),
        ("Die Sicherung läuft jede Nacht und wird am Morgen geprüft.", "german"),
        ("La copia de seguridad se ejecuta\ncada noche.", "spanish"),
        ("我们每天晚上都会备份所有的数据", "chinese"),
        ("Kopia zapasowa działa każdej nocy i jest sprawdzana rano.", "other"),
        ("sudo apt", None),
        ("", None),
        ("\x00 \ud800", None),
    ],
)
def test_a_text_has_a_language_where_that_is_certain(text, expected):
    assert sure(text, "other") == expected


def test_the_likeliest_language_comes_first_and_others_share_a_name():
    shares = likely("Wie viele Punkte gab die Verteidigung ab?", "other")

    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert next(iter(shares)) == "german"
    assert {"other", "dutch"} < set(shares) <= {*multilingual.NAMES.values(), "other"}


def test_without_a_model_no_language_is_certain(monkeypatch, tmp_path, caplog):
    multilingual._model.cache_clear()
    monkeypatch.setattr(multilingual, "MODEL", tmp_path / "missing.ftz")
    try:
        assert sure("Die Sicherung läuft jede Nacht.", "other") is None
        assert likely("Die Sicherung läuft jede Nacht.", "other") == {}
        assert "all count as English" in caplog.text
    finally:
        multilingual._model.cache_clear()
