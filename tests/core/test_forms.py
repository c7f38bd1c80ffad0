"""How a word may be written."""

import pytest

from mcp_server_qdrant.core.forms import comparable, compound_words, spaced

SHAPED = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("OvertimeService", ["Overtime Service"]),
        ("getUserName(user_id)", ["get User Name"]),
        ("HTTPServer parseV2Config", ["HTTP Server", "parse V2 Config"]),
        ("parseURLs of microRNAs", ["parse URLs", "micro RNAs"]),
        ("größeÄnderung", ["größe Änderung"]),
        ("でOvertimeServiceを", ["Overtime Service"]),
        ("Over\u00adtimeSer\u200bvice", ["Overtime Service"]),
        ("40kg, 2.5mm and 100ms", ["40 kg", "5 mm", "100 ms"]),
        ("iPhone, GitHub, LaTeX, IDs, NATO, PhD, eBay", []),
        ("the 4th, the 1960s, x86, K8s, 3f2a9, 0x7F", []),
        ("a" * 100 + "B" * 100, []),
    ],
)
def test_the_words_that_are_several(text, words):
    assert [" ".join(parts) for _, parts in compound_words(text)] == words


def test_a_million_letters_are_read_once():
    assert [*compound_words("aB" * 500_000 + "1" * 500_000)] == []


def test_what_a_reader_takes_for_the_same_compares_as_the_same():
    assert (
        comparable("O\ufb03ce\u00ad Cafe\u0301 \uff21\uff22\uff23\u2011\uff11")
        == "office café abc-1"
    )
    assert comparable(SHAPED) == SHAPED, "the joiner shapes a letter"


def test_scripts_without_spaces_stand_apart():
    assert spaced("改用node.js开发").split() == ["改用", "node.js", "开发"]
    assert spaced("ใช้FastAPIสร้าง").split() == ["ใช้", "FastAPI", "สร้าง"]
