"""The app in the chat: the map of qdrant-project as a resource that a client shows; the icon."""

import base64
import re
from hashlib import sha256
from importlib import resources

from mcp.server.apps import Apps, ResourceCsp
from mcp.types import Icon

from mcp_server_qdrant.tools.project import APP

SHARED = tuple(
    f"{name}.js"
    for name in ("dom", "raster", "mapdata", "camera", "pins", "layers", "input", "plot", "points")
)


def app() -> Apps:
    """The extension with the app as a resource: one file that loads nothing from anywhere."""
    apps = Apps()
    apps.add_html_resource(
        APP,
        app_html(),
        name="map",
        title="Map of collections",
        description="The map of qdrant-project, to look around and search in.",
        csp=ResourceCsp(connect_domains=[], resource_domains=[], frame_domains=[]),
        prefers_border=True,
    )
    return apps


def icon() -> Icon:
    """The server's icon, as data: a client loads nothing. A PNG, as VS Code shows no SVG."""
    image = resources.files(__package__).joinpath("icon.png").read_bytes()
    data = base64.b64encode(image).decode("ascii")
    return Icon(src=f"data:image/png;base64,{data}", mime_type="image/png", sizes=["64x64"])


def app_html() -> str:
    """The app with what it shares with the page: colours and the drawing of maps.

    Its policy lets its own script and style in, and nothing else.
    """
    folder = resources.files(__package__)
    html = folder.joinpath("mcp_app.html").read_text(encoding="utf-8")
    shared = (folder.joinpath("viz", name).read_text(encoding="utf-8") for name in SHARED)
    html = html.replace("{{shared}}", "\n".join(map(_inlined, shared)))
    html = html.replace("{{theme}}", folder.joinpath("viz", "theme.css").read_text("utf-8"))
    return html.replace(
        "{{policy}}",
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_allowed(html, 'script')}; style-src {_allowed(html, 'style')}",
    )


def _inlined(module: str) -> str:
    """A module of JavaScript as a part of one script: nothing imported, nothing exported."""
    return re.sub(r"^(import [^;]*;\n|export )", "", module, flags=re.MULTILINE)


def _allowed(html: str, tag: str) -> str:
    """The source expression of the page's only element of this name."""
    inside = html.split(f"<{tag}>")[1].split(f"</{tag}>", maxsplit=1)[0]
    digest = base64.b64encode(sha256(inside.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
