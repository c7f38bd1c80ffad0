"""BM25 vectors: their ids, weights and words."""

import subprocess
import sys
from datetime import date

import pytest
from qdrant_edge import Language

from mcp_server_qdrant.core.bm25 import LANGUAGES
from mcp_server_qdrant.core.datatypes import Sparse
from mcp_server_qdrant.encoders.bm25 import AVERAGE_LENGTH, K1, MONTHS, B, Bm25Encoder, date_words

EMPTY = Sparse((), ())
ENGLISH = (
    "Engineers measured the throughput of several databases; databases differ, engineers agree."
)

VILLAGE = "The houses of the village were built long before the war."
GERMAN = "Die Häuser des Dorfes wurden lange vor dem Krieg gebaut."


@pytest.fixture(scope="module")
def bm25() -> Bm25Encoder:
    return Bm25Encoder()


def test_plain_english_has_the_ids_and_weights_of_fastembeds_bm25(bm25, tmp_path):
    from fastembed import SparseTextEmbedding

    theirs = SparseTextEmbedding(
        "Qdrant/bm25", specific_model_path=str(tmp_path), stopwords={"the", "of"}
    )
    vector = next(iter(theirs.embed(ENGLISH)))

    ours = bm25.encode_document(ENGLISH)

    assert dict(zip(ours.indices, ours.values, strict=True)) == pytest.approx(
        dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))
    )


def test_a_query_counts_each_term_once(bm25):
    query = bm25.tokens("Fox foxes FOXES jumping the fox")

    assert len(set(query)) == len(query) == 2


def test_a_document_weighs_terms_by_frequency_and_length(bm25):
    fox, jump = bm25.tokens("fox") + bm25.tokens("jump")
    document = bm25.encode_document("fox fox jump")

    damping = K1 * (1 - B + B * 3 / AVERAGE_LENGTH)
    assert dict(zip(document.indices, document.values, strict=True)) == pytest.approx(
        {fox: 2 * (K1 + 1) / (2 + damping), jump: (K1 + 1) / (1 + damping)}
    )


def test_the_words_of_its_day_are_terms_of_a_document_as_if_they_were_there_once(bm25):
    text, day = "fox fox jumped in May", date(2026, 5, 8)
    plain, dated = bm25.encode_document(text), bm25.encode_document(text, day)
    words = set(bm25.tokens("2026-05-08 2026-05 8 2026")) - set(plain.indices)

    assert dated.indices[: len(plain.indices)] == plain.indices
    assert dated.values == (*plain.values, *[min(plain.values)] * len(words))
    assert set(dated.indices) == {*plain.indices, *words}


@pytest.mark.parametrize("text", ["", "  \n", "the of and", "!?", "\ud800", "\x00"])
def test_a_text_without_terms_is_an_empty_vector(bm25, text):
    assert (bm25.tokens(text), bm25.encode_document(text)) == ([], EMPTY)
    assert bm25.encode_document(text, date(2026, 5, 8)) == EMPTY
    assert bm25.terms(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "Measuring throughputs of get_user_name and getUserName",
        "don't state-of-the-art C++ v1.2.3 CVE-2024-1234",
        "cafe\u0301 naïve Größe İstanbul ﬁne \uff12\uff10\uff12\uff14",
        "Привет мир हिन्दी खोज עברית",
        "向量数据库用于语义搜索 と 東京 한국어를 검색 ภาษาไทยง่าย",
        "lone \udfff surrogate \ud83d\ude00 nul\x00byte",
    ],
)
def test_every_term_has_a_word_of_the_text(bm25, text):
    terms = bm25.terms(text)

    assert set(terms) == set(bm25.tokens(text)) - set(bm25.compounds(text))
    for term, word in terms.items():
        assert term in bm25.tokens(word)


def test_a_word_is_given_as_it_was_written(bm25):
    assert set(bm25.terms("The Foxes, jumping (HIGH)").values()) == {"Foxes", "jumping", "HIGH"}


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("数据库", "向量数据库用于语义搜索"),
        ("東京", "私は東京都に住んでいます"),
        ("한국어", "한국어를 공부합니다"),
        ("ภาษา", "เรียนภาษาไทย"),
        ("fine", "a \ufb01ne day"),
        ("caf\u00e9", "the cafe\u0301 opens"),
        ("2024", "since \uff12\uff10\uff12\uff14"),
        ("name", "def get_user_name"),
    ],
)
def test_a_word_inside_unspaced_or_composed_text_is_found(bm25, query, document):
    assert set(bm25.tokens(query)) <= set(bm25.encode_document(document).indices)


def test_words_of_spaced_scripts_do_not_change_beside_unspaced_ones(bm25):
    mixed = bm25.tokens("数据库 throughput")

    assert set(bm25.tokens("throughput")) < set(mixed)


def test_none_neither_stems_nor_drops_stop_words():
    neutral = Bm25Encoder("none")

    assert set(neutral.terms("the running foxes").values()) == {"the", "running", "foxes"}
    assert neutral.tokens("fox") != neutral.tokens("foxes")


def test_a_language_stems_its_words():
    german = Bm25Encoder("German")

    assert german.tokens("die Häuser") == german.tokens("Häusern")


def test_the_languages_of_keyword_search_are_those_of_the_engine():
    assert [
        name for name in dir(Language) if name[0].isalpha() and name.lower() not in LANGUAGES
    ] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_offered_language_works(language):
    assert len(Bm25Encoder(language).tokens("Qdrant")) == 1


def test_a_compound_is_a_term_beside_its_pieces_and_leaves_their_weights_alone(bm25):
    (compound,) = bm25.compounds("version v1.2")
    pieces = bm25.encode_document("version v1 2")
    whole = bm25.encode_document("version v1.2")

    assert bm25.compounds("Version 1.2") == [compound]
    assert whole.indices == (*pieces.indices, compound)
    assert whole.values == (*pieces.values, min(pieces.values))
    assert compound in bm25.tokens("1.2")
    assert bm25.encode_document("... --- ...") == EMPTY


def test_the_parts_of_a_word_are_terms_beside_it_and_leave_the_weights_alone(bm25):
    old = bm25._model.embed_document("getUserName weighs 40kg")
    new = bm25.encode_document("getUserName weighs 40kg")

    assert new.indices[: len(old.indices)] == tuple(old.indices)
    assert new.values[: len(old.values)] == tuple(old.values)
    assert {*new.indices} - {*old.indices} == {*bm25.tokens("get user name 40 kg")}
    assert bm25.compound_terms("getUserName x")[bm25.tokens("getusername")[0]] == bm25.tokens(
        "get user name"
    )


def test_a_text_has_the_terms_of_what_a_reader_sees(bm25):
    hidden = "The over\u00adtime ser\u200bvice of the cafe\u0301"

    assert bm25.encode_document(hidden) == bm25.encode_document("The overtime service of the café")


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("english", "2026-03-08 2026-03 8 March Mar 2026"),
        ("german", "2026-03-08 2026-03 8 März  2026"),
        ("klingon", "2026-03-08 2026-03 8 March Mar 2026"),
    ],
)
def test_a_day_is_written_in_numbers_and_words(language, expected):
    assert date_words(date(2026, 3, 8), language) == expected


def test_each_language_has_twelve_months():
    assert {len(set(months)) for months in MONTHS.values()} == {12}


def test_the_vector_of_an_english_text_is_that_of_the_english_encoder():
    for text in (VILLAGE, "sudo apt", "def get(self): return self.x", ""):
        assert Bm25Encoder("auto").encode_document(text) == Bm25Encoder().encode_document(text)


def test_a_vector_in_another_language_has_its_stems_and_says_which():
    bm25 = Bm25Encoder("auto")
    vector, stems = bm25.encode_document(GERMAN), Bm25Encoder("german").encode_document(GERMAN)

    assert vector.indices[: len(stems.indices)] == stems.indices
    assert vector.values == (*stems.values, 1.0, 1.0)
    foreign, marker = vector.indices[len(stems.indices) :]
    assert (foreign,) == bm25.markers.foreign
    assert bm25.markers.languages[marker] == "german"


def test_the_day_of_a_text_is_written_in_its_language():
    for language, text, month in (("english", VILLAGE, "March"), ("german", GERMAN, "März")):
        dated = Bm25Encoder("auto").encode_document(text, date(2026, 3, 8))
        assert set(Bm25Encoder(language).tokens(f"8 {month} 2026")) <= set(dated.indices)


def test_a_word_is_asked_as_each_language_stems_it_and_stop_words_are_those_of_the_query():
    bm25 = Bm25Encoder("auto")
    german, english = Bm25Encoder("german"), Bm25Encoder()

    words = bm25.words("Welche Häuser wurden im Krieg gebaut?", ["german"])

    forms = {(*german.tokens(word), *english.tokens(word)) for word in ("Häuser", "gebaut")}
    assert {tuple(dict.fromkeys(one)) for one in forms} <= set(words)
    assert len(words) == len(german.tokens("Welche Häuser wurden im Krieg gebaut?"))


def test_a_query_of_uncertain_language_has_the_stop_words_of_the_likeliest_one_searched():
    bm25 = Bm25Encoder("auto")
    query = "un piano en la sala"  # which is Spanish, or else French

    asked = {word[0] for word in bm25.words(query, ["french", "german"])}

    assert asked == set(Bm25Encoder("french").tokens(query))


def test_where_all_texts_are_english_a_query_is_too():
    query = "the houses of Häuser"

    assert Bm25Encoder("auto").words(query) == Bm25Encoder().words(query)


def test_a_fixed_language_loads_no_model():
    code = (
        "import sys\n"
        "from mcp_server_qdrant.encoders.bm25 import Bm25Encoder\n"
        "bm25 = Bm25Encoder('german')\n"
        f"bm25.encode_document({GERMAN!r}), bm25.words('Haus', ['spanish'])\n"
        "Bm25Encoder('auto').words('house'), Bm25Encoder('auto').term_reader('house')('house')\n"
        "assert 'fasttext' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
