"""The progress and the result of an ingest, as a person reads them."""

from collections.abc import Iterator, Sequence

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.ingest.files.sync import Report
from mcp_server_qdrant.ingest.files.walk import Problem


def bar(report: Report, now: float) -> str:
    """The progress on one line, with a bar, the rate and the time left."""
    if report.encoding_since is None:
        return f"{report.phase} …"
    return f"{report.phase} {frame.bar(report.share)} {status(report, now)}"


def line(report: Report, now: float) -> str:
    """The same without a bar."""
    return (
        report.phase if report.encoding_since is None else f"{report.phase}: {status(report, now)}"
    )


def status(report: Report, now: float) -> str:
    """The same in numbers."""
    stored = len(report.new) + len(report.changed)
    parts = [f"{report.share:4.0%}", f"{stored:,} files", f"{report.texts:,} texts"]
    if speed := rate(report, now):
        parts.append(f"{speed:,.1f} texts/s")
        parts.append(f"{clock(left(report, now))} left")
    return " · ".join(parts)


def rate(report: Report, now: float) -> float:
    """Texts stored per second, since the first was ready."""
    if report.encoding_since is None or not report.texts:
        return 0.0
    return report.texts / max(now - report.encoding_since, 1e-3)


def left(report: Report, now: float) -> float:
    """Seconds to go, if it goes on as until now."""
    done = report.share
    since = report.encoding_since
    return (now - since) * (1 - done) / done if done and since is not None else 0.0


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary(report: Report, collection: str, *, dry_run: bool) -> str:
    """The result, or the plan, in numbers; then every file that was not read, and why."""
    return "\n".join(_lines(report, collection, dry_run=dry_run))


def _lines(report: Report, collection: str, *, dry_run: bool) -> Iterator[str]:
    missing = len(report.problems)
    counts = ", ".join(
        f"{count:,} {word}"
        for count, word in (
            (len(report.new), "new"),
            (len(report.changed), "changed"),
            (len(report.removed), "removed"),
            (report.unchanged, "unchanged"),
            (missing, "not read"),
        )
    )
    if dry_run:
        yield f"{collection}: would be {counts}."
        yield from _names(report)
    else:
        yield f"{collection}: {counts}{_effort(report)}."
    if not report.files and not report.problems:
        yield "There is no file here that is wanted: hidden and ignored ones are left out."
    if report.notes:
        yield f"Stored, but for a part ({len(report.notes):,}):"
        yield from (f"  {shown(path)} {note}" for path, note in report.notes)
    if report.problems:
        yield f"Not read ({missing:,}):"
        yield from map(_problem, sorted(report.problems, key=lambda one: one.path))


def _effort(report: Report) -> str:
    seconds = f" in {report.seconds:,.1f} s"
    if not report.texts:
        return seconds
    speed = f"{rate(report, report.started + report.seconds):,.1f} texts/s"
    return f"; {report.texts:,} texts, {report.tokens:,} tokens{seconds}: {speed}"


def _names(report: Report) -> Iterator[str]:
    marked: Sequence[tuple[str, list[str]]] = (
        ("+", report.new),
        ("~", report.changed),
        ("-", report.removed),
    )
    for mark, paths in marked:
        yield from (f"  {mark} {shown(path)}" for path in paths)


def _problem(problem: Problem) -> str:
    kept = " (what was stored of it stays)" if problem.kept else ""
    return f"  {shown(problem.path)} {problem.reason}{kept}"


def shown(path: str) -> str:
    """A name on one line, without what would steer a terminal."""
    return "".join(one if one.isprintable() else "?" for one in path)


def changed(report: Report) -> bool:
    """True where a run stored or removed anything."""
    return bool(report.new or report.changed or report.removed)
