"""The texts that a model was trained to read before a query and before a passage.

fastembed adds none of these (0.9; only jina-embeddings-v3 has its tasks, which are no prefixes).
Sources: the model cards on huggingface.co of the models named beside each line.
"""

import re
from dataclasses import dataclass

_BGE = "Represent this sentence for searching relevant passages: "
_TASK = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Texts that are put before every query and every passage."""

    query: str = ""
    passage: str = ""


NO_PREFIXES = Prefixes()
# The last part of a model's name, lowercase -> its prefixes; the first match counts.
_KNOWN = (
    (
        r"(multilingual-)?e5-.*instruct",
        Prefixes(f"{_TASK} "),
    ),  # intfloat/multilingual-e5-large-instruct
    (r"(multilingual-)?e5-(small|base|large)", Prefixes("query: ", "passage: ")),  # intfloat/e5-*
    (r"nomic-embed-text", Prefixes("search_query: ", "search_document: ")),  # nomic-ai/
    (r"bge-(small|base|large)-en", Prefixes(_BGE)),  # BAAI/
    (r"bge-(small|base|large)-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),  # BAAI/  # noqa: RUF001
    (r"mxbai-embed-large", Prefixes(_BGE)),  # mixedbread-ai/
    (r"snowflake-arctic-embed(2|.*-v2)", Prefixes("query: ")),  # Snowflake/*-v2.0
    (r"snowflake-arctic-embed", Prefixes(_BGE)),  # Snowflake/
    (
        r"embeddinggemma",
        Prefixes("task: search result | query: ", "title: none | text: "),
    ),  # google/
    (r"qwen3-embedding", Prefixes(_TASK)),  # Qwen/
)


def prefixes_of(model: str) -> Prefixes:
    """The prefixes of a model by its name, whoever serves it; none where it is not known."""
    last = model.rstrip("/").split("/")[-1].lower()
    return next((found for pattern, found in _KNOWN if re.match(pattern, last)), NO_PREFIXES)
