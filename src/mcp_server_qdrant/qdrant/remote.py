"""A Qdrant server, or a cluster: how collections are created and read there, and retries."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Literal, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import models
from qdrant_client.common.version_check import is_compatible
from qdrant_client.grpc import HealthCheckRequest
from qdrant_client.http.exceptions import ResponseHandlingException
from typing_extensions import override

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.deadline import left
from mcp_server_qdrant.core.errors import UNSURE, QdrantMcpError
from mcp_server_qdrant.core.options import ClusterOptions
from mcp_server_qdrant.core.retry import retried
from mcp_server_qdrant.qdrant.errors import (
    FOREIGN,
    TranslatedClient,
    foreign_errors,
    kind_of,
    status_of,
)
from mcp_server_qdrant.qdrant.line.grpc import GrpcLine
from mcp_server_qdrant.qdrant.line.rest import RestLine, proxied
from mcp_server_qdrant.qdrant.strict import Strict

REST_PORT, GRPC_PORT = 6333, 6334  # of a server that is left as it comes
PAUSES = (0.05, 0.25)  # seconds before the second and the third try
PROBE_SECONDS = 2.0  # in the background
# A server that comes back is looked for every second; gRPC would wait for up to two minutes.
_RECONNECT = {"grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 1000}
_PASSING = (502, 503)
_UNSURE = (408, 500, 502, 504)
_READS = frozenset({"retrieve", "scroll", "facet", "count"})
_SHARED = _READS | {"get_collection"}
_LEAN = frozenset({"count", "facet", "get_collection"})  # of a thousand collections at a start
_WRITES = frozenset({"upsert", "update_vectors", "delete", "set_payload", "delete_payload"})
# An upsert does the same when it is done twice.
_RETRIED = _SHARED | {"get_collections", "collection_exists", "upsert"}
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
            "on_disk_payload": self.options.on_disk_payload,
            "quantization_config": _QUANTIZATION[self.options.quantization],
        }
        return {name: value for name, value in asked.items() if value is not None}

    def consistency(self) -> dict[str, Any]:
        """The argument of reads that says how many replicas must agree."""
        value = self.options.read_consistency
        if value is None:
            return {}
        kind = models.ReadConsistencyType
        return {"consistency": kind(value) if isinstance(value, str) else value}


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

    Reads carry their deadline and consistency. Reads and upserts are tried again where the
    connection broke or a node was away; nothing else is, and nothing that took too long.
    """

    def __init__(
        self,
        cluster: Cluster,
        grpc: bool | Literal["auto"],  # noqa: FBT001
        grpc_port: int | None,
        *,
        url: str,
        **kwargs: Any,
    ) -> None:
        """`grpc` "auto": as soon as the server is seen to answer on it; REST until then."""
        super().__init__(
            url=url,
            prefer_grpc=grpc is True,
            grpc_port=grpc_port or GRPC_PORT,
            grpc_options=dict(_RECONNECT),
            **kwargs,
        )
        self._inner = cast("Any", self._client)
        self._speaks_grpc = grpc is True
        # Beside REST on another port, 6334 may be another server's.
        beside = urlsplit(url).port in (None, REST_PORT)
        self._seeks_grpc = grpc == "auto" and (beside or grpc_port is not None)
        self._cluster = cluster
        self._consistency = cluster.consistency()
        uri, key = self._inner.rest_uri, kwargs.get("api_key")
        headers = (kwargs.get("headers") or {}) | ({"api-key": key} if key else {})
        self._grpc = GrpcLine(
            f"{urlsplit(uri).netloc.rpartition(':')[0]}:{grpc_port or GRPC_PORT}",
            tuple(headers.items()),
            _RECONNECT,
            secure=(secure := urlsplit(uri).scheme == "https"),
        )
        self._rest = None if proxied(uri) else RestLine(uri, headers)
        # A search by REST takes two thirds of the processor time, where a connection costs nothing.
        self._searches_rest = grpc is not True and not secure and self._rest is not None
        self._strict = Strict()
        self._meeting: asyncio.Task[None] | None = None
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @override
    async def _send(self, name: str, *args: Any, **kwargs: Any) -> Any:
        call: Callable[..., Awaitable[Any]] = partial(super()._send, name)
        collection = args[0] if args else kwargs.get("collection_name", "")
        if name == "create_collection":
            kwargs = self._created(kwargs)
        if name == "count":  # of the two only the inner client takes a consistency
            call = self._client.count
        if name in _LEAN:
            call = partial(self._leanly, name, call)
        if name in _WRITES:
            call = _doubted(call)
        async with self._share() if name in _SHARED else nullcontext():
            if name in _READS:
                kwargs = self._bounds(collection) | kwargs
            if name not in _RETRIED:
                return await call(*args, **kwargs)
            answer = await retried(lambda: call(*args, **kwargs), PAUSES, FOREIGN, self.lost)
        if name == "get_collection":
            self._strict.learn(collection, answer)
        self._answered()
        return answer

    async def _leanly(
        self, name: str, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> Any:
        """The answer by the REST line where that is spoken: qdrant-client takes twenty times as
        long, for gRPC it does not.
        """
        if self._speaks_grpc or self._rest is None:
            return await call(*args, **kwargs)
        bounds = {"timeout": self._cluster.timeout} | kwargs
        return await getattr(self._rest, name)(*args, **bounds)

    def _bounds(self, collection: str) -> dict[str, Any]:
        """The deadline and the consistency of a read."""
        whole = max(1, math.ceil(min(self._cluster.timeout, left() or math.inf)))
        limit = {"timeout": self._strict.seconds(collection, whole)}
        return limit | self._consistency

    def _answered(self) -> None:
        if self._meeting is None:  # now that the server is there
            self._meeting = asyncio.ensure_future(self._meet())

    @override
    async def query_batch_points(  # type: ignore[override]
        self, collection_name: str, requests: Sequence[models.QueryRequest], **kwargs: Any
    ) -> Any:
        """The answers to all that a search asks, by the lean line that is spoken now.

        Of many collections one is asked by each call: little may stand around it.
        """
        requests = self._strict.requests(collection_name, requests)
        with foreign_errors(collection_name):
            async with self._share():
                bounds = self._bounds(collection_name) | kwargs
                ask = partial(self._query_batch, collection_name, requests, **bounds)
                answers = await retried(ask, PAUSES, FOREIGN, self.lost)
        self._answered()
        return answers

    @property
    def line(self) -> str:
        """The way that calls travel now."""
        if not self._speaks_grpc:
            return "REST"
        return "gRPC, searches over REST" if self._searches_rest else "gRPC"

    def _speak(self, *, grpc: bool) -> None:
        self._speaks_grpc = grpc
        self._inner._prefer_grpc = grpc  # noqa: SLF001  it takes the choice only once

    def lost(self, error: Exception) -> bool:
        """True where a node was away or a connection broke: the next try may succeed.

        It goes over REST, if gRPC was not asked for. The next answer is from a server that may
        speak otherwise by then, and is met anew.
        """
        broken = isinstance(error, AioRpcError) and error.code() == StatusCode.UNAVAILABLE
        if broken or kind_of(error) == "unreachable":
            if self._seeks_grpc:
                self._speak(grpc=False)
            if self._meeting is not None and self._meeting.done():
                self._meeting = None
            return True
        return status_of(error) in _PASSING

    @override
    async def close(self, *args: Any, **kwargs: Any) -> None:
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])
        if self._rest is not None:
            self._rest.close()
        await self._grpc.close()
        await super().close(*args, **kwargs)

    def _query_batch(
        self, collection: str, requests: Sequence[models.QueryRequest], **kwargs: Any
    ) -> Awaitable[Any]:
        if self._speaks_grpc and not self._searches_rest:
            return self._grpc.query_batch(collection, requests, **kwargs)
        if self._rest is None:
            return cast(
                "Awaitable[Any]", self._inner.query_batch_points(collection, requests, **kwargs)
            )
        return self._rest.query_batch(collection, requests, **kwargs)

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
        """Warn where client and server are too far apart, and speak gRPC where both do."""
        try:
            server = (await self.info()).version
        except QdrantMcpError:
            return  # it does not say; what it refuses fails call by call
        client = metadata.version("qdrant-client")
        if not is_compatible(client, server):
            logger.warning(SKEW, server, client)
        if self._seeks_grpc:
            with suppress(AioRpcError):
                answer = await self._inner.grpc_root.HealthCheck(
                    HealthCheckRequest(), timeout=PROBE_SECONDS, wait_for_ready=True
                )
                self._speak(grpc=answer.version == server)
        logger.info("Qdrant %s is spoken to over %s.", server, self.line)


def _doubted(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The write; its failures carry a note where this try or an earlier one may have done it."""
    doubt = False

    async def doubted(*args: Any, **kwargs: Any) -> Any:
        nonlocal doubt
        try:
            return await write(*args, **kwargs)
        except FOREIGN as error:
            doubt = doubt or _may_have_happened(error)
            if doubt:
                error.add_note(UNSURE)
            raise

    return doubted


def _may_have_happened(error: Exception) -> bool:
    """True where the server may have done the write, though it did not say so."""
    if isinstance(error, AioRpcError):
        unreached = "failed to connect" in (error.details() or "").lower()
        return status_of(error) in _UNSURE and not unreached
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
