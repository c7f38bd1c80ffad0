"""The MCP conformance suite against this server over streamable-http, for both protocol eras.

    python benchmarks/conformance.py [--suite COMMAND]

Most of the suite's scenarios call tools, resources and prompts of fixed names (`test_simple_text`),
which only a server made for the suite has; logging and resource subscriptions are optional and not
offered here. The others, listed below, must pass: ends with 1 where one does not. Needs npx, which
fetches the suite and the node that it wants; `--suite` names an installed one.
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
BOTH = {
    "completion-complete",
    "dns-rebinding-protection",
    "prompts-list",
    "resources-list",
    "server-sse-multiple-streams",
    "tools-list",
}
MUST_PASS = {
    "2025-11-25": BOTH | {"ping", "server-initialize", "server-session-lifecycle"},
    "2026-07-28": BOTH | {"caching", "http-header-validation", "sep-2164-resource-not-found"},
}
# Of the scenario server-stateless, which holds 28 checks, these two want a tool of the suite's.
OF_A_FIXTURE = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default=SUITE, help="command of the suite")
    suite = shlex.split(parser.parse_args().suite)
    wrong = False
    for version, must in MUST_PASS.items():
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
            results = run(suite, url, version, Path(folder) / "results")
        print(f"\n{version}: {sum(not failed for failed in results.values())} scenarios pass")
        for name, failed in sorted(results.items()):
            needed = name in must or (name == "server-stateless" and set(failed) - OF_A_FIXTURE)
            wrong |= bool(needed and failed)
            verdict = "ok      " if not failed else "NOT OK  " if needed else "fixture "
            print(f"  {verdict}{name} {', '.join(failed)}")
        if missing := must - results.keys():
            wrong = True
            print(f"  NOT OK  the suite did not run {', '.join(sorted(missing))}")
    sys.exit(wrong)


def run(suite: list[str], url: str, version: str, results: Path) -> dict[str, list[str]]:
    """Scenario -> the checks that failed."""
    options = ["--suite", "all", "--spec-version", version, "-o", str(results)]
    command = [*suite, "server", "--url", url, *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False)
    failed = {}
    for file in results.glob("server-*/checks.json"):
        name = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]  # then the time
        checks = json.loads(file.read_text("utf-8"))
        failed[name] = [check["id"] for check in checks if check["status"] == "FAILURE"]
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
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_server_qdrant", "--transport", "streamable-http"],
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
