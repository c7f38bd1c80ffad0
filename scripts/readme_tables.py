"""Fill the generated tables and addresses: `python scripts/readme_tables.py` rewrites them.

tests/test_docs.py and tests/test_distribution.py fail while they differ from the code.
"""

import re
import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.core.fields import choices
from mcp_server_qdrant.settings.environment import Settings, environment_names

sys.path.insert(0, str(Path(__file__).parent))
from env_example import meanings, shown
from server_json import NAME, REPOSITORY

ROOT = Path(__file__).parent.parent
EXAMPLES = {
    "QDRANT_URL": "http://localhost:6333",
    "QDRANT_API_KEY": "the-servers-key",
    "QDRANT_LOCAL_PATH": "~/qdrant",
    "COLLECTION_NAME": "notes",
    "QDRANT_COLLECTIONS": "notes,docs-*,-docs-old",
    "QDRANT_CONTENT_FIELDS": "body,summary",
    "QDRANT_FOLDER": "~/work/billing",
    "QDRANT_DAILY_BACKUP": "~/backups/qdrant",
    "QDRANT_RECALL_PATH": "~/recall",
    "QDRANT_CACHE_PATH": "~/cache",
    "TOOL_FIND_DESCRIPTION": "Search the handbook.",
    "TOOL_STORE_DESCRIPTION": "Remember a decision.",
    "EMBEDDING_PROVIDER": "none",
    "EMBEDDING_MODEL": "BAAI/bge-small-en-v1.5",
    "EMBEDDING_MODEL_PATH": "~/models/all-MiniLM-L6-v2",
    "FASTEMBED_CACHE_PATH": "~/models",
    "EMBEDDING_SERVICE_URL": "http://localhost:11434/v1",
    "EMBEDDING_API_KEY": "the-services-key",
    "OPENAI_API_KEY": "sk-…",
    "COLLECTION_MODELS": "docs-*=BAAI/bge-small-en-v1.5",
    "QDRANT_RECENCY_WEIGHT": "0",
    "HYBRID_ALPHA": "0.6",
    "QDRANT_COLLECTION_PRIORITY_ORDER": "handbook,notes",
    "QDRANT_RECENCY_FIELDS": "metadata.published",
    "RERANK_MODEL": "Xenova/ms-marco-MiniLM-L-12-v2",
    "RERANK_URL": "http://localhost:8080/rerank",
    "RERANK_API_KEY": "the-services-key",
    "FILTERABLE_FIELDS": '[{"name": "project", "description": "The project", '
    '"field_type": "keyword", "condition": "=="}]',
    "QDRANT_ALLOW_ARBITRARY_FILTER": "false",
    "QDRANT_FOLLOW_ROOTS": "~/notes,~/work",
    "SYNC_SOURCES": '{"~/notes": "notes"}',
    "FASTMCP_HOST": "0.0.0.0",
    "FASTMCP_PORT": "8080",
    "AUTH_TOKEN": "a-long-random-text",
    "AUTH_TOKENS_FILE": "~/tokens.yaml",
    "AUTH_ISSUER": "https://login.example.com/realms/team",
    "AUTH_AUDIENCE": "https://mcp.example.com/mcp",
    "AUTH_JWKS_URL": "https://login.example.com/keys",
    "FASTMCP_ALLOWED_HOSTS": "mcp.example.com",
    "FASTMCP_ALLOWED_ORIGINS": "https://app.example.com",
    "TENANT_FIELD": "tenant",
    "TENANT_CLAIM": "team",
    "TENANT_ID": "blue",
}
ADDRESSED = (
    ROOT / "README.md",
    ROOT / "docs" / "install.md",
    ROOT / "packaging" / "claude-code" / ".claude-plugin" / "plugin.json",
)
TABLES = {"tools": ROOT / "docs" / "tools.md", "settings": ROOT / "docs" / "settings.md"}


def settings_table() -> str:
    """One row per setting: variables, default, an example, meaning."""
    rows = ["| variable | default | example | meaning |", "|---|---|---|---|"]
    meaning = meanings()
    for field, variants in environment_names().items():
        info = Settings.model_fields[field]
        variables = ", ".join(f"`{one}`" for one in variants)
        value = example(variants[0], info)
        rows.append(row(variables, shown(info.default), value, meaning[field]))
    return "\n".join(rows)


def row(name: str, default: str, value: str, meaning: str) -> str:
    """A row of the table of settings."""
    cells = (f"`{cell}`" if cell else "" for cell in (default, value))
    return f"| {name} | {' | '.join(cells)} | {meaning} |"


def example(name: str, info: FieldInfo) -> str:
    """A value that is not the default, where one is told or follows from the type."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    if isinstance(info.default, bool):
        return shown(not info.default)
    if isinstance(info.default, int | float) and info.default:
        return shown(2 * info.default)
    others = [value for value in choices(info.annotation) if value != info.default]
    return str(others[0]) if others else shown(info.default)


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
