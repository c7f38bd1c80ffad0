"""Batches of queries over gRPC."""

from collections.abc import Sequence
from typing import Any

from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from mcp_server_qdrant.qdrant.line.points import Answer, Point
from mcp_server_qdrant.qdrant.memo import Memo


class GrpcLine:
    """The line over channels of qdrant-client's."""

    def __init__(self) -> None:
        self._messages: Memo[grpc.QueryPoints] = Memo()

    async def query_batch(
        self,
        stub: grpc.PointsStub,
        collection: str,
        requests: Sequence[models.QueryRequest],
        timeout: int,
        consistency: Any = None,
    ) -> list[Answer]:
        """The answers to the requests. Raises what qdrant-client does."""
        asked = self._batch(collection, requests, timeout, consistency)
        answer = await stub.QueryBatch(asked, timeout=timeout)
        return [Answer([_point(found) for found in each.result]) for each in answer.result]

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
        messages = [self._messages.of((request,), _message) for request in requests]
        for message in messages:
            message.collection_name = collection
        return grpc.QueryBatchPoints(
            collection_name=collection,
            query_points=messages,  # are copied
            read_consistency=consistency,
            timeout=timeout,
        )


def _message(request: models.QueryRequest) -> grpc.QueryPoints:
    return RestToGrpc.convert_query_request(request, "")


def _point(found: Any) -> Point:
    point = found.id
    payload = GrpcToRest.convert_payload(found.payload) if found.payload else None
    vectors = found.HasField("vectors") and GrpcToRest.convert_vectors_output(found.vectors)
    return Point(point.uuid or point.num, found.score, payload, vectors or None)
