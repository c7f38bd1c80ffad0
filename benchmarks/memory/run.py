"""Does an agent find again what was said? LoCoMo, LongMemEval, BEAM, REALTALK: retrieval only.

    python benchmarks/memory/run.py PATH --model MODEL_FOLDER [--histories 30] [--at-once 10]
        [--kinds turns exchanges sessions] [--algorithms hybrid] [--rows ROWS.jsonl]

PATH is one of the forms that histories.py describes; nothing is downloaded. The real server, with
the embedded engine, is used over its tools as an agent uses it: qdrant-store once for each turn
(`turns-NAME` is the collection), for each exchange, which begins where the first speaker of a
session has the word again (`exchanges-NAME`), or for each whole session (`sessions-NAME`), then
qdrant-find with each question. Each question searches its own conversation's, then those of all
conversations that are stored at once. The ranking is read off the first 50 results. Tokens (a
quarter of the characters) and time are those of the page that an agent gets without a limit, for
about 100 questions; its vector is then known from the call before. Turns count for their sessions
too. Of questions without an answer it counts whether the page says so.

With `--rows`, each conversation's rows are kept there, and a run that was stopped goes on.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from figures import Asked, Found, Key, distinct, doubts, table
from histories import History, Question, read, session_of
from mcp import Client
from mcp.types import CallToolResult

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.settings.environment import Settings

ALGORITHMS = ("hybrid", "semantic", "keyword")
KINDS = {
    "turns": "note per turn",
    "exchanges": "document per exchange",
    "sessions": "document per session",
}
USUAL = ("turns", "sessions")
DEEPEST = 50  # results
LETTERS = 4  # characters of a token, about
PAGES = 100  # of each way, about: the rest of the questions have none
AT_ONCE = 16  # texts that are stored at the same time


async def called(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """The answer of a tool. Raises RuntimeError where it is an error or incomplete."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error or "collections" in (answer.structured_content or {}):
        raise RuntimeError(_text(answer))
    return answer


def _text(answer: CallToolResult) -> str:
    return "\n".join(block.text for block in answer.content if block.type == "text")


def texts(history: History, kind: str) -> Iterator[tuple[str, str, str]]:
    """Ids of what it holds, parted by spaces, text and date of what is stored of a conversation."""
    for session in history.sessions:
        if kind == "turns":
            yield from ((turn, text, session.date) for turn, text in session.turns.items())
        elif kind == "exchanges":
            for turns in exchanges(session.turns):
                yield " ".join(turns), "\n\n".join(turns.values()), session.date
        elif session.turns:
            yield session.id, "\n\n".join(session.turns.values()), session.date


def exchanges(turns: dict[str, str]) -> list[dict[str, str]]:
    """The turns in pieces that begin where the first speaker has the word again."""
    pieces: list[dict[str, str]] = []
    speakers = [text.partition(":")[0] for text in turns.values()]
    for before, speaker, key in zip(["", *speakers], speakers, turns, strict=False):
        if not pieces or speaker == speakers[0] != before:
            pieces.append({})
        pieces[-1][key] = turns[key]
    return pieces


async def store(client: Client, histories: Sequence[History], kinds: Sequence[str]) -> None:
    """Store every conversation in these ways; the first text makes the collection."""
    for history, kind in product(histories, kinds):
        place = {"collection_name": f"{kind}-{history.name}", "create": True}
        calls = [
            {
                "information": text,
                "id": keys.partition(" ")[0],
                "metadata": {"key": keys, "created_at": date},
            }
            for keys, text, date in texts(history, kind)
        ]
        for first in (0, *range(1, len(calls), AT_ONCE)):
            some = calls[first : first + AT_ONCE if first else 1]
            await asyncio.gather(*(called(client, "qdrant-store", **place, **c) for c in some))
        print(f"{history.name}: {len(calls)} {kind} are stored", flush=True)


async def ranked(client: Client, kind: str, query: str, how: dict[str, Any]) -> Found:
    """The keys of the first results."""
    deep = await called(client, "qdrant-find", query=query, **how, mode="full", limit=DEEPEST)
    return [_keys(one, kind) for one in deep.structured_content["results"]]


async def paged(client: Client, query: str, how: dict[str, Any]) -> tuple[float, float, bool]:
    """The tokens of the usual page, its milliseconds, and whether it says that nothing fits."""
    began = time.perf_counter()
    page = await called(client, "qdrant-find", query=query, **how)
    took = (time.perf_counter() - began) * 1e3
    return len(_text(page)) / LETTERS, took, _doubtful(page)


def _keys(result: dict[str, Any], kind: str) -> frozenset[Key]:
    """The conversations' own ids; a copy in another conversation has the same id there."""
    places = [result["collection"], *(one["collection"] for one in result.get("also_in", []))]
    names = [place.removeprefix(f"{kind}-") for place in places]
    return frozenset(product(names, result["metadata"]["key"].split()))


def judged(name: str, question: Question, found: Found, kind: str, **way: Any) -> Iterator[Asked]:
    """The question by its turns, where they are stored and known, and by its sessions.

    One without an answer counts as a row of sessions.
    """
    way |= {"stored": KINDS[kind], "kind": question.kind}
    if kind != "sessions":
        if question.turns:
            wanted = frozenset((name, turn) for turn in question.turns)
            yield Asked(level="turns", evidence=wanted, found=found, **way)
        found = distinct(frozenset((c, session_of(key)) for c, key in one) for one in found)
    wanted = frozenset((name, session) for session in question.sessions)
    yield Asked(level="sessions", evidence=wanted, found=found, **way)


async def measure(
    client: Client, histories: Sequence[History], kinds: Sequence[str], algorithms: Sequence[str]
) -> list[Asked]:
    """Every question in every way; the pages of some are timed, one after the other."""
    rows: list[Asked] = []
    asked = [(history.name, question) for history in histories for question in history.questions]
    step = max(len(asked) // PAGES, 1)
    for number, (name, question) in enumerate(asked):
        ways = [
            (kind, searched, {"algorithm": algorithm, "collections": [f"{kind}-{where}"]})
            for kind, algorithm in product(kinds, algorithms)
            for searched, where in (("own", name), ("all", "*"))
        ]
        text = question.text
        rankings = await asyncio.gather(*(ranked(client, kind, text, q) for kind, _, q in ways))
        for (kind, searched, query), found in zip(ways, rankings, strict=True):
            timed = number % step == 0 or not question.sessions
            page = await paged(client, text, query) if timed else None
            algorithm = query["algorithm"]
            way = {"searched": searched, "algorithm": algorithm, "page": page}
            rows += judged(name, question, found, kind, **way)
    return rows


def settings(folder: Path, model: Path, cache: Path) -> Settings:
    """A patient server of its own."""
    return Settings(
        qdrant_local_path=folder,
        qdrant_cache_path=cache,
        embedding_model_path=model,
        qdrant_timeout=240,
    )


async def run(
    histories: Sequence[History],
    at_once: int,
    server: Callable[[Path], Any],
    kinds: Sequence[str] = USUAL,
    algorithms: Sequence[str] = ALGORITHMS,
    kept: Path | None = None,
) -> list[Asked]:
    """The answers to all questions, so many conversations in one server at once.

    The rows of each such group are added to the file `kept`; groups that are there are not asked.
    """
    rows: list[Asked] = []
    known = _read(kept) if kept and kept.exists() else {}
    for first in range(0, len(histories), at_once):
        some = histories[first : first + at_once]
        group = " ".join([*(one.name for one in some), *kinds, *algorithms])
        if group in known:
            rows += known[group]
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            async with Client(server(Path(folder))) as client:
                await store(client, some, kinds)
                await called(client, "qdrant-find", query="warm up")
                found = await measure(client, some, kinds, algorithms)
        rows += found
        if kept:
            with kept.open("a", encoding="utf-8") as lines:
                lines.write(
                    json.dumps([group, [asdict(one) for one in found]], default=list) + "\n"
                )
    return rows


def _read(kept: Path) -> dict[str, list[Asked]]:
    """The rows of each group that was asked; a line that was cut off counts as not there."""
    groups = {}
    for line in kept.read_text("utf-8").splitlines():
        with suppress(ValueError):
            name, rows = json.loads(line)
            groups[name] = [_row(one) for one in rows]
    return groups


def _row(row: dict[str, Any]) -> Asked:
    """The row as it was before it was written."""
    evidence, *found = (
        frozenset((collection, key) for collection, key in keys)
        for keys in (row["evidence"], *row["found"])
    )
    page = row["page"] and tuple(row["page"])
    return Asked(**row | {"evidence": evidence, "found": found, "page": page})


def _doubtful(page: CallToolResult) -> bool:
    """True where an answer says that its matches are weak, or has none."""
    return not page.structured_content["results"] or (page.meta or {})["weak"]


def report(rows: Sequence[Asked]) -> str:
    """All ways in one table; then the kinds of question, in hybrid search of one conversation.

    The last table has what pages say of questions without an answer.
    """
    ways = sorted(
        (one for one in rows if one.evidence), key=lambda one: (one.level, one.searched == "all")
    )
    parts = [table(ways, "found, stored, searched, algorithm", _way)]
    usual = [one for one in ways if one.searched == "own" and one.algorithm == "hybrid"]
    for way in dict.fromkeys(map(_way, usual)):
        kinds = sorted((one for one in usual if _way(one) == way), key=lambda one: one.kind)
        parts.append(f"{way}:\n\n{table(kinds, 'question', lambda one: one.kind)}")
    asked = [one for one in rows if one.level == "sessions"]
    if any(not one.evidence for one in asked):
        parts.append(doubts(asked, "stored, searched, algorithm", _stored))
    return "\n\n".join(parts)


def _stored(one: Asked) -> str:
    return f"{one.stored}, {one.searched}, {one.algorithm}"


def _way(one: Asked) -> str:
    return f"{one.level}, {one.stored}, {one.searched}, {one.algorithm}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("build/bench/memory"))
    parser.add_argument("--histories", type=int, help="only the first so many")
    parser.add_argument("--at-once", type=int, default=10, help="conversations in one server")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=USUAL)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--rows", type=Path, help="keeps what is done: a stopped run goes on")
    given = parser.parse_args()
    histories = read(given.path)[: given.histories]
    model, cache = given.model.absolute(), given.cache.absolute()
    ways = {"kinds": given.kinds, "algorithms": given.algorithms, "kept": given.rows}
    opened = run(histories, given.at_once, lambda f: make_server(settings(f, model, cache)), **ways)
    print(f"\n{report(asyncio.run(opened))}")


if __name__ == "__main__":
    main()
