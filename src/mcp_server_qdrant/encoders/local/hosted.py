"""The local models of this server: in a model host, one process for all servers of a person.

This process holds none of them and imports none of their libraries. What the host cannot do is an
EncoderUnavailable with the reason; the next call finds or starts a host again.
"""

import asyncio
import contextlib
import json
import logging
from array import array
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from mcp_server_qdrant.core.errors import EncoderUnavailable
from mcp_server_qdrant.core.tasks import Tasks
from mcp_server_qdrant.encoders.cache import QueryCache, Vector
from mcp_server_qdrant.encoders.encoder import Span
from mcp_server_qdrant.encoders.local.listed import SIZES
from mcp_server_qdrant.hosting.link import Link
from mcp_server_qdrant.hosting.service import Faults, Service

WIRE = 2
IDLE_SECONDS = 5.0
CALL_SECONDS = 600.0
QUERY_SECONDS = 6.0
WATCH_SECONDS = 3.0  # a call that takes longer makes us ask whether the host still lives
PING_SECONDS = 5.0  # a host that says nothing for so long is ended: it holds nothing to lose
POLL_SECONDS = 10.0
RETRY_AFTER = 5.0
SLICE = 64  # texts per trip

logger = logging.getLogger(__name__)


class _Late(EncoderUnavailable):
    """The host did not answer in time."""


FAULTS = Faults(
    called="The model host",
    folder="The cache folder",
    setting="QDRANT_CACHE_PATH",
    unavailable=EncoderUnavailable,
    late=_Late,
)


def service(
    folder: Path, name: str, idle_seconds: float = IDLE_SECONDS, *, module: str = ""
) -> Service:
    """The model host of a folder and a name; whoever may start it says of which `module`."""
    return Service(
        module=module,
        folder=folder.absolute(),
        name=name,
        wire=WIRE,
        options=json.dumps({"name": name, "idle_seconds": idle_seconds}),
        faults=FAULTS,
        once_only=lambda *_: False,  # nothing that it does leaves a trace
        expendable=True,
    )


def host_name(*what: str) -> str:
    """The host for servers that agree in all this: another version or environment has its own."""
    told = json.dumps([WIRE, *what])
    return f"model-host-{sha256(told.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Spec:
    """One model as it is to be loaded; what differs in anything is another model."""

    kind: Literal["dense", "rerank"]
    model: str
    cache_dir: str | None = None
    model_path: str | None = None
    threads: int | None = None


class ModelHost:
    """The server's line to the model host, found or started when first needed."""

    def __init__(self, to: Service) -> None:
        self._service = to
        self._link: Link | None = None
        self._under_way = 0
        self._watch: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    async def open(self) -> None:
        """Find or start the host. Raises EncoderUnavailable."""
        await self._line().open()

    async def call(self, operation: str, *arguments: Any, timeout: float = CALL_SECONDS) -> Any:
        """The host's answer. Raises EncoderUnavailable."""
        plain = [astuple(one) if isinstance(one, Spec) else one for one in arguments]
        self._under_way += 1
        if self._watch is None or self._watch.done():
            self._watch = self._tasks.start("The watch over the model host", self._watching)
        try:
            return await self._line().call(operation, *plain, timeout=timeout)
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """Leave; the host goes on for others."""
        if self._watch is not None:
            self._watch.cancel()
        if self._link is not None:
            await self._link.close()

    def _line(self) -> Link:
        if self._link is None:
            self._link = Link(self._service, CALL_SECONDS)
        return self._link

    async def _watching(self) -> None:
        """While calls are under way: end a host that hangs, so that they are done by another."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self._under_way:
                return
            try:
                await self._line().call("ping", timeout=PING_SECONDS)
            except _Late:
                logger.warning("The model host did not answer and is started again.")
                self._line().end_host()
            except EncoderUnavailable:
                return


class HostedEncoder:
    """The vectors of one model, L2-normalised; those of recent queries are remembered here."""

    retry_after = RETRY_AFTER

    def __init__(self, host: ModelHost, spec: Spec, query_cache_size: int) -> None:
        self.name = spec.model
        self.state = "idle"
        self.reason: str | None = None
        self._host = host
        self._spec = spec
        self._known = QueryCache(query_cache_size)
        self._size: int | None = None
        self._limit: int | None = None
        self._failed_at = 0.0
        self._closed = False
        self._asking: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    @property
    def vector_name(self) -> str:
        """The name the official server gives this model's vector."""
        return f"fast-{self.name.split('/')[-1].lower()}"

    def start(self) -> None:
        """Have it loaded in the background; after a failure, again once some time has passed."""
        if self._closed or self.state == "ready" or not self._idle():
            return
        if self.state == "failed" and monotonic() - self._failed_at < self.retry_after:
            return
        if self.state == "idle":
            self.state, self.reason = "loading", f"The model {self.name} is being loaded."
        self._ask()

    async def ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a load under way; whether vectors can be made now."""
        if self._asking is not None and not self._asking.done():
            await asyncio.wait([self._asking], timeout=timeout)
        return self.state == "ready"

    async def encode_query(self, text: str) -> Vector:
        """The query's vector; EncoderUnavailable while the model is not ready."""
        self._require()
        return await self._known.get(text, lambda: self._query(text))

    async def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order; EncoderUnavailable while the model is not ready."""
        # Texts of like length share a batch, so little of it is padding.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        vectors: list[list[float]] = [[] for _ in texts]
        for first in range(0, len(order), SLICE):
            places = order[first : first + SLICE]
            rows = await self._call("documents", [texts[place] for place in places])
            for place, row in zip(places, rows, strict=True):
                vectors[place] = array("f", row).tolist()
        return vectors

    async def size(self) -> int:
        """The dimensions, without a model that fastembed lists, or its host."""
        size = self._size or SIZES.get(self.name)
        if size is None:
            size = self._size = int(await self._host.call("size", self._spec))
        return size

    async def known_size(self) -> int | None:
        """The dimensions, None where neither the host nor a loaded model tells them."""
        try:
            return await self.size()
        except EncoderUnavailable:
            return None

    def identity(self) -> str:
        """The model, and where it comes from a folder, that folder's files as they are now."""
        path = self._spec.model_path
        files = files_in(Path(path)) if path else ""
        return f"fastembed {metadata.version('fastembed')} {self.name} {files}"

    def token_limit(self) -> int | None:
        """Tokens a text may have, special ones counted; the rest is cut. None until ready."""
        return self._limit if self.state == "ready" else None

    async def tokenizer_json(self) -> str | None:
        """The tokenizer without truncation and padding. None until ready."""
        found = await self._if_there("tokenizer")
        return None if found is None else str(found)

    async def split(self, text: str, limit: int, overlap: int) -> list[Span] | None:
        """Where the text is cut, by the model's own tokenizer. None until ready."""
        spans: list[Span] | None = await self._if_there("split", text, limit, overlap)
        return spans

    async def common(self, words: Sequence[str]) -> Collection[str]:
        """Those of the words that the model's vocabulary has whole. None until ready."""
        found: list[str] | None = await self._if_there("common", list(words), QUERY_SECONDS)
        return found or ()

    def close(self) -> None:
        """Ask for nothing any more; the host is left by who opened the line to it."""
        self._closed = True
        self.state, self.reason = "idle", f"The model {self.name} has been closed."
        self._known.clear()
        if self._asking is not None:
            self._asking.cancel()

    async def _query(self, text: str) -> Vector:
        made = await self._call("query", text, QUERY_SECONDS, timeout=QUERY_SECONDS)
        return tuple(array("f", made))

    async def _call(self, operation: str, *arguments: Any, timeout: float = CALL_SECONDS) -> Any:
        self._require()
        try:
            return await self._host.call(operation, self._spec, *arguments, timeout=timeout)
        except EncoderUnavailable:
            if not self._closed and self._idle():  # it may have got lost
                self._ask()
            raise

    async def _if_there(self, operation: str, *arguments: Any) -> Any:
        if self.state != "ready":
            return None
        with contextlib.suppress(EncoderUnavailable):
            return await self._call(operation, *arguments)
        return None

    def _ask(self) -> None:
        self._asking = self._tasks.start(f"The loading of {self.name}", self._follow)

    def _idle(self) -> bool:
        return self._asking is None or self._asking.done()

    def _require(self) -> None:
        if self.state != "ready":
            raise EncoderUnavailable(self.reason or f"The model {self.name} is not loaded yet.")

    async def _follow(self) -> None:
        """What becomes of the model in the host, until it is there or has failed."""
        known = None
        try:
            while known not in ("ready", "failed"):
                known, reason, size, limit = await self._host.call(
                    "state", self._spec, known, POLL_SECONDS
                )
                if known == "ready":
                    self._size, self._limit = size, limit
                self._become(known, reason)
        except EncoderUnavailable as error:
            self._become("failed", str(error))

    def _become(self, state: str, reason: str | None) -> None:
        if self._closed:
            return
        if state == "failed":
            self._failed_at = monotonic()
            if (self.state, self.reason) != (state, reason):
                logger.warning(reason)
        self.state, self.reason = state, reason


def files_in(folder: Path) -> str:
    """Names, sizes and times of a model's files."""
    stats = ((file.name, file.stat()) for file in sorted(folder.glob("*.onnx*")))
    held = [f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats]
    return f"{folder.resolve()} {' '.join(held)}"
