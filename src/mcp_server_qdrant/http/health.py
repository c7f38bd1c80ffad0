"""Whether the process lives, and whether it can answer calls now."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcp_server_qdrant.core.errors import QdrantMcpError

PATIENCE = 2.0  # seconds; those who ask usually give up soon after


class Encoder(Protocol):
    """The default embedding model."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def state(self) -> str:
        """`loading` while vectors will be there soon, `ready` when they are."""

    @property
    def reason(self) -> str | None:
        """In a sentence, why there are no vectors now."""


class Catalog(Protocol):
    """The collections."""

    async def names(self) -> Sequence[str]:
        """The visible ones, from the engine or as it said a moment ago."""


class Encoders(Protocol):
    """The embedding models."""

    @property
    def default(self) -> Encoder:
        """The one of most collections."""


class Services(Protocol):
    """What is looked at."""

    @property
    def catalog(self) -> Catalog:
        """The collections."""

    @property
    def encoders(self) -> Encoders:
        """The embedding models."""


@dataclass(frozen=True, slots=True)
class Part:
    """How one part of the server fares: a word and a sentence."""

    state: str
    sentence: str


class Health:
    """Looks at engine and encoder. `opening` opens the services, or says that it is done."""

    def __init__(
        self,
        opening: "Callable[[], asyncio.Task[Services]]",
        draining: Callable[[], bool] = lambda: False,
        patience: float = PATIENCE,
    ) -> None:
        self._opening = opening
        self._draining = draining
        self._patience = patience

    async def readyz(self, _: Request) -> Response:
        """200 where a call would be answered now, at least by keyword; else 503, and why."""
        parts = await self.parts()
        ready = self.is_ready(parts)
        full = ready and parts["encoder"].state == "ready"
        told = {name: {"state": p.state, "message": p.sentence} for name, p in parts.items()}
        status = "ready" if full else "degraded" if ready else "not ready"
        return JSONResponse({"status": status, **told}, status_code=200 if ready else 503)

    async def parts(self) -> dict[str, Part]:
        """Server, engine and encoder."""
        server = Part("up", "The server takes calls.")
        if self._draining():
            server = Part("draining", "The server is ending: it finishes calls and takes no more.")
        opening = self._opening()
        engine = await self._engine(opening)
        return {"server": server, "engine": engine, "encoder": _encoder(opening)}

    @staticmethod
    def is_ready(parts: dict[str, Part]) -> bool:
        """Without a model there is search by keyword; one that is being loaded is awaited."""
        loading = parts["encoder"].state in ("loading", "unknown")
        return parts["server"].state == "up" and parts["engine"].state == "up" and not loading

    async def _engine(self, opening: "asyncio.Task[Services]") -> Part:
        """`up` where it answers in time, `opening`, or `down`."""
        try:
            async with asyncio.timeout(self._patience):
                services = await asyncio.shield(opening)
                await services.catalog.names()
        except TimeoutError:
            if not opening.done():
                return Part("opening", "The engine is being opened.")
            return Part("down", "The engine does not answer in time.")
        except QdrantMcpError as error:
            return Part("down", str(error))
        return Part("up", "The engine answers.")


def _encoder(opening: "asyncio.Task[Services]") -> Part:
    """The state of the default model, `unknown` until the services are open."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None:
        return Part("unknown", "The model is loaded once the engine is open.")
    encoder = opening.result().encoders.default
    if encoder.state == "ready":
        return Part("ready", f"The model {encoder.name} is ready.")
    sentence = encoder.reason or f"The model {encoder.name} is not loaded yet."
    return Part(encoder.state, sentence)


async def healthz(_: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"})
