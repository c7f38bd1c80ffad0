"""Checks the Host and Origin of requests.

A foreign web page can make its own host name resolve to this server (DNS rebinding); its requests
then have that name in Host. So host names must be listed; IP addresses and localhost are safe. The
SDK's own check covers /mcp only, and supports neither IP addresses nor patterns.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

METHODS = ("GET", "POST", "DELETE")
EXPOSED = ("Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After")
SITE = re.compile(r"([a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")  # name and port
HOST_REFUSED = "That Host is not allowed: the operator can add it to FASTMCP_ALLOWED_HOSTS."
ORIGIN_REFUSED = (
    "Web pages of that Origin may not call this server: the operator can add it to "
    "FASTMCP_ALLOWED_ORIGINS."
)


class Guard:
    """An ASGI application behind checks of Host and Origin, with CORS for the listed origins.

    `open_paths` go to `app` unchecked, for probes and public files; all other requests go to
    `inner`.
    """

    def __init__(
        self,
        app: ASGIApp,
        inner: ASGIApp,
        *,
        hosts: Iterable[str] = (),
        origins: Sequence[str] = (),
        open_paths: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._hosts = tuple(host.lower() for host in hosts)
        self._origins = [origin.lower() for origin in origins]
        self._open = frozenset(open_paths)
        self._inner = inner
        if origins:
            self._inner = CORSMiddleware(
                inner,
                allow_origins=self._origins,
                allow_methods=METHODS,
                allow_headers=["*"],
                expose_headers=EXPOSED,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan" or scope.get("path") in self._open:
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif refusal := self._refusal(Headers(scope=scope)):
            await refusal(scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not allowed_host(hosts[0], self._hosts):
            return PlainTextResponse(HOST_REFUSED, status_code=421)
        for origin in map(str.lower, headers.getlist("origin")):
            if not ({"*", origin} & set(self._origins) or same_site(origin, hosts[0])):
                return PlainTextResponse(ORIGIN_REFUSED, status_code=403)
        return None


def allowed_host(given: str, allowed: Iterable[str]) -> bool:
    """True if Host is an IP address, localhost or listed, with or without a port."""
    name, port = _split(given)
    if name == "localhost" or _address(name):
        return True
    spellings = (name, f"{name}:{port}") if name else ()
    return any(fnmatchcase(spelling, pattern) for pattern in allowed for spelling in spellings)


def same_site(origin: str, host: str) -> bool:
    """True if the page is from this server, or page and server are both on loopback."""
    scheme, _, page = origin.lower().partition("://")
    if scheme not in ("http", "https") or not _split(page)[0]:
        return False
    return page == host.lower() or (is_loopback(_split(page)[0]) and is_loopback(_split(host)[0]))


def is_loopback(name: str) -> bool:
    """True if a host is a loopback name or address."""
    address = _address(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def _split(given: str) -> tuple[str, str | None]:
    """Name (lowercase, IPv6 without brackets) and port of a Host; name "" if malformed."""
    match = SITE.fullmatch(given.lower())
    return (match[1].strip("[]").rstrip("."), match[2]) if match else ("", None)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
