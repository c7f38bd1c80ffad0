"""The local models that fastembed 0.9 serves, and their dimensions: known without importing it.

A test keeps the table true. The dimensions of a model that it lacks are known once it is loaded.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spec:
    """One model and how it is loaded; any difference makes it another model."""

    kind: Literal["dense", "rerank"]
    model: str
    cache_dir: str | None = None
    model_path: str | None = None
    threads: int | None = None


SIZES = {
    "BAAI/bge-base-en": 768,
    "BAAI/bge-base-en-v1.5": 768,
    "BAAI/bge-large-en-v1.5": 1024,
    "BAAI/bge-small-en": 384,
    "BAAI/bge-small-en-v1.5": 384,
    "BAAI/bge-small-zh-v1.5": 512,
    "Qdrant/clip-ViT-B-32-text": 512,
    "Qdrant/constella-nano": 1024,
    "Qdrant/constella-zero": 1024,
    "Qdrant/stella-en-400M-v5-doc-onnx": 1024,
    "Qwen/Qwen3-Embedding-0.6B": 1024,
    "Qwen/Qwen3-Embedding-0.6B-Q": 1024,
    "google/embeddinggemma-300m": 768,
    "google/siglip2-base-patch16-224": 768,
    "ibm-granite/granite-embedding-small-english-r2": 384,
    "intfloat/multilingual-e5-large": 1024,
    "jinaai/jina-clip-v1": 768,
    "jinaai/jina-embeddings-v2-base-code": 768,
    "jinaai/jina-embeddings-v2-base-de": 768,
    "jinaai/jina-embeddings-v2-base-en": 768,
    "jinaai/jina-embeddings-v2-base-es": 768,
    "jinaai/jina-embeddings-v2-base-zh": 768,
    "jinaai/jina-embeddings-v2-small-en": 512,
    "jinaai/jina-embeddings-v3": 1024,
    "minishlab/potion-base-8M": 256,
    "minishlab/potion-multilingual-128M": 256,
    "minishlab/potion-retrieval-32M": 512,
    "mixedbread-ai/mxbai-embed-large-v1": 1024,
    "nomic-ai/nomic-embed-text-v1": 768,
    "nomic-ai/nomic-embed-text-v1.5": 768,
    "nomic-ai/nomic-embed-text-v1.5-Q": 768,
    "sentence-transformers/all-MiniLM-L6-v2": 384,
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": 384,
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2": 768,
    "snowflake/snowflake-arctic-embed-l": 1024,
    "snowflake/snowflake-arctic-embed-m": 768,
    "snowflake/snowflake-arctic-embed-m-long": 768,
    "snowflake/snowflake-arctic-embed-s": 384,
    "snowflake/snowflake-arctic-embed-xs": 384,
    "thenlper/gte-base": 768,
    "thenlper/gte-large": 1024,
}
# By the last part of their names, lowercase.
LISTED = {name.split("/")[-1].lower(): name for name in SIZES}
