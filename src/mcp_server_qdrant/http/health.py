"""Liveness of the process, and readiness to answer calls."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcp_server_qdrant.core.errors import QdrantMcpError

PATIENCE = 2.0  # seconds; probes usually give up soon after


class Part(NamedTuple):
    """The state of one part of the server, and a sentence on it."""

    state: str
    message: str


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})


def readiness(parts: Mapping[str, Part]) -> Response:
    """200 where a call would be answered now, at least by keyword; else 503, and why."""
    model = parts["encoder"].state
    up = parts["server"].state == parts["engine"].state == "up"
    # Without a model there is search by keyword; one that is being loaded is awaited.
    if not up or model in ("loading", "unknown"):
        status = "not ready"
    else:
        status = "ready" if model == "ready" else "degraded"
    told = {name: part._asdict() for name, part in parts.items()}
    return JSONResponse({"status": status, **told}, 503 if status == "not ready" else 200)


async def examined(
    opening: "asyncio.Task[Any]", *, draining: bool, patience: float = PATIENCE
) -> tuple[dict[str, Part], Any]:
    """Server, engine and encoder; and the services that `opening` opens, None until it has."""
    server, engine = Part("up", "The server takes calls."), Part("up", "The engine answers.")
    if draining:
        server = Part("draining", "The server is shutting down: it takes no more calls.")
    services: Any = None
    try:
        async with asyncio.timeout(patience):
            services = await asyncio.shield(opening)
            await services.catalog.names()
    except TimeoutError:
        engine = Part("opening", "The engine is being opened.")
        if services is not None:
            engine = Part("down", "The engine does not answer in time.")
    except QdrantMcpError as error:
        engine = Part("down", str(error))
    return {"server": server, "engine": engine, "encoder": _encoder(services)}, services


def _encoder(services: Any) -> Part:
    """The state of the default model, `unknown` until the services are open."""
    if services is None:
        return Part("unknown", "The model is loaded once the engine is open.")
    encoder = services.encoders.default
    if encoder.state == "ready":
        return Part("ready", f"The model {encoder.name} is ready.")
    return Part(encoder.state, encoder.reason or f"The model {encoder.name} is not ready.")
