"""Whose call it is, and what of the engine that tenant gets."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import Identify, point_id, point_ids_of
from mcp_server_qdrant.core.telemetry import Recorder
from mcp_server_qdrant.encoders.registry import Registry
from mcp_server_qdrant.qdrant.tenant.guard import Tenant
from mcp_server_qdrant.qdrant.tenant.reads import Corpus, TenantClient
from mcp_server_qdrant.qdrant.tenant.writes import TenantWriter
from mcp_server_qdrant.settings.environment import Settings

KEPT = 256  # tenants whose catalogs, words and tags are remembered
LONGEST_NAME = 255


class One(Protocol):
    """The services of one tenant."""

    def record(self, recorder: Recorder) -> None:
        """Tell it how searches go."""

    def work(self) -> dict[str, int]:
        """What was written since the start, by kind."""


S = TypeVar("S", bound=One)


class Common(Protocol):
    """What all of them share."""

    @property
    def everything(self) -> Any:
        """All collections, shown to nobody."""

    @property
    def encoders(self) -> Any:
        """The embedding models."""

    def work(self) -> dict[str, int]:
        """What was written since the start, by kind."""

    async def close(self, several: Sequence[Any]) -> None:
        """Let go of it and of these services."""


@dataclass(frozen=True, slots=True)
class View:
    """What one set of services works with; by default all of the engine.

    `reader` for searches, `writer` for what stores and deletes; `words` names the vocabularies on
    disk, `indexes` are payload fields that new collections index, `hidden` those that no caller may
    filter by.
    """

    reader: Any
    writer: Any
    encoders: Registry
    identify: Identify = point_id
    words: str = ""
    indexes: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    tenant: str | None = None


def view_of(name: str, settings: Settings, client: Any, encoders: Registry, corpus: Corpus) -> View:
    """The view of one tenant: nothing of it leads to another's points."""
    assert settings.tenant_field is not None
    tenant = Tenant(name, settings.tenant_field, settings.tenant_shared_field)
    seen: dict[str, tuple[float, bool]] = {}  # what one stores the other sees at once
    return View(
        reader=TenantClient(client, tenant, corpus, seen),
        writer=TenantWriter(client, tenant, corpus, seen),
        encoders=encoders.for_owner(name),
        identify=point_ids_of(name),
        words=f"\0{name}",
        indexes=tenant.indexes,
        hidden=tenant.hidden,
        tenant=name,
    )


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
    said = who.claims.get(claim or "")
    if not isinstance(said, str) or not said.strip() or len(said) > LONGEST_NAME:
        raise RequestError(f"This token names no tenant: it needs the claim {claim!r}, a text.")
    return said


class Tenants(Generic[S]):
    """The services of each tenant, those used last remembered, and always those of `fixed`.

    All that services remember (names, counts, words, tags) is of one tenant, as they are.
    """

    def __init__(
        self,
        who: Callable[[], str],
        make: Callable[[str], S],
        common: Common,
        fixed: str | None = None,
    ) -> None:
        self._who = who
        self._make = make
        self._common = common
        self._recorder: Recorder | None = None
        self._known: OrderedDict[str, S] = OrderedDict()
        self._fixed = None if fixed is None else (fixed, make(fixed))  # it may sync folders

    def mine(self) -> S:
        """Those of the call under way. Raises RequestError where it has no tenant."""
        return self.of(self._who())

    def of(self, name: str) -> S:
        """Those of a tenant."""
        if self._fixed is not None and self._fixed[0] == name:
            return self._fixed[1]
        services = self._known.pop(name, None) or self._made(name)
        self._known[name] = services
        if len(self._known) > KEPT:
            self._known.popitem(last=False)  # what it is doing it finishes
        return services

    def _made(self, name: str) -> S:
        services = self._make(name)
        if self._recorder is not None:
            services.record(self._recorder)
        return services

    @property
    def catalog(self) -> Any:
        """All collections, to see whether the engine answers."""
        return self._common.everything

    @property
    def encoders(self) -> Any:
        """The embedding models."""
        return self._common.encoders

    def record(self, recorder: Recorder) -> None:
        """Tell `recorder` how searches go, whoever's."""
        self._recorder = recorder
        for services in self._all():
            services.record(recorder)

    def work(self) -> dict[str, int]:
        """What was written since the start, by kind, for all tenants."""
        return self._common.work() if self._fixed is None else self._fixed[1].work()

    def _all(self) -> list[S]:
        fixed = [] if self._fixed is None else [self._fixed[1]]
        return [*fixed, *self._known.values()]

    async def close(self) -> None:
        """Let engine and models go."""
        await self._common.close(self._all())
