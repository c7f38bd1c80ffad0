"""What a sync has to do: the files that were seen compared with those that are stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import plural
from mcp_server_qdrant.ingest.files.state import KnownFile, SyncRequest
from mcp_server_qdrant.ingest.files.walk import Found, Problem, Seen, Stamp
from mcp_server_qdrant.ingest.formats.load import format_of

ADVICE = (
    'If it is another folder, give it a name (--name, or "name" in SYNC_SOURCES); if all of them '
    "are to be removed, run sync with --empty."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Files to `read`, which are new or may have changed; those that may take long come last.

    `problems`: what could not be looked at, and files that could not be read and are unchanged.
    `remove`: stored files that are gone. `moved`: those of them that are now to be read elsewhere,
    by their new paths.
    """

    read: Sequence[Found]
    unchanged: Sequence[str]
    problems: Sequence[Problem]
    remove: Sequence[str]
    moved: Mapping[str, str] = field(default_factory=dict)


def plan(
    request: SyncRequest,
    seen: Seen,
    stored: Mapping[str, KnownFile],
    model: str,
    before: Iterable[Problem] = (),
) -> Plan:
    """The plan, by size and time of the files; `before` are the problems of the last run.

    Raises RequestError if a mirror would remove all files of a source.
    """
    unreadable = {one.path: one for one in before if one.stamp}
    read, unchanged, problems = list[Found](), list[str](), [*seen.problems]
    for found in seen.files:
        known, bad = stored.get(found.path), unreadable.get(found.path)
        if known and known.has(found.stamp, model):
            unchanged.append(found.path)
        elif bad and bad.stamp == found.stamp:
            problems.append(bad)
        else:
            read.append(found)
    read.sort(key=lambda one: 0 if format_of(one.path).plain else one.size)
    if not request.mirror:
        return Plan(read, unchanged, problems, ())
    present = {one.path for one in seen.files} - {one.path for one in problems if not one.kept}
    present |= {one.path for one in problems if one.kept}
    gone = sorted(stored.keys() - present)
    remove = [path for path in gone if not path.startswith((*seen.unseen,))]
    moved = _moved(read, remove, stored)
    if not request.empty:
        _check_harmless(request, seen, stored, moved.values())
    return Plan(read, unchanged, problems, remove, moved)


def _moved(
    read: Iterable[Found], gone: Iterable[str], stored: Mapping[str, KnownFile]
) -> dict[str, str]:
    """New path -> path before, of files whose size and time no other file has.

    A file whose writing was interrupted counts as new.
    """
    old, new = defaultdict[Stamp, list[str]](list), defaultdict[Stamp, list[str]](list)
    for path in gone:
        old[stored[path].stamp].append(path)
    for found in read:
        known = stored.get(found.path)
        if known is None or known.version is None:
            new[found.stamp].append(found.path)
    return {
        new[one][0]: old[one][0]
        for one in old.keys() & new.keys()
        if len(old[one]) == len(new[one]) == 1
    }


def _check_harmless(
    request: SyncRequest, seen: Seen, known: Iterable[str], moved: Collection[str]
) -> None:
    """Raise RequestError if all files of a source are gone: it may be the wrong folder.

    The only file of a folder may be replaced by another one, and half of them may be elsewhere.
    """
    there = {found.path for found in seen.files}
    kept = {one.path for one in seen.problems if one.kept}
    looked_at = [one for one in known if one not in kept and not one.startswith((*seen.unseen,))]
    for source in (one for one in request.sources if one.folder):
        prefix = f"{source.name}/"
        stored = [path for path in looked_at if path.startswith(prefix)]
        replaced = len(stored) == 1 and any(path.startswith(prefix) for path in there)
        elsewhere = 2 * len({*stored}.intersection(moved)) >= len(stored)
        if stored and not replaced and not elsewhere and there.isdisjoint(stored):
            raise RequestError(
                f"{request.collection!r} holds {plural(len(stored), 'file')} of {source.name!r}, "
                f"which {'are' if len(stored) > 1 else 'is'} not in this folder. {ADVICE}"
            )
