"""A Qdrant server, or a cluster of them: how collections are made there, read, and tried again."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal
from weakref import WeakValueDictionary

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.common.version_check import is_compatible
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException
from qdrant_client.http.exceptions import UnexpectedResponse as Unexpected
from typing_extensions import override

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.deadline import left
from mcp_server_qdrant.core.errors import UNSURE

PAUSES = (0.05, 0.25)  # seconds before the second and the third try
PASSING = (502, 503)
_UNSURE_STATUS = (408, 500, 502, 504)
_UNSURE_CODES = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
SKEW = (
    "Qdrant is version %s and this server's client %s: more than one minor version apart, some "
    "searches may fail. Upgrade the older one."
)
FOREIGN = (ApiException, QdrantException, grpc.aio.AioRpcError, OSError)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """How collections are made and read on a server; None leaves it to the server.

    `timeout` in seconds bounds a read, here and there. Of `share` requests at the same time no
    caller has more; who need not say who they are may have all.
    """

    timeout: float
    share: int | None = None
    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None
    on_disk_vectors: bool | None = None
    on_disk_payload: bool | None = None
    quantization: Literal["none", "scalar", "binary"] = "none"
    read_consistency: int | str | None = None

    def made(self) -> dict[str, Any]:
        """What a new collection is made with, as `create_collection` names it."""
        asked = {
            "shard_number": self.shards,
            "replication_factor": self.replicas,
            "write_consistency_factor": self.write_consistency,
            "on_disk_payload": self.on_disk_payload,
            "quantization_config": _QUANTIZATION[self.quantization],
        }
        return {name: value for name, value in asked.items() if value is not None}

    def consistency(self) -> dict[str, Any]:
        """Of how many replicas a read is to agree, as reads name it."""
        value = self.read_consistency
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
}


class RemoteClient(AsyncQdrantClient):
    """qdrant-client's, with what a cluster needs at every call.

    Reads carry their deadline and consistency. Reads, and upserts, which are the same when done
    twice, are tried again where the connection broke or a node was away; nothing else is, and
    nothing that took too long.
    """

    def __init__(self, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cluster = cluster
        self._comparing: asyncio.Task[None] | None = None
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @override
    async def query_points(self, *args: Any, **kwargs: Any) -> Any:
        return await self._read(super().query_points, args, kwargs)

    @override
    async def query_batch_points(self, *args: Any, **kwargs: Any) -> Any:
        return await self._read(super().query_batch_points, args, kwargs)

    @override
    async def retrieve(self, *args: Any, **kwargs: Any) -> Any:
        return await self._read(super().retrieve, args, kwargs)

    @override
    async def scroll(self, *args: Any, **kwargs: Any) -> Any:
        return await self._read(super().scroll, args, kwargs)

    @override
    async def facet(self, *args: Any, **kwargs: Any) -> Any:
        return await self._read(super().facet, args, kwargs)

    @override
    async def count(self, *args: Any, **kwargs: Any) -> Any:
        # Of the two only the inner client takes a consistency.
        return await self._read(self._client.count, args, kwargs)

    @override
    async def get_collections(self, **kwargs: Any) -> Any:
        return await self._again(super().get_collections, (), kwargs)

    @override
    async def get_collection(self, *args: Any, **kwargs: Any) -> Any:
        async with self._share():
            return await self._again(super().get_collection, args, kwargs)

    @override
    async def collection_exists(self, *args: Any, **kwargs: Any) -> Any:
        return await self._again(super().collection_exists, args, kwargs)

    @override
    async def upsert(self, *args: Any, **kwargs: Any) -> Any:
        return await self._again(_doubted(super().upsert), args, kwargs)

    @override
    async def update_vectors(self, *args: Any, **kwargs: Any) -> Any:
        return await _doubted(super().update_vectors)(*args, **kwargs)

    @override
    async def delete(self, *args: Any, **kwargs: Any) -> Any:
        return await _doubted(super().delete)(*args, **kwargs)

    @override
    async def set_payload(self, *args: Any, **kwargs: Any) -> Any:
        return await _doubted(super().set_payload)(*args, **kwargs)

    @override
    async def delete_payload(self, *args: Any, **kwargs: Any) -> Any:
        return await _doubted(super().delete_payload)(*args, **kwargs)

    @override
    async def create_collection(self, *args: Any, **kwargs: Any) -> Any:
        vectors = kwargs.get("vectors_config")
        if self._cluster.on_disk_vectors is not None and vectors:
            kwargs["vectors_config"] = _placed(vectors, on_disk=self._cluster.on_disk_vectors)
        return await super().create_collection(*args, **(self._cluster.made() | kwargs))

    @override
    async def close(self, *args: Any, **kwargs: Any) -> None:
        if self._comparing is not None:
            self._comparing.cancel()
            await asyncio.wait([self._comparing])
        await super().close(*args, **kwargs)

    async def _read(
        self, method: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        async with self._share():
            seconds = min(self._cluster.timeout, left() or math.inf)
            usual = {"timeout": max(1, math.ceil(seconds)), **self._cluster.consistency()}
            return await self._again(method, args, usual | kwargs)

    def _share(self) -> AbstractAsyncContextManager[Any]:
        """A place among the caller's own: who asks much keeps nobody else waiting."""
        who = caller()
        if who is None or self._cluster.share is None:
            return nullcontext()
        return self._shares.setdefault(who.name, asyncio.Semaphore(self._cluster.share))

    async def _again(
        self, method: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        for pause in PAUSES:
            try:
                answer = await method(*args, **kwargs)
            except FOREIGN as error:
                if not passing(error):
                    raise
                await asyncio.sleep(pause)
            else:
                break
        else:
            answer = await method(*args, **kwargs)
        if self._comparing is None:  # now that the server is there
            self._comparing = asyncio.ensure_future(self._compare())
        return answer

    async def _compare(self) -> None:
        """Warn, once, where client and server are too far apart to understand each other."""
        try:
            server = (await self.info()).version
        except FOREIGN:
            return  # it does not say; what it refuses is told call by call
        client = metadata.version("qdrant-client")
        if not is_compatible(client, server):
            logger.warning(SKEW, server, client)


def passing(error: BaseException) -> bool:
    """Whether a node was away or a connection broke, so that the next try may find another."""
    if isinstance(error, Unexpected):
        return error.status_code in PASSING
    if isinstance(error, grpc.aio.AioRpcError):
        return bool(error.code() == grpc.StatusCode.UNAVAILABLE)
    return kind_of(error) == "unreachable"


def _doubted(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The write; its failures carry a note where this try or one before may have done it."""
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


def _may_have_happened(error: BaseException) -> bool:
    """Whether the server may have done what was asked, though it did not say so."""
    if isinstance(error, Unexpected):
        return error.status_code in _UNSURE_STATUS
    if isinstance(error, grpc.aio.AioRpcError):
        unreached = "failed to connect" in (error.details() or "").lower()
        return error.code() in _UNSURE_CODES and not unreached
    if not isinstance(error, ResponseHandlingException | OSError):
        return False
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    return not kinds & {"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError"}


def kind_of(error: BaseException) -> Literal["timeout", "unreachable", "garbage", "other"]:
    """What went wrong on the way to the server, whatever HTTP library was on it."""
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    if "TimeoutException" in kinds or isinstance(cause, TimeoutError):
        return "timeout"
    if "HTTPError" in kinds or isinstance(cause, OSError):
        return "unreachable"
    return "garbage" if isinstance(error, ResponseHandlingException) else "other"


def _placed(vectors: Any, *, on_disk: bool) -> Any:
    """The vectors' parameters, placed on disk or in memory where they do not say themselves."""
    if isinstance(vectors, Mapping):
        return {name: _placed(one, on_disk=on_disk) for name, one in vectors.items()}
    if vectors.on_disk is not None:
        return vectors
    return vectors.model_copy(update={"on_disk": on_disk})
