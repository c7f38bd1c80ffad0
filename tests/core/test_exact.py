"""What is written exactly."""

import pytest

from mcp_server_qdrant.core.exact import Exact, compounds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Since v1.2.12, or 2026-11-12T10:00Z.", ["1.2.12", "2026-11-12", "10:00z"]),
        ("EUR 14,000 for ABC-123", ["14,000", "abc-123"]),
        ("/etc/nginx/nginx.conf", ["etc/nginx/nginx.conf", "nginx.conf"]),
        ("foo-1.2.tgz@host", ["foo-1.2.tgz@host", "foo-1.2.tgz", "1.2.tgz"]),
        ("get_user_name in renew.sh", ["get_user_name", "renew.sh"]),
        ("e.g. a well-known thing: this, that", []),
        ("x" * 70 + ".py", []),
        ("改用node.js开发", ["改用node.js开发", "node.js"]),
        ("C++17, C# or .NET; i++ a.then(b).catch", ["c++17", "c++", "c#", "i++", ".net"]),
        ("ABC\u2011123 and 10\u201312", ["abc-123", "10-12"]),
    ],
)
def test_compounds_that_tell_something_and_those_in_them(text, expected):
    assert compounds(text) == expected


def test_a_word_of_a_million_letters_is_read_once():
    assert compounds("x" * 1_000_000 + " v1.2.3") == ["1.2.3"]


def test_a_text_of_numbers_has_no_more_than_two_hundred():
    assert 200 <= len(compounds(" ".join(f"1.{n}" for n in range(1000)))) <= 202


@pytest.mark.parametrize(
    ("query", "pieces", "phrases"),
    [
        ('what "Uplink  is slow" in v1.2.12?', ("1.2.12",), ("uplink is slow",)),
        ("“zwei Wörter” «trois mots» „vier“", (), ("zwei wörter", "trois mots", "vier")),
        ('print("x y"), 5" and 7" wide', (), ()),
        ('a "b c" "d e" "f g" "h i"', (), ()),  # pasted
        ('"b c"' + " a" * 14, (), ("b c",)),
        ('"b c"' + " a" * 15, (), ()),  # a text that quotes
        ('They call it "b c."', (), ("b c",)),
        ("plain words", (), ()),
        ("改用node.js开发C++", ("node.js", "c++"), ()),
        ('找"node.js"的用法', (), ("node.js",)),
        ("\u300cADK\u300dとは", (), ("adk",)),
        ("路径/文件.txt", ("路径/文件.txt",), ()),
    ],
)
def test_a_query_has_compounds_and_quoted_phrases(query, pieces, phrases):
    assert Exact.in_query(query) == Exact(pieces, phrases)
    assert bool(Exact.in_query(query)) == bool(pieces or phrases)


@pytest.mark.parametrize(
    ("query", "text", "held"),
    [
        ("1.2.12", "v1.2.12.", True),
        ("v1.2.12", "(1.2.12)", True),
        ("1.2.12", "11.2.12", False),
        ("1.2.12", "1.2.123", False),
        ("1.2.12", "1.2.12.4", False),
        ("1.2", "2.1.2", False),
        ("2026-11-12", "on 2026-11-12T10:00", True),
        ("src/main.py", "/app/src/main.py:12", True),
        ('"is slow"', "the uplink\n  IS slow.", True),
        ('"is slow"', "the uplink is slower", False),
        ('"redis"', "Redis도", True),
        ('"redis"', "Redisson도", False),
        ('"도시"', "도시가", True),
        ('"40 kg"', "40kg", True),
        ('"40kg"', "140 kg", False),
        ('"in C"', "in C++ or in C#", False),
        ('"in C"', "in C, D", True),
        ("C++", "in C++17", True),
        ('"don\'t"', "don\u2019t", True),
        ('"office"', "o\ufb03ce", True),
        ('"café"', "cafe\u0301", True),
        ('"overtime"', "over\u00adtime", True),
    ],
)
def test_a_text_has_it_as_it_is_written(query, text, held):
    assert bool(Exact.in_query(query).found_in(text)) == held
