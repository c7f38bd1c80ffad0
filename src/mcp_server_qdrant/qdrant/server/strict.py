"""Limits of the strict mode of collections: searches stay within those that lose no result."""

from collections.abc import Sequence
from typing import Any

from qdrant_client import models


class Strict:
    """The limits of a server's collections, as look-ups of them tell."""

    def __init__(self) -> None:
        self._limits: dict[str, models.StrictModeConfigOutput] = {}

    def learn(self, collection: str, info: models.CollectionInfo) -> None:
        """Keep what the collection allows."""
        limits = info.config.strict_mode_config
        if limits is not None and limits.enabled:
            self._limits[collection] = limits
        else:
            self._limits.pop(collection, None)

    def seconds(self, collection: str, wanted: int) -> int:
        """The time that a read of the collection may take there."""
        limits = self._limits.get(collection)
        most = limits.max_timeout if limits else None
        return wanted if most is None else min(wanted, most)

    def requests(
        self, collection: str, wanted: Sequence[models.QueryRequest]
    ) -> Sequence[models.QueryRequest]:
        """The requests, for no more points than the collection gives at once."""
        limits = self._limits.get(collection)
        most = limits.max_query_limit if limits else None
        if most is None:
            return wanted
        return [_clipped(request, most) for request in wanted]


def _clipped(request: Any, most: int) -> Any:
    """A request, or a prefetch of one, for at most so many points."""
    update: dict[str, Any] = {"limit": min(request.limit or most, most)}
    if request.prefetch:
        update["prefetch"] = [_clipped(one, most) for one in request.prefetch]
    return request.model_copy(update=update)
