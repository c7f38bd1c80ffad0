"""The app in the chat: the map of qdrant-project as a resource that a client shows."""

import base64
from hashlib import sha256
from importlib import resources

from mcp.server.apps import Apps, ResourceCsp

from mcp_server_qdrant.tools.project import APP


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


def app_html() -> str:
    """The app, with a policy that lets its own script and style in, and nothing else."""
    page = resources.files(__package__).joinpath("mcp_app.html")
    html = page.read_text(encoding="utf-8")
    return html.replace(
        "{{policy}}",
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_allowed(html, 'script')}; style-src {_allowed(html, 'style')}",
    )


def _allowed(html: str, tag: str) -> str:
    """The source expression of the page's only element of this name."""
    inside = html.split(f"<{tag}>")[1].split(f"</{tag}>", maxsplit=1)[0]
    digest = base64.b64encode(sha256(inside.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
