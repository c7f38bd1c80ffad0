"""A minimal host for MCP Apps: a page, a sandboxed frame, a server."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp import Client

from tests.support import memory_server

# The policy that the extension prescribes if a resource names no domain.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'; base-uri 'self'; "
    "frame-src 'none'; object-src 'none'"
)
URL = "http://host.test/"
HOST = """<!doctype html><title>Host</title><body style="margin:0">
<iframe title="App" sandbox="allow-scripts" src="/app" style="border:0;width:100%;height:900px">
</iframe><script>
const frame = document.querySelector("iframe");
window.sent = [];
window.tell = message => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
window.addEventListener("message", async event => {
  if (event.source !== frame.contentWindow) return;
  const { id, method, params } = event.data;
  window.sent.push(event.data);
  if (id === undefined || method === undefined) return;
  try {
    tell({ id, result: JSON.parse(await window.answer(method, JSON.stringify(params))) });
  } catch (error) {
    tell({ id, error: { code: -32000, message: error.message.split("\\n")[0] } });
  }
});
</script>"""


class Server:
    """The MCP server in memory and its client, on an event loop in a thread."""

    def __init__(self, fill: Callable[[Client], Any], **settings: Any) -> None:
        self._fill = fill
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self.client: Client | None = None

    def __enter__(self) -> "Server":
        self._thread.start()
        assert self._ready.wait(30)
        assert self.client is not None
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        try:
            async with memory_server(**self._settings) as client:
                await self._fill(client)
                self.client = client
                self._ready.set()
                await self._done.wait()
        finally:
            self._ready.set()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's result in its wire format."""
        assert self.client is not None
        result = self._wait(self.client.call_tool(name, arguments))
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    def read(self, uri: str) -> Any:
        """A resource's only content."""
        assert self.client is not None
        return self._wait(self.client.read_resource(uri)).contents[0]

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


@dataclass
class Host:
    """The host's page. `calls` has the tools that the app called, `faults` the errors."""

    page: Any
    server: Server
    capabilities: dict[str, Any]
    context: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    broken: str | None = None

    def open(self, html: str) -> None:
        """Show the app, which then initialises."""
        pages = {URL: (HOST, {}), f"{URL}app": (html, {"Content-Security-Policy": POLICY})}

        def serve(route: Any) -> None:
            body, headers = pages.get(route.request.url, (None, {}))
            if body is None:
                self.faults.append(f"asked for {route.request.url}")
                route.abort()
                return
            route.fulfill(body=body, content_type="text/html", headers=headers)

        self.page.route("**/*", serve)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.expose_function("answer", self._answer)
        self.page.goto(URL)
        self.page.wait_for_function(
            "window.sent.some(one => one.method === 'ui/notifications/initialized')"
        )

    def _heard(self, said: Any) -> None:
        if said.type == "error":
            self.faults.append(said.text)

    def _answer(self, method: str, params: str) -> str:
        given = json.loads(params)
        if method == "ui/initialize":
            answer: dict[str, Any] = {
                "protocolVersion": given["protocolVersion"],
                "hostInfo": {"name": "test", "version": "1"},
                "hostCapabilities": self.capabilities,
                "hostContext": self.context,
            }
            return json.dumps(answer)
        if method == "tools/call":
            self.calls.append((given["name"], given["arguments"]))
            if self.broken:
                raise RuntimeError(self.broken)
            return json.dumps(self.server.call(given["name"], given["arguments"]))
        assert method == "ui/open-link"
        self.links.append(given["url"])
        return "{}"

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification to the app."""
        self.page.evaluate("message => window.tell(message)", {"method": method, "params": params})

    def called(self, count: int = 1) -> list[tuple[str, dict[str, Any]]]:
        """Wait until the app has called this many tools, and return them."""
        self.until(lambda: len(self.calls) >= count)
        return self.calls

    def until(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Process the page's events until the condition holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, (self.calls, self.links, self.faults)
            self.page.wait_for_timeout(20)

    def show(self, arguments: dict[str, Any], *, points: bool = True) -> dict[str, Any]:
        """Call the tool like an agent, and pass input and result to the app."""
        more = {"points": True} if points else {}
        result = self.server.call("qdrant-project", arguments | more)
        self.tell("ui/notifications/tool-input", {"arguments": arguments})
        self.tell("ui/notifications/tool-result", result)
        return result

    @property
    def app(self) -> Any:
        """The app's frame."""
        return self.page.frame_locator("iframe")
