"""The language of a text."""

import pytest

from mcp_server_qdrant.encoders import language
from mcp_server_qdrant.encoders.language import likely, sure


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
    assert sure(text) == expected


def test_the_likeliest_language_comes_first_and_others_share_a_name():
    shares = likely("Wie viele Punkte gab die Verteidigung ab?")

    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert next(iter(shares)) == "german"
    assert {"none", "dutch"} < set(shares) <= {*language.NAMES.values(), "none"}


def test_without_a_model_no_language_is_certain(monkeypatch, tmp_path, caplog):
    language._model.cache_clear()
    monkeypatch.setattr(language, "MODEL", tmp_path / "missing.ftz")
    try:
        assert sure("Die Sicherung läuft jede Nacht.") is None
        assert likely("Die Sicherung läuft jede Nacht.") == {}
        assert "all count as English" in caplog.text
    finally:
        language._model.cache_clear()
