"""The routes of the page: its files and its calls.

`PAGES` are static and contain no data. `calls` run the tools. Both are behind the guard of
`http.serving`, which requires a token for the calls.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.http.page.desk import Call, Desk

PAGE = "/viz"
WEB = Path(__file__).parent / "viz"
FILES = StaticFiles(
    directory=WEB, check_dir=False, follow_symlink=True
)  # some installers use links
# A foreign page can send this header only after a CORS preflight, which is refused.
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


def register(mcp: MCPServer[Any], desk: Desk) -> None:
    """Add the page beside /mcp."""
    for path, endpoint in PAGES.items():
        mcp.custom_route(path, methods=["GET"])(endpoint)
    for path, endpoint in calls(desk).items():
        mcp.custom_route(path, methods=["POST"])(endpoint)


def calls(desk: Desk) -> dict[str, Endpoint]:
    """Path -> endpoint for a POST of JSON; the page gets data only from these."""
    return {f"{PAGE}/api/{name}": _call(answer) for name, answer in desk.calls().items()}


async def home(request: Request) -> Response:
    """Redirect to the page's canonical URL: its files are relative to it."""
    return RedirectResponse("viz" if request.url.path == "/" else "../viz", headers=HEADERS)


async def file(request: Request) -> Response:
    """A file of the page, by default the page itself."""
    name = request.path_params.get("name", "index.html")
    try:
        response = await FILES.get_response(name, request.scope)
    except HTTPException:
        return _error(404, "There is no such page.")
    response.headers.update(HEADERS | {"Cache-Control": "no-cache"})
    if name == "index.html":  # else modules would be fetched one after the other
        modules = sorted(path.name for path in WEB.glob("*.js"))
        response.headers["Link"] = ", ".join(f"<viz/{one}>; rel=modulepreload" for one in modules)
    if name.endswith(".js"):  # Windows may have a wrong type in its registry
        response.headers["Content-Type"] = "text/javascript; charset=utf-8"
    return response


PAGES: dict[str, Endpoint] = {
    "/": home,
    PAGE: file,
    f"{PAGE}/": home,
    f"{PAGE}/{{name:path}}": file,
}


def _call(answer: Call) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if fault := refusal(request):
            return _error(*fault)
        try:
            return _json(200, await answer(await _body(request)))
        except RequestError as error:
            return _error(422, str(error))
        except BackendError as error:
            return _error(503, str(error))

    return endpoint


def refusal(request: Request) -> tuple[int, str] | None:
    """Status and sentence for a call that is not from the page; None if it is."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if request.headers.get(CLIENT_HEADER) != CLIENT or site != "same-origin":
        return 403, "Only this server's page may make this request."
    if not request.headers.get("content-type", "").startswith("application/json"):
        return 415, "Send JSON."
    return None


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON body, bounded in size. Raises RequestError if it is not a JSON object."""
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise RequestError("The request is not JSON.") from None
    if not isinstance(fields, dict):
        raise RequestError("The request is not a JSON object.")
    return fields


def _error(status: int, sentence: str) -> Response:
    return _json(status, {"error": sentence})


def _json(status: int, content: Mapping[str, Any]) -> Response:
    return JSONResponse(content, status, headers=HEADERS | {"Cache-Control": "no-store"})
