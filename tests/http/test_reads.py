"""HTTP connections are read in small pieces, and whole."""

import asyncio
import contextlib

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from mcp_server_qdrant.http.reads import READ_BYTES, small_reads


async def test_a_connection_is_read_in_small_pieces():
    made: list[asyncio.Transport] = []
    pieces: list[int] = []

    class Kept(asyncio.Protocol):
        def connection_made(self, transport):
            made.append(transport)

        def data_received(self, data):
            pieces.append(len(data))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(small_reads(Kept), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(10 * READ_BYTES))
        while sum(pieces) < 10 * READ_BYTES:
            await asyncio.sleep(0)
        writer.close()

    assert made[0].max_size == READ_BYTES
    assert max(pieces) == READ_BYTES
    made[0].close()


async def test_a_large_body_arrives_whole():
    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(body)).encode()})

    config = uvicorn.Config(
        app, port=0, http=small_reads(AutoHTTPProtocol), lifespan="off", log_level="warning"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
    size = 40 * READ_BYTES + 1
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + b"x" * size)
    answer = await reader.read()
    writer.close()
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving

    assert f"\r\n{size}\r\n".encode() in answer
