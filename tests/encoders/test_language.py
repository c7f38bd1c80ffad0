"""The language of a text."""

import pytest

from mcp_server_qdrant.encoders import language
from mcp_server_qdrant.encoders.language import detect, detect_strictly, model_reads, probabilities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The backup runs every night and is checked in the morning.", "english"),
        ("Die Sicherung läuft jede Nacht und wird am Morgen geprüft.", "german"),
        ("La copia de seguridad se ejecuta\ncada noche.", "spanish"),
        ("我们每天晚上都会备份所有的数据", "chinese"),
        ("Kopia zapasowa działa każdej nocy i jest sprawdzana rano.", "none"),
        ("sudo apt", None),
        ("", None),
        ("\x00 \ud800", None),
    ],
)
def test_a_text_has_a_language_where_that_is_certain(text, expected):
    assert detect(text) == expected


def test_the_likeliest_language_comes_first_and_others_share_a_name():
    shares = probabilities("Wie viele Punkte gab die Verteidigung ab?")

    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert next(iter(shares)) == "german"
    assert {"none", "dutch"} < set(shares) <= {*language.NAMES.values(), "none"}


def test_without_a_model_no_language_is_certain(monkeypatch, tmp_path, caplog):
    language._model.cache_clear()
    monkeypatch.setattr(language, "MODEL", tmp_path / "missing.ftz")
    try:
        assert detect("Die Sicherung läuft jede Nacht.") is None
        assert probabilities("Die Sicherung läuft jede Nacht.") == {}
        assert "all texts count as English" in caplog.text
    finally:
        language._model.cache_clear()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ana mag keine Videokonferenzen vor 10 Uhr", "german"),
        ("La réunion est à dix heures", "french"),
        ("Ana nie lubi spotkań przed dziesiątą rano", "none"),
        ("npm run build -- --watch && docker compose up", None),
        ("Eine Notiz", None),
        ("todo fix docker compose port", None),
    ],
)
def test_a_person_is_told_of_a_language_that_is_certain_only(text, language):
    assert detect_strictly(text) == language


@pytest.mark.parametrize(
    ("described", "language", "read"),
    [
        ("Unimodal (text), English, 256 input tokens", "german", False),
        ("Unimodal (text), Multilingual (German, English)", "german", True),
        ("Unimodal (text), Multilingual (German, English)", "none", False),
        ("Unimodal (text), Multilingual (~50 languages)", "none", True),
        ("supports mixed Chinese-English input text", "chinese", True),
        ("Multimodal (text&image), English", "french", False),
    ],
)
def test_a_model_knows_the_languages_that_fastembed_names(described, language, read):
    assert model_reads(described, language) == read
