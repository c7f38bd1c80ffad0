"""Installing, as a person does it: the bundle of Claude Desktop, and the README's three commands.

Packages come from this environment: to install them from the network takes half a minute.
"""

import json
import os
import re
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from time import monotonic

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.e2e.raw import clean_environment
from tests.test_distribution import ROOT, script

NOTE = "The heat pump was serviced by Olle in May."
MINUTES = 5


def environment(folder: Path, source: str = "") -> Path:
    """A new environment that finds this one's packages, and the server only in `source`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


def command(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nset -e\n{text}\n")
    path.chmod(stat.S_IRWXU)


def filled_in(manifest: dict, folder: Path, answers: dict) -> tuple[list[str], dict[str, str]]:
    """The command and the environment that a client makes of a bundle and a person's answers."""
    defaults = {key: asked["default"] for key, asked in manifest["user_config"].items()}
    values = {f"${{user_config.{k}}}": v for k, v in {**defaults, **answers}.items()}
    config = manifest["server"]["mcp_config"]
    words = []
    for word in (config["command"], *config["args"]):
        value = values.get(word, word.replace("${__dirname}", str(folder)))
        words += value if isinstance(value, list) else [value]
    return words, {name: values[value] for name, value in config["env"].items()}


async def test_the_bundle_starts_in_a_clean_environment_and_answers_from_a_folder(tmp_path):
    bundle = script("bundle").build(tmp_path)
    home, notes = tmp_path / "bundle", tmp_path / "my notes"
    zipfile.ZipFile(bundle).extractall(home)
    notes.mkdir()
    (notes / "pump.md").write_text(NOTE)
    python = environment(tmp_path / "environment", str(home / "src"))
    # What uv does with "run --directory FOLDER SCRIPT".
    command(tmp_path / "bin" / "uv", f'cd "$3"; script=$4; shift 4; exec {python} $script "$@"')

    manifest = json.loads((home / "manifest.json").read_text())
    words, env = filled_in(manifest, home, {"folders": [str(notes)], "collections": "my*"})
    assert words[1:] == ["run", "--directory", str(home), "server.py", str(notes)]
    assert env == {"QDRANT_URL": "", "QDRANT_API_KEY": "", "QDRANT_COLLECTIONS": "my*"}
    own = {
        "QDRANT_LOCAL_PATH": str(tmp_path / "engine"),
        "QDRANT_CACHE_PATH": str(tmp_path / "cache"),
        "EMBEDDING_PROVIDER": "none",
        "HOME": str(tmp_path),
    }
    server = StdioServerParameters(
        command=str(tmp_path / "bin" / words[0]), args=words[1:], env=env | own, cwd=tmp_path
    )
    async with Client(server, read_timeout_seconds=60) as client:
        tools = await client.list_tools()
        until, found = monotonic() + 60, ""
        while NOTE not in found and monotonic() < until:  # the folder is read after the start
            answer = await client.call_tool("qdrant-find", {"query": "who serviced the heat pump"})
            found = answer.content[0].text

    assert [tool.name for tool in tools.tools] == [one["name"] for one in manifest["tools"]]
    assert NOTE in found
    assert "my notes" in found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is nothing to clone")
def test_the_readmes_three_commands_lead_to_an_answer_from_ones_own_texts(env, tmp_path, model_dir):
    pytest.importorskip("hatchling")
    readme = (ROOT / "README.md").read_text()
    assert "<!-- /start -->" in "\n".join(readme.splitlines()[:40])
    (block,) = re.findall(
        r"<!-- start -->\n```sh not-run\n(.*?)```\n<!-- /start -->", readme, re.DOTALL
    )
    commands = block.splitlines()
    assert len(commands) <= 3
    address = re.search(r"https://\S+", commands[0])[0]

    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "heat-pump.md").write_text(f"# Heat pump\n\n{NOTE}\n")
    (tmp_path / "work").mkdir()
    environment(tmp_path / "pipx")
    # What pipx does with "install FOLDER", but for what it downloads.
    pip = f"{sys.executable} -m pip --quiet --python {tmp_path}/pipx/bin/python"
    command(
        tmp_path / "bin" / "pipx",
        f'{pip} install --no-deps --no-build-isolation "$2"\n'
        f"ln -s {tmp_path}/pipx/bin/mcp-server-qdrant {tmp_path}/bin/",
    )
    variables = clean_environment(env) | {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
        "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": "*",
    }
    done = subprocess.run(
        ["sh", "-e"],
        input=block,
        env=variables,
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
        timeout=MINUTES * 60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert NOTE in done.stdout.replace("\n", " ")
    assert "mcp_server_qdrant" in (tmp_path / ".claude.json").read_text()
    assert str(tmp_path / "pipx") in (tmp_path / ".claude.json").read_text()
