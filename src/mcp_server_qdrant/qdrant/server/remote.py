"""A Qdrant server, or a cluster: how collections are created and read there, and retries."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any
from weakref import WeakValueDictionary

from qdrant_client import models
from qdrant_client.common.version_check import is_compatible
from qdrant_client.http.exceptions import ResponseHandlingException
from typing_extensions import override

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.bounded import MODELS, PLAIN, bounded
from mcp_server_qdrant.core.deadline import left
from mcp_server_qdrant.core.errors import UNSURE, EngineTooOld, QdrantMcpError, RequestError
from mcp_server_qdrant.core.options import ClusterOptions
from mcp_server_qdrant.core.retry import retried
from mcp_server_qdrant.qdrant.errors import (
    FOREIGN,
    TranslatedClient,
    foreign_errors,
    kind_of,
    status_of,
)
from mcp_server_qdrant.qdrant.server.rest import RestLine
from mcp_server_qdrant.qdrant.server.strict import Strict
from mcp_server_qdrant.qdrant.server.version import at_least

PAUSES = (0.05, 0.25)  # seconds before the second and the third try
_PASSING = (502, 503)
_UNSURE = (408, 500, 502, 504)
_READS = frozenset({"retrieve", "scroll", "facet", "count"})
_SHARED = _READS | {"get_collection"}
_WRITES = frozenset({"upsert", "update_vectors", "delete", "set_payload", "delete_payload"})
# An upsert does the same when it is done twice.
_RETRIED = _SHARED | {"get_collections", "collection_exists", "query_batch_points", "upsert"}
OLDEST = (1, 16)  # whose fusion takes a k
TOO_OLD = "Qdrant is version {}; searches need 1.16 or newer: upgrade it."
SKEW = (
    "Qdrant is version %s and this server's client %s: more than one minor version apart, some "
    "searches may fail. Upgrade the older one."
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Requests to a server, and parameters of its new collections.

    `timeout` in seconds bounds a read, here and there. A caller has at most `share` requests at
    the same time; without authentication there is no such bound.
    """

    timeout: float
    share: int | None = None
    options: ClusterOptions = field(default_factory=ClusterOptions)

    def made(self) -> dict[str, Any]:
        """The arguments of `create_collection`."""
        asked = {
            "shard_number": self.options.shards,
            "replication_factor": self.options.replicas,
            "write_consistency_factor": self.options.write_consistency,
            "quantization_config": _QUANTIZATION[self.options.quantization],
        }
        return {name: value for name, value in asked.items() if value is not None}


_QUANTIZATION: Mapping[str, models.QuantizationConfig | None] = {
    "none": None,
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(
            type=models.ScalarType.INT8, quantile=0.99, always_ram=True
        )
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "product": models.ProductQuantization(
        product=models.ProductQuantizationConfig(
            compression=models.CompressionRatio.X16, always_ram=True
        )
    ),
    "turbo": models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(always_ram=True)),
}


class RemoteClient(TranslatedClient):
    """qdrant-client's client, with what a cluster needs at every call.

    A call ends within its time, whatever the server sends. Reads carry their deadline.
    Reads and upserts are tried again where the connection broke or a node was away;
    nothing else is, and nothing that took too long.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            url=url,
            api_key=api_key,
            headers={**PLAIN, **(headers or {})},
            timeout=math.ceil(cluster.timeout),
            event_hooks={"response": [partial(bounded, costs=MODELS)]},
            **kwargs,
        )
        self._cluster = cluster
        named = {**(headers or {}), **({"api-key": api_key} if api_key else {})}
        self._rest = RestLine(self.http.client.host, named)
        self._strict = Strict()
        self._meeting: asyncio.Task[None] | None = None
        self._version = ""  # of the server, once it was met
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @override
    async def _send(self, name: str, *args: Any, **kwargs: Any) -> Any:
        collection = args[0] if args else kwargs.get("collection_name", "")
        if name == "create_collection":
            kwargs = self._created(kwargs)
        async with self._share() if name in _SHARED else nullcontext():
            if name in _READS:
                kwargs = self._bounds(collection) | kwargs
            call = partial(self._call(name), *args, **kwargs)
            answer = await self._tried(name, call, kwargs.get("timeout", self._cluster.timeout))
        if name == "get_collection":
            self._strict.learn(collection, answer)
        return answer

    def _call(self, name: str) -> Callable[..., Awaitable[Any]]:
        """The call of the lean line, or else qdrant-client's, which takes twenty times as long."""
        if name in _SHARED:
            call: Callable[..., Awaitable[Any]] = getattr(self._rest, name)
            return call
        return partial(super()._send, name)

    async def _tried(self, name: str, call: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """The answer, in so many seconds with all tries."""
        end = asyncio.get_running_loop().time() + seconds

        async def once() -> Any:
            async with asyncio.timeout_at(end):
                return await call()

        attempt = _doubted(once) if name in _WRITES else once
        if name not in _RETRIED:
            return await attempt()
        answer = await retried(attempt, PAUSES, FOREIGN, self.lost)
        if self._meeting is None:  # now that the server is there
            self._meeting = asyncio.ensure_future(self._meet())
        return answer

    def _bounds(self, collection: str) -> dict[str, Any]:
        """The deadline of a read."""
        whole = max(1, math.ceil(min(self._cluster.timeout, left() or math.inf)))
        return {"timeout": self._strict.seconds(collection, whole)}

    @override
    async def query_batch_points(  # type: ignore[override]
        self, collection_name: str, requests: Sequence[models.QueryRequest], **kwargs: Any
    ) -> Any:
        """The answers to all that a search asks.

        Of many collections one is asked by each call: little may stand around it.
        """
        requests = self._strict.requests(collection_name, requests)
        try:
            with foreign_errors(collection_name):
                async with self._share():
                    bounds = self._bounds(collection_name) | kwargs
                    ask = partial(
                        self._rest.query_batch_points, collection_name, requests, **bounds
                    )
                    return await self._tried("query_batch_points", ask, bounds["timeout"])
        except RequestError as error:
            if self._meeting is not None:
                await asyncio.wait([self._meeting])
            if self._version and not at_least(self._version, OLDEST):
                raise EngineTooOld(TOO_OLD.format(self._version)) from error
            raise

    def lost(self, error: Exception) -> bool:
        """True where a node was away or a connection broke: the next try may succeed.

        The next answer may be from a server of another version, and is met anew.
        """
        if kind_of(error) == "unreachable":
            if self._meeting is not None and self._meeting.done():
                self._meeting = None
            return True
        return status_of(error) in _PASSING

    @override
    async def close(self, *args: Any, **kwargs: Any) -> None:
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])
        await self._rest.close()
        await super().close(*args, **kwargs)

    def _created(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of `create_collection`, with what the cluster asks for."""
        vectors = kwargs.get("vectors_config")
        if self._cluster.options.on_disk_vectors is not None and vectors:
            kwargs["vectors_config"] = _placed(
                vectors, on_disk=self._cluster.options.on_disk_vectors
            )
        return self._cluster.made() | kwargs

    def _share(self) -> AbstractAsyncContextManager[Any]:
        """A place among the caller's own: a caller that asks a lot keeps nobody else waiting."""
        who = caller()
        if who is None or self._cluster.share is None:
            return nullcontext()
        return self._shares.setdefault(who.name, asyncio.Semaphore(self._cluster.share))

    async def _meet(self) -> None:
        """Warn where client and server are too far apart."""
        try:
            server = self._version = (await self.info()).version
        except QdrantMcpError:
            return  # it does not say; what it refuses fails call by call
        client = metadata.version("qdrant-client")
        if not is_compatible(client, server):
            logger.warning(SKEW, server, client)
        logger.info("The Qdrant server is version %s.", server)


def _doubted(write: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """The write; its failures carry a note where this try or an earlier one may have done it."""
    doubt = False

    async def doubted() -> Any:
        nonlocal doubt
        try:
            return await write()
        except FOREIGN as error:
            doubt = doubt or _may_have_happened(error)
            if doubt:
                error.add_note(UNSURE)
            raise

    return doubted


def _may_have_happened(error: Exception) -> bool:
    """True where the server may have done the write, though it did not say so."""
    if (status := status_of(error)) is not None:
        return status in _UNSURE
    if not isinstance(error, ResponseHandlingException | OSError):
        return False
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    return not kinds & {"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError"}


def _placed(vectors: Any, *, on_disk: bool) -> Any:
    """The vectors' parameters, placed on disk or in memory where they do not say themselves."""
    if isinstance(vectors, Mapping):
        return {name: _placed(params, on_disk=on_disk) for name, params in vectors.items()}
    if vectors.on_disk is not None:
        return vectors
    return vectors.model_copy(update={"on_disk": on_disk})
