"""How fast files become searchable, beside what the embedding model alone can do.

    python benchmarks/speed/ingest.py [--files 2000] [--model-cache PATH]

Writes Markdown files, stores them part by part, and before or after each part has the encoder
alone read the very texts that are stored. Then the command `sync` runs three times in a process of
its own: nothing changed, 10 files changed and 5 removed, nothing changed.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import corpus
import servers

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.encoders.encoder import Encoder
from mcp_server_qdrant.ingest.encoding import encoded_text
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.sync import Sync
from mcp_server_qdrant.ingest.files.walk import sources, walk_all
from mcp_server_qdrant.settings.environment import Settings

HERE = servers.BUILD / "bench" / "ingest"
COLLECTION = "files"
PARTS = 4


def write(folder: Path, count: int) -> None:
    """Markdown files of one to four sections, in as many folders as there are parts."""
    writer = corpus.Writer(7)
    for number in range(count):
        sections = [
            f"## Part {part}: {writer.query()}\n\n" + " ".join(writer.text() for _ in range(3))
            for part in range(1 + number // PARTS % 4)
        ]
        date = f"2026-01-{1 + number % 28:02}"
        front = f"---\ntitle: Note {number}\ntags: [t{number % 9}]\ndate: {date}\n---\n"
        file = folder / f"part-{number % PARTS}" / f"note-{number:05}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(front + "\n\n".join(sections) + "\n", "utf-8")


async def throughput(services: Services, folder: Path) -> None:
    encoder = services.encoders.start_encoder(None)
    assert await encoder.ready(120)
    tokenizer = await encoder.tokenizer_json()
    whole, alone, stored = 0.0, 0.0, 0
    for part in range(PARTS):
        selection = Selection(include=(f"/part-{part}/",))
        limit = encoder.token_limit()
        request = SyncRequest(tuple(sources([folder])), COLLECTION, selection)
        seen = walk_all(request.sources, selection)
        run = Sync(services.store, request)
        run.model, run.limit, run.tokenizer = encoder.name, limit, tokenizer
        jobs = [await run.job(found) for found in seen.files]
        texts = [encoded_text(part) for job in jobs if job for part in job.parts]
        seconds = 0.0 if part % 2 else await encoding(encoder, texts)
        report = Report()
        await services.sync(request, report)
        assert len(texts) == report.texts
        seconds = seconds or await encoding(encoder, texts)
        print(
            f"part {part + 1}: {report.texts} texts; ingest "
            f"{report.texts / report.seconds:.1f}/s, encoder alone {report.texts / seconds:.1f}/s, "
            f"ratio {seconds / report.seconds:.3f}",
            flush=True,
        )
        whole, alone, stored = whole + report.seconds, alone + seconds, stored + report.texts
    print(
        f"{stored} texts: ingest {stored / whole:.1f}/s, encoder alone {stored / alone:.1f}/s, "
        f"ratio {alone / whole:.3f}"
    )


async def encoding(encoder: Encoder, texts: list[str]) -> float:
    """Seconds that the encoder takes for these texts."""
    started = time.perf_counter()
    await encoder.encode_documents(texts)
    return time.perf_counter() - started


def sync(folder: Path, env: dict[str, str]) -> None:
    """The command in a process of its own, with its time."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "mcp_server_qdrant", "sync", str(folder)]
    done = subprocess.run(
        [*command, "--collection", COLLECTION], env=env, check=True, capture_output=True, text=True
    )
    print(f"{time.perf_counter() - started:.2f} s in all: {done.stdout.strip()}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--model-cache", type=Path, help="fastembed cache that holds MiniLM")
    arguments = parser.parse_args()
    shutil.rmtree(HERE, ignore_errors=True)
    folder = HERE / "notes"
    write(folder, arguments.files)
    values = {
        "QDRANT_LOCAL_PATH": str(HERE / "engine"),
        "QDRANT_CACHE_PATH": str(HERE / "cache"),
        "FASTEMBED_CACHE_PATH": str(servers.model_cache(arguments.model_cache)),
        "HF_HUB_OFFLINE": "1",
    }
    os.environ.update(values)
    services = await open_lazily(Settings())
    try:
        await throughput(services, folder)
    finally:
        await services.close()
    env = dict(os.environ)
    sync(folder, env)
    files = sorted(folder.rglob("*.md"))
    for file in files[:10]:
        file.write_text(file.read_text("utf-8") + "\nOne more sentence.\n", "utf-8")
    for file in files[-5:]:
        file.unlink()
    sync(folder, env)
    sync(folder, env)


if __name__ == "__main__":
    asyncio.run(main())
