"""What stands around the code agrees with it: README, container files, scripts, licence."""

import json
import os
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import mcp_server_qdrant

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]
README = (ROOT / "README.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
DOCUMENTS = README + "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()
SCRIPTS = ("scripts/constraints", "scripts/demo", "scripts/test", ".ci/run")
CONSTRAINTS = (ROOT / "constraints.txt").read_text().splitlines()

# Variables that Python, pip and the base system read, not we.
FOREIGN = {"PYTHONUNBUFFERED", "PIP_NO_CACHE_DIR", "PIP_DISABLE_PIP_VERSION_CHECK", "XDG_DATA_HOME"}


def known_variables() -> set[str]:
    from mcp_server_qdrant.settings.environment import environment_names

    return {name for names in environment_names().values() for name in names}


def dockerfile_variables() -> set[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    lines = re.findall(r"^ENV (.*)$", joined, re.MULTILINE)
    return {name for line in lines for name in re.findall(r"([A-Z][A-Z0-9_]*)=", line)}


def compose_variables() -> set[str]:
    return set(re.findall(r"^\s+(?:# )?([A-Z][A-Z0-9_]+): ", COMPOSE, re.MULTILINE))


def client_blocks() -> list[dict]:
    blocks = re.findall(r"```json\n(.*?)```", INSTALL, re.DOTALL)
    cells = re.findall(r"\| `(\{.*\})` \|", INSTALL)
    held = [json.loads(text) for text in [*blocks, *cells]]
    return [block for block in held if isinstance(block, dict)]


def client_servers() -> list[dict]:
    blocks = client_blocks()
    return [s for block in blocks for s in (block.get("mcpServers") or block["servers"]).values()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_can_be_executed(script):
    path = ROOT / script

    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in path.read_text()


def test_every_client_configuration_is_json_that_starts_this_server():
    servers = client_servers()

    assert len(servers) >= 4
    for server in servers:
        assert server.get("command") in PROJECT["scripts"] or server["url"].endswith(":8000/mcp")
        assert set(server.get("env", {})) <= known_variables()


def test_every_variable_that_the_documents_name_is_a_setting():
    named = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])\b", DOCUMENTS))

    # Of a Qdrant server, and of uvicorn.
    theirs = {name for name in named if name.startswith(("QDRANT__", "FORWARDED_"))}

    assert named - theirs
    assert named - theirs <= known_variables()


def test_every_variable_of_the_container_files_is_a_setting():
    assert "FASTMCP_HOST" in dockerfile_variables()
    assert "QDRANT_URL" in compose_variables()
    assert dockerfile_variables() | compose_variables() <= known_variables() | FOREIGN


def test_the_image_leaves_the_choice_of_the_engine_to_whoever_runs_it():
    assert dockerfile_variables().isdisjoint({"QDRANT_LOCAL_PATH", "QDRANT_URL", "QDRANT_API_KEY"})


def test_the_image_runs_the_console_script_as_a_user_of_its_own():
    (entrypoint,) = json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[0])
    users = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)

    assert entrypoint in PROJECT["scripts"]
    assert users
    assert users[-1] not in ("root", "0")
    assert "/healthz" in DOCKERFILE


def test_the_image_copies_only_what_dockerignore_lets_through():
    let = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    lines = re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)
    copied = {source.removeprefix("./") for line in lines for source in line.split()}

    assert copied == let
    assert all((ROOT / name).exists() for name in copied)


def test_the_images_python_is_one_that_the_package_supports():
    version = re.search(r"^ARG PYTHON=python:(\d+\.\d+)\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)

    assert version, "named to its patch version and its Debian"
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]
    assert re.findall(r"^FROM (.*)$", DOCKERFILE, re.MULTILINE) == ["${PYTHON}"]


def pinned() -> dict[str, str]:
    """The constraints: name -> version."""
    pairs = [line.split("==") for line in CONSTRAINTS if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def asked_for() -> list[Requirement]:
    """What pyproject.toml asks for, to run, for every extra, and to build."""
    extras = [one for group in PROJECT["optional-dependencies"].values() for one in group]
    return [*map(Requirement, (*PROJECT["dependencies"], *extras, *BUILD["requires"]))]


def test_the_constraints_are_names_and_exact_versions():
    lines = [line for line in CONSTRAINTS if not line.startswith("#")]
    odd = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)]

    assert odd == []
    assert len(pinned()) == len(lines)


def test_the_constraints_name_versions_that_the_project_allows():
    versions = pinned()
    allowed = {
        str(asked): asked.specifier.contains(versions.get(canonicalize_name(asked.name), ""))
        for asked in asked_for()
    }

    assert len(allowed) > 30
    assert [asked for asked, holds in allowed.items() if not holds] == []


@pytest.mark.skipif(sys.platform == "win32", reason="some packages want others on Windows alone")
def test_the_constraints_name_all_that_an_installation_brings():
    wanted, seen = [(one.name, inner) for one in asked_for() for inner in ("", *one.extras)], set()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in metadata.requires(name) or ():
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                wanted += [(one.name, inner) for inner in ("", *one.extras)]

    assert {canonicalize_name(name) for name, _ in seen} <= pinned().keys()


def test_scripts_and_image_install_by_the_constraints():
    makes = (ROOT / "scripts/_env.sh").read_text()
    installs = re.findall(r"^.*pip install\b.*$", makes + DOCKERFILE, re.MULTILINE)

    assert len(installs) == 2
    for text in (makes, DOCKERFILE):
        assert "PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt" in text
    assert 'cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"' in makes


def test_the_ports_are_published_to_this_machine_only():
    published = re.findall(r'^\s+- "(.*:\d+:\d+)"$', COMPOSE, re.MULTILINE)

    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_composed_qdrant_fits_the_client():
    server = re.search(r"qdrant/qdrant:v(\d+\.\d+)\.", COMPOSE)
    client = next(one for one in PROJECT["dependencies"] if one.startswith("qdrant-client"))

    assert server
    assert f">={server[1]}" in client


def test_the_version_is_said_once_and_has_its_changelog():
    version = PROJECT["version"]
    heading = "[Unreleased]" if "dev" in version else f"[{version}]"

    assert version == mcp_server_qdrant.__version__
    assert f"## {heading}" in (ROOT / "CHANGELOG.md").read_text()
