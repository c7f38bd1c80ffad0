"""A key in the page's URL, as in Jupyter, for the personal server of one user.

Other accounts of the machine can reach its port too, so the key protects it.
"""

import hmac

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

PARAMETER = "key"
REFUSED = "This page needs its key: open the address that `mcp-server-qdrant viz` printed."


class Keyed:
    """Lets only requests with the key reach an ASGI application.

    A browser sends it once in the URL, and then as a cookie; a program as a bearer token.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, answer the first one with the cookie, or refuse with 403."""
        request = Request(scope)
        # Cookies are sent to all ports of a host, so each server has its own cookie.
        cookie = f"viz-key-{request.url.port}"
        _, _, token = request.headers.get("authorization", "").partition(" ")
        if self._is_key(request.cookies.get(cookie, "")) or self._is_key(token):
            await self._app(scope, receive, send)
            return
        answer: Response = JSONResponse({"error": REFUSED}, 403)
        if request.method == "GET":
            answer = PlainTextResponse(REFUSED, 403)
        if request.method == "GET" and self._is_key(request.query_params.get(PARAMETER, "")):
            answer = RedirectResponse(str(request.url.remove_query_params(PARAMETER)), 303)
            answer.set_cookie(cookie, self._key, httponly=True, samesite="lax")
        answer.headers["Cache-Control"] = "no-store"
        await answer(scope, receive, send)

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._key.encode())
