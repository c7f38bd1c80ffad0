"""Pictures and other data in texts: cut out wherever they stand, and no word with them."""

import base64
import json
import random
from binascii import b2a_uu
from time import process_time

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.pictures import pictures

DATA = random.Random(1).randbytes(300_000)
BASE64 = base64.b64encode(DATA).decode()
URL_SAFE = base64.urlsafe_b64encode(DATA).decode()
MIME = base64.encodebytes(DATA).decode()
URI = f"data:image/png;base64,{BASE64}"
SVG = "data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 (1)'/></svg>"
LEFT_OUT = "has pictures, or other data in base64 or hex, that were left out"


def lines(text: str, width: int, between: str = "\n") -> str:
    return between.join(text[at : at + width] for at in range(0, len(text), width))


def property_of(line: str) -> str:
    """A line of a vCard or an iCalendar, folded."""
    return f"{line[:75]}\r\n {lines(line[75:], 74, chr(13) + chr(10) + ' ')}"


def notebook(*sources: str) -> str:
    cells = [{"cell_type": "markdown", "source": one} for one in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})


# File -> what is in it, and what is kept of it.
FILES = {
    "inline.md": (f"see ![a gull]({URI}) here", "see ![a gull]() here"),
    "reference.md": (f"![a gull][g]\n\n[g]: {URI}\n\nlast", "![a gull][g]\n\n[g]: \n\nlast"),
    "element.md": (f'<img src="{URI}" alt="a gull"> end', '<img src="" alt="a gull"> end'),
    "markup.md": (f'<img src="{SVG}"> end', '<img src=""> end'),
    "page.html": (
        f'<p>see<img src="{URI}" alt="a gull">here</p><p>{BASE64}</p><p>end</p>',
        "see a gull here\n\n\n\nend",
    ),
    "cells.ipynb": (notebook(f"![a gull]({URI})", "end"), "![a gull]()\n\nend\n\n"),
    "rows.jsonl": (json.dumps({"text": f"a gull {BASE64} end"}), "a gull  end"),
    "rows.csv": (f'text\n"a gull {URI}"\n', "a gull "),
    "lines.json": (json.dumps({"a": MIME, "b": "gull"}), '{"a": "\n", "b": "gull"}'),
    "escaped.json": (json.dumps({"a": BASE64}).replace("/", "\\/") + "\n//", '{"a": ""}\n//'),
    "page.rst": (f".. image:: {URI}\n   :alt: a gull\n", ".. image:: \n   :alt: a gull\n"),
    "style.css": (f"a {{src: url({URI}) format('woff')}}", "a {src: url() format('woff')}"),
    "plain.css": (f'a {{src: url("{SVG}")}}', 'a {src: url("")}'),
    "drawing.svg": (f"<image href='{URI}'/><text>gull</text>", "<image href=''/><text>gull</text>"),
    "card.vcf": (
        property_of(f"PHOTO;ENCODING=b;TYPE=JPEG:{BASE64}") + "\r\nTEL:1",
        "PHOTO;ENCODING=b;TYPE=JPEG:\r\nTEL:1",
    ),
    "card4.vcf": (
        property_of(f"PHOTO:data:image/jpeg;base64,{BASE64}") + "\r\nTEL:1",
        "PHOTO:\r\nTEL:1",
    ),
    "day.ics": (
        property_of(f"ATTACH;FMTTYPE=image/png;ENCODING=BASE64;VALUE=BINARY:{BASE64}") + "\r\nA:b",
        "ATTACH;FMTTYPE=image/png;ENCODING=BASE64;VALUE=BINARY:\r\nA:b",
    ),
    "notes.enex": (
        f'<data encoding="base64">\n{MIME}</data><mime>image/png</mime>',
        '<data encoding="base64">\n\n</data><mime>image/png</mime>',
    ),
    "one.log": (f"12:00 body={BASE64} status", "12:00 body= status"),
    "safe.log": (f"12:00 body={URL_SAFE} status", "12:00 body= status"),
    "hex.log": (f"12:00 body={DATA.hex()} status", "12:00 body= status"),
    "capitals.log": (f"12:00 {DATA.hex().upper()} status", "12:00  status"),
    "call.log": (f"12:00 0x{DATA.hex()} status", "12:00  status"),
    "rows.sql": (
        f"INSERT INTO gulls VALUES ('\\\\x{DATA.hex()}');",
        "INSERT INTO gulls VALUES ('\\\\');",
    ),
    "hex.txt": (f"dump\n{lines(DATA.hex(), 60)}\nend", "dump\n\nend"),
    "mail.txt": (f"begin\n{MIME.rstrip()}\nREADME\n", "begin\n\nREADME\n"),
    "quoted.txt": ("> " + MIME.strip().replace("\n", "\n> ") + "\n> end", "> \n> end"),
    "public.pem": (
        f"-----BEGIN CERTIFICATE-----\n{lines(BASE64[:2000], 64)}\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n",
    ),
    "spaced.txt": (f"begin\n{lines(BASE64[:7600], 76, chr(10) * 2)}\nend", "begin\n\nend"),
    "joined.js": ("x = '" + lines(f"{BASE64[:-1]}=", 76, "' +\n  '") + "';", "x = '';"),
    "literal.py": (
        'X = """\n    ' + MIME.strip().replace("\n", "\n    ") + '"""\n',
        'X = """\n    """\n',
    ),
    "bytes.py": (
        "X = (\n" + "\n".join(f"    b'{one}'" for one in MIME.split()) + "\n)\nend",
        "X = (\n    b''\n)\nend",
    ),
    "escaped.py": ("X = b'" + "".join(f"\\x{one:02x}" for one in DATA[:900]) + "'", "X = b''"),
    "bytes.c": ("x[] = {" + "".join(f"{one:#x}, " for one in DATA[:900]) + "};", "x[] = {};"),
    "spaced.log": (f"body {DATA[:900].hex(' ')}\nend", "body end"),
    "dump.txt": (
        "dump\n"
        + "".join(f"{at:08x}  {DATA[at : at + 16].hex(' ')}  |x|\n" for at in range(0, 900, 16))
        + "end",
        "dump\nend",
    ),
    "comment.tex": ("% " + MIME.strip().replace("\n", "\n% ") + "\nend", "% \nend"),
    "mail.uu": (
        "begin 644 x\n"
        + "".join(b2a_uu(DATA[at : at + 45]).decode() for at in range(0, 900, 45))
        + "`\nend",
        "begin 644 x\n`\nend",
    ),
    "entities.svg": (
        '<image href="data:image/png;base64,' + MIME.replace("\n", "&#10;") + '"/>',
        '<image href="&#10;"/>',
    ),
}


@pytest.mark.parametrize(("name", "text", "kept"), [(n, *both) for n, both in FILES.items()])
def test_data_is_cut_out_of_each_kind_of_file_and_the_note_says_so(name, text, kept):
    contents = load(f"n/{name}", text.encode())

    assert [one.text for one in contents.texts] == [kept]
    assert contents.notes == [LEFT_OUT]


def test_titles_and_metadata_are_without_data_too():
    row = {"text": "gull", "title": f"Boats {URI}", "thumb": URI, "more": [{"raw": BASE64}]}
    contents = load("n/x.jsonl", json.dumps(row).encode())
    (one,) = contents.texts

    assert (one.title, one.metadata) == ("Boats ", {"thumb": "", "more": [{"raw": ""}]})
    assert contents.notes == ["has pictures, or other data in base64 or hex, that were left out"]


def test_sections_begin_where_they_did():
    (one,) = load("n/x.md", f"# Boats\n\n![]({URI})\n\n## Sails\n\nred\n".encode()).texts

    assert [one.text[mark.start :].split("\n")[0] for mark in one.marks] == ["# Boats", "## Sails"]


def test_a_file_of_nothing_but_data_is_refused_with_the_reason():
    with pytest.raises(UnusableFile) as refused:
        load("n/x.b64", BASE64.encode())

    assert str(refused.value) == LEFT_OUT


def _hex(number: int) -> str:
    return random.Random(number).randbytes(64).hex()


def _of(signs: str, count: int) -> str:
    return "".join(random.Random(2).choices(signs, k=count))


WORDS = {
    "a hash in a line": f"sha256:{_hex(1)[:64]} sha512:{_hex(2)} end",
    "hashes in lines": "\n".join(_hex(number)[:64] for number in range(100)),
    "commits in lines": "\n".join(_hex(number)[:40] for number in range(100)),
    "long hashes in lines": "\n".join(map(_hex, range(100))),
    "addresses of cards": "\n".join(lines(_hex(number)[:12], 2, ":") for number in range(300)),
    "an address": f"see https://example.org/{URL_SAFE[:2000]}?sig={BASE64[:400]} there",
    "numbers in lines": " ".join(f"{n % 100:02}" for n in range(5000)),
    "genes": _of("ACGT", 5000),
    "masked genes": _of("ACGTacgt", 5000),
    "genes in lines": lines(_of("ACGT", 5000), 60),
    "a protein": lines(_of("ACDEFGHIKLMNPQRSTVWY", 5000), 60),
    "a number": _of("0123456789", 5000),
    "a long name": "".join(random.Random(3).choices(["Over", "Time2", "Service", "Bean"], k=300)),
    "names in lines": "\n".join(["AbstractFactory3OvertimeServiceBeanDefinitionReader2024"] * 30),
    "a path": "/usr/lib/python3/dist-packages/Documents/2024/Report/Version3" * 10,
    "a symbol": "_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_"
    * 5,
    "rules": f"{'=' * 3000}\n{'_' * 3000}\n{'/' * 3000}",
    "one letter": "a" * 5000 + " " + "A" * 5000,
    "a long compound": "Donaudampfschifffahrtsgesellschaft" * 30,
    "a sentence on data": "A data:image/png;base64, address, or data:,x or data:text/plain,hello",
    "a short address": "data:text/plain;base64,SGVsbG8= is hello",
}


@pytest.mark.parametrize("text", WORDS.values(), ids=WORDS)
def test_words_stay_however_long_they_are(text):
    assert pictures(text) == []


def test_a_word_below_data_stays():
    texts = [f"{lines(BASE64[:1280], 64)}\n{word}\nend" for word in ("Sails", "SAILS", "sail")]

    assert [text[slice(*pictures(text)[0])][-64:] for text in texts] == [BASE64[1216:1280]] * 3


def test_private_keys_and_tokens_are_masked_and_not_just_cut():
    key = f"-----BEGIN PRIVATE KEY-----\n{lines(BASE64[:1600], 64)}\n-----END PRIVATE KEY-----"
    token = f"eyJ{URL_SAFE[:40]}.eyJ{URL_SAFE[40:900]}.{URL_SAFE[900:1200]}"
    contents = load("n/x.txt", f"{key}\n{token}\nend".encode())

    assert contents.texts[0].text == "[masked]\n[masked]\nend"
    assert (contents.notes, contents.masked) == ([], 2)


HARD = {
    "few bytes in hex": ("0x00, " * 80 + "z ") * 800,
    "few lines of bytes": ("00 11 22 " * 9 + "\n") * 5_000,
    "many short runs": (BASE64[:47] + "\n") * 8_000,
    "runs below the limit": (BASE64[:250] + " ") * 1_600,
    "colons": "a:" * 200_000,
    "addresses without an end": "data:image/png," * 27_000,
    "addresses in quotes": '"data:image/svg+xml,' * 20_000,
    "parameters": "data:" + ";a" * 200_000,
    "escapes": "\\n" * 200_000,
    "indents": (BASE64[:60] + "\n" + " " * 41) * 4_000,
    "tokens": ("eyJ." + URL_SAFE[:256] + ".") * 1_500,
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_no_text_takes_time_by_the_square_of_its_length(text):
    began = process_time()
    pictures(text)

    assert process_time() - began < 10, "by the square it would be minutes"
