"""Authenticates the caller of a request before any other layer.

The SDK's own layer takes the first of several tokens, and cannot say why one is refused, nor that
none can be checked now.
"""

import json
import logging
import re
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import cors_middleware
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_server_qdrant.core.context import CALLER, READ, SCOPES, Caller, calling
from mcp_server_qdrant.core.errors import Unauthorized, VerifierUnavailable

logger = logging.getLogger(__name__)

METADATA = "/.well-known/oauth-protected-resource"
BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)  # RFC 6750, section 2.1
RETRY_SECONDS = 5


class Verifier(Protocol):
    """Identifies the caller of a token."""

    async def caller(self, token: str) -> Caller:
        """The caller with this token. Raises Unauthorized or VerifierUnavailable."""


def resource_routes(url: str, issuer: str) -> tuple[list[Route], dict[str, str]]:
    """The routes with the resource metadata for OAuth clients (RFC 9728), and the challenge."""
    metadata = {  # by hand: pydantic would change URLs, which clients compare exactly
        "resource": url,
        "authorization_servers": [issuer],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "mcp-server-qdrant",
    }

    async def answer(_: Request) -> Response:
        return JSONResponse(metadata)

    parts = urlsplit(url)
    path = METADATA + parts.path.rstrip("/")
    methods = ["GET", "OPTIONS"]
    served = cors_middleware(answer, methods)
    routes = [Route(one, served, methods=methods) for one in dict.fromkeys((path, METADATA))]
    where = parts._replace(path=path, query="", fragment="").geturl()
    return routes, {"scope": READ, "resource_metadata": where}


class Authenticated:
    """Lets only requests with a valid token reach an ASGI application.

    The caller is set in the context, and in the ASGI scope for other tasks. A GET of "/" or below
    one of `pages` needs no token, because a browser cannot send one when it opens a page.
    Refusals include the `challenge`.
    """

    def __init__(
        self,
        app: ASGIApp,
        verifier: Verifier,
        challenge: dict[str, str] | None = None,
        pages: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._verifier = verifier
        self._challenge = challenge or {}
        self._pages = tuple(pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403 or 503, or pass the request on."""
        if scope["method"] in ("GET", "HEAD") and self._is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            token = bearer_token(Headers(scope=scope))
            who = await self._verifier.caller(token)
        except Unauthorized as error:
            logger.info("A request was refused: %s", error)
            response = self._refusal(401, "invalid_token", str(error))
        except VerifierUnavailable as error:
            headers = {"Retry-After": str(RETRY_SECONDS)}
            response = JSONResponse({"error": str(error)}, status_code=503, headers=headers)
        else:
            if READ in who.scopes:
                known = {CALLER: who, "user": _user(who)}
                with calling(who):
                    await self._app({**scope, **known}, receive, send)
                return
            response = self._refusal(403, "insufficient_scope", "The token lacks the scope read.")
        await response(scope, receive, send)

    def _is_page(self, path: str) -> bool:
        return any(path in (page, "/") or path.startswith(f"{page}/") for page in self._pages)

    def _refusal(self, status: int, error: str, sentence: str) -> Response:
        body = {"error": error, "error_description": sentence}
        fields = body | self._challenge
        challenge = ", ".join(f"{key}={json.dumps(text)}" for key, text in fields.items())
        return JSONResponse(body, status, {"WWW-Authenticate": f"Bearer {challenge}"})


def bearer_token(headers: Headers) -> str:
    """The token of a request. Raises Unauthorized unless there is exactly one valid header."""
    given = headers.getlist("authorization")
    if not given:
        raise Unauthorized("A token is needed: send it as Authorization: Bearer.")
    match = BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None:
        raise Unauthorized("The Authorization header must be Bearer and one token.")
    return match[1]


def _user(who: Caller) -> AuthenticatedUser:
    """The caller in the SDK's type; the SDK ties a session to the user who opened it."""
    token = AccessToken(
        token="",  # not needed by the layers below
        client_id=who.name,
        subject=who.name,
        scopes=sorted(who.scopes),
        claims={"iss": who.claims.get("iss")},
    )
    return AuthenticatedUser(token)
