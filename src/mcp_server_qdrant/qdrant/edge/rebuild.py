"""Rebuilds a damaged generation from all points that the engine can still read.

A damaged file can kill the process that reads it, so each attempt runs in a process of its own,
which first writes down the points that it is about to read. After a crash these points are read one
by one; a point that crashes again is read without its vectors, and then left out. Files that the
engine can recreate, such as indexes, are not read at all.

    python -m mcp_server_qdrant.qdrant.edge.rebuild SOURCE TARGET WORK
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from mcp_server_qdrant.core.errors import EngineFailure
from mcp_server_qdrant.qdrant.edge import types
from mcp_server_qdrant.qdrant.edge.collection import KEY
from mcp_server_qdrant.qdrant.edge.files import copy_sparse, sync_tree
from mcp_server_qdrant.qdrant.edge.space import ABOUT, LOG, Update, create_shard, readable

_PAGE = 64
_MOST_DEATHS = 500
_CONFIG = "edge_config.json"
_SEGMENT, _VERSION = "segment.json", "version.info"
_MADE_AGAIN = ("payload_index", "vector_index")  # prefixes of folders in a segment
_VECTORS = "vector_storage"
_FREE = ("bitmask.dat", "gaps.dat")  # free space of a storage, needed for writes only
_SINGLY, _BARE, _LEFT_OUT = "singly", "bare", "left-out"  # how points are read


@dataclass(frozen=True, slots=True)
class _Part:
    """Segments to read together, `without` some of their folders; `log`: read the log too."""

    segments: list[str]
    without: list[str] = field(default_factory=list)
    log: bool = True


def rebuild(source: Path, target: Path, work: Path, about: Mapping[str, Any]) -> None:
    """Build the generation `target` from the readable points of `source`.

    `work` is an empty folder; `about` has the vectors, sparse_vectors and indexes of the space.
    Raises EngineFailure if nothing can be read.
    """
    found = source / "segments"
    segments = [one.name for one in found.iterdir() if one.is_dir()] if found.is_dir() else []
    (work / ABOUT).write_text(json.dumps(dict(about)), "utf-8")
    for log in (True, False):
        if _build(source, target, work, [_Part(segments, log=log)]):
            return
        # Intact segments come last, so that their version of a point wins.
        tries = [_attempts(found / one, log=log) for one in segments]
        best = [
            next((one for one in some if _build(source, target, work, [one])), None)
            for some in tries
        ]
        damaged = [one for one in best if one and one.without]
        sound = [one.segments[0] for one in best if one and not one.without]
        if (log or any(best)) and _build(source, target, work, [*damaged, _Part(sound, log=log)]):
            return
    raise EngineFailure("The embedded engine cannot read any point of its store.")


def _attempts(segment: Path, *, log: bool) -> Iterator[_Part]:
    """Ways to read a segment: whole, without one of its vectors, without any."""
    stored = [one.name for one in segment.glob(f"{_VECTORS}*")]
    for without in ([], *([one] for one in stored), stored):
        yield _Part([segment.name], without, log)


def _build(source: Path, target: Path, work: Path, parts: Sequence[_Part]) -> bool:
    """Build the generation from these parts; False if that failed."""
    told = work / "told"
    (work / "parts").write_text(json.dumps([asdict(one) for one in parts]))
    for name in ("told", _SINGLY, _BARE, _LEFT_OUT):
        (work / name).write_text("")
    for _ in range(_MOST_DEATHS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        module = "mcp_server_qdrant.qdrant.edge.rebuild"
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, str(source), str(target), str(work)],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # its errors do not matter: the next attempt differs
            check=False,
        )
        if done.returncode == 0:
            return True
        reading = told.read_text().split()
        if not reading:
            return False  # it could not even be opened
        known = _read_modes(work)[reading[0]]
        then = {"": _SINGLY if len(reading) > 1 else _BARE, _SINGLY: _BARE}.get(known, _LEFT_OUT)
        with (work / then).open("a") as file:
            file.write(" ".join(["", *reading]))
        told.write_text("")
    return False


class _Modes(dict[str, str]):
    def __missing__(self, point: str) -> str:
        return ""


def _read_modes(work: Path) -> Mapping[str, str]:
    """How to read points that crashed a process; "" for all others."""
    names = (_SINGLY, _BARE, _LEFT_OUT)
    return _Modes((one, name) for name in names for one in (work / name).read_text().split())


def main(arguments: Sequence[str]) -> None:
    """Copy the readable points into a new generation; exits with an error if that failed."""
    source, target, work = map(Path, arguments)
    about = json.loads((work / ABOUT).read_text("utf-8"))
    made = create_shard(target, about["vectors"], about["sparse_vectors"])
    for key, schema in about["indexes"].items():
        made.update(Update.create_field_index(key, types.index_params(schema)))
    for part in (_Part(**one) for one in json.loads((work / "parts").read_text())):
        shard = edge.EdgeShard.load(str(_copy(source, work / "copy", part, target)))
        for points in _points(shard, work):
            made.update(Update.upsert_points(points))
        shard.close()
    made.flush()
    made.close()
    sync_tree(target)


def _points(shard: edge.EdgeShard, work: Path) -> Iterator[list[edge.Point]]:
    """All readable points in pages; without vectors if those cannot be read."""
    how, offset = _read_modes(work), None
    while True:
        request = edge.ScrollRequest(
            limit=_PAGE, offset=offset, with_payload=False, with_vector=False
        )
        found, offset = shard.scroll(request)
        ids = [one.id for one in found if how[str(one.id)] != _LEFT_OUT]
        alone = [[one] for one in ids if how[str(one)]]
        for some in ([one for one in ids if not how[str(one)]], *alone):
            (work / "told").write_text(" ".join(map(str, some)))
            read = {}
            if some and how[str(some[0])] != _BARE:
                read = {one.id: one for one in readable(shard, some, payload=True, vector=True)}
            rest = [one for one in some if one not in read]
            read |= {one.id: one for one in readable(shard, rest, payload=True, vector=False)}
            known = [one for one in read.values() if one.payload and KEY in one.payload]
            if known:
                yield [edge.Point(one.id, one.vector or {}, one.payload) for one in known]
        (work / "told").write_text("")
        if offset is None:
            return


def _copy(source: Path, copy: Path, part: _Part, made: Path) -> Path:
    """Copy these segments into a generation of their own; `made` is an intact one."""
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "segments").mkdir(parents=True)
    with suppress(OSError, ValueError):
        json.loads((source / _CONFIG).read_text("utf-8"))  # the engine does without a damaged one
        shutil.copy(source / _CONFIG, copy / _CONFIG)
    for name in (*(f"segments/{one}" for one in part.segments), *((LOG,) if part.log else ())):
        (copy / name).mkdir()
        if (source / name).is_dir():
            copy_sparse(source / name, copy / name)
    for segment in (copy / "segments").iterdir():
        for folder in segment.iterdir():
            if folder.name.startswith(_MADE_AGAIN) or folder.name in part.without:
                shutil.rmtree(folder)
        _describe(segment, next((made / "segments").iterdir()))
    return copy


def _describe(segment: Path, made: Path) -> None:
    """Rewrite a segment's description so that it opens without indexes and int8 codes.

    `made` is an intact segment of the same space.
    """
    try:
        described = json.loads((segment / _SEGMENT).read_text("utf-8"))
        vectors = described["config"]["vector_data"]
    except (OSError, ValueError, LookupError, TypeError):
        described = json.loads((made / _SEGMENT).read_text("utf-8"))
        vectors = described["config"]["vector_data"]
        for name, params in vectors.items():
            if (segment / f"{_VECTORS}-{name}".rstrip("-") / "matrix.dat").exists():
                params["storage_type"] = "Mmap"
    for params in vectors.values():
        params |= {"index": {"type": "plain", "options": {}}, "quantization_config": None}
    (segment / _SEGMENT).write_text(json.dumps(described), "utf-8")
    for codes in segment.glob(f"{_VECTORS}*/quantized.*"):
        codes.unlink()
    shutil.copy(made / _VERSION, segment / _VERSION)
    for config in (*made.glob("payload_storage/config.json"), *made.glob("*/store/config.json")):
        storage = segment / config.parent.relative_to(made)
        if pages := len([*storage.glob("page_*.dat")]):
            shutil.copy(config, storage / config.name)
            for name in _FREE:
                with (storage / name).open("ab") as file:
                    file.truncate(pages * (config.parent / name).stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
