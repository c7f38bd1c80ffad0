"""The client of a Qdrant server or cluster: deadlines, retries, and limits per caller."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakValueDictionary

import httpx
from typing_extensions import override

from mcp_server_qdrant.core.bounded import PLAIN, limit_body
from mcp_server_qdrant.core.context import caller, seconds_left
from mcp_server_qdrant.core.errors import EngineFailure, EngineTooOld, QdrantMcpError, RequestError
from mcp_server_qdrant.core.tasks import retry
from mcp_server_qdrant.qdrant.engine import Plain
from mcp_server_qdrant.qdrant.errors import (
    FOREIGN,
    cause_of,
    may_have_happened,
    status_of,
)
from mcp_server_qdrant.qdrant.questions import SearchClient
from mcp_server_qdrant.qdrant.server.rest import CALLS, LARGEST, RestClient

PAUSES = (0.05, 0.25)  # seconds before the second and the third try
SHARE = 48  # parallel requests per caller; unlimited without authentication
_TRANSIENT = (502, 503)
# An upsert is idempotent.
_RETRIED = CALLS.keys() | {"get_collections", "collection_exists", "upsert"}
OLDEST = (1, 16)  # the first version whose RRF takes a k
TOO_OLD = "Qdrant is version {}; searches need 1.16 or newer: upgrade it."
CORPUS_SINCE = (1, 19)
NO_CORPUS = "Keyword search that keeps tenants apart needs Qdrant 1.19 or newer; this one is {}."


class RemoteClient(SearchClient):
    """qdrant-client's client, whose reads use a faster HTTP client of ours.

    A call ends within `timeout` seconds, whatever the server does; reads pass the timeout on to it.
    Reads and upserts are retried if the connection broke or a node was away; other calls and
    timeouts are not.
    """

    def __init__(
        self, *, url: str, timeout: float, api_key: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(
            url=url,
            api_key=api_key,
            headers=PLAIN,
            timeout=math.ceil(timeout),
            event_hooks={"response": [partial(limit_body, costs={}, largest=LARGEST)]},
            **kwargs,
        )
        self._timeout = timeout
        host = self.http.client.host
        self._rest = None if _has_proxy(host) else RestClient(host, api_key)
        self.lean = self._rest is not None
        self._knows_corpus = False
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @override
    async def _send(self, name: str, *args: Any, **kwargs: Any) -> Any:
        reads = name in CALLS
        # qdrant-client would take twenty times as long.
        ask = self._rest.call if reads and self._rest is not None else super()._send
        async with self._share() if reads else nullcontext():
            if reads and name != "get_collection":
                kwargs.setdefault("timeout", self._seconds())
            call = partial(ask, name, *args, **kwargs)
            return await self._retry(name, call, kwargs.get("timeout", self._timeout))

    @override
    async def batch(self, name: str, requests: Sequence[Plain]) -> list[list[Any]]:
        try:
            return await super().batch(name, requests)
        except RequestError as error:
            older = None
            with suppress(QdrantMcpError):
                older = await self._older_than(OLDEST)
            if older:
                raise EngineTooOld(TOO_OLD.format(older)) from error
            raise

    @override
    async def applies_idf(self, name: str, using: str) -> bool:
        applied = await super().applies_idf(name, using)
        if applied and not self._knows_corpus:
            if older := await self._older_than(CORPUS_SINCE):
                raise EngineFailure(NO_CORPUS.format(older))
            self._knows_corpus = True  # checked once
        return applied

    async def _older_than(self, least: tuple[int, int]) -> str | None:
        """The server's version if it is older than that, else None."""
        version = str((await self.info()).version)
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        return version if numbers < least else None

    def _seconds(self) -> int:
        """The time left for a read, in whole seconds, as the server expects."""
        return max(1, math.ceil(min(self._timeout, seconds_left() or math.inf)))

    async def _retry(self, name: str, call: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """Call with retries, within `seconds` in total.

        Of several errors, the one after which a write may have happened is raised.
        """
        end, faults = asyncio.get_running_loop().time() + seconds, list[Exception]()

        async def once() -> Any:
            try:
                async with asyncio.timeout_at(end):
                    return await call()
            except FOREIGN as error:
                faults.append(error)
                raise

        try:
            return await retry(once, PAUSES if name in _RETRIED else (), FOREIGN, _is_transient)
        except FOREIGN as last:
            raise next(filter(may_have_happened, faults), last) from None

    def _share(self) -> AbstractAsyncContextManager[Any]:
        """A slot of the caller's own limit, so that a busy caller cannot block others."""
        who = caller()
        if who is None:
            return nullcontext()
        return self._shares.setdefault(who.name, asyncio.Semaphore(SHARE))

    @override
    async def close(self, *args: Any, **kwargs: Any) -> None:
        if self._rest is not None:
            self._rest.close()
        await super().close(*args, **kwargs)


def _has_proxy(uri: str) -> bool:
    """True if the environment sets a proxy for this address."""
    parts, proxies = urlsplit(uri), getproxies()
    return bool(proxies.keys() & {parts.scheme, "all"}) and not proxy_bypass(parts.hostname or "")


def _is_transient(error: Exception) -> bool:
    """True if a node was away or a connection broke, so that a retry may succeed."""
    cause = cause_of(error)
    if isinstance(cause, httpx.TimeoutException | TimeoutError):
        return False
    return isinstance(cause, httpx.HTTPError | OSError) or status_of(error) in _TRANSIENT
