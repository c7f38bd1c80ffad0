"""Liveness of the process, and readiness to answer calls."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcp_server_qdrant.core.errors import QdrantMcpError

PATIENCE = 2.0  # seconds; probes usually give up soon after

Begin = Callable[[], "asyncio.Task[Any]"]  # opens the services, or says that it is done


class Part(NamedTuple):
    """The state of one part of the server, and a sentence on it."""

    state: str
    message: str


class Health:
    """Looks at server, engine and encoder."""

    def __init__(
        self,
        opening: Begin,
        draining: Callable[[], bool] = lambda: False,
        patience: float = PATIENCE,
    ) -> None:
        self._opening = opening
        self._draining = draining
        self._patience = patience

    async def readyz(self, _: Request) -> Response:
        """200 where a call would be answered now, at least by keyword; else 503, and why."""
        parts = await self.parts()
        model = parts["encoder"].state
        up = parts["server"].state == parts["engine"].state == "up"
        # Without a model there is search by keyword; one that is being loaded is awaited.
        if not up or model in ("loading", "unknown"):
            status = "not ready"
        else:
            status = "ready" if model == "ready" else "degraded"
        told = {name: part._asdict() for name, part in parts.items()}
        return JSONResponse({"status": status, **told}, 503 if status == "not ready" else 200)

    async def parts(self) -> dict[str, Part]:
        """Server, engine and encoder."""
        server = Part("up", "The server takes calls.")
        if self._draining():
            server = Part("draining", "The server is shutting down: it takes no more calls.")
        opening = self._opening()
        engine = await self._engine(opening)
        return {"server": server, "engine": engine, "encoder": _encoder(opening)}

    async def _engine(self, opening: "asyncio.Task[Any]") -> Part:
        """`up` where it answers in time, `opening`, or `down`."""
        try:
            async with asyncio.timeout(self._patience):
                await (await asyncio.shield(opening)).catalog.names()
        except TimeoutError:
            if not opening.done():
                return Part("opening", "The engine is being opened.")
            return Part("down", "The engine does not answer in time.")
        except QdrantMcpError as error:
            return Part("down", str(error))
        return Part("up", "The engine answers.")


def opened(opening: "asyncio.Task[Any]") -> Any:
    """The services, or None until they are open."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None:
        return None
    return opening.result()


def _encoder(opening: "asyncio.Task[Any]") -> Part:
    """The state of the default model, `unknown` until the services are open."""
    services = opened(opening)
    if services is None:
        return Part("unknown", "The model is loaded once the engine is open.")
    encoder = services.encoders.default
    if encoder.state == "ready":
        return Part("ready", f"The model {encoder.name} is ready.")
    return Part(
        encoder.state,
        encoder.reason or f"The model {encoder.name} is not loaded yet.",
    )


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})
