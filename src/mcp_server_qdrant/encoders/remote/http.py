"""JSON over HTTP to a service, for encoders, rerankers and the operator's check."""

import asyncio
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx

from mcp_server_qdrant.core.bounded import PLAIN, TooLarge, bounded
from mcp_server_qdrant.core.errors import ConfigError

Kind = Literal[
    "late", "unreachable", "broken", "large", "redirect", "refused", "missing", "busy", "failed"
]
TRANSIENT: tuple[Kind, ...] = ("late", "unreachable", "broken", "busy", "failed")
SENTENCES: dict[Kind, str] = {
    "late": "{name} did not answer in time.",
    "unreachable": "{name} cannot be reached.",
    "broken": "{name} broke off its answer.",
    "large": "{name} sent too large an answer.",
    "redirect": "{name} answered with a redirect (HTTP {status}): correct its URL.",
    "refused": "{name} refused access (HTTP {status}): its API key is missing or may not do this.",
    "missing": "{name} has no such address or model (HTTP 404): check its URL and model.",
    "busy": "{name} has had too many requests (HTTP 429).",
    "failed": "{name} failed (HTTP {status}).",
}
FAULTY: dict[int, Kind] = {401: "refused", 403: "refused", 404: "missing", 429: "busy"}
CONNECT_SECONDS = 5.0
QUIET = ("httpx", "httpcore")


class HttpFault(Exception):
    """Why there is no answer to read, as a sentence.

    `passing` faults may be over at the next try; `retry_after` is how many seconds the service
    asked to be left alone.
    """

    def __init__(
        self, name: str, kind: Kind, status: int = 0, retry_after: float | None = None
    ) -> None:
        self.kind = kind
        self.passing = kind in TRANSIENT
        self.retry_after = retry_after
        super().__init__(SENTENCES[kind].format(name=name, status=status))


@dataclass(frozen=True, slots=True)
class Answer:
    """A status that the caller has to judge (200, 400, 422 and the like), and the body."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Success of the request."""
        return self.status == httpx.codes.OK


class Endpoint:
    """One URL that JSON is posted to; faults call it by its `name`.

    A name and password in the URL become basic authentication, unless there is a key, which is
    sent as a bearer token. `suffixes` are ends that its path may have; the first is added where it
    has none of them. Raises ConfigError, naming the `setting`, where it is no URL.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        setting: str,
        suffixes: tuple[str, ...] = ("",),
        api_key: str | None = None,
    ) -> None:
        try:
            whole = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigError(f"{setting}: it is not a URL.") from error
        self.name = name
        path = whole.path.rstrip("/")
        path = path if path.endswith(suffixes) else f"{path}{suffixes[0]}"
        self.url = whole.copy_with(userinfo=b"", path=path)
        self._headers = {"Content-Type": "application/json", **PLAIN}
        self._auth: httpx.Auth | None = None
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        elif whole.userinfo:
            self._auth = httpx.BasicAuth(whole.username, whole.password)
        self._client: httpx.AsyncClient | None = None

    async def post(self, body: Any, seconds: float) -> Answer:
        """The answer to one request, in so many seconds. Raises HttpFault."""
        try:
            async with asyncio.timeout(seconds):  # httpx bounds each step only
                response = await self._opened().post(
                    self.url,
                    content=json.dumps(body, ensure_ascii=False).encode(),
                    headers=self._headers,
                    timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                )
        except TooLarge as error:
            raise HttpFault(self.name, "large") from error
        except (httpx.ConnectTimeout, httpx.ConnectError, httpx.LocalProtocolError) as error:
            raise HttpFault(self.name, "unreachable") from error
        except TimeoutError as error:
            raise HttpFault(self.name, "late") from error
        except httpx.HTTPError as error:
            raise HttpFault(self.name, "broken") from error
        self._check(response)
        return Answer(response.status_code, response.content)

    async def close(self) -> None:
        """Let the connections go."""
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # They log whole URLs and headers, and there may be a key in the query.
            for name in QUIET:
                logging.getLogger(name).setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(auth=self._auth, event_hooks={"response": [bounded]})
        return self._client

    def _check(self, response: httpx.Response) -> None:
        """Raise HttpFault where the status alone tells the fault."""
        status = response.status_code
        kind: Kind | None = FAULTY.get(status)
        if response.is_redirect:
            kind = "redirect"
        elif response.is_server_error:
            kind = "failed"
        if kind:
            wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
            raise HttpFault(self.name, kind, status, wait)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None where it does not."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds(), 0.0)
