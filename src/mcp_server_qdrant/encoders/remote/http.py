"""JSON over HTTP, for encoder and reranker services."""

import asyncio
import json
import logging
from typing import Any

import httpx

from mcp_server_qdrant.core.bounded import PLAIN, TooLarge, limit_body
from mcp_server_qdrant.core.errors import ConfigError

OK = 200
NO_ACCESS = (401, 403)
TOO_LARGE = 413
REFUSED = (400, TOO_LARGE, 422)  # for this request only; others may work
BUSY = 429
CONNECT_SECONDS = 5.0
QUIET = ("httpx", "httpcore")


class ServiceFault(Exception):
    """A sentence on why a request failed.

    `transient`: a retry may succeed; `retry_after`: the pause that the service asked for, in s.
    `refused`: the service works, but rejects this request.
    """

    def __init__(
        self,
        sentence: str,
        status: int | None = None,
        *,
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.transient = transient
        self.retry_after = retry_after
        self.refused = status in REFUSED
        super().__init__(sentence)


class Endpoint:
    """One URL that JSON is posted to; errors include its `name` and the `hint`.

    A key is sent as a bearer token; without one, a name and password in the URL become basic
    authentication. If the path has none of the `suffixes`, the first one is appended. Raises
    ConfigError, naming the `setting`, for an invalid URL.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        setting: str,
        hint: str,
        suffixes: tuple[str, ...] = ("",),
        api_key: str | None = None,
    ) -> None:
        try:
            whole = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigError(f"{setting}: it is not a URL.") from error
        self.name = name
        self._hint = hint
        path = whole.path.rstrip("/")
        path = path if path.endswith(suffixes) else f"{path}{suffixes[0]}"
        # httpx would use them for basic authentication and ignore the key.
        self.url = whole.copy_with(path=path, userinfo=b"" if api_key else whole.userinfo)
        self._headers = {"Content-Type": "application/json", **PLAIN}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._client: httpx.AsyncClient | None = None

    async def post(self, body: Any, seconds: float) -> Any:
        """Post a request; returns the parsed response. Raises ServiceFault."""
        try:
            async with asyncio.timeout(seconds):  # httpx only limits each step
                response = await self._open_client().post(
                    self.url,
                    content=json.dumps(body, ensure_ascii=False).encode(),
                    headers=self._headers,
                    timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                )
        except TooLarge as error:
            raise ServiceFault(f"{self.name} sent too large an answer.", TOO_LARGE) from error
        except TimeoutError as error:
            raise ServiceFault(f"{self.name} did not answer in time.", transient=True) from error
        except httpx.HTTPError as error:
            raise ServiceFault(f"{self.name} cannot be reached.", transient=True) from error
        self._check(response)
        try:
            return await asyncio.to_thread(json.loads, response.content)
        except (ValueError, RecursionError) as error:
            raise ServiceFault(f"{self.name}'s answer is not JSON.", transient=True) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            # They log whole URLs and headers, which may contain keys.
            for name in QUIET:
                logging.getLogger(name).setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(event_hooks={"response": [limit_body]})
        return self._client

    def _check(self, response: httpx.Response) -> None:
        """Raise ServiceFault for an error status."""
        status = response.status_code
        if status == BUSY or response.is_server_error:
            wait = response.headers.get("Retry-After", "")
            raise ServiceFault(
                f"{self.name} failed (HTTP {status}).",
                transient=True,
                retry_after=float(wait) if wait.isdecimal() else None,
            )
        fault = f"rejected the request (HTTP {status}): {self._hint}"
        if status in NO_ACCESS:
            fault = f"refused access (HTTP {status}): its API key is missing or may not do this."
        elif response.is_redirect or status == httpx.codes.NOT_FOUND:
            fault = f"has no such address or model (HTTP {status}): check its URL and model."
        if status != OK:
            raise ServiceFault(f"{self.name} {fault}", status)
