"""Of facts that were corrected, does the newest text come first, and no other one?

    python benchmarks/ranking/corrections.py --model MODEL_FOLDER [--each]

All texts are in one collection. Each case is a question, the text that answered it, and a newer
one: a correction, which is to come first, or another text on the same topic, which is not. The
thresholds were chosen on the cases that are not held apart. It also counts how often the older text
is named when the newer one is stored.
"""

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from opened import opened

from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.core.find import SearchRequest

CASES = Path(__file__).parent / "corrections.json"
BEFORE, AFTER = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC)


async def main() -> None:
    """Print how often the newer text comes first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--each", action="store_true", help="print the cases that go wrong")
    options = parser.parse_args()
    cases = json.loads(CASES.read_text())
    async with opened(options.model) as services:
        named = dict.fromkeys(cases, 0)
        for kind, some in cases.items():
            for n, (_, *texts) in enumerate(some):
                for text, when in zip(texts, (BEFORE, AFTER), strict=True):
                    new = NewDocument(text, id=f"{kind} {n} {when:%B}", created_at=when)
                    done = await services.store.store(new, "notes", create=True)
                near = [one.document.document for one in done.near]
                named[kind] += f"{kind} {n} {BEFORE:%B}" in near
        for kind, some in cases.items():
            first = 0
            for n, (question, *_) in enumerate(some):
                page = await services.pipeline.search(SearchRequest(query=question))
                newer = page.results[0].document.document == f"{kind} {n} {AFTER:%B}"
                first += newer
                if options.each and newer != kind.startswith("corrected"):
                    print(f"{kind}: {question} -> {page.results[0].document.text}")
            print(
                f"{kind}: the newer text is first in {first} of {len(some)}, "
                f"the older one named in {named[kind]}"
            )


if __name__ == "__main__":
    asyncio.run(main())
