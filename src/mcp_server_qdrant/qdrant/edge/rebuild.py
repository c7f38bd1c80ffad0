"""A damaged generation is rebuilt from all points that the engine can still read.

A damaged file can end the process that reads it, so each try is a process of its own. It writes
down which points it is about to read; those at which it ended are then read one by one, and those
at which it ends again are left out.

    python -m mcp_server_qdrant.qdrant.edge.rebuild SOURCE TARGET WORK SEGMENTS LOG
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.collection import KEY
from mcp_server_qdrant.qdrant.edge.files import copy_sparse, sync_tree
from mcp_server_qdrant.qdrant.edge.space import ABOUT, LOG, Update, begin, readable

_PAGE = 64
_MOST_DEATHS = 500
_CONFIG = "edge_config.json"


def rebuild(source: Path, target: Path, work: Path, about: Mapping[str, Any]) -> None:
    """Make the generation `target` of what can be read in `source`.

    `work` is an empty folder. Raises EngineFailure where nothing can be read.
    """
    segments = [path.name for path in (source / "segments").iterdir() if path.is_dir()]
    (work / ABOUT).write_text(json.dumps(dict(about)), "utf-8")
    tries = [(segments, True)]
    if not _made(source, target, work, *tries[0]):
        whole = [one for one in segments if _made(source, target, work, [one], log=False)]
        if not any(_made(source, target, work, whole, log=log) for log in (True, False)):
            raise EngineFailure("The embedded engine can read nothing of its store any more.")


def _made(source: Path, target: Path, work: Path, segments: Sequence[str], log: bool) -> bool:  # noqa: FBT001
    """Whether the generation could be made of these segments, with the log or without it."""
    told = work / "told"
    for name in ("told", "singly", "left-out"):
        (work / name).write_text("")
    for _ in range(_MOST_DEATHS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        given = [str(source), str(target), str(work), ",".join(segments), "log" if log else ""]
        module = "mcp_server_qdrant.qdrant.edge.rebuild"
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, *given],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode == 0:
            return True
        reading = told.read_text().split()
        if not reading:
            return False  # it could not even be opened
        with (work / ("left-out" if len(reading) == 1 else "singly")).open("a") as file:
            file.write(" ".join(["", *reading]))
        told.write_text("")
    return False


def main(arguments: Sequence[str]) -> None:
    """Copy what can be read into a new generation; the status is not 0 where that failed."""
    source, target, work = map(Path, arguments[:3])
    segments, log = [one for one in arguments[3].split(",") if one], bool(arguments[4])
    about = json.loads((work / ABOUT).read_text("utf-8"))
    shard = edge.EdgeShard.load(str(_copy(source, work / "copy", segments, log=log)))
    made = begin(target, about["vectors"], about["sparse_vectors"])
    for field, index in shard.info().payload_schema.items():
        if field != KEY:
            params = types.index_params(types.index_type(index))
            made.update(Update.create_field_index(field, params))
    singly, left_out = (set((work / name).read_text().split()) for name in ("singly", "left-out"))
    offset: Any = None
    while True:
        request = edge.ScrollRequest(
            limit=_PAGE, offset=offset, with_payload=False, with_vector=False
        )
        found, offset = shard.scroll(request)
        ids = [one.id for one in found if str(one.id) not in left_out]
        alone = [one for one in ids if str(one) in singly]
        for some in ([one for one in ids if str(one) not in singly], *([one] for one in alone)):
            (work / "told").write_text(" ".join(map(str, some)))
            read = readable(shard, some, payload=True, vector=True)
            points = [edge.Point(one.id, one.vector or {}, one.payload) for one in read]
            if points:
                made.update(Update.upsert_points(points))
        if offset is None:
            break
    (work / "told").write_text("")
    made.flush()
    made.close()
    sync_tree(target)


def _copy(source: Path, copy: Path, segments: Sequence[str], *, log: bool) -> Path:
    """These segments of a generation as one of their own, with its log if that is wanted."""
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "segments").mkdir(parents=True)
    with suppress(OSError, ValueError):
        json.loads((source / _CONFIG).read_text("utf-8"))  # the engine does without a damaged one
        shutil.copy(source / _CONFIG, copy / _CONFIG)
    for name in (*(f"segments/{one}" for one in segments), *((LOG,) if log else ())):
        (copy / name).mkdir()
        copy_sparse(source / name, copy / name)
    return copy


if __name__ == "__main__":
    main(sys.argv[1:])
