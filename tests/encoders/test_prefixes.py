"""What is read before queries and passages."""

from pathlib import Path

import pytest

from mcp_server_qdrant.encoders.local.fastembed import FastEmbedEncoder
from mcp_server_qdrant.encoders.prefixes import NO_PREFIXES, Prefixes, prefixes_of

BGE = Prefixes("Represent this sentence for searching relevant passages: ")
E5 = Prefixes("query: ", "passage: ")
NOMIC = Prefixes("search_query: ", "search_document: ")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", NO_PREFIXES),
        ("text-embedding-3-small", NO_PREFIXES),
        ("BAAI/bge-m3", NO_PREFIXES),
        ("BAAI/bge-small-en-v1.5", BGE),
        ("BAAI/bge-base-en", BGE),
        ("mixedbread-ai/mxbai-embed-large-v1", BGE),
        ("mxbai-embed-large:latest", BGE),
        ("snowflake/snowflake-arctic-embed-m", BGE),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", Prefixes("query: ")),
        ("snowflake-arctic-embed2:568m", Prefixes("query: ")),
        ("intfloat/multilingual-e5-large", E5),
        ("intfloat/e5-small-v2", E5),
        ("nomic-ai/nomic-embed-text-v1.5-Q", NOMIC),
        ("nomic-embed-text", NOMIC),
        ("jinaai/jina-embeddings-v2-base-en", NO_PREFIXES),
        ("jinaai/jina-embeddings-v3", NO_PREFIXES),
    ],
)
def test_a_model_has_the_prefixes_of_its_card_whoever_serves_it(model, expected):
    assert prefixes_of(model) == expected


def test_models_that_take_an_instruction_take_it_for_queries_only():
    for model in ("intfloat/multilingual-e5-large-instruct", "Qwen/Qwen3-Embedding-0.6B"):
        prefixes = prefixes_of(model)
        assert prefixes.query.startswith("Instruct: Given a web search query")
        assert "\nQuery:" in prefixes.query
        assert prefixes.passage == ""


def test_fastembed_adds_no_prefix_of_its_own():
    """If a later version does, ours would come twice."""
    from fastembed.text.builtin_sentence_embedding import BuiltinSentenceEmbedding
    from fastembed.text.onnx_embedding import OnnxTextEmbedding
    from fastembed.text.text_embedding_base import TextEmbeddingBase

    for kind in (BuiltinSentenceEmbedding, OnnxTextEmbedding):
        assert kind.query_embed is TextEmbeddingBase.query_embed
        assert kind.passage_embed is TextEmbeddingBase.passage_embed


def test_the_table_of_models_has_the_sizes_and_prefixes_that_are_used():
    page = Path(__file__).parents[2] / "docs" / "models.md"
    table = page.read_text("utf-8").split("<!-- models -->")[1].split("<!-- /models -->")[0]
    rows = [[cell[1:-1] for cell in row.split("|")[1:-1]] for row in table.split("\n")[3:-1]]
    told = {
        name.split("`")[1]: (int(size), Prefixes(query.strip("`"), passage.strip("`")))
        for name, _, _, size, _, query, passage, *_ in rows
    }

    assert len(told) == 6
    served = FastEmbedEncoder.supported_models()
    assert told == {name: (served[name.lower()]["dim"], prefixes_of(name)) for name in told}
