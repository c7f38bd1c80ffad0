"""Foreign errors become ours, whatever answers at QDRANT_URL, or nothing does."""

import inspect
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from qdrant_client.common import client_exceptions
from qdrant_client.http import exceptions

from mcp_server_qdrant.core.errors import (
    AccessRefused,
    BackendError,
    ConfigError,
    EngineFailure,
    EngineTimeout,
    EngineUnavailable,
    InvalidFilter,
    KeyRefused,
    QdrantMcpError,
    RequestError,
    UnknownCollection,
)
from mcp_server_qdrant.qdrant.client import INSECURE, open_client
from mcp_server_qdrant.qdrant.errors import FORBIDDEN, UNREACHABLE, foreign_errors
from mcp_server_qdrant.qdrant.read.catalog import Catalog
from tests.support import OneModel

WRONG = b'{"status":{"error":"Wrong input: Vector dimension error"},"time":1e-6}'
TEST_NAME = "notes"


class Stub(ThreadingHTTPServer):
    """A server on loopback that gives every request the same answer, or none."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.headers = 200, b"{}", dict[str, str]()
        self.silent = False
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.silent:
            self.server.closing.wait()
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


async def asked(url: str, *, collection: str | None = TEST_NAME) -> QdrantMcpError:
    """The error that one call at `url` ends with."""
    client = await open_client(url=url, timeout=1)
    try:
        call = client.get_collection(collection) if collection else client.get_collections()
        with pytest.raises(QdrantMcpError) as caught:
            await call
    finally:
        await client.close()
    assert "127.0.0.1" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (404, b'{"status":{"error":"Not found"}}', UnknownCollection, "no collection 'notes'"),
        (404, b'{"status":{"error":"No point with id 9 found"}}', RequestError, "point with id 9"),
        (400, WRONG, RequestError, "Qdrant refused the request: Wrong input: Vector dimension"),
        (422, WRONG, RequestError, "Qdrant refused the request: Wrong input: Vector dimension"),
        (409, WRONG, RequestError, "Qdrant refused the request: Wrong input: Vector dimension"),
        (401, b"Must provide an API key", KeyRefused, FORBIDDEN),
        (403, b"forbidden", AccessRefused, FORBIDDEN),
        (408, b"", EngineTimeout, "Qdrant did not answer in time; try again in a moment."),
        (504, b"", EngineTimeout, "Qdrant did not answer in time; try again in a moment."),
        (429, b"", EngineUnavailable, "overloaded or starting; try again"),
        (502, b"", EngineUnavailable, "overloaded or starting; try again"),
        (503, b"", EngineUnavailable, "overloaded or starting; try again"),
        (507, b"", EngineFailure, "out of disk space or memory"),
        (500, b"panicked\n at  x", EngineFailure, "Qdrant failed (HTTP 500); its log says why."),
        (500, WRONG, EngineFailure, "Qdrant failed (HTTP 500); its log says why."),
        (400, b"<html>Bad Request</html>", RequestError, "Qdrant refused the request."),
        (400, b'{"status": "no"}', RequestError, "Qdrant refused the request."),
        (301, b"", EngineFailure, "Qdrant failed (HTTP 301)"),
    ],
)
async def test_a_status_becomes_the_error_that_says_what_to_do(stub, status, body, kind, text):
    stub.status, stub.body = status, body

    error = await asked(stub.url)

    assert type(error) is kind
    assert text in str(error)
    assert not any(leak in str(error) for leak in ("panicked", "html", "status"))


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://qdrant.example:6333", True),
        ("https://qdrant.example:6333", False),
        ("http://localhost:6333", False),
    ],
)
async def test_a_key_over_plain_http_is_one_line_in_the_log_without_the_key(
    caplog, recwarn, url, warned
):
    client = await open_client(url=url, api_key="sekret", timeout=1)
    await client.close()

    assert [record.getMessage() for record in caplog.records] == [INSECURE] * warned
    assert "sekret" not in caplog.text
    assert [str(one.message) for one in recwarn if "Api key" in str(one.message)] == []


async def test_a_404_that_names_no_collection_is_the_engines_failure(stub):
    stub.status, stub.body = 404, b"nothing here"

    error = await asked(stub.url, collection=None)

    assert type(error) is EngineFailure


async def test_a_long_reason_is_cut(stub):
    stub.status, stub.body = 400, WRONG.replace(b"Vector", b"x" * 5000)

    assert len(str(await asked(stub.url))) < 300


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"{}", b"[]", b"\xff\xfe", b"", b'{"result": 7}']
)
async def test_an_answer_that_is_not_qdrants_is_told_apart(stub, body):
    stub.body = body

    error = await asked(stub.url)

    assert type(error) is EngineFailure
    assert "is QDRANT_URL really a Qdrant server?" in str(error)


async def test_no_answer_within_the_timeout_is_a_timeout(stub):
    stub.silent = True

    error = await asked(stub.url)

    assert type(error) is EngineTimeout
    assert str(error) == "Qdrant did not answer in time; try again in a moment."


async def test_a_port_where_nobody_listens_is_unreachable(stub):
    url = stub.url
    stub.shutdown()
    stub.server_close()

    error = await asked(url)

    assert type(error) is EngineUnavailable
    assert str(error) == UNREACHABLE


async def test_a_server_that_comes_back_is_used_again(stub):
    """Unreachable at start is no error of the client: each call says so, until one works."""

    client = await open_client(url=stub.url, timeout=1)
    catalog = Catalog(client, OneModel("m", "fast-m", None))
    stub.status = 503
    with pytest.raises(EngineUnavailable):
        await catalog.names()

    stub.status = 200
    stub.body = b'{"result":{"collections":[{"name":"notes"}]},"status":"ok","time":0.1}'

    assert await catalog.names() == ("notes",)
    await client.close()


@pytest.mark.parametrize("url", ["host:port", "http://host:port"])
async def test_an_url_that_is_none_is_a_wrong_setting(url):
    with pytest.raises(ConfigError) as caught:
        await open_client(url=url, timeout=1)

    assert str(caught.value) == "QDRANT_URL is not a URL such as http://host:6333."


def classes_of(module) -> list[type[Exception]]:
    return [
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, Exception) and one.__module__ == module.__name__
    ]


EXAMPLES = {
    "ApiException": exceptions.ApiException("x"),
    "UnexpectedResponse": exceptions.UnexpectedResponse(500, "Error", b"x", httpx.Headers()),
    "ResponseHandlingException": exceptions.ResponseHandlingException(ValueError("x")),
    "QdrantException": client_exceptions.QdrantException("x"),
    "ResourceExhaustedResponse": client_exceptions.ResourceExhaustedResponse("x", 1),
}


@pytest.mark.parametrize("kind", classes_of(exceptions) + classes_of(client_exceptions))
def test_every_exception_of_qdrant_client_is_mapped(kind):
    """A new one upstream fails here until somebody decides what it means."""
    example = EXAMPLES[kind.__name__]

    assert type(example) is kind
    with pytest.raises(BackendError), foreign_errors(TEST_NAME):
        raise example


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ValueError("Collection notes not found"), UnknownCollection),
        (ValueError("Vector dim 3 is not 4"), EngineFailure),
        (KeyError("x"), EngineFailure),
        (ConnectionResetError("x"), EngineUnavailable),
        (exceptions.ResponseHandlingException(httpx.ReadTimeout("x")), EngineTimeout),
        (exceptions.ResponseHandlingException(httpx.ConnectError("x")), EngineUnavailable),
    ],
)
def test_failures_of_the_local_mode_and_the_transports_are_mapped(failure, kind):
    with pytest.raises(QdrantMcpError) as caught, foreign_errors(TEST_NAME):
        raise failure

    assert type(caught.value) is kind


@pytest.mark.parametrize("bug", [TypeError("x"), AssertionError("mine")])
def test_what_can_only_be_a_bug_of_ours_stays_one(bug):
    with pytest.raises(type(bug)), foreign_errors():
        raise bug


def test_our_own_errors_pass_unchanged():
    mine = InvalidFilter("mine")
    with pytest.raises(InvalidFilter) as caught, foreign_errors():
        raise mine

    assert caught.value is mine
