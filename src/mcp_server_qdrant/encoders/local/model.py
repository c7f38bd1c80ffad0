"""A fastembed model in the model host: found, loaded in a thread, and run; for any kind of model.

Calls block: each has a thread of its own.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from mcp_server_qdrant.core.breaker import Breaker
from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.notation import near_names, some
from mcp_server_qdrant.encoders.local.listed import Spec

NEAR = 0.4  # likeness of a name without its maker to the whole one
State = Literal["idle", "loading", "downloading", "ready", "failed"]

BATCH_SIZE = 8  # larger batches are slower on a CPU and take far more memory
STOP_SPINNING = "session.force_spinning_stop"
RETRY_AFTER = 60.0  # seconds between two attempts to load

logger = logging.getLogger(__name__)


class LocalModel:
    """One model of a kind. Construction is free; `start` loads it.

    It comes from the folder that the spec names, else from the cache, else from the network.
    `reason` says in a sentence why it is not ready; `size` and `token_limit` are known once it is.
    Tokens beyond the limit, special ones counted, are cut. Clients may call its public methods.
    """

    noun: ClassVar[str]
    setting: ClassVar[str]  # names the folder of a model

    def __init__(self, spec: Spec) -> None:
        self.name = spec.model
        self.state: State = "idle"
        self.reason: str | None = f"The {self.noun} {self.name} is not loaded yet."
        self.size: int | None = None
        self.token_limit: int | None = None
        self._spec = spec
        self._loaded: Any = None  # fastembed's model
        self._breaker = Breaker(RETRY_AFTER, failures=1)
        self._changed = threading.Condition()

    def start(self) -> None:
        """Begin to load; after a failure, again once some time has passed."""
        with self._changed:
            if self.state not in ("idle", "failed") or self._breaker.open:
                return
            self.state, self.reason = "loading", f"The {self.noun} {self.name} is being loaded."
        # A pool's thread would keep a stopping process waiting for a stuck download.
        threading.Thread(target=self._load, name="load-model", daemon=True).start()

    def wait_while(self, state: str | None, seconds: float) -> None:
        """Wait until the state is another one, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.state != state, seconds)

    def report(self, known: str | None, seconds: float) -> Any:
        """State, reason, size and token limit, as soon as the state is not the known one."""
        self.wait_while(known, seconds)
        return self.state, self.reason, self.size, self.token_limit

    def loaded(self, seconds: float = 0.0) -> Any:
        """The model, waited for while it is being loaded, not while it is being downloaded.

        Raises EncoderUnavailable.
        """
        self.wait_while("loading", seconds)
        if self._loaded is None:
            raise EncoderUnavailable(self.reason or "")
        return self._loaded

    @contextmanager
    def running(self, seconds: float = 0.0) -> Iterator[Any]:
        """The model while it runs, waited for. onnxruntime and tokenizers raise bare exceptions.

        Raises EncoderUnavailable where it is not loaded or fails.
        """
        model = self.loaded(seconds)
        try:
            yield model
        except Exception as error:
            logger.exception("The %s failed", self.noun)
            sentence = f"The {self.noun} {self.name} failed on this text."
            raise EncoderUnavailable(sentence) from error

    def listed(self) -> dict[str, Any]:
        """The model as fastembed describes it. Raises EncoderUnavailable where it has none."""
        known: dict[str, dict[str, Any]] = {
            entry["model"].lower(): entry for entry in self.kind().list_supported_models()
        }
        if (found := known.get(self.name.lower())) is not None:
            return found
        near = near_names(self.name, known, NEAR)
        hint = f" Did you mean {known[near[0]]['model']!r}?" if near else ""
        raise EncoderUnavailable(f"fastembed has no {self.noun} {self.name!r}.{hint}")

    def kind(self) -> Any:
        """The class of fastembed's that serves models of this kind."""
        raise NotImplementedError

    def prepare(self, model: Any) -> None:
        """Run it for the first time, which is slower than later runs, and learn what it is."""
        raise NotImplementedError

    def _load(self) -> None:
        try:
            model = self._open()
            self.prepare(model)
            self._loaded = model
        except EncoderUnavailable as error:
            self._fail(str(error))
        except Exception:  # tokenizers and onnxruntime raise bare Exceptions
            logger.exception("Loading the %s failed", self.noun)
            self._fail(f"The files of the {self.noun} {self.name} cannot be read.")
        else:
            self._become("ready", None)

    def _fail(self, reason: str) -> None:
        logger.warning(reason)
        self._breaker.failed(reason)
        self._become("failed", reason)

    def _become(self, state: State, reason: str | None) -> None:
        with self._changed:
            self.state, self.reason = state, reason
            self._changed.notify_all()

    def _open(self) -> Any:
        """The model from its folder, the cache or the network. Raises EncoderUnavailable."""
        from loguru import logger as fastembed_log

        fastembed_log.disable("fastembed")
        listed = self.listed()
        if self._spec.model_path is not None:
            folder = self._folder(Path(self._spec.model_path), listed["model_file"])
            return self._made(specific_model_path=str(folder))
        try:
            return self._made(local_files_only=True)
        except ValueError:  # not in the cache
            self._become("downloading", f"The {self.noun} {self.name} is being downloaded.")
        try:
            return self._made()
        except (ValueError, OSError) as error:
            raise EncoderUnavailable(
                f"The {self.noun} {self.name} is not in the cache and could not be downloaded; "
                f"{self.setting} may name a folder that has it."
            ) from error

    def _folder(self, path: Path, file: str) -> Path:
        """The folder with the model's files: the path, or one below it that is named so.

        Raises EncoderUnavailable, with what was tried.
        """
        if not path.is_dir():
            raise EncoderUnavailable(f"{self.setting} is not a folder.")
        if (path / file).is_file():
            return path
        # In a folder of its own, or as a cache of models has it.
        patterns = ("*/", "snapshots/*/", "models--*/snapshots/*/")
        places = [one for pattern in patterns for one in sorted(path.glob(pattern))]
        below = [one for one in places if (one / file).is_file()]
        name = self.name.split("/")[-1].lower()
        named = [one for one in below if name in str(one.relative_to(path)).lower()]
        if named or len(below) == 1:
            return (named or below)[0]
        tried = some(sorted(one.name for one in path.glob("*/"))) or "there is none"
        raise EncoderUnavailable(
            f"{self.setting} has no {file} of {self.name}, nor has a folder in it ({tried})."
        )

    def _made(self, **options: Any) -> Any:
        """The model in a session whose threads stop spinning once a text is read.

        By default they spin on for longer than the text took, on the cores that the engine needs
        next: twice the CPU time per query. fastembed has no parameter for it.
        """
        model = self.kind()(
            self.name,
            cache_dir=self._spec.cache_dir,
            threads=self._spec.threads,
            lazy_load=True,
            **options,
        )
        inner: Any = model.model
        if hasattr(inner, "load_onnx_model"):  # a static model has no session
            inner.add_extra_session_options = lambda options, _: options.add_session_config_entry(
                STOP_SPINNING, "1"
            )
            inner.load_onnx_model()
        return model
