"""Does an agent get the right passage, of the right section, with the answer in it?

    python benchmarks/quality/answers.py [--model-cache PATH] [--misses]

Builds its corpus from what every installation has: sources of the standard library, the language
reference that pydoc keeps, and the READMEs and changelogs of installed packages. They are ingested
into three collections; the 60 questions of answers.jsonl, written before the first search, go
through the server's own tools over stdio. Another version of the server is measured with
PYTHONPATH=ITS/src. A question whose answer this machine's documents do not hold is left out.
"""

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import servers
from jsonrpc import StdioServer

HERE = servers.BUILD / "bench" / "answers"
QUESTIONS = Path(__file__).with_suffix(".jsonl")
DEPTHS = (1, 3, 5, 10)
DEEP = 100
LETTERS = 4  # characters of a token, about
# fmt: off
MODULES = (
    "calendar", "cmd", "getpass", "graphlib", "heapq", "netrc", "queue", "sched", "secrets",
    "shlex", "shutil", "statistics", "textwrap", "uuid",
)
PACKAGES = (
    "attrs", "charset-normalizer", "click", "colorlog", "filelock", "httpcore", "loguru", "mmh3",
    "orjson", "packaging", "platformdirs", "pluggy", "portalocker", "python-dotenv", "rich", "ruff",
    "sse-starlette", "tabulate", "tqdm", "watchfiles",
)
REPEATED = {"compound", "specialnames", "types"}  # topics made of others
# fmt: on


@dataclass(frozen=True)
class Question:
    """A question, the section of its answer if the document has some, and the answer itself."""

    query: str
    file: str
    section: str | None
    answer: str
    exact: bool = False


def folded(text: str) -> str:
    """The text in one line, without the marks of quotation and emphasis."""
    return " ".join(text.replace("…", " ").replace("`", "").replace("*", "").split())


def write(folder: Path) -> dict[str, str]:
    """Write the corpus: a folder for each collection. File name -> its text, folded."""
    from pydoc_data.topics import topics

    texts = {f"reference/{name}.txt": text for name, text in topics.items() if name not in REPEATED}
    library = Path(sysconfig.get_paths()["stdlib"])
    for name in MODULES:
        texts[f"stdlib/{name}.py"] = (library / f"{name}.py").read_text("utf-8")
    for name in PACKAGES:
        about = importlib.metadata.distribution(name).metadata
        suffix = "rst" if "rst" in about.get("Description-Content-Type", "rst") else "md"
        texts[f"packages/{name}.{suffix}"] = about.get_payload() or about["Description"] or ""
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return {path.rpartition("/")[2]: folded(text) for path, text in texts.items()}


def ingest(contestant: servers.Contestant, folder: Path) -> None:
    """Each folder into a collection of its name."""
    for part in sorted(folder.iterdir()):
        command = [*contestant.command, "ingest", str(part), "--collection", part.name, "--create"]
        environment = contestant.environment()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        print(part.name, *done.stdout.splitlines()[-1:], file=sys.stderr, flush=True)
        if done.returncode:
            raise SystemExit(done.stderr)


def found(server: StdioServer, query: str, **arguments: Any) -> dict[str, Any]:
    """The answer of qdrant-find over all collections."""
    asked = {"query": query, "collections": ["*"], **arguments}
    return server.call("qdrant-find", asked)


def places(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(r["collection"], r["id"]) for r in answer["structuredContent"]["results"]]


def judged(server: StdioServer, question: Question, texts: dict[str, str]) -> dict[str, float]:
    """The figures of one question: 1 or 0 for what holds, and the tokens of the default page."""
    answer = folded(question.answer)
    right = {name for name, text in texts.items() if answer in text}
    page = found(server, question.query)
    shown = page["structuredContent"]["results"]
    whole = found(server, question.query, limit=5, mode="full")["structuredContent"]["results"]
    files = [Path(one.get("source", "")).name in right for one in whole]
    deep = places(found(server, question.query, limit=DEEP))
    text = "\n".join(block["text"] for block in page["content"])
    figures = {
        "first": files[:1] == [True],
        "five": any(files),
        "called weak": any(n.startswith("Weak") for n in page["structuredContent"]["notes"]),
        "tokens": len(text) / LETTERS,
        "structured": len(json.dumps(page["structuredContent"])) / LETTERS,
    }
    for depth in DEPTHS:
        some = places(found(server, question.query, limit=depth))
        figures[f"prefix {depth}"] = some == deep[:depth]
    if question.exact:
        figures["exact first"] = figures["first"]
    if figures["first"] and shown:
        figures["excerpt"] = answer in folded(shown[0].get("text", ""))
        figures["excerpt tokens"] = len(shown[0].get("text", "")) / LETTERS
        if question.section:
            figures["section"] = question.section in shown[0].get("title", "")
    return {name: float(value) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-cache", type=Path)
    parser.add_argument("--misses", action="store_true", help="name the questions that fail")
    arguments = parser.parse_args()
    shutil.rmtree(HERE, ignore_errors=True)
    texts = write(HERE / "corpus")
    questions = [Question(**json.loads(line)) for line in QUESTIONS.open(encoding="utf-8")]
    known = [q for q in questions if folded(q.answer) in texts.get(q.file, "")]
    for lost in (q for q in questions if q not in known):
        print(f"not on this machine: {lost.file}: {lost.answer}", file=sys.stderr)
    contestant = servers.ours(HERE / "data", servers.model_cache(arguments.model_cache), {})
    contestant.env.pop("COLLECTION_NAME")
    # Also while another program uses the machine:
    contestant.env.update(QDRANT_TIMEOUT="120")
    (HERE / "data").mkdir()
    ingest(contestant, HERE / "corpus")
    server = contestant.start()
    server.handshake()
    found(server, "warm up")
    rows = [judged(server, question, texts) for question in known]
    server.stop()
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        if "tokens" in name or name == "structured":
            print(
                f"{name:16} {sum(values) / len(values):6.0f} on average, {max(values):.0f} at most"
            )
        else:
            print(f"{name:16} {sum(values):3.0f} of {len(values)}")
    for question, row in zip(known, rows, strict=True):
        if arguments.misses and (
            failed := [name for name, value in row.items() if value == (name == "called weak")]
        ):
            print(f"{', '.join(failed)}: {question.query}")


if __name__ == "__main__":
    main()
