"""A sync that is killed, at whatever moment, is taken up by the next one."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests import forked
from tests.e2e.raw import clean_environment
from tests.e2e.sync_driver import COLLECTION, sync

SENTENCE = "Harbour {} of year {} has a crane and a lighthouse, seen from the north. "


def edit(folder: Path, round_: int) -> None:
    """Change, remove and add some files: a sync always has all kinds of work."""
    chance = random.Random(round_)
    for number in range(14):
        file = folder / f"n{number}.md"
        if chance.random() < 0.2 and number:
            file.unlink(missing_ok=True)
        elif chance.random() < 0.5 or not file.exists():
            sections = (
                f"## Part {part}\n\n" + SENTENCE.format(number, round_) * chance.randint(1, 8)
                for part in range(chance.randint(1, 5))
            )
            file.write_text(f"# Harbour {number}\n\n" + "\n\n".join(sections))
            os.utime(file, ns=(0, 10**18 + round_ * 10**9))
    rows = (
        f'{{"id": "l{n}", "text": "lamp {n} {round_ // 2}"}}' for n in chance.sample(range(9), 6)
    )
    (folder / f"list{round_ % 2}.jsonl").write_text("\n".join(rows))
    (folder / f"list{1 - round_ % 2}.jsonl").unlink(missing_ok=True)


def drive(engine: Path, folder: Path, step: int | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.e2e.sync_driver", str(engine), str(folder)]
    return forked.run(
        [*command, "" if step is None else str(step)],
        cwd=Path(__file__).parents[2],
        env=clean_environment({}),
        timeout=60,
    )


async def stored(engine: Any) -> dict[str, Any]:
    """Id -> payload and vectors; the terms of a sparse vector come in any order."""
    records, _ = await engine.scroll(COLLECTION, limit=10_000, with_vectors=True)
    return {
        record.id: (
            record.payload,
            record.vector["fast-bag-of-words"],
            dict(zip(record.vector["bm25"].indices, record.vector["bm25"].values, strict=True)),
        )
        for record in records
    }


async def test_a_sync_killed_at_any_moment_ends_as_one_that_was_never_interrupted(tmp_path, rounds):
    folder, path = tmp_path / "notes", tmp_path / "engine"
    folder.mkdir()
    edit(folder, 0)
    steps = int(drive(path, folder, None).stdout)
    moments = random.Random(7).sample(range(steps), rounds)
    fresh = await EdgeClient.open(tmp_path / "fresh")
    statuses = []
    for round_, moment in enumerate(moments, 1):
        edit(folder, round_)
        statuses.append(drive(path, folder, moment).returncode)
        engine = await EdgeClient.open(path)
        await sync(engine, folder)
        await fresh.delete_collection(COLLECTION)
        await sync(fresh, folder)

        assert await stored(engine) == await stored(fresh), f"round {round_}, step {moment}"
        await engine.close()
    await fresh.close()

    assert statuses.count(-signal.SIGKILL) > rounds / 2, "others were over before their step"
