"""Is a question found behind a prompt? MRR@10 of the demo's queries, bare and in frames.

    python benchmarks/ranking/behind.py --model MODEL_FOLDER [--each]

Frames are sentences before a query, and prompts of about 2,000 characters around it, in several
languages, with the query at the end, at the beginning or in the middle. `--each` prints every one.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from opened import opened

from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.evaluation.figures import score
from mcp_server_qdrant.evaluation.labels import Label, read_labels
from mcp_server_qdrant.evaluation.run import measure
from mcp_server_qdrant.ingest.demo import NAMES, store_demo

DEMO = Path(__file__).parents[2] / "demo" / "queries.json"
FRAMES = Path(__file__).parent / "frames.json"
TODAY = datetime(2026, 12, 1, tzinfo=UTC)
QUERY = "{query}"
# Targets: bare as it was, behind a sentence, behind a prompt.
TARGETS = {"bare": 0.960, "sentence": 0.90, "prompt, last": 0.85}


async def mrr(services: Services, labels: Sequence[Label], frame: str) -> float:
    """MRR@10 of the queries, each in this frame."""
    framed = [
        label.model_copy(update={"query": frame.replace(QUERY, label.query)}) for label in labels
    ]
    (scores,) = score(await measure(services, framed, ["hybrid"]))
    return scores.mean("MRR@10")


async def main() -> None:
    """Measure, print, and end with status 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    frames = {"bare": [QUERY]} | json.loads(FRAMES.read_text("utf-8"))
    labels = read_labels(DEMO)
    missed = False
    async with opened(options.model) as services:
        services.pipeline.understanding.now = lambda: TODAY
        for name in NAMES:
            await store_demo(services.store, name)
        for kind, some in frames.items():
            figures = [await mrr(services, labels, one) for one in some]
            print(f"{kind:14} MRR@10 {fmean(figures):.3f}  lowest {min(figures):.3f}", flush=True)
            for frame, figure in zip(some, figures, strict=True) if options.each else ():
                print(f"    {figure:.3f}  {' '.join(frame.split())[:90]}", flush=True)
            missed |= min(figures) < TARGETS.get(kind, 0.0)
    raise SystemExit(missed)


if __name__ == "__main__":
    asyncio.run(main())
