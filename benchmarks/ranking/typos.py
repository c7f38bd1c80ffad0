"""Are misspelled queries answered, and are the clean ones left alone? nDCG@10 of the pipeline.

    python benchmarks/ranking/typos.py DATA --model MODEL_FOLDER [--queries 100] [--seed 1]

Every query searches all collections at once. Of the words of five and more letters three in ten
get one edit (a letter left out, put in, replaced, or two swapped). `titles` are pieces of titles,
misspelled like that, of 150 documents of each collection: a person looking for a text that they
know.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Sequence

import numpy as np
from corpora import Corpus, asked, filled
from run import ndcg

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.find import SearchRequest

SHARE = 0.3
TITLES = 150
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Query = tuple[str, str, dict[str, int]]


def edited(word: str, chance: random.Random) -> str:
    """The word with one edit; by chance it may be the same letter or pair."""
    place, letter = chance.randrange(len(word) - 1), chance.choice(LETTERS)
    head, tail = word[:place], word[place:]
    return head + chance.choice(
        [tail[1:], letter + tail, letter + tail[1:], tail[1] + tail[0] + tail[2:]]
    )


def misspelled(text: str, chance: random.Random) -> str:
    """The text with three in ten of its longer words edited."""
    return re.sub(
        r"[^\W\d_]{5,}",
        lambda word: edited(word[0], chance) if chance.random() < SHARE else word[0],
        text,
    )


def judged(corpus: Corpus, change: Callable[[str, str], str]) -> list[Query]:
    return [
        (
            corpus.name,
            change(number, text),
            {f"{corpus.name}/{d}": grade for d, grade in corpus.judgements[number].items()},
        )
        for number, text in corpus.queries.items()
    ]


def titles(corpus: Corpus, seed: int) -> list[Query]:
    """Misspelled pieces of titles, each with the one document that is meant."""
    chance = random.Random(seed)
    known = [(d, title.split()) for d, (title, _) in corpus.documents.items()]
    known = [(document, words) for document, words in known if len(words) > 3]
    queries: list[Query] = []
    for document, words in chance.sample(known, min(TITLES, len(known))):
        kept = [word for word in words if chance.random() < 0.6] or words
        text = misspelled(" ".join(kept), chance)
        queries.append((corpus.name, text, {f"{corpus.name}/{document}": 1}))
    return queries


class Trial:
    """One set of collections, searched in several ways."""

    def __init__(self, services: Services, corpora: Sequence[Corpus], most: int) -> None:
        self.services = services
        self.names = tuple(corpus.name for corpus in corpora)
        self.most = most
        print(f"{'nDCG@10':32}", *(f"{name:>10}" for name in self.names), "      mean  corrected")

    async def row(self, label: str, queries: Sequence[Sequence[Query]], **fields) -> float:
        """Mean nDCG@10 over the collections' means; one line of the table."""
        means, corrections = [], 0
        for several in queries:
            scores = []
            for _, text, grades in several[: self.most]:
                request = SearchRequest(
                    query=text,
                    collections=self.names,
                    limit=10,
                    score_threshold=0.0,
                    recency_weight=0.0,
                    **fields,
                )
                page = await self.services.pipeline.search(request)
                found = [result.document.document or "" for result in page.results]
                scores.append(ndcg(found, grades))
                corrections += len(page.corrections)
            means.append(float(np.mean(scores)))
        mean = float(np.mean(means))
        print(
            f"{label:32}", *(f"{m:10.4f}" for m in [*means, mean]), f"{corrections:10}", flush=True
        )
        return mean


async def correction_times(services: Services, trial: Trial, queries: Sequence[Query]):
    """Milliseconds to correct one query, the vocabularies being there."""
    targets = await services.catalog.resolve(trial.names)
    took = []
    for _, text, _ in queries:
        terms = await services.pipeline.understanding.terms.weighed(text, targets)
        began = time.perf_counter()
        await services.pipeline.understanding.speller.correct(terms, targets)
        if terms.unknown:
            took.append((time.perf_counter() - began) * 1e3)
    return sorted(took)


def spread(took: Sequence[float]) -> str:
    return f"median {took[len(took) // 2]:.2f}, p95 {took[int(len(took) * 0.95)]:.2f} ms"


async def compare(services: Services, corpora: Sequence[Corpus], most: int, seed: int) -> None:
    trial = Trial(services, corpora, most)
    clean = [judged(corpus, lambda _, text: text) for corpus in corpora]
    wrong = [
        judged(corpus, lambda number, text: misspelled(text, random.Random(f"{seed}/{number}")))
        for corpus in corpora
    ]
    pieces = [titles(corpus, seed) for corpus in corpora]
    base = await trial.row("clean, correction off", clean, correct=False)
    kept = await trial.row("clean", clean)
    bare = await trial.row("misspelled, correction off", wrong, correct=False)
    corrected = await trial.row("misspelled", wrong)
    print(
        f"clean queries keep {kept / base:.1%}; misspelled ones keep {corrected / base:.1%}, "
        f"uncorrected {bare / base:.1%}"
    )
    for algorithm in ("semantic", "keyword"):
        await trial.row(f"{algorithm}, clean", clean, algorithm=algorithm)
        await trial.row(f"{algorithm}, misspelled", wrong, algorithm=algorithm)
        off = {"algorithm": algorithm, "correct": False}
        await trial.row(f"{algorithm}, misspelled, uncorrected", wrong, **off)
    for weight in (0.0, 0.1, 0.2):
        await trial.row(f"clean, fuzzy boost {weight}", clean, fuzzy_boost=weight)
        await trial.row(f"titles, fuzzy boost {weight}", pieces, fuzzy_boost=weight)
    flat = [query for several in wrong for query in several[:most]]
    print(f"correcting: {spread(await correction_times(services, trial, flat))}")


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=10_000, seed=1)
    async with filled(arguments, corpora) as services:
        targets = await services.catalog.resolve([corpus.name for corpus in corpora])
        began = time.perf_counter()
        await services.lexicon.vocabularies(targets)
        await services.lexicon.settled()
        words = {n: len(v) for n, v in (await services.lexicon.vocabularies(targets)).items()}
        print(f"vocabularies of {words} words in {time.perf_counter() - began:.1f} s")
        await compare(services, corpora, arguments.queries, arguments.seed)


if __name__ == "__main__":
    asyncio.run(main())
