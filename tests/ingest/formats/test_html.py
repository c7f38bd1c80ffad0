"""HTML: what a reader sees."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents
from mcp_server_qdrant.ingest.formats.html import find_encoding
from mcp_server_qdrant.ingest.formats.load import load


def read(path: str, text: str) -> Contents:
    return html.read(path, text.encode())


PAGE = """<!doctype html><html><head><title>The &amp; shed</title><style>p{}</style></head>
<body><nav><a>Home</a></nav><h1>The &amp; shed</h1><p>The <b>key</b>
is   here.</p><ul><li>one<li>two</ul><h2>Winter</h2><pre>a  b
c</pre><script>alert(1)</script><table><tr><td>x</td><td>y</td></tr></table></body></html>"""


def test_a_page_is_read_as_it_is_seen():
    (one,) = read("n/p.html", PAGE).texts

    assert one.title == "The & shed"
    words = " ".join(one.text.split())
    assert words == (
        "# The & shed The key is here. - one - two ## Winter ``` a b c ``` | x | y | | --- | --- |"
    )
    assert "a  b\nc" in one.text
    assert "\n\n\n" not in one.text


def test_headings_are_where_they_are_said_to_be():
    (one,) = read("n/p.html", PAGE).texts

    title, winter = one.marks
    assert (title.level, title.name) == (1, ""), "a heading that is the title names no part"
    assert (winter.level, winter.name) == (2, "Winter")
    assert one.text[winter.start :].startswith("## Winter")


def test_a_heading_is_its_first_line_without_its_link_its_pictures_and_buttons():
    page = (
        "<h1><img alt=logo>Vec<button>Copy</button></h1><h2>fn len<a>§</a><div>where T</div></h2>"
    )
    (one,) = read("n/p.html", f"{page}<h2><img alt='A gull'></h2><img alt=IMG_1.jpeg><img>x").texts

    assert one.title == "Vec"
    assert [mark.name for mark in one.marks] == ["", "fn len", "A gull"]
    assert not any(unseen in one.text for unseen in ("Copy", "logo", "IMG"))


@pytest.mark.parametrize(
    ("text", "title"),
    [("<h2>First</h2>x", "First"), ("x", "p"), ("<title></title><h1> a <i>b</i></h1>", "a b")],
)
def test_without_a_title_the_first_heading_is_it(text, title):
    assert read("n/p.html", text).texts[0].title == title


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">', "cp1252"),
        (b"<meta charset=nonsense>", None),
        (b"<meta charset=utf-16>", None),
        (b"<p>", None),
    ],
)
def test_a_declaration_counts_where_it_can_be_true(head, encoding):
    page = "<meta charset='windows-1252'><p>grüße".encode("windows-1252")

    assert find_encoding(head) == encoding
    assert load("n/p.html", page).texts[0].text == "grüße"


SOUP = st.text("<>/!-abscriptyle h1\"'=&;\n", max_size=80)


@given(st.one_of(SOUP, st.builds("{}<h1>a {}</h1>{}".format, SOUP, SOUP, SOUP)))
@example("<p>a<h1>b</h1>")
def test_any_soup_is_read(text):
    (one,) = read("n/p.html", text).texts

    assert all(0 <= mark.start <= len(one.text) for mark in one.marks)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<script>never closed", ""),
        ("<svg><svg></svg>still", ""),
        ("</script>seen", "seen"),
        ("<nav><svg><svg>unseen</nav>seen</svg></svg> too", "seen too"),
        ("lamp" + "<svg>" * 2_000 + "</nav>" * 2_000, "lamp"),
    ],
)
def test_elements_left_open_do_no_harm_and_end_with_what_is_around_them(text, seen):
    assert read("n/p.html", text).texts[0].text == seen


@pytest.mark.parametrize(
    "page",
    [
        "<header>one</header><main>two</main><footer>three</footer>",
        "<details><summary>one</summary>two</details><aside>three</aside>",
        "<form><fieldset><legend>one</legend>two</fieldset></form><address>three</address>",
        "<center>one</center><figure>two</figure><dialog>three</dialog>",
        "one<textarea>two</textarea>three",
    ],
)
def test_words_of_two_blocks_stay_apart(page):
    assert read("n/p.html", page).texts[0].text == "one\n\ntwo\n\nthree"


def test_a_block_within_a_heading_is_its_text():
    assert read("n/p.html", "<h2><center>Piers</center></h2>x").texts[0].text == "## Piers\n\nx"


def test_of_ruby_the_base_is_read_and_of_drawings_the_words():
    ruby = "<p><ruby>漢<rp>(</rp><rt>kan</rt>字<rt>ji</rt></ruby></p>"
    (one,) = load("n/x.html", f"{ruby}<svg><title>x</title><text>gull</text></svg>".encode()).texts

    assert one.text.split() == ["漢字", "gull"]
