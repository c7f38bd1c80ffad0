"""The names and web pages that a server may be called by, whatever address it listens on.

A page of a foreign site can have its own name point to this server (DNS rebinding): its requests
then carry that name in Host. So a name has to be listed; IP addresses and localhost cannot be
taken over like that.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

METHODS = ("GET", "POST", "DELETE")
EXPOSED = ("Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After")
# As browsers write it (RFC 6454, section 6.2), of one page: anything else is refused.
ORIGIN = re.compile(
    r"null|[a-z][a-z0-9+.-]*://(?:[a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?",
    re.IGNORECASE | re.ASCII,
)
HOST_REFUSED = (
    "This server is not called by that Host: its operator adds it to FASTMCP_ALLOWED_HOSTS."
)
ORIGIN_REFUSED = (
    "Web pages of that Origin may not call this server: its operator adds it to "
    "FASTMCP_ALLOWED_ORIGINS."
)


class Guard:
    """An ASGI application behind checks of Host and Origin, with CORS for the listed origins.

    `open_paths` go to `app` unchecked, all other requests to `inner`: for probes, which know no
    names, and for what is public.
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
        self._origins = frozenset(origin.lower() for origin in origins)
        self._open = frozenset(open_paths)
        self._inner = inner
        if origins:
            self._inner = CORSMiddleware(
                inner,
                allow_origins=[origin.lower() for origin in origins],
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
        origins = headers.getlist("origin")
        if any(not self._allowed_origin(origin, hosts[0]) for origin in origins):
            return PlainTextResponse(ORIGIN_REFUSED, status_code=403)
        return None

    def _allowed_origin(self, origin: str, host: str) -> bool:
        """True of a page that is listed, of this server itself, or of this machine."""
        if not ORIGIN.fullmatch(origin):
            return False
        if {"*", origin.lower()} & self._origins:
            return True
        return same_site(origin, host)


def allowed_host(given: str, allowed: Iterable[str]) -> bool:
    """True of a Host that is an IP address, localhost, or listed, with its port or without."""
    name, port = split_host(given)
    if name is None:
        return False
    if name == "localhost" or _address(name):
        return True
    spellings = (name, f"{name}:{port}")
    return any(fnmatchcase(spelling, pattern) for pattern in allowed for spelling in spellings)


def same_site(origin: str, host: str) -> bool:
    """True where a page is of this very server, or both page and server are of this machine."""
    try:
        page = urlsplit(origin)
        page_host = page.hostname
    except ValueError:
        return False
    if page.scheme not in ("http", "https") or not page_host:
        return False
    name, _ = split_host(host)
    return page.netloc.lower() == host.lower() or (
        is_loopback(page_host) and is_loopback(name or "")
    )


def split_host(given: str) -> tuple[str | None, str]:
    """Name (lowercase, IPv6 without brackets) and port of a Host header; no name: malformed."""
    if not given or any(sign in given for sign in "/?#@\\ ,"):
        return None, ""
    try:
        parts = urlsplit(f"//{given}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None, ""
    return (name.rstrip(".") if name else None), "" if port is None else str(port)


def is_loopback(name: str) -> bool:
    """True where a host is this machine, for this machine alone."""
    address = _address(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
