"""Does an answer know when it has nothing?

    python benchmarks/ranking/nothing.py DATA --model MODEL_FOLDER [--queries 200]

DATA holds BEIR folders; each becomes a collection of the embedded engine. Every query searches
those of its name (`conv-26` and `conv-30` are of one), or all where there is no other, once with
its own collection among them and once without. AUROC: how often the best relevance with it is
higher than another query's without it. Weak: the share of answers with the line that says so;
its precision and recall for answers without the own collection. Told: the share of which a hook
would tell something (`recall`). Fitted: the threshold of relevance that tells the two apart best in
every second query, with precision and recall on the others.
"""

import asyncio

import numpy as np
from corpora import Corpus, asked, filled

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.tools.recall import LEAST, fits


def auroc(present: np.ndarray, absent: np.ndarray) -> float:
    """The probability that a value of the first is higher than one of the second; ties half."""
    higher = (present[:, None] > absent).mean() + (present[:, None] == absent).mean() / 2
    return float(higher)


async def answered(
    services: Services, query: str, collections: list[str]
) -> tuple[float, bool, bool]:
    """The best relevance, whether the answer calls it weak, and whether a hook would tell it."""
    page = await services.pipeline.search(
        SearchRequest(query=query, collections=collections, explain=True)
    )
    best = max((result.relevance for result in page.results), default=0.0)
    told = any(fits(one) and (one.relevance or 0.0) >= LEAST for one in page.results)
    weak = any(note.startswith("Weak matches") for note in page.notes)
    return best, weak, told and not weak


def searched(corpora: list[Corpus], own: Corpus) -> list[str]:
    """The collections for a query: those of its family, else all; never the own one translated."""
    apart = [c for c in corpora if c is own or c.documents.keys() != own.documents.keys()]
    family = [c.name for c in apart if c.name.partition("-")[0] == own.name.partition("-")[0]]
    return family if len(family) > 1 else [c.name for c in apart]


async def main() -> None:
    arguments, corpora = asked(__doc__, queries=200)
    async with filled(arguments, corpora) as services:
        heads = ("AUROC", "weak there", "weak absent", "precision", "recall")
        heads += ("told there", "told absent")
        print(f"{'':14}" + "".join(f"{h:>12}" for h in (*heads, "fitted", "precision", "recall")))
        families: dict[str, list[np.ndarray]] = {}
        for corpus in corpora:
            names = searched(corpora, corpus)
            others = [name for name in names if name != corpus.name]
            rows = [
                [*with_it[:2], *without[:2], with_it[2], without[2]]
                for text in list(corpus.queries.values())[: arguments.queries]
                for with_it in [await answered(services, text, names)]
                for without in [await answered(services, text, others)]
            ]
            table = np.array(rows, dtype=float)
            families.setdefault(corpus.name.partition("-")[0], []).append(table)
            show(corpus.name, table)
        for name, tables in families.items():
            if len(tables) > 1:
                show(f"{name}, all", np.concatenate(tables))


def precision(present: float, absent: float) -> float:
    """Of as many answers of both kinds, the share without the own collection among the flagged."""
    return absent / (absent + present) if absent + present else 0.0


def fitted(table: np.ndarray) -> tuple[float, float, float]:
    """The best threshold of one half by balanced accuracy; its precision, recall on the other."""
    half, other = table[::2], table[1::2]
    ways = np.unique(half[:, [0, 2]].round(3))
    best = max(ways, key=lambda t: (half[:, 2] < t).mean() + (half[:, 0] >= t).mean())
    present, absent = (other[:, 0] < best).mean(), (other[:, 2] < best).mean()
    return float(best), precision(present, absent), absent


def show(name: str, table: np.ndarray) -> None:
    """One line of the result."""
    weak, absent = table[:, 1].mean(), table[:, 3].mean()
    told = [table[:, n].mean() for n in (4, 5)]
    numbers = (auroc(table[:, 0], table[:, 2]), weak, absent, precision(weak, absent), absent)
    numbers += (*told,)
    print(f"{name:14}" + "".join(f"{n:12.3f}" for n in (*numbers, *fitted(table))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
