"""The services of each tenant, and whose call it is."""

from typing import Any

from mcp_server_qdrant.app.services import Services, wire
from mcp_server_qdrant.app.shared import Shared
from mcp_server_qdrant.core.context import caller
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.settings.environment import Settings

KEPT = 256  # tenants whose catalogs, words and tags are remembered
LONGEST_NAME = 255


def assemble(settings: Settings, client: Any, encoders: Registry) -> "Services | Tenants":
    """The services over an open engine, for each tenant its own where tenants are kept apart."""
    if not settings.tenant_field:
        return wire(settings, client, encoders)
    return Tenants(Shared(settings, client, encoders))


def tenant_of_call(settings: Settings) -> str:
    """The tenant that the caller's verified claim names. Raises RequestError where none does."""
    who = caller()
    if who is None:
        if settings.tenant_id is None:
            raise RequestError(
                "Tenants are kept apart here: call with a token that names one, or set TENANT_ID."
            )
        return settings.tenant_id
    claim = settings.tenant_claim or settings.tenant_field
    name = who.claims.get(claim or "")
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise RequestError(f"This token names no tenant: it needs the claim {claim!r}, a text.")
    return name


class Tenants:
    """The services of each tenant: of those used last, and always of TENANT_ID.

    All that services remember (names, counts, words, tags) is one tenant's, as they are.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.encoders = shared.encoders
        self.catalog = shared.everything  # to see whether the engine answers
        self._fixed = shared.settings.tenant_id
        self._known: dict[str, Services] = {}  # the one used last stands last
        if self._fixed:
            self._known[self._fixed] = Services(shared, self._fixed)

    def of_caller(self) -> Services:
        """Those of the call under way. Raises RequestError where it has no tenant."""
        name = tenant_of_call(self._shared.settings)
        services = self._known.pop(name, None) or Services(self._shared, name)
        self._known[name] = services
        others = [one for one in self._known if one != self._fixed]  # which may sync folders
        if len(others) > KEPT:
            del self._known[others[0]]  # it finishes its work under way
        return services

    def work(self) -> dict[str, int]:
        """Counts of writes since the start, by kind, for all tenants."""
        return (self._known[self._fixed] if self._fixed else self._shared).work()

    async def close(self) -> None:
        """Let engine and models go."""
        for services in self._known.values():
            await services.stop()
        await self._shared.close()
