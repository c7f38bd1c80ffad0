"""Build the bundle for Claude Desktop: `python scripts/bundle.py [FOLDER]` prints its path.

The format is MCPB 0.4. Compiled packages differ between machines, so the client's own uv installs
what the bundle's pyproject.toml asks for, in the versions of constraints.txt.
"""

import json
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.settings.environment import Settings

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
COPIED = ("README.md", "LICENSE", "src")
ASKED = f'"{PROJECT["requires-python"]}"'
# Those that the tested versions are made for: uv refuses a bundle that asks for older ones, and
# where there is none it takes the newest that is allowed.
PYTHON = ">=3.11.5,<3.14"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same files make the same bundle
# What a person is asked: variable, title, description, and whether it is a secret.
FORM = {
    "url": (
        "QDRANT_URL",
        "Qdrant server",
        "Its address, such as http://localhost:6333. Empty: collections stay on this computer.",
        False,
    ),
    "api_key": ("QDRANT_API_KEY", "API key", "The key of that server, if it has one.", True),
    "collections": (
        "QDRANT_COLLECTIONS",
        "Collections",
        "Names or patterns of those that may be searched, separated by commas. Empty: all.",
        False,
    ),
}
FOLDERS = {
    "type": "directory",
    "title": "Folders",
    "description": "Folders to search. Each becomes a collection that follows its files.",
    "multiple": True,
    "required": False,
    "default": [],
}


def manifest() -> dict[str, Any]:
    """The bundle's description, with the form of its settings."""
    tools = make_server(Settings.model_construct())._tool_manager.list_tools()  # noqa: SLF001
    return {
        "manifest_version": "0.4",
        "name": PROJECT["name"],
        "display_name": "Qdrant collections",
        "version": PROJECT["version"].replace(".dev", "-dev"),
        "description": PROJECT["description"],
        "icon": "src/mcp_server_qdrant/http/page/icon.png",
        "repository": {"type": "git", "url": PROJECT["urls"]["Repository"]},
        "author": {"name": f"The contributors of {PROJECT['name']}"},
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": [
                    *("run", "--directory", "${__dirname}", "server.py"),
                    "${user_config.folders}",
                ],
                "env": {asked[0]: f"${{user_config.{key}}}" for key, asked in FORM.items()},
            },
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools],
        "keywords": PROJECT["keywords"],
        "license": PROJECT["license"],
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": PYTHON},
        },
        "user_config": {
            **{
                key: {
                    "type": "string",
                    "title": title,
                    "description": description,
                    "sensitive": secret,
                    "required": False,
                    "default": "",
                }
                for key, (_, title, description, secret) in FORM.items()
            },
            "folders": FOLDERS,
        },
    }


def pyproject() -> str:
    """The project's own file, and the tested versions as uv reads them."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = json.dumps([line for line in lines if not line.startswith("#")], indent=2)
    return "\n".join(
        [
            (ROOT / "pyproject.toml").read_text("utf-8").replace(ASKED, f'"{PYTHON}"'),
            "[tool.uv]",
            f"constraint-dependencies = {pinned}",
            f"build-constraint-dependencies = {pinned}\n",
        ]
    )


def build(folder: Path) -> Path:
    """Write the bundle into the folder; its path."""
    contents = {
        "manifest.json": json.dumps(manifest(), indent=2).encode(),
        "pyproject.toml": pyproject().encode(),
        "server.py": (ROOT / "packaging/mcpb/server.py").read_bytes(),
    }
    for name in COPIED:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts:
                contents[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"{PROJECT['name']}-{PROJECT['version']}.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    return bundle


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"))
