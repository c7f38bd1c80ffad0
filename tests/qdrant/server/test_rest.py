"""The lean line sends what qdrant-client sends, and its answers and errors are the same."""

import asyncio
import ipaddress
import json
import math
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from qdrant_client import models

from mcp_server_qdrant.core.bounded import Reading, TooLarge
from mcp_server_qdrant.core.errors import (
    EngineTimeout,
    EngineUnavailable,
    QdrantMcpError,
    RequestError,
)
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.errors import TranslatedClient
from mcp_server_qdrant.qdrant.server import rest as http
from tests.qdrant.rest_stub import RestServer, rest_server

NAME = "a/b ü"
UUID = "0190a6f0-0000-7000-8000-000000000001"
DENSE = [0.25, -1e-7, 3.0]
CORPUS = models.Filter(must=[models.FieldCondition(key="t", match=models.MatchValue(value="x"))])
EXACT = models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
WEIGHED = models.SearchParams(idf=models.IdfCorpusParams(corpus=CORPUS))
SPARSE = models.SparseVector(indices=[7, 4_000_000_000], values=[1.0, 0.5])
OTHER = models.FieldCondition(key="t", match=models.MatchExcept(**{"except": ["y"]}))
ONLY = models.Filter(must=[CORPUS, OTHER], must_not=[models.HasIdCondition(has_id=[1, UUID])])
REQUESTS = [
    models.QueryRequest(query=DENSE, using="v", limit=3, filter=ONLY, params=EXACT),
    models.QueryRequest(query=DENSE, limit=3, with_payload=True),
    models.QueryRequest(query=SPARSE, using="bm25", params=WEIGHED, with_vector=["bm25"]),
    models.QueryRequest(filter=ONLY, limit=2, with_payload=["a", "b.c"]),
]
PAYLOAD = {"text": "ü", "list": [1, 2.5, None, {"deep": True}], "empty": {}}
FOUND = [
    {"id": UUID, "score": 0.5, "version": 1, "payload": PAYLOAD},
    {"id": 0, "score": -1.0, "version": 1, "vector": [1.0, 2.0]},
    {"id": 7, "score": 2.0, "version": 1, "vector": {"bm25": SPARSE.model_dump(), "v": [1.0]}},
]
ANSWER = {"result": [{"points": FOUND}, *[{"points": []}] * 3], "status": "ok", "time": 0.0}
SENT = ("host", "content-type", "api-key")


def seen(answers):
    """What the server reads of each point."""
    return [[(p.id, p.score, p.payload, p.vector) for p in answer.points] for answer in answers]


@pytest.fixture
def server() -> Iterator[RestServer]:
    with warnings.catch_warnings(), rest_server() as one:
        warnings.simplefilter("ignore")
        one.garbage["/collections/a%2Fb%20%C3%BC/points/query/batch"] = ANSWER
        yield one


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("mcp_server_qdrant.qdrant.server.remote.PAUSES", ())


@asynccontextmanager
async def opened(url) -> AsyncIterator[dict[bool, TranslatedClient]]:
    """By whether it is the lean line: our client, and qdrant-client's with the same options."""
    lean = await open_client(url=url, timeout=5, api_key="sekret")
    plain = TranslatedClient(url=url, timeout=5, api_key="sekret", check_compatibility=False)
    try:
        yield {True: lean, False: plain}
    finally:
        await lean.close()
        await plain.close()


async def test_over_rest_requests_and_answers_are_qdrant_clients(server):
    found, headers = {}, {}
    async with opened(server.url) as clients:
        for lean, client in clients.items():
            found[lean] = await client.query_batch_points(NAME, REQUESTS, timeout=5)
            all_sent = [{k.lower(): v for k, v in one.items()} for one in server.headers]
            *_, sent = (one for one in all_sent if "content-type" in one)
            headers[lean] = {name: sent[name] for name in SENT}

    (*lean, ours), (*plain, theirs) = (asked for asked in server.asked if asked[0] == "POST")
    assert lean == plain
    assert models.QueryRequestBatch(**ours).model_dump() == alike(theirs)
    assert headers[True] == headers[False]
    assert seen(found[True]) == seen(found[False])
    assert len(seen(found[True])[0]) == 3


def alike(batch):
    """What qdrant-client sends, a vector to be near to as we send it."""
    for search in batch["searches"]:
        if "nearest" in (search.get("query") or {}):
            search["query"] = search["query"]["nearest"]
    return models.QueryRequestBatch(**batch).model_dump()


MATCHING = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lt=3))])
LOOK_UPS = {
    "get_collection": {},
    "count": {"count_filter": MATCHING},
    "facet": {"key": "tags", "limit": 3, "facet_filter": MATCHING},
    "scroll": {"scroll_filter": MATCHING, "limit": 2, "with_payload": ["n"]},
    "retrieve": {"ids": [1, 4, 7], "with_vectors": True},
}
PATHS = {
    "get_collection": "",
    "count": "/points/count",
    "facet": "/facet",
    "scroll": "/points/scroll",
    "retrieve": "/points",
}


@pytest.mark.parametrize("call", LOOK_UPS)
@pytest.mark.parametrize("there", [True, False])
async def test_over_rest_look_ups_and_their_answers_are_qdrant_clients(server, call, there):
    found, asked = {}, {}
    path = f"/collections/a%2Fb%20%C3%BC{PATHS[call]}"
    async with opened(server.url) as clients:
        if there:
            vector = models.VectorParams(size=2, distance=models.Distance.DOT)
            await clients[False].create_collection(NAME, {"v": vector}, metadata={"a": 1})
            points = [models.PointStruct(id=n, vector={}, payload={"n": n}) for n in range(5)]
            await clients[False].upsert(NAME, points)
        for lean, client in clients.items():
            server.asked.clear()
            try:
                found[lean] = shown(await getattr(client, call)(NAME, **LOOK_UPS[call]))
            except QdrantMcpError as error:
                found[lean] = type(error), str(error)
            [(method, query, body)] = server.to(path)
            asked[lean] = method, body
            assert query == ({"timeout": "5"} if lean and call != "get_collection" else {})

    assert asked[True] == asked[False]
    assert found[True] == found[False]


async def failing(client) -> QdrantMcpError:
    with pytest.raises(QdrantMcpError) as caught:
        await client.query_batch_points(NAME, REQUESTS[:1], timeout=1)
    return caught.value


def shown(answer):
    """What the server reads of an answer, of points a few things."""
    match answer:
        case (list(records), following):
            return shown(records), following
        case list():
            return [(one.id, one.payload, one.vector) for one in answer]
    return answer


@asynccontextmanager
async def raw_server(
    answer: bytes, connections: list[int] | None = None, *, close: bool = True, tls=None
):
    """One that gives each request these bytes; `connections` takes the requests of each."""
    connections = [] if connections is None else connections
    writers = []

    async def serve(reader, writer):
        writers.append(writer)
        number = len(connections)
        while not (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
            if number == len(connections):
                connections.append(0)
            length = int(head.lower().split(b"content-length:")[1].split()[0])
            await reader.readexactly(length)
            connections[number] += 1
            for byte in range(0, len(answer), 7):  # in pieces
                writer.write(answer[byte : byte + 7])
                await writer.drain()
            if close:
                return

    async def served(reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


def said(status: int, body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Why" % status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


WRONG = b'{"status":{"error":"Wrong input: Vector dimension error"}}'
FAULTS = {
    **{str(status): said(status, WRONG) for status in (301, 400, 401, 403, 404, 408, 422, 429)},
    **{str(status): said(status, WRONG) for status in (500, 501, 502, 503, 504, 507)},
    "a page": said(400, b"<html>Bad Request</html>"),
    "no JSON": said(200, b"<html>hello</html>"),
    "no text": said(200, b"\xff\xfe"),
    "nothing": said(200, b""),
    "no result": said(200, b"{}"),
    "a list": said(200, b"[]"),
    "a number": said(200, b'{"result": 7}'),
    "no points": said(200, b'{"result": [{}]}'),
    "no ids": said(200, b'{"result": [{"points": [{"score": 1.0}]}]}'),
    "cut": said(200, b'{"result": []}')[:-3],
    "closed": b"",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_over_rest_errors_are_those_of_qdrant_clients_answer(fault):
    async with raw_server(FAULTS[fault]) as url, opened(url) as clients:
        lean, plain = [await failing(client) for client in clients.values()]

    assert (type(lean), str(lean)) == (type(plain), str(plain))


async def test_no_answer_in_time_and_nobody_there_are_told_apart():
    async with raw_server(b"", close=False) as url, opened(url) as clients:
        silent = [await failing(client) for client in clients.values()]
    async with opened(url) as clients:
        absent = [await failing(client) for client in clients.values()]

    assert [type(error) for error in silent] == [EngineTimeout] * 2
    assert [type(error) for error in absent] == [EngineUnavailable] * 2
    assert str(absent[0]) == str(absent[1])


BODY = json.dumps({"result": [{"points": FOUND}]}).encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SHAPES = {  # of an answer, whether the server ends the connection, requests by connection
    "with a length": (said(200, BODY), False, [3]),
    "in chunks": (b"HTTP/1.1 200 OK\r\n" + CHUNKED, False, [3]),
    "the last": (said(200, BODY, b"Connection: close"), True, [1, 1, 1]),
    "closed unsaid": (said(200, BODY), True, [1, 1, 1]),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_connections_are_used_again_where_the_server_keeps_them(shape):
    answer, close, expected = SHAPES[shape]
    used = []
    async with raw_server(answer, used, close=close) as url, opened(url) as clients:
        for _ in range(3):
            (found,) = await clients[True].query_batch_points(NAME, REQUESTS[:1])
            await asyncio.sleep(0.01 if shape == "closed unsaid" else 0)

    assert [point.id for point in found.points] == [UUID, 0, 7]
    assert used == expected


def certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1 with its key, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    kept = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "server.pem"
    file.write_bytes(signed.public_bytes(kept[0]) + key.private_bytes(*kept))
    return file


@pytest.mark.parametrize("trusted", [True, False])
async def test_over_tls_the_certificates_of_the_environment_are_trusted(
    tmp_path, monkeypatch, trusted
):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file := certificate(tmp_path))
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with raw_server(said(200, BODY), tls=tls) as url, opened(url) as clients:
        if trusted:
            (found,) = await clients[True].query_batch_points(NAME, REQUESTS[:1])
            assert len(found.points) == 3
        else:
            lean, plain = [await failing(client) for client in clients.values()]
            assert (type(lean), str(lean)) == (type(plain), str(plain))


async def test_a_request_that_is_given_up_leaves_no_connection_to_the_next(server):
    """The next request would read the answer to it."""
    path = "/collections/slow/points/query/batch"
    server.garbage[path] = ANSWER | {"result": [{"points": []}]}
    server.held.add(path)
    async with opened(server.url) as clients:
        client = clients[True]
        slow = asyncio.ensure_future(client.query_batch_points("slow", REQUESTS[:1]))
        await asyncio.to_thread(server.reached.acquire, timeout=20)
        slow.cancel()
        server.release.set()
        found = await client.query_batch_points(NAME, REQUESTS)

    assert len(found[0].points) == 3


async def test_of_many_requests_few_have_a_connection_at_the_same_time(monkeypatch):
    monkeypatch.setattr(http, "CONNECTIONS", 3)
    used = []
    async with raw_server(said(200, BODY), used, close=False) as url:
        line = http.Http(url, {})
        answers = await asyncio.gather(*(line.request("/", b"{}") for _ in range(30)))
        line.close()

    assert [status for status, _ in answers] == [200] * 30
    assert sum(used) == 30
    assert len(used) <= 3


async def test_answers_that_are_too_large_together_are_refused(monkeypatch):
    """And what was read of them counts no longer."""
    async with raw_server(said(200, BODY), close=False) as url:
        line = http.Http(url, {})
        monkeypatch.setattr("mcp_server_qdrant.core.bounded.TOGETHER", 2 * len(BODY))
        asked = [line.request("/", b"{}") for _ in range(4)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        alone = await line.request("/", b"{}")
        line.close()

    assert any(isinstance(one, TooLarge) for one in found)
    assert alone == (200, BODY)
    assert Reading.together == 0


async def test_a_request_that_is_given_up_as_its_answer_comes_leaves_the_connection_to_the_next(
    monkeypatch,
):
    """Nothing on it is unread; dropped, it would stay open and unused."""
    used, late = [], []
    finish = http._Connection.on_message_complete

    def given_up(connection):
        finish(connection)
        late[-1].cancel()

    monkeypatch.setattr(http._Connection, "on_message_complete", given_up)
    async with raw_server(said(200, BODY), used, close=False) as url:
        line = http.Http(url, {})
        for _ in range(3):
            late.append(asyncio.ensure_future(line.request("/", b"{}")))
            await asyncio.wait(late)
        line.close()

    assert [one.cancelled() for one in late] == [True] * 3
    assert used == [3]


async def test_a_score_that_json_cannot_say_is_not_a_number(server):
    """Of vectors that overflow; one of them fails no search."""
    point = {"id": 1, "score": None, "version": 1}
    server.garbage["/collections/c/points/query/batch"] = {"result": [{"points": [point]}]}
    async with opened(server.url) as clients:
        (found,) = await clients[True].query_batch_points("c", REQUESTS[:1])

    assert math.isnan(found.points[0].score)


async def test_where_a_proxy_is_named_searches_go_through_it(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    server.garbage["/collections/c/points/query/batch"] = {"result": [{"points": FOUND}]}
    server.garbage["/"] = {"title": "qdrant", "version": "1.20.0"}
    async with opened("http://qdrant.example:6333") as clients:
        (found,) = await clients[True].query_batch_points("c", REQUESTS[:1])

    assert len(found.points) == 3
    assert server.to("/collections/c/points/query/batch")


async def test_a_number_that_no_engine_knows_is_the_callers_fault(server):
    huge = models.FieldCondition(key="n", match=models.MatchValue(value=10**30))
    client = await open_client(url=server.url, timeout=5)
    try:
        with pytest.raises(RequestError, match="does not understand this request: Integer exceeds"):
            await client.count(NAME, models.Filter(must=[huge]))
    finally:
        await client.close()
