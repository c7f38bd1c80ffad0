"""The way in, by the settings: the guard, then the token."""

from collections.abc import Iterable

from mcp.server.auth.routes import cors_middleware
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from mcp_server_qdrant.http.auth.bearer import METADATA, Authenticated, Resource, Verifier
from mcp_server_qdrant.http.guard import Guard
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.settings.values import revealed

PROBES = ("/healthz", "/readyz")


def protect(
    app: Starlette,
    settings: Settings,
    path: str,
    pages: Iterable[str] = (),
    inner: ASGIApp | None = None,
) -> ASGIApp:
    """The application behind the guard and, with AUTH_MODE token or oauth, behind a token.

    `path` is that of the MCP endpoint; files below `pages` need no token. `inner` is `app` with
    the layers that come after the token. Raises ConfigError where the tokens' file cannot be used.
    """
    inner = inner or app
    resource = _resource(settings, path)
    names = [*settings.allowed_hosts, settings.host]
    open_paths = [*PROBES]
    if resource:
        names.append(resource.host)
        for where in {METADATA, resource.metadata_path}:
            open_paths.append(where)
            endpoint = cors_middleware(resource.metadata, ["GET", "OPTIONS"])
            app.router.routes.append(Route(where, endpoint, methods=["GET", "OPTIONS"]))
    verifier = _verifier(settings)
    return Guard(
        app,
        Authenticated(inner, verifier, resource, pages) if verifier else inner,
        hosts=names,
        origins=settings.allowed_origins,
        open_paths=open_paths,
    )


def _verifier(settings: Settings) -> Verifier | None:
    """Each kind imports its own libraries."""
    if settings.auth_mode == "token":
        from mcp_server_qdrant.http.auth.tokens import NamedTokens

        return NamedTokens(settings.auth_tokens_file, revealed(settings.auth_token))
    if settings.auth_mode == "oauth" and settings.auth_issuer:
        from mcp_server_qdrant.http.auth.jwks import Keys
        from mcp_server_qdrant.http.auth.oauth import AccessTokens, Expected

        expected = Expected(
            issuer=settings.auth_issuer,
            audience=settings.auth_audience,
            scope_claims=settings.auth_scope_claims,
            scope_prefix=settings.auth_scope_prefix,
        )
        return AccessTokens(Keys(settings.auth_issuer, settings.auth_jwks_url), expected)
    return None


def _resource(settings: Settings, path: str) -> Resource | None:
    if settings.auth_mode != "oauth" or not settings.auth_issuer:
        return None
    urls = (url for url in settings.auth_audience if url.startswith(("https://", "http://")))
    here = f"http://{settings.host}:{settings.port}{path}"
    url = settings.auth_resource_url or next(urls, here)
    return Resource(url, settings.auth_issuer, settings.auth_scope_prefix)
