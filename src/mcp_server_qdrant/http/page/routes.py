"""The visual page: its files, and the calls behind it.

`pages` are the same for everybody and hold nothing of anybody's. `calls` answer as the tools do, by
running them. Both stand behind `http_edge.protect`, which asks for a token for the calls alone.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.http.page.desk import Desk

PAGE = "/viz"
WEB = Path(__file__).parent / "viz"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
MAX_BODY = 262_144
# A page of another site cannot send this without asking first, and is never allowed to.
CLIENT_HEADER, CLIENT = "x-requested-with", "mcp-server-qdrant"

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Endpoint = Callable[[Request], Awaitable[Response]]
Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


def register(mcp: MCPServer[Any], desk: Desk) -> None:
    """Add the page beside /mcp."""
    for path, endpoint in pages().items():
        mcp.custom_route(path, methods=["GET"])(endpoint)
    for path, endpoint in calls(desk).items():
        mcp.custom_route(path, methods=["POST"])(endpoint)


def pages() -> dict[str, Endpoint]:
    """Path -> what answers a GET: the page and its files."""
    return {PAGE: page, f"{PAGE}/": home, f"{PAGE}/{{name:path}}": file}


def calls(desk: Desk) -> dict[str, Endpoint]:
    """Path -> what answers a POST of JSON: all that the page learns of what is stored."""
    answers: dict[str, Answer] = {
        "setup": desk.setup,
        "tags": desk.tags,
        "search": desk.search,
        "compare": desk.compare,
        "map": desk.map,
        "text": desk.text,
    }
    return {f"{PAGE}/api/{name}": _call(answer) for name, answer in answers.items()}


async def page(request: Request) -> Response:
    """The page."""
    return _served(request, "index.html")


async def home(_: Request) -> Response:
    """One address for the page: its files lie relative to it."""
    return RedirectResponse("../viz", headers=HEADERS)


async def file(request: Request) -> Response:
    """A file of the page."""
    return _served(request, request.path_params["name"])


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    kind: str
    tag: str


@cache
def files() -> Mapping[str, _File]:
    """Name -> file. Nothing else can be asked for, whatever a path says."""
    found = {}
    for path in WEB.rglob("*"):
        if path.suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.relative_to(WEB).as_posix()] = _File(content, TYPES[path.suffix], tag)
    return found


def _served(request: Request, name: str) -> Response:
    found = files().get(name)
    if found is None:
        return _error(404, "There is no such page.")
    headers = HEADERS | {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


def _call(answer: Answer) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if fault := refusal(request):
            return _error(*fault)
        try:
            return _json(200, await answer(await _asked(request)))
        except RequestError as error:
            return _error(422, str(error))
        except BackendError as error:
            return _error(503, str(error))

    return endpoint


def refusal(request: Request) -> tuple[int, str] | None:
    """Status and sentence for a call that does not come from the page; None where it does."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if request.headers.get(CLIENT_HEADER) != CLIENT or site != "same-origin":
        return 403, "Only the page of this server may ask this."
    if not request.headers.get("content-type", "").startswith("application/json"):
        return 415, "Send JSON."
    return None


async def _asked(request: Request) -> Mapping[str, Any]:
    """The body. Raises RequestError where it is not a JSON object, or too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise RequestError("The request is too long: ask for less.")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError("The request is not JSON.") from None
    if not isinstance(asked, dict):
        raise RequestError("The request is not a JSON object.")
    return asked


def _error(status: int, sentence: str) -> Response:
    return _json(status, {"error": sentence})


def _json(status: int, content: Mapping[str, Any]) -> Response:
    return JSONResponse(content, status, headers=HEADERS | {"Cache-Control": "no-store"})
