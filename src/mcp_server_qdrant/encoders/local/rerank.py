"""Scores from a local fastembed cross-encoder, made in a thread and never on the event loop."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.encoders.local.fastembed import RETRY_AFTER, STOP_SPINNING
from mcp_server_qdrant.encoders.text import clean

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

State = Literal["idle", "loading", "downloading", "ready", "failed", "closed"]

DEFAULT_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
BATCH_SIZE = 8
LOAD_SHARE = 0.5  # of the time a search gives, spent waiting for a model that is being loaded

logger = logging.getLogger(__name__)


class FastEmbedReranker:
    """The logits of one model.

    Construction is free. `start` loads the model in a thread: from `model_path` alone if given,
    else from the cache, else from the network.
    """

    logits = True
    length = 600  # about 130 tokens, which for 30 texts are 1.5 s of processor time
    retry_after = RETRY_AFTER

    def __init__(
        self,
        model: str | None = None,
        *,
        cache_dir: Path | None = None,
        model_path: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self.name = model or DEFAULT_MODEL
        self.state: State = "idle"
        self.reason = f"The reranker {self.name} is not loaded."
        self._options: dict[str, Any] = {
            "cache_dir": str(cache_dir) if cache_dir else None,
            "specific_model_path": str(model_path) if model_path else None,
            "threads": threads,
            "lazy_load": True,
        }
        self._local = model_path is not None
        self._model: TextCrossEncoder | None = None
        self._failed_at = 0.0
        self._lock = threading.Lock()
        self._settled: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "rerank")

    def start(self) -> None:
        """Begin to load in the background; after a failure, again once `retry_after` has passed."""
        with self._lock:
            if self.state not in ("idle", "failed"):
                return
            if self.state == "failed" and monotonic() - self._failed_at < self.retry_after:
                return
            self.state, self.reason = "loading", f"The reranker {self.name} is being loaded."
            self._settled = Future()
            # A pool's thread would keep a stopping process waiting for a stuck download.
            threading.Thread(
                target=self._load, args=(self._settled,), name="load-reranker", daemon=True
            ).start()

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a load under way; whether it can score now."""
        if self._settled is not None and not self._settled.done():
            await asyncio.wait([asyncio.wrap_future(self._settled)], timeout=timeout)
        return self.state == "ready"

    async def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One logit per text, in order. Raises RerankerUnavailable.

        A caller that gives up ends the work in the thread after the batch at hand.
        """
        self.start()
        if self.state == "loading":
            await self.ready(LOAD_SHARE * seconds)
        model, given_up = self._model, threading.Event()
        if model is None:
            raise RerankerUnavailable(self.reason, tried=False)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._scores, model, query, texts, given_up
            )
        finally:
            given_up.set()

    async def close(self) -> None:
        """Let the model go."""
        with self._lock:
            self.state, self.reason = "closed", f"The reranker {self.name} has been closed."
            self._model = None
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _scores(
        self,
        model: "TextCrossEncoder",
        query: str,
        texts: Sequence[str],
        given_up: threading.Event,
    ) -> list[float]:
        """Run the model. onnxruntime and tokenizers raise bare exceptions, of no type of theirs."""
        query, cleaned = clean(query), [clean(text) for text in texts]
        # Texts of like length share a batch, so little of it is padding.
        order = sorted(range(len(cleaned)), key=lambda place: len(cleaned[place]))
        found = [0.0] * len(cleaned)
        try:
            for first in range(0, len(order), BATCH_SIZE):
                if given_up.is_set():
                    break
                places = order[first : first + BATCH_SIZE]
                batch = [cleaned[place] for place in places]
                for place, value in zip(places, model.rerank(query, batch), strict=True):
                    found[place] = float(value)
        except Exception as error:
            logger.exception("The reranker failed")
            raise RerankerUnavailable(f"The reranker {self.name} failed.") from error
        return found

    def _load(self, settled: Future[None]) -> None:
        try:
            model = self._open()
            with self._lock:
                if self.state != "closed":
                    self._model, self.state, self.reason = model, "ready", ""
        except RerankerUnavailable as error:
            self._fail(str(error))
        except Exception:  # tokenizers and onnxruntime raise bare Exceptions
            logger.exception("Loading the reranker failed")
            self._fail(f"The files of the reranker {self.name} cannot be read.")
        finally:
            settled.set_result(None)

    def _fail(self, reason: str) -> None:
        logger.warning(reason)
        with self._lock:
            if self.state != "closed":
                self._failed_at = monotonic()
                self.state, self.reason = "failed", reason

    def _open(self) -> "TextCrossEncoder":
        """The model, loaded and run once, which is slower than later runs."""
        from fastembed.rerank.cross_encoder import TextCrossEncoder
        from loguru import logger as fastembed_log

        fastembed_log.disable("fastembed")
        known = {model["model"].lower() for model in TextCrossEncoder.list_supported_models()}
        if self.name.lower() not in known:
            raise RerankerUnavailable(f"fastembed has no reranker {self.name!r}.")
        model = self._found(TextCrossEncoder)
        inner: Any = model.model
        # As with the embedding model: threads that spin on would slow the engine down.
        inner.add_extra_session_options = lambda options, _: options.add_session_config_entry(
            STOP_SPINNING, "1"
        )
        inner.load_onnx_model()
        list(model.rerank("warm", ["up"]))
        return model

    def _found(self, make: "type[TextCrossEncoder]") -> "TextCrossEncoder":
        if self._local:
            return make(self.name, **self._options)
        try:
            return make(self.name, **self._options, local_files_only=True)
        except ValueError:  # not in the cache
            with self._lock:
                if self.state == "loading":
                    self.state = "downloading"
                    self.reason = f"The reranker {self.name} is being downloaded."
        try:
            return make(self.name, **self._options)
        except (ValueError, OSError) as error:
            sentence = (
                f"The reranker {self.name} is not in the cache and could not be downloaded; "
                "RERANK_MODEL_PATH may name a folder that has it."
            )
            raise RerankerUnavailable(sentence) from error
