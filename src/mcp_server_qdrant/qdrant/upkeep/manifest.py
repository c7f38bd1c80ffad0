"""The contents of a backup by its backup.json, and its files as they were when it was made."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import BaseModel, Field, ValidationError

from mcp_server_qdrant.core.errors import RequestError, UnusableFile
from mcp_server_qdrant.core.opening import opened
from mcp_server_qdrant.qdrant import marks
from mcp_server_qdrant.qdrant.edge.files import data_ranges

MANIFEST = "backup.json"
FORMAT: Literal[2] = 2  # 1 has no digests
_PIECE = 1 << 16

Put = Callable[[int, bytes], object]  # gets a piece's place, and the piece


class Saved(BaseModel):
    """A collection in a backup: size and digest of each file, by its path in the folder."""

    points: int = Field(ge=0)
    files: dict[str, int]
    digests: dict[str, str] = {}
    aliases: list[str] = []


class Manifest(BaseModel):
    """A backup: the kind of its engine, and its collections."""

    format: Literal[1, 2]
    engine: Literal["embedded", "server"]
    made_at: str = ""
    collections: dict[str, Saved]


def old(folder: Path) -> Path:
    """Where a backup is while another one takes its place."""
    return folder.with_name(f".{folder.name}.old")


def mend(folder: Path) -> None:
    """Put a backup back that was about to be replaced when the command was killed."""
    with suppress(OSError):
        if not folder.exists() and (old(folder) / MANIFEST).is_file():
            old(folder).rename(folder)


def read(folder: Path) -> Manifest:
    """The manifest of a backup. Raises RequestError."""
    mend(folder)
    try:
        with opened(folder / MANIFEST, folder) as file:
            found = Manifest.model_validate_json(file.read())
        known = {_called(name, saved): saved for name, saved in found.collections.items()}
        return found.model_copy(update={"collections": known})
    except FileNotFoundError:
        raise RequestError(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except ValidationError as error:
        if ("format",) in [one["loc"] for one in error.errors()]:
            sentence = f"{folder} was made by another version of this server."
            raise RequestError(sentence) from error
        raise RequestError(f"The {MANIFEST} of {folder} cannot be read.") from error
    except (OSError, UnusableFile) as error:
        raise RequestError(f"The {MANIFEST} of {folder} cannot be read.") from error


def _called(name: str, saved: Saved) -> str:
    """The name that people know: an upgrade's copy, in backups of format 1, has it as an alias."""
    original = marks.stands_for(name)
    return original if original in saved.aliases else name


def digest(file: BinaryIO, put: Put = lambda *_: None) -> str:
    """A SHA-256 of a file's size, and of its pieces that are not all zeros, each after its place.

    `put` gets those. Holes cost nothing: a collection has some 140 MB of them.
    """
    size, following = os.fstat(file.fileno()).st_size, 0
    found, nothing = sha256(str(size).encode()), bytes(_PIECE)
    for start, end in data_ranges(file.fileno(), size):
        for place in range(max(following, start - start % _PIECE), end, _PIECE):
            file.seek(place)
            piece = file.read(_PIECE)
            if piece != nothing[: len(piece)]:
                found.update(place.to_bytes(8, "little"))
                found.update(piece)
                put(place, piece)
            following = place + _PIECE
    return found.hexdigest()


@contextmanager
def whole(
    folder: Path, name: str, saved: Saved, file: str, put: Put = lambda *_: None
) -> Iterator[BinaryIO]:
    """A file of a backup, open at its beginning; `put` has got its pieces.

    Raises RequestError where it is not as it was saved, or no regular file within the folder,
    OSError where it cannot be read or put.
    """
    try:
        with opened(folder / file, folder) as source:
            found = digest(source, put)
            if found != saved.digests.get(file, found):
                raise damaged(name, file)
            source.seek(0)
            yield source
    except UnusableFile as error:
        raise damaged(name, file) from error


def fetch(folder: Path, name: str, saved: Saved, file: str, target: Path) -> None:
    """Copy such a file; holes stay holes. Raises the same errors."""
    with target.open("xb") as write:

        def put(place: int, piece: bytes) -> None:
            write.seek(place)
            write.write(piece)

        with whole(folder, name, saved, file, put) as source:
            write.truncate(os.fstat(source.fileno()).st_size)


def check(folder: Path, name: str, saved: Saved) -> None:
    """Raise RequestError where files of a collection are missing or cut short."""
    for file, size in saved.files.items():
        try:
            with opened(folder / file, folder) as found:
                whole = os.fstat(found.fileno()).st_size == size
        except (OSError, UnusableFile, ValueError):
            whole = False
        if not whole:
            raise damaged(name, file)


def damaged(name: str, file: str) -> RequestError:
    """The sentence for a file that is not what was saved."""
    return RequestError(f"The backup of {name!r} is damaged: {file} is not as it was saved.")
