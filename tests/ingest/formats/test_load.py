"""From bytes to texts: which reader, which encoding, and metadata that every engine can hold."""

import io
import json
import zipfile
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import decode, storable, tags_of
from mcp_server_qdrant.ingest.formats.load import BROKEN, format_of, load
from mcp_server_qdrant.ingest.secrets import MASK
from tests.ingest.formats.archives import BROKEN_ARCHIVES, refused
from tests.made_documents import rezipped, slides
from tests.made_secrets import KEYS


@pytest.mark.parametrize(
    "data",
    [
        "grüße 😀".encode(),
        "grüße 😀".encode("utf-8-sig"),
        "grüße 😀".encode("utf-16"),
        b"\xfe\xff" + "grüße\0 😀".encode("utf-16-be"),
        "grüße 😀".encode("utf-32"),
    ],
)
def test_unicode_is_read_in_every_form_that_says_which_it_is(data):
    assert decode(data) == ("grüße 😀", [])


# Short texts as people write them: a detector that guesses too freely reads them as Japanese.
GUESSED = {
    "Windows-1252": [
        "Grüße aus Köln",
        "Name;Straße;Ort\nMüller;Hauptstraße 5;München\n",
        "Er sagte: „Das ist schön“ und ging. Preis: 5 €.\n",
        "L'été dernier, nous étions à Genève. Le café était fermé; ça m'a déçu.\n",
        "El niño comió una manzana. ¿Dónde está la estación?\n",
        "Han åkte till Malmö för att träffa sin syster på sjön.\n",
        "A informação não está disponível; por favor, contate a administração.\n",
        "It is a “quote” with more… and nothing else.\n",
        "Heat the oven to 180 °C for 20 minutes.\n",
        "The price is £20 per head.\n",
    ],
    "Windows-1250": ["Zażółć gęślą jaźń. Proszę przynieść książkę do biblioteki w środę.\n"],
    "Windows-1251": ["Привет, как дела? Сегодня мы поедем на дачу и будем пить чай.\n"],
    "Windows-1253": ["Καλημέρα, πώς είσαι σήμερα; Θα πάμε στη θάλασσα.\n"],
    "Windows-932": ["これは日本語のテキストです。文字コードを判定します。\n"],
    "GB18030": ["这是一个中文文本文件用于测试编码检测\n"],
}


@pytest.mark.parametrize(("name", "texts"), GUESSED.items())
def test_other_encodings_are_told_by_their_text_and_named(name, texts):
    encoding = name.replace("Windows-", "cp")

    assert [decode(text.encode(encoding)) for text in texts] == [
        (text, [f"is not UTF-8: it was read as {name}"]) for text in texts
    ]


def test_secrets_are_masked_in_every_format_unless_that_is_off():
    data = b"# Router\n\nPASSWORD=correcthorse\n\n## Port\n\nIt is 80.\n"
    contents = load("notes/router.md", data)
    (text,), (open_,) = contents.texts, load("notes/router.md", data, mask=False).texts

    assert text.text == "# Router\n\nPASSWORD=[masked]\n\n## Port\n\nIt is 80.\n"
    assert [text.text[mark.start :][:7] for mark in text.marks] == ["# Route", "## Port"]
    assert contents.masked == 1
    assert "correcthorse" in open_.text


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b[31mone\x1b[0m \x1b[1;32mtwo\x1b[m",
        b"\x1b]0;title\x07one \x1b]8;;http://x\x1b\\two\x1b]8;;\x1b\\",
        b"o\x08on\x08ne\x08e _\x08t_\x08w_\x08o",
    ],
)
def test_colours_and_overstrikes_of_a_terminal_hide_no_words(data):
    assert load("n/x.log", data).texts[0].text == "one two"
    line = json.dumps({"text": data.decode()})
    assert load("n/x.jsonl", line.encode()).texts[0].text == "one two"


def test_a_row_has_no_secret_beside_its_text_that_is_masked_in_it():
    row = {"id": KEYS["npm"], "tags": [KEYS["Slack"]], "password": "correcthorse", "pin": 4711}
    table = f"id,tags,password,pin\n{KEYS['npm']},{KEYS['Slack']},correcthorse,4711\n".encode()
    lines = json.dumps({"text": "It is correcthorse, or 4711.", **row}).encode()

    for contents in (load("n/a.csv", table), load("n/a.jsonl", lines)):
        (text,) = contents.texts
        assert text.id.startswith("n/a.")
        assert text.tags == (MASK,)
        assert text.metadata == {"password": MASK, "pin": MASK}
        assert not [one for one in map(str, row.values()) if one in repr(contents)]


def test_a_broken_character_does_not_make_another_encoding_of_a_text():
    note = "is not UTF-8 throughout: \ufffd stands where it is not"
    assert decode("grüße ".encode() * 2 + b"\xfc") == ("grüße grüße \ufffd", [note])


def test_a_guess_is_a_note_on_the_file():
    contents = load("n/a.csv", "id,text\n1,Grüße\n2,\n".encode("latin-1"))

    assert [one.text for one in contents.texts] == ["Grüße"]
    assert contents.notes == ["is not UTF-8: it was read as Windows-1252", "row 3 has no text"]


@pytest.mark.parametrize(
    ("path", "data", "title"),
    [
        ("n/a/notes.txt", "hello", "notes.txt"),
        ("n/README", "hello", "README"),
        ("n/a/x.py", "def f(): ...", "a/x.py"),
        ("n/a.MD", "# Hello", "Hello"),
        ("n/a.html", "<title>Hello</title>x", "Hello"),
        ("n/a.jsonl", '{"text": "x", "title": "Hello"}', "Hello"),
    ],
)
def test_a_file_is_read_as_its_name_says(path, data, title):
    assert load(path, data.encode()).texts[0].title == title


@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        ("n/a", bytes(range(128, 256)), "is not UTF-8: byte 0 is 0x80, and no other encoding fits"),
        ("n/a", "grüße".encode("utf-16-le"), "is binary"),
        ("n/a", b"text\0text", "is binary"),
        ("n/a", b"gr" + "ü".encode()[:1], "ends in the middle of a character: is it complete?"),
        ("n/a", b"\xff\xfeg\0r\0\xd8", "is not UTF-16-LE: byte 4 is 0xd8"),
        ("n/a.txt", b"", "is empty"),
        ("n/a.txt", b" \n\t ", "has no text"),
        ("n/a.md", b"---\ntitle: only this\n---\n", "has no text"),
        ("n/a.html", b"<script>x</script>", "has no text"),
        ("n/a.jsonl", b"oops", "line 1 is not JSON"),
        ("n/a.dat", b"\x89PNG\r\n\x1a\n\0\0", "is binary"),
    ],
)
def test_a_file_without_text_or_of_no_encoding_is_refused_with_the_reason(path, data, reason):
    assert refused(path, data) == reason


@pytest.mark.parametrize("ending", ["docx", "odt", "pptx", "epub", "xlsx"])
@pytest.mark.parametrize("data", BROKEN_ARCHIVES)
def test_an_archive_that_is_broken_locked_or_another_one_is_refused(ending, data):
    assert refused(f"n/x.{ending}", data) == BROKEN


def test_dates_large_numbers_odd_keys_and_half_a_surrogate_pair_become_text():
    made = storable({1: date(2026, 1, 2), "big": 2**70, "nan": float("nan"), "s": {"x"}, "b": True})

    assert made == {"1": "2026-01-02", "big": str(2**70), "nan": "nan", "s": ["x"], "b": True}
    assert storable({"\ud800": ["a\udfff"]}) == {"\ufffd": ["a\ufffd"]}


@pytest.mark.parametrize(
    ("wide", "levels", "reason"),
    [(10, 10, "more than 10,000 values"), (1, 40, "nested deeper than 32 levels")],
)
def test_metadata_that_grows_out_of_little_or_is_too_deep_is_refused(wide, levels, reason):
    level: object = "lol"
    for _ in range(levels):
        level = [level] * wide

    with pytest.raises(UnusableFile, match=reason):
        storable(level)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
        max_leaves=20,
    )
)
def test_whatever_json_can_say_can_be_stored(value):
    json.dumps(storable(value), allow_nan=False).encode("utf-8")


def test_tags_are_a_list_or_names_by_comma():
    given = (["a", " b ", 3, "a", None], "a, b,,", None, {"a": 1})

    assert list(map(tags_of, given)) == [("a", "b", "3"), ("a", "b"), (), ()]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.docm", "DOCX"),
        ("x.dotx", "DOCX"),
        ("x.ppsx", "PPTX"),
        ("x.potx", "PPTX"),
        ("x.pptm", "PPTX"),
        ("x.ott", "ODT"),
        ("x.xlsb", "spreadsheets"),
        ("x.emlx", "e-mail"),
    ],
)
def test_templates_shows_and_macros_are_the_same_formats(name, kind):
    assert format_of(name).name == kind


def test_a_show_is_read_like_slides():
    main = b"presentationml.presentation.main+xml"
    types = zipfile.ZipFile(io.BytesIO(slides())).read("[Content_Types].xml")
    show = rezipped(
        slides(), {"[Content_Types].xml": types.replace(main, b"presentationml.slideshow.main+xml")}
    )

    assert load("n/x.ppsx", show).texts[0].text == load("n/x.pptx", slides()).texts[0].text
