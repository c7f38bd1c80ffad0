"""The app in the chat: a resource with the map of qdrant-project."""

import base64
from hashlib import sha256
from importlib import resources

from mcp.server.apps import Apps, ResourceCsp

from mcp_server_qdrant.tools.project import APP

SHARED = ("dom", "raster", "mapdata", "camera", "pins", "layers", "input", "plot", "points")
MODULES = (*(f"viz/{name}.js" for name in SHARED), "chat.js")


def app_extension() -> Apps:
    """The extension with the app as a resource: one self-contained file."""
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


def app_html() -> str:
    """The app as one file. Its content security policy allows only its own script and style."""
    folder = resources.files(__package__)
    html = folder.joinpath("chat.html").read_text("utf-8").replace("{{script}}", script())
    html = html.replace("{{theme}}", folder.joinpath("viz", "theme.css").read_text("utf-8"))
    return html.replace(
        "{{policy}}",
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_source_hash(html, 'script')}; style-src {_source_hash(html, 'style')}",
    )


def script() -> str:
    """The app's modules joined to one script, because a host lets the app load no other file.

    The first paragraph of each module, which has its imports and no other code, is dropped.
    """
    folder = resources.files(__package__)
    texts = (folder.joinpath(*name.split("/")).read_text("utf-8") for name in MODULES)
    return "\n".join(text.partition("\n\n")[2] for text in texts)


def _source_hash(html: str, tag: str) -> str:
    """The policy's source expression (a hash) for the page's only element of this name."""
    inside = html.partition(f"<{tag}")[2].partition(">")[2].partition(f"</{tag}>")[0]
    digest = base64.b64encode(sha256(inside.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
