"""Batches of queries over gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from grpc import StatusCode, aio, ssl_channel_credentials
from qdrant_client import grpc, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.connection import parse_channel_options
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from mcp_server_qdrant.qdrant.line.points import Answer, Point, apart
from mcp_server_qdrant.qdrant.memo import Memo

RETRY_AFTER = "retry-after"


class GrpcLine:
    """The line over a channel of its own: qdrant-client's starts two more tasks for each call."""

    def __init__(
        self,
        address: str,
        headers: Sequence[tuple[str, str]],
        options: Mapping[str, Any],
        *,
        secure: bool,
    ) -> None:
        self._address = address
        self._headers = headers
        self._options = parse_channel_options(dict(options))
        self._secure = secure
        self._opened: aio.Channel | None = None
        self._stub: Any = None
        self._bytes: Memo[bytes] = Memo()

    async def query_batch(
        self,
        collection: str,
        requests: Sequence[models.QueryRequest],
        timeout: int,
        consistency: Any = None,
    ) -> list[Answer]:
        """The answers to the requests. Raises what qdrant-client does."""
        if self._opened is None:
            self._opened = self._channel()
            self._stub = grpc.PointsStub(self._opened)  # type: ignore[no-untyped-call]
        asked = self._batch(collection, requests, timeout, consistency)
        try:
            answer = await self._stub.QueryBatch(asked, timeout=timeout, metadata=self._headers)
        except aio.AioRpcError as error:
            waits = [value for key, value in error.trailing_metadata() or () if key == RETRY_AFTER]
            if error.code() == StatusCode.RESOURCE_EXHAUSTED and waits:
                raise ResourceExhaustedResponse(error.details() or "", waits[0]) from error
            raise
        return [
            Answer(list(map(_point if _shows(request) else _bare, each.result)))
            for request, each in zip(requests, answer.result, strict=True)
        ]

    def _channel(self) -> aio.Channel:
        if self._secure:
            return aio.secure_channel(self._address, ssl_channel_credentials(), self._options)
        return aio.insecure_channel(self._address, self._options)

    def _batch(
        self,
        collection: str,
        requests: Sequence[models.QueryRequest],
        timeout: int,
        consistency: Any,
    ) -> grpc.QueryBatchPoints:
        """The requests as qdrant-client would send them."""
        if consistency is not None:
            consistency = RestToGrpc.convert_read_consistency(consistency)
        batch = grpc.QueryBatchPoints(
            collection_name=collection, read_consistency=consistency, timeout=timeout
        )
        for request in requests:
            self._write(request, batch.query_points.add(collection_name=collection))
        return batch

    def _write(self, request: models.QueryRequest, message: grpc.QueryPoints) -> None:
        """Write a request; what many share is converted once."""
        query, others = apart(request)
        match query:
            case list():
                shared = self._bytes.of((query, *others), lambda *_: _converted(request))
            case models.SparseVector():
                message.query.nearest.sparse.indices.extend(query.indices)
                message.query.nearest.sparse.values.extend(query.values)
                shared = self._bytes.of(
                    others, lambda *_: _converted(request.model_copy(update={"query": None}))
                )
            case _:
                shared = _converted(request)
        message.MergeFromString(shared)

    async def close(self) -> None:
        """Close the channel."""
        if self._opened is not None:
            await self._opened.close()


def _converted(request: models.QueryRequest) -> bytes:
    message = RestToGrpc.convert_query_request(request, "")
    return cast("bytes", message.SerializeToString())


def _shows(request: models.QueryRequest) -> bool:
    """True where more than ids and scores was asked for; to look for it takes half of the time."""
    return bool(request.with_payload or request.with_vector)


def _bare(found: Any) -> Point:
    point = found.id
    return Point(point.uuid or point.num, found.score, None, None)


def _point(found: Any) -> Point:
    point = found.id
    payload = GrpcToRest.convert_payload(found.payload) if found.payload else None
    vectors = found.HasField("vectors") and GrpcToRest.convert_vectors_output(found.vectors)
    return Point(point.uuid or point.num, found.score, payload, vectors or None)
