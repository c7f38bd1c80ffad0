"""Seeded texts and queries that read like notes, and their vectors, computed once and kept.

A text has about twelve words: everyday words from the lists below, and names drawn with Zipf's
frequencies from a large made-up vocabulary, so that keyword search meets both common and rare
terms as it does in a person's own notes.
"""

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DIMENSIONS = 384

TOPICS = [
    {
        "subject": "backup server,router,home network,storage pool,print queue,mail relay,firewall",
        "verb": "was upgraded,lost its connection,needs a new disk,"
        "runs hot,was moved,keeps failing",
        "object": "snapshots,certificates,access points,disk quotas,port forwarding,power supply",
        "detail": "after the storm,before the audit,in the basement rack,"
        "during the night,since May",
    },
    {
        "subject": "sourdough,lentil soup,apple cake,tomato sauce,pickled cabbage,rice pudding",
        "verb": "turned out well,wants more salt,burns quickly,keeps for a week,rises slowly",
        "object": "dried yeast,smoked paprika,brown butter,fresh basil,lemon zest,rye flour",
        "detail": "in the small oven,for eight guests,on low heat,without sugar,for the holidays",
    },
    {
        "subject": "planning meeting,design review,quarterly report,customer call,hiring round",
        "verb": "was postponed,ended early,agreed on a budget,raised new risks,chose a supplier",
        "object": "delivery dates,travel costs,open positions,support contracts,the roadmap",
        "detail": "until next month,with the whole team,against our advice,at short notice",
    },
    {
        "subject": "search index,payment module,login page,data pipeline,test suite,mobile client",
        "verb": "throws an error,was rewritten,leaks memory,passes again,needs a migration",
        "object": "timeout handling,unicode names,duplicate rows,retry logic,stale caches",
        "detail": "under heavy load,on older phones,after the merge,only in production",
    },
    {
        "subject": "garden fence,heat pump,kitchen sink,attic window,bicycle chain,rain barrel",
        "verb": "has to be repaired,was cleaned,leaks again,makes a noise,was replaced,froze",
        "object": "copper pipes,wooden boards,rubber seals,winter tyres,ceramic tiles,screws",
        "detail": "before winter,with borrowed tools,on the north side,for the second time",
    },
    {
        "subject": "museum visit,train journey,school concert,doctor's appointment,weekend hike",
        "verb": "was cancelled,took all day,is booked for Friday,"
        "went better than hoped,starts late",
        "object": "tickets,warm clothes,the insurance card,sandwiches,seat reservations,a map",
        "detail": "with the children,near the old harbour,despite the rain,in early autumn",
    },
]
PATTERNS = [
    "The {subject} at {name} {verb}; {name2} will look after {object} {detail}.",
    "{name} says the {subject} {verb} and asks for {object} {detail}.",
    "Remember: {object} for the {subject} come from {name}, order {name2} {detail}.",
    "{name} and {name2} noted that the {subject} {verb} {detail} because of {object}.",
]
QUERIES = [
    "what did {name} say about {object}",
    "when was the {subject} {detail}",
    "{subject} {object}",
    "who looks after {object} at {name}",
    "why the {subject} {verb} {detail}",
]
ONSETS = "b br d dr f g gr h k kl l m n p pr r s st t tr v w z"
VOWELS = "a e i o u ai ea ou"
CODAS = "l m n r s t nd rk st"


class Writer:
    """Writes texts and queries; the same seed gives the same ones in the same order."""

    def __init__(self, seed: int, names: int = 20_000) -> None:
        self._random = random.Random(seed)
        vocabulary = random.Random(0)  # the names are the same whatever the seed
        parts = (ONSETS.split(), VOWELS.split(), ["", *CODAS.split()])
        syllables = ["".join(s) for s in itertools.product(*parts)]
        words = {"".join(vocabulary.choices(syllables, k=2)) for _ in range(names * 2)}
        self._names = [word.capitalize() for word in sorted(words)]
        vocabulary.shuffle(self._names)
        self._names = self._names[:names]
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, names + 1)))
        self._topics = [{k: v.split(",") for k, v in topic.items()} for topic in TOPICS]

    def text(self) -> str:
        """The next text."""
        return self._fill(PATTERNS)

    def query(self) -> str:
        """The next query."""
        return self._fill(QUERIES)

    def _fill(self, patterns: Sequence[str]) -> str:
        pick = self._random.choice
        topic = pick(self._topics)
        name, name2 = self._random.choices(self._names, cum_weights=self._weights, k=2)
        words = {slot: pick(values) for slot, values in topic.items()}
        return pick(patterns).format(name=name, name2=name2, **words)


def texts(count: int, seed: int = 1) -> list[str]:
    writer = Writer(seed)
    return [writer.text() for _ in range(count)]


def queries(count: int, seed: int = 2) -> list[str]:
    """`count` distinct queries, none of them among those of another seed by design."""
    writer = Writer(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[writer.query()] = None
    return list(found)


def metadata(index: int) -> dict[str, object]:
    return {"kind": "note", "number": index, "year": 2020 + index % 6}


def embedded(count: int, folder: Path, model_cache: Path) -> tuple[Path, Path]:
    """Texts and their real vectors as files, made once: `texts.jsonl` and `vectors.npy`.

    Returns both paths. The vectors are float32 [count, 384], in the order of the texts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines, vectors = folder / f"texts-{count}.jsonl", folder / f"vectors-{count}.npy"
    if not lines.exists():
        written = [
            json.dumps({"text": t, "metadata": metadata(i)}) for i, t in enumerate(texts(count))
        ]
        lines.write_text("\n".join(written) + "\n", encoding="utf-8")
    if not vectors.exists():
        np.save(vectors, embed(texts(count), model_cache))
    return lines, vectors


def embed(documents: Sequence[str], model_cache: Path) -> np.ndarray:
    """Real vectors, float32 [n, 384]; short batches sorted by length are the cheap ones."""
    from fastembed import TextEmbedding

    model = TextEmbedding(MODEL, cache_dir=str(model_cache), local_files_only=True)
    order = sorted(range(len(documents)), key=lambda i: len(documents[i]))
    rows = np.empty((len(documents), DIMENSIONS), dtype=np.float32)
    found = model.passage_embed([documents[i] for i in order], batch_size=16)
    for place, row in zip(order, found, strict=True):
        rows[place] = row
    return rows


def synthetic(count: int, real: np.ndarray, seed: int = 3) -> np.ndarray:
    """Unit vectors around real ones, for sizes that would take too long to embed."""
    generator = np.random.default_rng(seed)
    base = real[generator.integers(0, len(real), count)]
    noise = generator.standard_normal((count, real.shape[1]), dtype=np.float32)
    rows = base + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
