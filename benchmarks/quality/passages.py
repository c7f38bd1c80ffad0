"""Does the page hold the answer, in a true quote under the true section, and at which price?

    python benchmarks/quality/passages.py DIR [--model-cache PATH] [--within] [--limit N] [--keep]

DIR has `docs/COLLECTION/FILE` and `questions.jsonl`, a question a line with query, collection,
file, answer, section and kind. The documents are ingested into a collection for each folder; the
questions go through the server's own tools over stdio, over all collections, or with `--within`
over the right document. Each quote is looked for in the part whose id stands above it. Another
version of the server is measured with PYTHONPATH=ITS/src.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import servers
from jsonrpc import StdioServer

from mcp_server_qdrant.core.sentences import tokens

HERE = servers.BUILD / "bench" / "passages"
_MARKS = re.compile(r"[`*]|:[\w:]+:(?=`)|<[^<>]+>")
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def plain(text: str) -> str:
    """A text without marks and white space, as two renderings of it agree."""
    unmarked = _MARKS.sub("", html.unescape(text).translate(_QUOTES))
    return re.sub(r"\s+", " ", unmarked).strip()


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def passages(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The passages of a result, the best first, each with id, section and text."""
    if not one.get("text"):
        return []
    first = {"id": one["id"], "section": one.get("title"), "text": one["text"]}
    return [first, *one.get("passages", [])]


def judged(
    server: StdioServer, question: Mapping[str, str], arguments: dict[str, Any]
) -> dict[str, float]:
    """The figures of one question: 1 or 0 for what holds, tokens, and quotes that are not true."""
    found = server.call("qdrant-find", {"query": question["query"], **arguments})
    results = found["structuredContent"]["results"]
    right = [
        one["collection"] == question["collection"]
        and Path(one.get("source", "")).name == question["file"]
        for one in results
    ]
    answer = plain(question["answer"])
    holding = [
        (place, one)
        for place, (result, true) in enumerate(zip(results, right, strict=True))
        if true
        for one in passages(result)
        if answer in plain(one["text"])
    ]
    shown = [one for result in results for one in passages(result)]
    text = "\n".join(block["text"] for block in found["content"])
    figures: dict[str, float] = {
        "file at 1": right[:1] == [True],
        "file at 5": any(right[:5]),
        "holds": bool(holding),
        "holds at 1": any(place == 0 for place, _ in holding),
        "tokens": tokens(text),
        "quotes": len(shown),
        "not in the part": sum(not true(server, one) for one in shown),
        "weak": any(n.startswith("Weak") for n in found["structuredContent"]["notes"]),
    }
    if holding:
        section = plain(question["section"])
        figures["section true"] = any(section in plain(o.get("section") or "") for _, o in holding)
    return figures


def ingest(contestant: servers.Contestant, folder: Path) -> None:
    """Each folder into a collection of its name."""
    for part in sorted(folder.iterdir()):
        command = [*contestant.command, "ingest", str(part), "--collection", part.name, "--create"]
        environment = contestant.environment()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        print(part.name, *done.stdout.splitlines()[-1:], file=sys.stderr, flush=True)
        if done.returncode:
            raise SystemExit(done.stderr)


def true(server: StdioServer, one: Mapping[str, Any]) -> bool:
    """Whether a quote stands in its part, but for white space."""
    found = server.call("qdrant-get", {"ids": [one["id"]]})["structuredContent"]["documents"]
    return bare(one["text"]) in bare(found[0]["text"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model-cache", type=Path)
    parser.add_argument("--within", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--misses", action="store_true", help="name the questions that fail")
    parser.add_argument("--keep", action="store_true", help="use what was ingested before")
    arguments = parser.parse_args()
    lines = (arguments.folder / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    contestant = servers.ours(HERE / "data", servers.model_cache(arguments.model_cache), {})
    contestant.env.pop("COLLECTION_NAME")
    # Also while another program uses the machine:
    contestant.env.update(QDRANT_TIMEOUT="120")
    if not arguments.keep:
        shutil.rmtree(HERE, ignore_errors=True)
        (HERE / "data").mkdir(parents=True)
        ingest(contestant, arguments.folder / "docs")
    kinds: dict[str, list[dict[str, float]]] = defaultdict(list)
    server = contestant.start()
    server.handshake()
    server.call("qdrant-find", {"query": "warm up", "collections": ["*"]})
    for question in questions:
        asked: dict[str, Any] = {"collections": ["*"]}
        if arguments.within:
            asked = {"within": identify(server, question)}
        if arguments.limit:
            asked["limit"] = arguments.limit
        figures = judged(server, question, asked)
        for kind in (question["kind"], "all"):
            kinds[kind].append(figures)
        if arguments.misses and not figures["holds"]:
            print("missed:", question["id"], question["query"], file=sys.stderr)
    server.stop()
    report(kinds)


def identify(server: StdioServer, question: Mapping[str, str]) -> str:
    """The id of the document that has the answer."""
    asked = {"query": question["file"], "collections": [question["collection"]], "limit": 100}
    found = server.call("qdrant-find", {**asked, "mode": "full"})
    for one in found["structuredContent"]["results"]:
        if Path(one.get("source", "")).name == question["file"]:
            return str(one["document"])
    raise SystemExit(f"{question['file']} was not found")


def report(kinds: Mapping[str, list[dict[str, float]]]) -> None:
    names = list(dict.fromkeys(name for one in kinds["all"] for name in one))
    print(f"{'':14}{'n':>4}" + "".join(f"{name:>16}" for name in names))
    for kind, each in kinds.items():
        columns = [[one[name] for one in each if name in one] for name in names]
        means = "".join(f"{mean(column) if column else 0:>16.3f}" for column in columns)
        print(f"{kind:14}{len(each):>4}{means}")


if __name__ == "__main__":
    main()
