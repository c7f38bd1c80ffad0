"""Dense vectors from a local fastembed model, made in threads and never on the event loop."""

import asyncio
import difflib
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.encoders.cache import QueryCache, Vector
from mcp_server_qdrant.encoders.encoder import Span
from mcp_server_qdrant.encoders.local.hosted import files_in
from mcp_server_qdrant.encoders.local.turns import Turns
from mcp_server_qdrant.encoders.text import clean

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer

State = Literal["idle", "loading", "downloading", "ready", "failed"]

BATCH_SIZE = 8  # larger batches are slower on a CPU and take far more memory
QUERY_CACHE_SIZE = 1024
STOP_SPINNING = "session.force_spinning_stop"
RETRY_AFTER = 60.0  # seconds between two attempts to load

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FastEmbedEncoder:
    """Vectors of one model, L2-normalised as fastembed makes them.

    Construction is free. `start` loads the model in a thread: from `model_path` alone if given,
    else from the cache, else from the network. `reason` says in a sentence why it is not ready.
    """

    retry_after = RETRY_AFTER

    def __init__(
        self,
        model: str,
        *,
        cache_dir: Path | None = None,
        model_path: Path | None = None,
        threads: int | None = None,
        query_cache_size: int = QUERY_CACHE_SIZE,
        batch_size: int = BATCH_SIZE,
        turns: Turns | None = None,
    ) -> None:
        self.name = model
        self.state: State = "idle"
        self.reason: str | None = None
        self._source = _Source(model, cache_dir, model_path, threads)
        self._batch_size = batch_size
        self._known = QueryCache(query_cache_size)
        self._turns = turns or Turns()
        self._loaded: _Loaded | None = None
        self._listed_size: int | None = None
        self._failed_at = 0.0
        self._closed = False
        self._lock = threading.Lock()
        self._settled: Future[None] | None = None
        # With a thread of their own, queries need not wait for a batch of documents.
        self._queries = ThreadPoolExecutor(1, "encode-query")
        self._documents = ThreadPoolExecutor(1, "encode-documents")

    @property
    def vector_name(self) -> str:
        """The name the official server gives this model's vector."""
        return f"fast-{self.name.split('/')[-1].lower()}"

    def start(self) -> None:
        """Begin to load in the background; after a failure, again once `retry_after` has passed."""
        with self._lock:
            if self._closed or self.state in ("loading", "downloading", "ready"):
                return
            if self.state == "failed" and monotonic() - self._failed_at < self.retry_after:
                return
            self.state, self.reason = "loading", f"The model {self.name} is being loaded."
            self._settled = Future()
            # A pool's thread would keep a stopping process waiting for a stuck download.
            threading.Thread(
                target=self._load, args=(self._settled,), name="load-model", daemon=True
            ).start()

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a load under way; whether vectors can be made now."""
        if self._settled is not None and not self._settled.done():
            await asyncio.wait([asyncio.wrap_future(self._settled)], timeout=timeout)
        return self.state == "ready"

    def settle(self, seconds: float) -> None:
        """Wait in this thread for a load under way."""
        if self._settled is not None:
            wait([self._settled], seconds)

    @property
    def loaded_size(self) -> int | None:
        """The dimensions. None until ready."""
        return self._loaded.size if self._loaded else None

    async def encode_query(self, text: str) -> Vector:
        """The query's vector; EncoderUnavailable while the model is not ready."""
        model = self._require().model
        text = clean(text)
        loop = asyncio.get_running_loop()
        return await self._known.get(
            text,
            lambda: loop.run_in_executor(self._queries, self._query, model, text),
        )

    def encode_now(self, text: str) -> Vector:
        """The query's vector, made in this thread; EncoderUnavailable while not ready."""
        return self._query(self._require().model, clean(text))

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order; EncoderUnavailable while the model is not ready."""
        loaded = self._require()
        loop = asyncio.get_running_loop()
        cleaned = [clean(text) for text in texts]
        lengths = await loop.run_in_executor(self._documents, loaded.lengths, cleaned)
        # Texts of like length share a batch, so little of it is padding.
        order = sorted(range(len(cleaned)), key=lengths.__getitem__)
        vectors: list[list[float]] = [[] for _ in cleaned]
        for first in range(0, len(order), self._batch_size):
            places = order[first : first + self._batch_size]
            batch = [cleaned[place] for place in places]
            model = self._require().model
            rows = await loop.run_in_executor(self._documents, self._batch, model, batch)
            for place, row in zip(places, rows, strict=True):
                vectors[place] = row
        return vectors

    async def size(self) -> int:
        """The dimensions, without loading a model that fastembed lists."""
        if self._loaded is not None:
            return self._loaded.size
        if self._listed_size is None:
            self._listed_size = await asyncio.to_thread(_listed_size, self.name)
        return self._listed_size

    async def known_size(self) -> int | None:
        """The dimensions, None where neither fastembed nor a loaded model tells them."""
        try:
            return await self.size()
        except EncoderUnavailable:
            return None

    def identity(self) -> str:
        """The model, and where it comes from a folder, that folder's files as they are now."""
        return f"fastembed {metadata.version('fastembed')} {self.name} {self._source.files()}"

    def token_limit(self) -> int | None:
        """Tokens a text may have, special ones counted; the rest is cut. None until ready."""
        return self._loaded.token_limit if self._loaded else None

    async def tokenizer_json(self) -> str | None:
        """The tokenizer without truncation and padding. None until ready."""
        return self.tokenizer

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:  # noqa: ARG002
        """Nowhere: cutting is not what this module knows. The model host does it."""
        return None

    async def common(self, words: Sequence[str]) -> Collection[str]:
        """Which of the words the model's vocabulary has whole. None until ready."""
        return self.whole(words)

    @property
    def tokenizer(self) -> str | None:
        """The tokenizer without truncation and padding. None until ready."""
        return self._loaded.tokenizer_json if self._loaded else None

    def whole(self, words: Sequence[str]) -> list[str]:
        """Those of the words that the model's vocabulary has whole, as it has what is common in
        its language. None until ready.
        """
        counter = self._loaded.counter if self._loaded else None
        if counter is None:
            return []
        return [word for word in words if len(counter.encode(word, add_special_tokens=False)) == 1]

    def close(self) -> None:
        """Let the model go; calls not yet begun fail."""
        with self._lock:
            self._closed = True
            self.state, self.reason = "idle", f"The model {self.name} has been closed."
            self._loaded = None
        self._known.clear()
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._documents.shutdown(wait=False, cancel_futures=True)

    def _query(self, model: "TextEmbedding", text: str) -> Vector:
        with self._turns.query():
            return self._guarded(_embed_query, model, text)

    def _batch(self, model: "TextEmbedding", texts: list[str]) -> list[list[float]]:
        self._turns.wait()
        return self._guarded(_embed_batch, model, texts)

    def _guarded(self, embed: Callable[..., T], model: "TextEmbedding", what: Any) -> T:
        """Run the model. onnxruntime and tokenizers raise bare exceptions, of no type of theirs."""
        try:
            return embed(model, what)
        except Exception as error:
            logger.exception("The embedding model failed")
            raise EncoderUnavailable(f"The model {self.name} failed on this text.") from error

    def _require(self) -> "_Loaded":
        if self._loaded is None:
            raise EncoderUnavailable(self.reason or f"The model {self.name} is not loaded yet.")
        return self._loaded

    def _load(self, settled: Future[None]) -> None:
        try:
            self._settle(load_model(self._source, self._downloading))
        except EncoderUnavailable as error:
            self._fail(str(error))
        except Exception:  # tokenizers and onnxruntime raise bare Exceptions
            logger.exception("Loading the embedding model failed")
            self._fail(f"The files of the model {self.name} cannot be read.")
        finally:
            settled.set_result(None)

    def _downloading(self) -> None:
        with self._lock:
            if not self._closed:
                self.state = "downloading"
                self.reason = f"The model {self.name} is being downloaded."

    def _settle(self, loaded: "_Loaded") -> None:
        with self._lock:
            if not self._closed:
                self._loaded = loaded
                self.state, self.reason = "ready", None

    def _fail(self, reason: str) -> None:
        logger.warning(reason)
        with self._lock:
            if not self._closed:
                self._failed_at = monotonic()
                self.state, self.reason = "failed", reason


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a model comes from."""

    model: str
    cache_dir: Path | None
    model_path: Path | None
    threads: int | None

    def files(self) -> str:
        """Names, sizes and times of the files in the model's folder, if it has one."""
        return files_in(self.model_path) if self.model_path else ""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model in memory, and what was measured on it."""

    model: "TextEmbedding"
    size: int
    token_limit: int | None = None
    tokenizer_json: str | None = None
    counter: "Tokenizer | None" = None

    def lengths(self, texts: list[str]) -> list[int]:
        """Tokens the model will read of each text."""
        if self.counter is None:
            return [len(text) for text in texts]
        return [len(encoding) for encoding in self.counter.encode_batch_fast(texts)]


def load_model(source: _Source, downloading: Callable[[], None]) -> _Loaded:
    """Load and warm up the model, calling `downloading` before the network is asked."""
    from loguru import logger as fastembed_log

    fastembed_log.disable("fastembed")
    _listed_size(source.model)
    if source.model_path is not None:
        if not source.model_path.is_dir():
            raise EncoderUnavailable("EMBEDDING_MODEL_PATH is not a folder.")
        return _measured(_open(source))
    try:
        return _measured(_open(source, local_files_only=True))
    except ValueError:  # not in the cache
        downloading()
    try:
        return _measured(_open(source))
    except (ValueError, OSError) as error:
        sentence = (
            f"The model {source.model} is not in the cache and could not be downloaded; "
            "EMBEDDING_MODEL_PATH may name a folder that has it."
        )
        raise EncoderUnavailable(sentence) from error


def _open(source: _Source, *, local_files_only: bool = False) -> "TextEmbedding":
    from fastembed import TextEmbedding

    model = TextEmbedding(
        source.model,
        cache_dir=str(source.cache_dir) if source.cache_dir else None,
        threads=source.threads,
        specific_model_path=str(source.model_path) if source.model_path else None,
        local_files_only=local_files_only,
        lazy_load=True,
    )
    _load_thriftily(model)
    return model


def _load_thriftily(model: "TextEmbedding") -> None:
    """Load the weights, in a session whose threads stop spinning once a query is done.

    By default they spin on for longer than the query took, on the cores that the engine needs
    next: twice the CPU time per query. fastembed has no parameter for it.
    """
    inner: Any = model.model
    if not hasattr(inner, "load_onnx_model"):  # a static model has no session
        return
    inner.add_extra_session_options = lambda options, _: options.add_session_config_entry(
        STOP_SPINNING, "1"
    )
    inner.load_onnx_model()


def _measured(model: "TextEmbedding") -> _Loaded:
    """The model with its limits, after a first run, which is slower than later ones."""
    from tokenizers import Tokenizer

    size = len(_embed_query(model, "warm up"))
    tokenizer: Tokenizer | None = getattr(model.model, "tokenizer", None)
    if tokenizer is None:
        return _Loaded(model, size)
    limit = tokenizer.truncation["max_length"] if tokenizer.truncation else None
    counter = Tokenizer.from_str(tokenizer.to_str())
    counter.no_padding()
    counter.no_truncation()
    plain = counter.to_str()
    if limit is not None:
        counter.enable_truncation(limit)
    return _Loaded(model, size, limit, plain, counter)


def _listed_size(model: str) -> int:
    """The dimensions fastembed states for a model; EncoderUnavailable when it lists none."""
    from fastembed import TextEmbedding

    try:
        return TextEmbedding.get_embedding_size(model)
    except ValueError as error:
        known = {
            one["model"].lower(): one["model"] for one in TextEmbedding.list_supported_models()
        }
        near = difflib.get_close_matches(model.lower(), known, n=1, cutoff=0.5)
        meant = f" Did you mean {known[near[0]]!r}?" if near else ""
        raise EncoderUnavailable(f"fastembed has no model {model!r}.{meant}") from error


def _embed_query(model: "TextEmbedding", text: str) -> Vector:
    return tuple(next(iter(model.query_embed(text))).tolist())


def _embed_batch(model: "TextEmbedding", texts: list[str]) -> list[list[float]]:
    return [row.tolist() for row in model.passage_embed(texts, batch_size=len(texts))]
