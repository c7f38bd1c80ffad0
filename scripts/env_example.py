"""Print `.env.example`: `python scripts/env_example.py > .env.example`.

tests/settings/test_environment.py fails while the file differs from the settings.
"""

import ast
import inspect
from itertools import pairwise
from typing import Any

from mcp_server_qdrant.settings.environment import Settings, environment_names

HEAD = """\
# Settings of mcp-server-qdrant. Copy this file to ~/.config/mcp-server-qdrant/.env (on macOS
# ~/Library/Application Support/mcp-server-qdrant/.env), or anywhere and name it with --env-file,
# and uncomment what you change. No other user may have write access to it. Environment variables
# take precedence over this file. Paths are absolute, or begin with ~/.
"""


def example() -> str:
    """The file: every variable with what it does and its default, commented out."""
    meaning = meanings()
    blocks = [
        block(meaning[field], variables, Settings.model_fields[field].default)
        for field, variables in environment_names().items()
    ]
    return "\n".join([HEAD, *blocks])


def meanings() -> dict[str, str]:
    """Field -> the text below it. pydantic can read it too, at the cost of every start."""
    found = {}
    for part in Settings.__mro__:
        if part.__module__.startswith("mcp_server_qdrant."):
            lines = ast.parse(inspect.getsource(part)).body[0].body
            for field, text in pairwise(lines):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(said)):
                        found[name] = " ".join(said.split())
    return found


def block(description: str, names: tuple[str, ...], default: Any) -> str:
    """One variable; its other spelling, if any, is named."""
    other = f" (Or {', '.join(names[1:])}.)" if names[1:] else ""
    return f"# {description}{other}\n# {names[0]}={shown(default)}\n"


def shown(value: Any) -> str:
    """A default as it would be written."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(_item(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _item(value: Any) -> str:
    """One of several; of a share by number of points, the first is without that."""
    if not isinstance(value, tuple):
        return str(value)
    return f"{value[0]}:{value[1]}" if value[0] else str(value[1])


if __name__ == "__main__":
    print(example(), end="")
