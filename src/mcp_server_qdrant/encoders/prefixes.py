"""The prefixes that models expect before queries and passages.

fastembed 0.9 adds none of them (it only sets the tasks of jina-embeddings-v3).
Sources: the model cards on huggingface.co of the makers named above each model.
"""

import re
from dataclasses import dataclass

_BGE = "Represent this sentence for searching relevant passages: "
_TASK = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The texts put before each query and each passage."""

    query: str = ""
    passage: str = ""


NO_PREFIXES = Prefixes()
# The last part of a model's name, lowercase -> its prefixes; the first match wins.
_KNOWN = (
    # intfloat/e5-*, intfloat/multilingual-e5-*
    (r"(multilingual-)?e5-.*instruct", Prefixes(f"{_TASK} ")),
    (r"(multilingual-)?e5-(small|base|large)", Prefixes("query: ", "passage: ")),
    # nomic-ai/
    (r"nomic-embed-text", Prefixes("search_query: ", "search_document: ")),
    # BAAI/
    (r"bge-(small|base|large)-en", Prefixes(_BGE)),
    (r"bge-(small|base|large)-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001
    # mixedbread-ai/
    (r"mxbai-embed-large", Prefixes(_BGE)),
    # Snowflake/
    (r"snowflake-arctic-embed(2|.*-v2)", Prefixes("query: ")),
    (r"snowflake-arctic-embed", Prefixes(_BGE)),
    # google/
    (r"embeddinggemma", Prefixes("task: search result | query: ", "title: none | text: ")),
    # Qwen/
    (r"qwen3-embedding", Prefixes(_TASK)),
)


def prefixes_of(model: str) -> Prefixes:
    """The prefixes of a model by its name, for any provider; empty if unknown."""
    last = model.rstrip("/").split("/")[-1].lower()
    return next((found for pattern, found in _KNOWN if re.match(pattern, last)), NO_PREFIXES)
