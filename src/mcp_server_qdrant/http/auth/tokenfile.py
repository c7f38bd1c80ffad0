"""The file of named tokens, as the command `token` changes it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mcp_server_qdrant.core.disk import write_atomically
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.auth.tokens import load, parse, text

Raw = Mapping[str, Any]  # an entry as it is written


def line(entry: Raw) -> str:
    """A token as a line of the file in YAML."""
    return f"- {json.dumps(entry, ensure_ascii=False, default=_date)}\n"


def change(path: Path, *more: Raw, without: str | None = None) -> None:
    """Write more tokens into a file, made where there is none, and drop those of a name.

    It is replaced as a whole: a server that reads it meanwhile sees the old tokens or the new. A
    new file is its owner's alone. What is not changed stays as it is, comments too. Raises
    ConfigError, and then changes nothing.
    """
    before = text(path) if path.exists() else ""
    parse(before)
    old: Sequence[Raw] = load(before) or ()
    wanted = [*(one for one in old if one["name"] != without), *more]
    as_json = json.dumps(wanted, indent=1, ensure_ascii=False, default=_date) + "\n"
    root = yaml.compose(before)
    if path.suffix == ".json" or (root is not None and root.flow_style):
        written = as_json
    else:
        written = "".join([*_lines(before, old, without), *map(line, more)])
    if parse(written) != parse(as_json):
        raise ConfigError("This command cannot change the file as it is: edit it by hand.")
    try:
        write_atomically(path.resolve(), written)
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None


def _lines(before: str, old: Sequence[Raw], without: str | None) -> Iterator[str]:
    """The lines of a file in YAML without those tokens; comments stay where they are."""
    root, lines = yaml.compose(before), before.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    starts = [node.start_mark.line for node in root.value] if root else [len(lines)]
    yield from lines[: starts[0]]
    for entry, start, end in zip(old, starts, [*starts[1:], len(lines)], strict=False):
        own = lines[start:end]
        if entry["name"] == without:
            own = [one for one in own[1:] if not one.partition("#")[0].strip()]
        yield from own


def _date(value: Any) -> str:
    return str(value.isoformat())
