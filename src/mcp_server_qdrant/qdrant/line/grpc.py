"""Batches of queries over gRPC."""

from collections.abc import Sequence
from typing import Any

from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from mcp_server_qdrant.qdrant.line.points import Answer, Point


async def query_batch(
    stub: grpc.PointsStub,
    collection: str,
    requests: Sequence[models.QueryRequest],
    timeout: int,
    consistency: Any = None,
) -> list[Answer]:
    """The answers to the requests, over a channel of qdrant-client's. Raises what that raises."""
    asked = batch(collection, requests, timeout, consistency)
    answer = await stub.QueryBatch(asked, timeout=timeout)
    return [Answer([_point(found) for found in each.result]) for each in answer.result]


def batch(
    collection: str, requests: Sequence[models.QueryRequest], timeout: int, consistency: Any = None
) -> grpc.QueryBatchPoints:
    """The requests as qdrant-client would send them."""
    if consistency is not None:
        consistency = RestToGrpc.convert_read_consistency(consistency)
    return grpc.QueryBatchPoints(
        collection_name=collection,
        query_points=[RestToGrpc.convert_query_request(one, collection) for one in requests],
        read_consistency=consistency,
        timeout=timeout,
    )


def _point(found: Any) -> Point:
    point = found.id
    payload = GrpcToRest.convert_payload(found.payload) if found.payload else None
    vectors = found.HasField("vectors") and GrpcToRest.convert_vectors_output(found.vectors)
    return Point(point.uuid or point.num, found.score, payload, vectors or None)
