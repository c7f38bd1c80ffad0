"""The operator's own check of who sees what: asked about hits by id before they are shown.

    {"tenant": "blue", "caller": "ana", "hits": [{"collection": "c", "id": "1", "document": "d"}]}

is answered by `{"allow": [true]}`, one truth value for each hit. No texts are sent. Where the
answer is another one, or late, nothing is shown.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from mcp_server_qdrant.core.access import caller
from mcp_server_qdrant.core.datatypes import Document, Hit, PointId, SearchPage
from mcp_server_qdrant.core.errors import CheckUnavailable
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.encoders.remote.http import Endpoint, HttpFault
from mcp_server_qdrant.qdrant.history import KEY, History
from mcp_server_qdrant.qdrant.read.lookup import Lookup
from mcp_server_qdrant.search.doubt import WEAK
from mcp_server_qdrant.search.pipeline import Pipeline
from mcp_server_qdrant.search.query import ROOM, Query, Ranked

SECONDS = 2.0  # for the whole answer
Shown = tuple[str, PointId, str | None]  # collection, point, and the document that it is of


class HitCheck:
    """Asks which hits may be shown."""

    def __init__(self, url: str, key: str | None) -> None:
        self._endpoint = Endpoint(url, name="The check", setting="TENANT_CHECK_URL", api_key=key)

    async def allowed(self, tenant: str, hits: Sequence[Shown]) -> set[Shown]:
        """Those of the hits that may be shown. Raises CheckUnavailable."""
        if not hits:
            return set()
        who = caller()
        body = {
            "tenant": tenant,
            "caller": who.name if who else None,
            "hits": [{"collection": c, "id": str(p), "document": d} for c, p, d in hits],
        }
        try:
            answer = await self._endpoint.post(body, SECONDS)
            verdicts = json.loads(answer.body)["allow"] if answer.ok else None
        except (HttpFault, ValueError, LookupError, TypeError, RecursionError) as error:
            raise CheckUnavailable from error
        if not isinstance(verdicts, list) or [*map(type, verdicts)] != [bool] * len(hits):
            raise CheckUnavailable
        return {hit for hit, allow in zip(hits, verdicts, strict=True) if allow}

    async def close(self) -> None:
        """Let the connections go."""
        await self._endpoint.close()


class _Checked:
    """What a tenant may see of the answers of a part that is made of `parts`."""

    def __init__(self, check: HitCheck, tenant: str, *parts: Any) -> None:
        super().__init__(*parts)
        self._allowed = partial(check.allowed, tenant)


class CheckedPipeline(_Checked, Pipeline):
    """A search whose results are shown as far as the check allows."""

    @override
    async def search(self, request: SearchRequest, room: int = ROOM) -> SearchPage:
        """The answer to one request; without results where they could not be checked."""
        page = await super().search(request, room)
        hits = {_shown(hit.document) for hit in page.results}
        also = {_shown(copy) for hit in page.results for copy in hit.also}
        try:
            allowed = await self._allowed([*hits, *also])
        except CheckUnavailable as error:
            return replace(page, results=(), notes=(str(error),), more=0, weak=False)
        kept = [
            replace(hit, also=tuple(copy for copy in hit.also if _shown(copy) in allowed))
            for hit in page.results
            if _shown(hit.document) in allowed
        ]
        notes = page.notes
        if len(kept) < len(page.results):  # the best may be among those that are left out
            notes = [note for note in notes if not note.startswith(WEAK)]
        return replace(page, results=kept, notes=notes)

    @override
    async def _reread(self, ranked: Ranked, query: Query) -> Ranked:
        """See the base class; of hits that the check is not asked about, no relevance is told."""
        ranked = await super()._reread(ranked, query)
        return ranked if ranked.hits else replace(ranked, best=None)

    @override
    async def elsewhere(self, query: Query, best: Hit | None) -> list[str]:
        """Nothing: the check was not asked about what is there."""
        return []


class CheckedLookup(_Checked, Lookup):
    """Documents by id, as far as the check allows: the others are not found."""

    @override
    async def get(self, ids: Sequence[str], **how: Any) -> tuple[list[Document], list[str]]:
        """See the base class. Raises CheckUnavailable."""
        found, failures = await super().get(ids, **how)
        allowed = await self._allowed([_shown(each) for each in found])
        return [each for each in found if _shown(each) in allowed], failures


class CheckedHistory(_Checked, History):
    """Earlier versions, as far as the check allows their texts: the others are not found."""

    @override
    async def _found(self, *asked: Any) -> list[Any]:
        """See the base class. Raises CheckUnavailable."""
        found = await super()._found(*asked)
        held = [one.payload[KEY] for one in found]
        texts = [(one["collection"], one["head"], one["ids"][0]) for one in held]
        allowed = await self._allowed(texts)
        return [one for one, text in zip(found, texts, strict=True) if text in allowed]


def _shown(document: Document) -> Shown:
    return document.collection, document.id, document.document
