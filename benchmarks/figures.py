"""The figures of the documentation, from one run of the benchmarks behind them.

    python benchmarks/figures.py [--only speed,official] [--again] [--tiny]
        [--model FOLDER] [--url URL] [--memory FILE]

Runs each part below, one after the other, in some 25 minutes: leave the machine alone meanwhile.
What a part printed is kept in build/figures with date, machine and commit, so that an interrupted
run goes on with the next part; a part that was done at this commit is not done again without
`--again`. docs/figures.md is written anew after each part, and docs/figures-*.svg where matplotlib
is installed. `--only` takes names of parts, or of the folders of their scripts. `--tiny` tries all
of it out with small sizes, in build/figures alone.

A Qdrant server is measured where `--url` names one, memory benchmarks where `--memory` names a file
of LongMemEval or LoCoMo; both take further time.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "figures"
DOCS = ROOT / "docs"
HEAD = """# Figures

What the benchmark scripts printed, written by `benchmarks/figures.py`. The other pages take their
figures from here. Times depend on the machine: compare ratios, and runs of one day.
"""


@dataclass(frozen=True)
class Part:
    """A script with its arguments, in full and in small, and the page that its figures are for.

    `{model}`, `{url}` and `{memory}` in the arguments are those of the command line.
    """

    name: str
    page: str
    script: str
    full: str = ""
    tiny: str = ""


PARTS = (
    Part("told", "recall.md", "speed/recall.py", "--told {model}"),
    Part("behind", "ranking.md", "ranking/behind.py", "--model {model}"),
    Part(
        "collections",
        "speed.md",
        "speed/many.py",
        "--queries 60 --sets 1x22,64x22,256x22,1024x22,1x1000,16x1000,64x1000",
        "--queries 2 --sets 1x22,4x22,1x100",
    ),
    Part(
        "official",
        "speed.md",
        "official/run.py",
        "--runs 3 --queries 100",
        "--points 100,200 --runs 1 --queries 10",
    ),
    Part("clients", "speed.md", "load/five_clients.py", "--kills 15", "--kills 1 --clients 2"),
    Part(
        "loop",
        "speed.md",
        "speed/scaling.py",
        "--parts lag --large 64000",
        "--parts lag --large 300",
    ),
    Part("soak", "speed.md", "load/soak.py", "--minutes 2", "--minutes 0.2 --callers 4"),
    Part("call", "speed.md", "load/throughput.py", "", "--rounds 1 --seconds 1"),
    Part("recall", "recall.md", "speed/recall.py", "--runs 30", "--runs 2 --texts 20"),
    Part("ingest", "files.md", "speed/ingest.py", "--files 200", "--files 10"),
    Part("map", "map.md", "page/projection.py", "--model {model}", "--model {model} --points 500"),
    Part(
        "server",
        "server.md",
        "speed/scaling.py",
        "--url {url} --counts 1,16,64,256",
        "--url {url} --counts 1,2 --queries 2",
    ),
    Part("memory", "benchmarks.md", "memory/run.py", "{memory} --model {model}"),
    Part(
        "growth",
        "benchmarks.md",
        "memory/growth.py",
        "{memory} --model {model} --plot {plot}",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What a part printed, and where and when; `status` is that of its process."""

    name: str
    page: str
    command: str
    commit: str
    machine: str
    date: str
    seconds: float
    load: float
    status: int
    output: str


def main() -> None:
    """Run the parts that are asked for, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="parts or folders, separated by commas")
    parser.add_argument("--again", action="store_true", help="parts of this commit too")
    parser.add_argument("--tiny", action="store_true", help="small sizes, not for the page")
    parser.add_argument("--model", type=Path, default=ROOT / "build" / "minilm")
    parser.add_argument("--url", default="")
    parser.add_argument("--memory", default="")
    given = parser.parse_args()
    kept, page = (KEPT / "tiny", KEPT / "tiny") if given.tiny else (KEPT, DOCS)
    kept.mkdir(parents=True, exist_ok=True)
    values = {"model": given.model.resolve(), "url": given.url, "memory": given.memory}
    values["plot"] = page / "growth.svg"
    failed = []
    for part in chosen(given.only):
        asked = part.tiny or part.full if given.tiny else part.full
        if any(f"{{{name}}}" in asked and not value for name, value in values.items()):
            print(f"{part.name}: left out, see --help")
            continue
        words = [f"benchmarks/{part.script}", *(one.format(**values) for one in asked.split())]
        file, now = kept / f"{part.name}.json", commit()
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if (before.get("commit"), before.get("status")) == (now, 0) and not given.again:
            print(f"{part.name}: done at {now} already")
            continue
        print(f"{part.name}: {shlex.join(words)} ...", flush=True)
        outcome = run(part, words, now)
        print(f"{part.name}: status {outcome.status} after {outcome.seconds:.0f} s", flush=True)
        file.write_text(json.dumps(asdict(outcome), indent=1), "utf-8")
        failed += [part.name] if outcome.status else []
        write(page, kept)
    write(page, kept)
    if failed:
        sys.exit(f"These ended with an error, or missed a target: {', '.join(failed)}.")


def chosen(only: str) -> list[Part]:
    """The parts that are named by themselves or by their folder; all of them by default."""
    wanted = {one.strip() for one in only.split(",") if one.strip()}
    found = [one for one in PARTS if not wanted or wanted & {one.name, one.script.split("/")[0]}]
    if unknown := wanted - {name for one in found for name in (one.name, one.script.split("/")[0])}:
        names = ", ".join(one.name for one in PARTS)
        sys.exit(f"There is no part {unknown.pop()!r}: name some of {names}.")
    return found


def run(part: Part, words: Sequence[str], now: str) -> Outcome:
    """Run one script to its end."""
    date, load, began = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", os.getloadavg()[0], time.monotonic()
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return Outcome(
        name=part.name,
        page=part.page,
        command=shlex.join(words).replace(f"{ROOT}/", ""),
        commit=now,
        machine=machine(),
        date=date,
        seconds=time.monotonic() - began,
        load=load,
        status=done.returncode,
        output=done.stdout,
    )


def commit() -> str:
    """The commit that is checked out, with a + where files of src differ from it."""
    git = ["git", "-C", str(ROOT)]
    told = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], text=True).strip()
    changed = subprocess.check_output([*git, "status", "--porcelain", "--", "src"], text=True)
    return told + ("+" if changed else "")


def machine() -> str:
    """Processor, cores, memory, system and Python."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    model = next((one.split(":")[1].strip() for one in lines if "model name" in one), "?")
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {size:.0f} GB, {system}"


def write(page: Path, kept: Path) -> None:
    """Write the page, and the plots, of all outcomes that are kept."""
    found = [kept / f"{one.name}.json" for one in PARTS]
    outcomes = [Outcome(**json.loads(one.read_text("utf-8"))) for one in found if one.exists()]
    names = plots(outcomes, page)
    lines = [HEAD]
    for one in outcomes:
        lines += [
            f"## {one.name}, for {one.page}\n",
            f"`python {one.command}`\n",
            f"{one.date} UTC, commit {one.commit}, {one.seconds:.0f} s, load {one.load:.1f} at the "
            f"start,\n{one.machine}.\n",
            "" if not one.status else "It ended with an error, or missed a target.\n",
            shown(one.output),
        ]
    lines += [f"![{name}](figures-{name}.svg)\n" for name in names]
    (page / "figures.md").write_text("\n".join(filter(None, lines)), "utf-8")


def shown(output: str) -> str:
    """Tables as they are, all other lines as plain text."""
    lines = [one.rstrip() for one in output.splitlines() if not one.startswith("<!--")]
    found = []
    for table, some in groupby(lines, lambda one: one.startswith("|")):
        text = "\n".join(some).strip()
        if text:
            found.append(f"{text}\n" if table else f"```text\n{text}\n```\n")
    return "\n".join(found)


def rows(output: str) -> list[dict[str, str]]:
    """The rows of the first table, by their heads."""
    lines = [one.strip("| \n").split(" | ") for one in output.splitlines() if one.startswith("|")]
    return [dict(zip(lines[0], one, strict=False)) for one in lines[2:]] if lines else []


def plots(outcomes: Iterable[Outcome], page: Path) -> list[str]:
    """Time and memory, by number of collections and of points; the names of what is drawn."""
    table = next((rows(one.output) for one in outcomes if one.name == "collections"), [])
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    if not table:
        return []
    sets = [tuple(map(int, one["collections x texts"].split("x"))) for one in table]
    columns = {"time": ("p50 ms optimised", "find, median ms"), "memory": ("PSS MB", "memory, MB")}
    for name, (column, label) in columns.items():
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        values = [float(one[column]) for one in table]
        left, right = figure.subplots(1, 2, sharey=True)
        draw(left, "collections", sets, values)
        draw(right, "points", sets, values)
        left.set_ylabel(label)
        figure.savefig(page / f"figures-{name}.svg", metadata={"Date": None})
    return [*columns]


def draw(axes: Any, by: str, sets: Sequence[tuple[int, ...]], values: Sequence[float]) -> None:
    """A line for each size of a collection."""
    for each in sorted({size for _, size in sets}):
        line = [
            (number if by == "collections" else number * size, value)
            for (number, size), value in zip(sets, values, strict=True)
            if size == each
        ]
        axes.plot(*zip(*line, strict=True), marker="o", label=f"{each:,} texts each")
    axes.set(xscale="log", xlabel=by, ylim=(0, None))
    axes.legend()


if __name__ == "__main__":
    main()
