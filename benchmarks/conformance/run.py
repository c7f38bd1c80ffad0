"""The MCP conformance suite against this server over streamable-http, for both protocol eras.

    python benchmarks/conformance/run.py [--suite COMMAND]

Most scenarios call tools, resources and prompts of fixed names, which `server.py` adds to the
product's own server. Every scenario of an era must run and pass; ends with 1 where one does not.
Needs npx, which fetches the suite and the node that it wants; `--suite` names an installed one.
"""

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUITE = "npx -y -p node@22 -p @modelcontextprotocol/conformance@0.2.0-alpha.12 conformance"
SECONDS = 300
# The number of the suite's scenarios of each era.
SCENARIOS = {"2025-11-25": 33, "2026-07-28": 40}
# Recommendations of the older era for streams that can be resumed, which takes a store of all
# events; the newer era has no such streams.
NOT_OFFERED = {"server-sse-priming-event", "server-sse-retry-field"}
SERVER = Path(__file__).parent / "server.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default=SUITE, help="command of the suite")
    suite = shlex.split(parser.parse_args().suite)
    wrong = False
    for version, number in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
            results = run(suite, url, version, Path(folder) / "results")
        passed = sum(not faults for faults in results.values())
        wrong |= passed < number
        print(f"\n{version}: {passed} of {number} scenarios pass")
        for name, faults in sorted(results.items()):
            print(f"  {'NOT OK' if faults else 'ok    '}  {name}")
            for fault in faults:
                print(f"            {fault}")
    sys.exit(wrong)


def run(suite: list[str], url: str, version: str, results: Path) -> dict[str, list[str]]:
    """Scenario -> what failed in it."""
    options = ["--suite", "all", "--spec-version", version, "-o", str(results)]
    command = [*suite, "server", "--url", url, *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False)
    failed = {}
    for file in results.glob("server-*/checks.json"):
        name = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]  # then the time
        checks = json.loads(file.read_text("utf-8"))
        failed[name] = [
            f"{check['id']}: {check.get('errorMessage')}"
            for check in checks
            if check["status"] in ("FAILURE", "WARNING") and check["id"] not in NOT_OFFERED
        ]
    return failed


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server with an engine in memory and no model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "QDRANT_URL": ":memory:",
        "EMBEDDING_PROVIDER": "none",
        "FASTMCP_PORT": str(port),
        "FASTMCP_LOG_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",  # of what the SDK calls deprecated, the suite still asks
    }
    process = subprocess.Popen(
        [sys.executable, SERVER, "--transport", "streamable-http"],
        env=os.environ | settings,
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        while not answers(f"http://localhost:{port}/healthz"):
            if process.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.1)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.terminate()
        process.wait(timeout=30)


def answers(url: str) -> bool:
    """Whether something answers there."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


if __name__ == "__main__":
    main()
