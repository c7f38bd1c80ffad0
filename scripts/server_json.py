"""Print the entry of the MCP registry: `python scripts/server_json.py > server.json`.

tests/test_distribution.py fails while the file differs from the settings.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from mcp_server_qdrant.core.fields import choices
from mcp_server_qdrant.settings.environment import Settings, environment_names

sys.path.insert(0, str(Path(__file__).parent))
from env_example import meanings, shown

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))[
    "project"
]
REPOSITORY = PROJECT["urls"]["Repository"]
NAME = f"io.github.{REPOSITORY.split('/')[3]}/{PROJECT['name']}"  # as the registry has it
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
FORMATS = {bool: "boolean", int: "number", float: "number", Path: "filepath"}


def entry() -> dict[str, Any]:
    """The server, the package that holds it, and the variables that it reads."""
    meaning = meanings()
    return {
        "$schema": SCHEMA,
        "name": NAME,
        "title": "Qdrant collections",
        "description": PROJECT["description"],
        "repository": {"url": REPOSITORY, "source": "github"},
        "version": PROJECT["version"],
        "packages": [
            {
                "registryType": "pypi",
                "identifier": PROJECT["name"],
                "version": PROJECT["version"],
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    variable(names[0], Settings.model_fields[field], meaning[field])
                    for field, names in environment_names().items()
                ],
            }
        ],
    }


def variable(name: str, info: FieldInfo, meaning: str) -> dict[str, Any]:
    """One variable; nothing is said where the schema's own default holds."""
    plain = (info.annotation, *get_args(info.annotation))
    kinds = {kind for one in plain for kind in (one, *get_args(one))}
    form = next((FORMATS[kind] for kind in kinds if kind in FORMATS), None)
    said = {
        "format": form,
        "isSecret": SecretStr in kinds,
        "default": shown(info.default),
        "choices": [str(choice) for choice in choices(info.annotation)],
    }
    return {"name": name, "description": meaning, **{k: v for k, v in said.items() if v}}


if __name__ == "__main__":
    print(json.dumps(entry(), indent=2, ensure_ascii=False))
