"""JSON over HTTP to a service of models: what its encoders and rerankers share."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import httpx

Kind = Literal[
    "late", "unreachable", "broken", "large", "redirect", "refused", "missing", "busy", "failed"
]
CONNECT_SECONDS = 5.0
QUIET = ("httpx", "httpcore")


class HttpFault(Exception):
    """Why there is no answer to read: `kind` says it, `status` is 0 where there was none.

    `retry_after` is how many seconds the service asked to be left alone.
    """

    def __init__(self, kind: Kind, status: int = 0, retry_after: float | None = None) -> None:
        self.kind: Kind = kind
        self.status = status
        self.retry_after = retry_after
        super().__init__(kind)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status that its owner has to judge (200, 400, 422 and the like), and the body."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the request was done."""
        return self.status == httpx.codes.OK


class Endpoint:
    """One URL that JSON is posted to.

    A name and password in the URL become basic authentication, unless there is a key, which is
    sent as a bearer token. `suffixes` are ends that its path may have; the first is added where it
    has none of them. Raises ValueError where it is no URL.
    """

    def __init__(
        self, url: str, *, suffixes: tuple[str, ...], api_key: str | None, largest: int
    ) -> None:
        try:
            whole = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError("it is not a URL") from error
        path = whole.path.rstrip("/")
        path = path if path.endswith(suffixes) else f"{path}{suffixes[0]}"
        self.url = whole.copy_with(userinfo=b"", path=path)
        self._largest = largest
        self._headers = {b"Content-Type": b"application/json", b"Accept-Encoding": b"identity"}
        self._auth: httpx.Auth | None = None
        if api_key:
            self._headers[b"Authorization"] = f"Bearer {api_key}".encode()
        elif whole.userinfo:
            self._auth = httpx.BasicAuth(whole.username, whole.password)
        self._client: httpx.AsyncClient | None = None

    @property
    def host(self) -> str:
        """The host's name."""
        return self.url.host

    async def post(self, body: bytes, seconds: float) -> Answer:
        """The answer to one request, in `seconds` for each of its steps. Raises HttpFault."""
        try:
            async with self._opened().stream(
                "POST",
                self.url,
                content=body,
                headers=self._headers,
                auth=self._auth,
                timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
            ) as response:
                _refuse(response)
                answer = bytearray()
                async for piece in response.aiter_raw():
                    answer += piece
                    if len(answer) > self._largest:
                        raise HttpFault("large")
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            raise HttpFault("unreachable") from error
        except httpx.TimeoutException as error:
            raise HttpFault("late") from error
        except httpx.HTTPError as error:
            raise HttpFault("broken") from error
        return Answer(response.status_code, bytes(answer))

    async def close(self) -> None:
        """Let the connections go."""
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # They log whole URLs and headers, and a key may be in the query of this one.
            for name in QUIET:
                logging.getLogger(name).setLevel(logging.WARNING)
            self._client = httpx.AsyncClient(follow_redirects=False)
        return self._client


def _refuse(response: httpx.Response) -> None:
    """Raise what a status alone tells."""
    status = response.status_code
    kind: Kind | None = None
    if response.is_redirect:
        kind = "redirect"
    elif status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        kind = "refused"
    elif status == httpx.codes.NOT_FOUND:
        kind = "missing"
    elif status == httpx.codes.TOO_MANY_REQUESTS:
        kind = "busy"
    elif response.is_server_error:
        kind = "failed"
    if kind:
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        raise HttpFault(kind, status, wait)


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
