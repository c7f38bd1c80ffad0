"""What clients and registries install from: the registry's entry, links, plugin, the name."""

import base64
import importlib.util
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from mcp_server_qdrant.app.server import make_server
from tests.support import make_settings

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
ENTRY = json.loads((ROOT / "server.json").read_text())
PLUGIN = ROOT / "packaging" / "claude-code"


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def started_by(link: str) -> dict:
    """The name and the entry that an install link makes."""
    query = {name: value for name, (value,) in parse_qs(urlsplit(link).query).items()}
    config = query["config"]
    read = json.loads(config if config[0] == "{" else base64.b64decode(config, validate=True))
    return {query["name"]: read}


def test_the_entry_of_the_registry_is_that_of_the_settings():
    assert script("server_json").entry() == ENTRY


def test_the_entry_keeps_the_rules_of_the_registry():
    (package,) = ENTRY["packages"]
    variables = {one["name"]: one for one in package["environmentVariables"]}
    fields = {"name", "description", "format", "isSecret", "default", "choices"}

    assert ENTRY["$schema"].startswith("https://static.modelcontextprotocol.io/schemas/2025-12-11/")
    assert len(ENTRY["title"]) <= 100
    assert len(ENTRY["description"]) <= 100
    assert (package["registryType"], package["transport"]) == ("pypi", {"type": "stdio"})
    assert [
        one for one in variables.values() if not one["description"] or one.keys() - fields
    ] == []
    secrets = {name for name, one in variables.items() if one.get("isSecret")}
    assert {"QDRANT_API_KEY", "AUTH_TOKEN", "EMBEDDING_API_KEY"} <= secrets
    assert not [name for name in secrets if variables[name].get("default")]
    assert variables["QDRANT_LOCAL_PATH"]["format"] == "filepath"
    assert variables["QDRANT_READ_ONLY"]["format"] == "boolean"


def test_the_name_is_the_same_wherever_it_is_said():
    name, repository = PROJECT["name"], PROJECT["urls"]["Repository"]

    assert repository.endswith(f"/{name}")
    assert ENTRY["name"] == f"io.github.{repository.split('/')[3]}/{name}"
    assert f"<!-- mcp-name: {ENTRY['name']} -->" in README
    assert {name, "mcp-server-qdrant"} == set(PROJECT["scripts"])
    assert len(set(PROJECT["scripts"].values())) == 1
    assert f"pipx install ./{name}" in README


def test_every_address_is_the_one_of_the_project():
    tables = script("readme_tables")
    repository = PROJECT["urls"]["Repository"]

    assert f"git clone {repository}\n" in README
    assert f"git clone {repository}\n" in INSTALL
    assert ENTRY["repository"]["url"] == repository
    assert script("bundle").manifest()["repository"]["url"] == repository
    for document in tables.ADDRESSED:
        assert repository in document.read_text()
        assert tables.addressed(document) == document.read_text()


def test_the_install_links_start_the_servers_own_command():
    links = re.findall(r"\((https://[^)\s]*/(?:install-mcp|mcp/install)\?[^)\s]+)\)", INSTALL)

    assert [urlsplit(link).netloc for link in links] == ["cursor.com", "vscode.dev"]
    for link in links:
        (entry,) = started_by(link).values()
        assert list(started_by(link)) == ["qdrant"]
        assert entry.pop("type", "stdio") == "stdio"
        assert entry == {"command": "mcp-server-qdrant"}
        assert entry["command"] in PROJECT["scripts"]


def test_the_plugin_of_claude_code_brings_the_server_and_one_short_skill():
    (listed,) = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())["plugins"]
    plugin = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())
    (skill,) = PLUGIN.glob("skills/*/SKILL.md")
    _, front, text = skill.read_text().split("---\n", 2)
    about = yaml.safe_load(front)

    assert (ROOT / listed["source"]).resolve() == PLUGIN
    assert listed["name"] == plugin["name"]
    assert plugin["version"] == PROJECT["version"].replace(".dev", "-dev")
    assert [one["command"] for one in plugin["mcpServers"].values()] == ["mcp-server-qdrant"]
    assert about["name"] == skill.parent.name
    assert 0 < len(about["description"]) <= 1024
    assert len(text.splitlines()) < 50


async def test_the_skill_names_tools_and_arguments_that_there_are():
    text = (PLUGIN / "skills/memory/SKILL.md").read_text()
    tools = {tool.name: tool for tool in await make_server(make_settings()).list_tools()}
    arguments = {name for tool in tools.values() for name in tool.input_schema["properties"]}
    code = set(re.findall(r"`([a-z-]+)[`=(]", text))

    assert {"qdrant-find", "qdrant-get", "since", "supersedes"} <= code
    assert code <= tools.keys() | arguments


def test_the_bundle_asks_for_a_python_that_all_tested_versions_take():
    bundle = script("bundle")
    asked = tomllib.loads(bundle.pyproject())["project"]["requires-python"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [line.split("==")[0] for line in lines if not line.startswith("#")]
    there = {one.name: one.metadata["Requires-Python"] for one in metadata.distributions()}
    wanted = {name: there[name] for name in names if there.get(name)}

    assert asked == bundle.manifest()["compatibility"]["runtimes"]["python"]
    assert len(wanted) > 50
    lowest = asked.removeprefix(">=").split(",")[0]
    versions = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if ":: 3." in one]
    assert [one for one in versions[1:] if not SpecifierSet(asked).contains(f"{one}.0")] == []
    assert not SpecifierSet(asked).contains(f"3.{int(versions[-1][2:]) + 1}.0")
    assert [name for name in wanted if not SpecifierSet(wanted[name]).contains(lowest)] == []


@pytest.mark.parametrize("key", ["name", "version"])
def test_the_bundle_is_of_this_project(key):
    manifest = script("bundle").manifest()

    assert manifest[key] == PROJECT[key].replace(".dev", "-dev")
    assert (ROOT / manifest["icon"]).is_file()
    assert manifest["server"]["mcp_config"]["env"].keys() <= {
        one["name"] for one in ENTRY["packages"][0]["environmentVariables"]
    }
