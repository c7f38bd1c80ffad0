"""Fill the generated tables and addresses: `python scripts/readme_tables.py` rewrites them.

tests/test_readme.py and tests/test_distribution.py fail while they differ from the code.
"""

import re
import sys
from pathlib import Path

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.settings.environment import Settings, environment_names

sys.path.insert(0, str(Path(__file__).parent))
from env_example import shown
from server_json import NAME, REPOSITORY

ROOT = Path(__file__).parent.parent
ADDRESSED = (
    ROOT / "README.md",
    ROOT / "packaging" / "claude-code" / ".claude-plugin" / "plugin.json",
)
TABLES = {"tools": ROOT / "README.md", "settings": ROOT / "docs" / "settings.md"}


def settings_table() -> str:
    """One row per setting: variables, default, what it does."""
    names = environment_names()
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for field, variants in names.items():
        info = Settings.model_fields[field]
        variables = ", ".join(f"`{name}`" for name in variants)
        default = f"`{text}`" if (text := shown(info.default)) else ""
        rows.append(f"| {variables} | {default} | {info.description} |")
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


def addressed(document: Path) -> str:
    """The document with the repository's address and the registry's name of pyproject.toml."""
    text = document.read_text("utf-8")
    project = REPOSITORY.rpartition("/")[2]
    text = re.sub(rf"https://github\.com/[\w.-]+/{project}\b", REPOSITORY, text)
    return re.sub(r"<!-- mcp-name: \S+ -->", f"<!-- mcp-name: {NAME} -->", text)


if __name__ == "__main__":
    for document in ADDRESSED:
        document.write_text(addressed(document), "utf-8")
    for name, document in TABLES.items():
        document.write_text(filled(name), "utf-8")
