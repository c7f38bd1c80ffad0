"""Does the excerpt of a hit hold the answer, and what does a hit cost an agent?

    python benchmarks/excerpts.py DATA --model MODEL_FOLDER [--queries 400] [--dump FILE]

DATA holds folders of questions about paragraphs: corpus.jsonl, qrels.tsv, and queries.jsonl with
`metadata.answers`, each a literal part of the paragraph that is judged relevant (XQuAD's form).
Each folder becomes a collection of the embedded engine, stored as `qdrant-store` would. Of the
questions whose paragraph is first: the share whose minimal excerpt, and whose whole part, holds
the answer. A hit's tokens are its share of the whole answer in text, for limits of 5 and of 10, as
the server counts them for its default page: 3 to 5 % more than o200k, 15 % more in code.
"""

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

from ranking.corpora import Corpus, read

from mcp_server_qdrant.app.services import Services, open_services
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.settings.environment import Settings
from mcp_server_qdrant.tools.page import tokens
from mcp_server_qdrant.tools.rendering import page as written

LIMITS = (5, 10)


def answers_of(folder: Path) -> dict[str, list[str]]:
    """Question -> its answers."""
    rows = map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines())
    return {row["_id"]: row["metadata"]["answers"] for row in rows}


def holds(text: str, answers: list[str]) -> bool:
    """True if one of the answers is in the text, whatever the white space."""
    folded = " ".join(text.split())
    return any(" ".join(answer.split()) in folded for answer in answers)


async def store(services: Services, corpus: Corpus) -> None:
    """Store the paragraphs, unless an earlier run has."""
    if corpus.name in await services.catalog.names():
        return
    for document, (title, text) in corpus.documents.items():
        new = NewDocument(text, id=document, title=title or None)
        await services.store.store(new, corpus.name, create=True)


async def measure(services: Services, corpus: Corpus, answers: dict[str, list[str]], most: int):
    """The figures of one folder, on one line; returns what was shown."""
    in_excerpt = in_part = first = 0
    sizes: dict[int, list[float]] = {limit: [] for limit in LIMITS}
    took, shown = [], []
    for query, text in list(corpus.queries.items())[:most]:
        began = time.perf_counter()
        request = SearchRequest(query=text, collections=(corpus.name,), limit=max(LIMITS))
        page = await services.pipeline.search(request)
        took.append(time.perf_counter() - began)
        if not page.results:
            raise SystemExit(f"{corpus.name}: nothing found: {' '.join(page.notes)}")
        for limit, some in sizes.items():
            results = page.results[:limit]
            some.append(tokens(written(replace(page, results=results), "minimal")) / len(results))
        best = page.results[0]
        if corpus.judgements[query].get(best.document.document or ""):
            first += 1
            in_excerpt += holds(best.passage, answers[query])
            in_part += holds(best.document.text, answers[query])
            shown.append((text, answers[query], best.passage, best.document.text))
    print(
        f"{corpus.name:10} {len(took):5} questions, {first:5} first; answer in the excerpt "
        f"{in_excerpt / first:.3f}, in the part {in_part / first:.3f}; tokens of a hit: "
        + ", ".join(f"{statistics.mean(some):.1f} of {limit}" for limit, some in sizes.items())
        + f"; a find {statistics.median(took) * 1e3:.1f} ms",
        flush=True,
    )
    return shown


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--engine", type=Path, default=Path("build/bench/excerpts"))
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dump", type=Path)
    arguments = parser.parse_args()
    settings = Settings(
        qdrant_local_path=arguments.engine.resolve(),
        embedding_model_path=arguments.model.resolve(),
        qdrant_timeout=60,
        search_timeout=60,
    )
    services = await open_services(settings)
    await services.encoders.default.ready(60)
    shown = {}
    for folder in arguments.data:
        corpus = read(folder)
        await store(services, corpus)
        shown[corpus.name] = await measure(services, corpus, answers_of(folder), arguments.queries)
    await services.close()
    if arguments.dump:
        arguments.dump.write_text(json.dumps(shown, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main())
