"""The part of a heavy payload that a search reads.

A search looks at many payloads and shows a few. One that another tool wrote can have megabytes:
sending and reading it would keep everybody waiting, in the host and in the server.
"""

import marshal
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from mcp_server_qdrant.core.notation import PARTIAL

HEAVY = 32_768  # bytes, written by marshal: that is quickest
LONGEST = 20_000  # characters of a text: nothing behind them is shown as a passage
MOST = 256  # items of a list or object; those that hold others are left out
ITEM = 1_000  # characters of an item


def lightened(payloads: list[Any], paths: Sequence[str] | None) -> list[Any]:
    """The payloads; of heavy ones the values at these paths, cut, and the mark `PARTIAL`."""
    if paths is None or len(marshal.dumps(payloads)) <= HEAVY:
        return payloads
    return [_lightened(payload, paths) for payload in payloads]


def _lightened(payload: Any, paths: Sequence[str]) -> Any:
    if not payload or len(marshal.dumps(payload)) <= HEAVY:
        return payload
    kept: dict[str, Any] = {PARTIAL: True}
    for path in paths:
        _keep(kept, payload, path.split("."))
    return kept


def _keep(kept: dict[str, Any], payload: Mapping[str, Any], path: Sequence[str]) -> None:
    step, *more = path
    if step not in payload:
        return
    if not more:
        kept[step] = _cut(payload[step])
    elif isinstance(payload[step], dict):
        inside = kept.setdefault(step, {})
        if isinstance(inside, dict):
            _keep(inside, payload[step], more)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, list):
        return [_short(item) for item in islice(value, MOST) if _plain(item)]
    if isinstance(value, dict):
        return {k[:ITEM]: _short(v) for k, v in islice(value.items(), MOST) if _plain(v)}
    return value


def _plain(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _short(value: Any) -> Any:
    return value[:ITEM] if isinstance(value, str) else value
