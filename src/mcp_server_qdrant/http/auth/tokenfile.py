"""The file of named tokens, as the command `token` changes it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.auth.tokens import load, parse, text

Raw = Mapping[str, Any]  # an entry as it is written


def line(entry: Raw) -> str:
    """A token as a line of the file in YAML."""
    return f"- {json.dumps(entry, ensure_ascii=False, default=_date)}\n"


def add(path: Path, entry: Raw) -> None:
    """Write one token more into a file, made where there is none. Raises ConfigError."""
    change(path, lambda one: one, entry)


def change(path: Path, changed: Callable[[Raw], Raw | None], *more: Raw) -> None:
    """Change each token of a file, drop those that become None, and add `more`.

    The file is made where there is none, for its owner alone. What is not changed stays as it is,
    comments too. Raises ConfigError, and then changes nothing.
    """
    exists = path.exists()
    before = text(path) if exists else ""
    parse(before)
    old: Sequence[Raw] = load(before) or ()
    after = [changed(entry) for entry in old]
    wanted = [*filter(None, after), *more]
    as_json = json.dumps(wanted, indent=1, ensure_ascii=False, default=_date) + "\n"
    expected = parse(as_json)
    root = yaml.compose(before)
    if path.suffix == ".json" or (root is not None and root.flow_style):
        written = as_json
    else:
        written = "".join([*_lines(before, old, after), *map(line, more)])
    if parse(written) != expected:
        raise ConfigError("This command cannot change the file as it is: edit it by hand.")
    try:
        if not exists:
            path.touch(mode=0o600)
        path.write_text(written, "utf-8")
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None


def _lines(before: str, old: Sequence[Raw], after: Sequence[Raw | None]) -> Iterator[str]:
    """The lines of a file in YAML with other tokens in it; comments stay where they are."""
    root, lines = yaml.compose(before), before.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if root is None:
        yield from lines
        return
    starts = [node.start_mark.line for node in root.value]
    yield from lines[: starts[0]]
    for entry, new, start, end in zip(old, after, starts, [*starts[1:], len(lines)], strict=True):
        own = lines[start:end]
        if new is entry:
            yield from own
            continue
        if new is not None:
            yield line(new)
        yield from (one for one in own[1:] if not one.partition("#")[0].strip())


def _date(value: Any) -> str:
    return str(value.isoformat())
