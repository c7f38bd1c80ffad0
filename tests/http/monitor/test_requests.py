"""Every request has an id and a line in the log."""

import asyncio
import logging

import pytest

from mcp_server_qdrant.core.context import request_id
from mcp_server_qdrant.http.monitor import Identified
from tests.asgi import Exchange

LOGGER = "mcp_server_qdrant.http.monitor"


async def answering(scope, receive, send):
    """An application that says whose request it is, from a task of its own."""

    async def told() -> bytes:
        return (request_id() or "").encode()

    body = await asyncio.ensure_future(told())
    await send({"type": "http.response.start", "status": 202, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("given", ["abc-123", "req_1.2:3/4+5=6@7", "x" * 128])
async def test_a_sane_id_is_taken_and_returned(given):
    exchange = await Exchange(Identified(answering), "POST", "/mcp", x_request_id=given).done()

    assert exchange.headers == {"a": "b", "x-request-id": given}
    assert exchange.body == given.encode()


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", 'a"b', "a\nb", "ä", "{}", "a,b"])
async def test_any_other_is_replaced(given):
    exchange = await Exchange(Identified(answering), "POST", "/mcp", x_request_id=given).done()

    made = exchange.headers["x-request-id"]
    assert len(made) == 32
    assert int(made, 16)
    assert exchange.body == made.encode()


async def test_the_line_says_what_was_answered_and_nothing_of_the_query(caplog):
    caplog.set_level(logging.INFO, LOGGER)

    await Exchange(Identified(answering), "GET", "/viz").done()

    [record] = caplog.records
    fields = record.fields
    assert fields.pop("ms") >= 0
    assert fields == {"method": "GET", "path": "/viz", "status": 202, "client": "127.0.0.1"}
    assert "secret" not in str(record.__dict__)


async def test_health_checks_do_not_fill_the_log(caplog):
    caplog.set_level(logging.INFO, LOGGER)

    await Exchange(Identified(answering), "GET", "/healthz").done()

    assert caplog.records == []


async def test_a_request_that_fails_has_its_line_too(caplog):
    async def failing(*_):
        raise RuntimeError

    caplog.set_level(logging.INFO, LOGGER)
    with pytest.raises(RuntimeError):
        await Exchange(Identified(failing), "POST", "/mcp").done()

    assert caplog.records[0].fields["status"] == 0
