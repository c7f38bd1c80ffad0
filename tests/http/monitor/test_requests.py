"""Every request has an id and a line in the log."""

import asyncio
import logging
import re

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


async def test_the_line_says_what_was_answered_and_nothing_of_the_query(caplog):
    caplog.set_level(logging.INFO, LOGGER)

    await Exchange(Identified(answering), "GET", "/viz").done()

    [record] = caplog.records
    fields = record.fields
    assert fields.pop("ms") >= 0
    assert fields == {"method": "GET", "path": "/viz", "status": 202, "client": "127.0.0.1"}
    assert "secret" not in str(record.__dict__)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        *((sane, True) for sane in ("abc-123", "req_1.2:3/4+5=6@7", "x" * 128)),
        *((odd, False) for odd in ("", "x" * 129, "a b", 'a"b', "a\nb", "ä", "{}", "a,b")),
    ],
)
async def test_a_sane_id_is_taken_and_returned_and_any_other_replaced(given, taken):
    exchange = await Exchange(Identified(answering), "POST", "/mcp", x_request_id=given).done()

    own = exchange.headers.pop("x-request-id")
    assert exchange.headers == {"a": "b"}
    assert exchange.body == own.encode()
    assert own == given if taken else re.fullmatch("[0-9a-f]{32}", own)


async def test_health_checks_do_not_fill_the_log_and_what_fails_has_its_line_too(caplog):
    async def failing(*_):
        raise RuntimeError

    caplog.set_level(logging.INFO, LOGGER)
    await Exchange(Identified(answering), "GET", "/healthz").done()
    with pytest.raises(RuntimeError):
        await Exchange(Identified(failing), "POST", "/mcp").done()

    assert [record.fields["status"] for record in caplog.records] == [0]
