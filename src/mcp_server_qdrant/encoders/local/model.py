"""A local fastembed model of any kind: finds its files, loads it in a thread, and runs it.

All calls of a model block, so they run in its `Turns`.
"""

import ctypes
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.notation import first_few, near_names
from mcp_server_qdrant.encoders.local.turns import Turns

NEAR = 0.4  # similarity of a name without its maker to the full name
State = Literal["idle", "loading", "downloading", "ready", "failed", "closed"]

BATCH_SIZE = 8  # larger batches are slower on a CPU and need far more memory
STOP_SPINNING = "session.force_spinning_stop"
RETRY_AFTER = 30.0  # seconds until a retry after a failed load or a hang
QUERY_SECONDS = 6.0
CALL_SECONDS = 600.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spec:
    """A model and how to load it; models are shared only if all fields are equal."""

    model: str
    cache_dir: str | None = None
    model_path: str | None = None


class LocalModel:
    """One model of a kind. Construction is free; `start` loads it.

    It comes from the spec's folder, else from the cache, else from the network. `reason` is a
    sentence on why it is not ready; `loading` is a future of the pending load. `token_limit` is
    known once it is ready: further tokens, including special ones, are cut off.
    """

    noun: ClassVar[str]
    seconds: ClassVar[float]  # after which a call counts as hanging

    def __init__(self, spec: Spec) -> None:
        self.name = spec.model
        self.state: State = "idle"
        self.reason: str | None = f"The {self.noun} {self.name} is not loaded yet."
        self.token_limit: int | None = None
        self.loading: Future[None] = Future()
        self.loading.set_result(None)
        self.turns = Turns(self.seconds)
        self._spec = spec
        self._loaded: Any = None  # the fastembed model
        self._breaker = Breaker(RETRY_AFTER, failures=1)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start loading; after a failure, retry once RETRY_AFTER has passed."""
        with self._lock:
            if self.state not in ("idle", "failed") or self._breaker.open:
                return
            if (
                self._loaded is not None
            ):  # it hung before; the next call shows whether it still does
                self.state, self.reason = "ready", None
                return
            self.state, self.reason = "loading", f"The {self.noun} {self.name} is being loaded."
            self.loading = Future()
            self.loading.set_running_or_notify_cancel()  # waiters cannot cancel it
        # A pool's thread would keep the process from exiting during a stuck download.
        threading.Thread(target=self._load, name="load-model", daemon=True).start()

    def fail(self, reason: str) -> None:
        """Set the state to failed; `start` retries after RETRY_AFTER seconds."""
        logger.warning(reason)
        self._breaker.failed(reason)
        self._set_state("failed", reason)

    def close(self) -> None:
        """Release it."""
        self._set_state("closed", f"The {self.noun} {self.name} has been closed.")
        self._loaded = None

    def closed_copy(self) -> Self:
        """A closed stand-in for a user that has released it; others may still use it."""
        other = type(self)(self._spec)
        other.close()
        return other

    @contextmanager
    def running(self) -> Iterator[Any]:
        """Yield the model to run it. onnxruntime and tokenizers raise bare exceptions.

        Raises EncoderUnavailable if it is not loaded or fails.
        """
        if (model := self._loaded) is None:
            raise EncoderUnavailable(self.reason or "")
        try:
            yield model
        except EncoderUnavailable:
            raise
        except Exception as error:
            logger.exception("The %s failed", self.noun)
            sentence = f"The {self.noun} {self.name} failed on this text."
            raise EncoderUnavailable(sentence) from error

    @classmethod
    @cache
    def supported_models(cls) -> Mapping[str, Mapping[str, Any]]:
        """The descriptions of this kind's models in fastembed, by name in lowercase.

        The first call imports fastembed, which takes half a second.
        """
        return {one["model"].lower(): one for one in cls.model_class().list_supported_models()}

    @staticmethod
    def model_class() -> Any:
        """The fastembed class for models of this kind."""
        raise NotImplementedError

    def prepare(self, model: Any) -> None:
        """Warm the model up, and read its properties."""
        raise NotImplementedError

    def _load(self) -> None:
        try:
            model = self._open()
            self.prepare(model)
            self._loaded = model
        except EncoderUnavailable as error:
            self.fail(str(error))
        except Exception:  # tokenizers and onnxruntime raise bare Exceptions
            logger.exception("Loading the %s failed", self.noun)
            self.fail(f"The files of the {self.noun} {self.name} cannot be read.")
        else:
            trim_memory()
            self._set_state("ready", None)
        self.loading.set_result(None)

    def _set_state(self, state: State, reason: str | None) -> None:
        with self._lock:
            if self.state == "closed":
                self._loaded = None
            else:
                self.state, self.reason = state, reason

    def _open(self) -> Any:
        """Load the model from its folder, the cache or the network. Raises EncoderUnavailable."""
        from loguru import logger as fastembed_log

        fastembed_log.disable("fastembed")
        served = self.supported_models()
        if self.name.lower() not in served:
            near = near_names(self.name, served, NEAR)
            hint = f" Did you mean {served[near[0]]['model']!r}?" if near else ""
            raise EncoderUnavailable(f"fastembed has no {self.noun} {self.name!r}.{hint}")
        if self._spec.model_path is not None:
            file = served[self.name.lower()]["model_file"]
            folder = self._folder(Path(self._spec.model_path), file)
            # Without `cache_dir` fastembed looks for a writable folder, and fails on a full disk.
            return self._create(specific_model_path=str(folder), cache_dir=str(folder))
        try:
            return self._create(local_files_only=True)
        except ValueError:  # not in the cache
            self._set_state("downloading", f"The {self.noun} {self.name} is being downloaded.")
        try:
            return self._create()
        except (ValueError, OSError) as error:
            raise EncoderUnavailable(
                f"The {self.noun} {self.name} is not in the cache and could not be downloaded. "
                "Set FASTEMBED_CACHE_PATH to a cache that has it."
            ) from error

    def _folder(self, path: Path, file: str) -> Path:
        """The folder with the model's files: the path, or one below it named after the model.

        Raises EncoderUnavailable with the paths tried.
        """
        if not path.is_dir():
            raise EncoderUnavailable("EMBEDDING_MODEL_PATH is not a folder.")
        if (path / file).is_file():
            return path
        # Either a folder named after the model, or the layout of a model cache.
        patterns = ("*/", "snapshots/*/", "models--*/snapshots/*/")
        places = [one for pattern in patterns for one in sorted(path.glob(pattern))]
        below = [one for one in places if (one / file).is_file()]
        name = self.name.split("/")[-1].lower()
        named = [one for one in below if name in str(one.relative_to(path)).lower()]
        if named or len(below) == 1:
            return (named or below)[0]
        tried = first_few(sorted(one.name for one in path.glob("*/"))) or "there is none"
        raise EncoderUnavailable(
            f"EMBEDDING_MODEL_PATH has no {file} of {self.name}, nor has a folder in it ({tried})."
        )

    def _create(self, **options: Any) -> Any:
        """Create the model in an onnxruntime session that saves CPU time and memory.

        By default its threads keep spinning after a query, on cores that the engine needs next,
        which doubles the CPU time; fastembed has no parameter for that. And its arena never frees
        the memory of the largest batch, 50 MB.
        """
        model = self.model_class()(
            self.name, lazy_load=True, **{"cache_dir": self._spec.cache_dir, **options}
        )
        inner: Any = model.model
        if hasattr(inner, "load_onnx_model"):  # a static model has no session
            inner.add_extra_session_options = _save_resources
            inner.load_onnx_model()
        return model


def _save_resources(options: Any, _: object) -> None:
    options.add_session_config_entry(STOP_SPINNING, "1")
    options.enable_cpu_mem_arena = False


def trim_memory() -> None:
    """Return freed memory to the system: glibc keeps 30 MB after a load, 50 MB after a batch."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches of indexes of texts with similar lengths, to keep padding small."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for first in range(0, len(order), size):
        yield order[first : first + size]
