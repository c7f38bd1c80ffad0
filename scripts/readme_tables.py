"""Fill the generated tables of the documents: `python scripts/readme_tables.py` rewrites them.

tests/test_readme.py fails while they differ from the code.
"""

import re
import sys
from pathlib import Path

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.settings.environment import Settings, environment_names

sys.path.insert(0, str(Path(__file__).parent))
from env_example import described, shown

ROOT = Path(__file__).parent.parent
TABLES = {"tools": ROOT / "README.md", "settings": ROOT / "docs" / "settings.md"}


def settings_table() -> str:
    """One row per setting: variables, default, what it does."""
    names = environment_names()
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for field, variants in names.items():
        info = Settings.model_fields[field]
        variables = ", ".join(f"`{name}`" for name in variants)
        default = f"`{text}`" if (text := shown(info.default)) else ""
        rows.append(f"| {variables} | {default} | {described(info)} |")
    return "\n".join(rows)


def tools_table() -> str:
    """One row per tool: parameters with the required ones in bold, and its description."""
    rows = ["| tool | parameters | |", "|---|---|---|"]
    server = make_server(Settings.model_construct())
    for tool in server._tool_manager.list_tools():  # noqa: SLF001
        required = tool.parameters.get("required", [])
        parameters = ", ".join(
            f"**{name}**" if name in required else name for name in tool.parameters["properties"]
        )
        rows.append(f"| `{tool.name}` | {parameters} | {tool.description} |")
    return "\n".join(rows)


def filled(mark: str) -> str:
    """The document that has this table, with the table as the code has it now."""
    table = {"tools": tools_table, "settings": settings_table}[mark]()
    pattern = re.compile(rf"<!-- {mark} -->.*?<!-- /{mark} -->", re.DOTALL)
    block = f"<!-- {mark} -->\n{table}\n<!-- /{mark} -->"
    return pattern.sub(lambda _: block, TABLES[mark].read_text("utf-8"))


if __name__ == "__main__":
    for name, document in TABLES.items():
        document.write_text(filled(name), "utf-8")
