"""Vocabularies on disk: what is lost or damaged is sampled again."""

import contextlib
import hashlib
import logging
import os
import tempfile
import zlib
from pathlib import Path

import numpy as np

from mcp_server_qdrant.search.words.vocabulary import Vocabulary

FORMAT = 1
MOST_FILES = 256
LARGEST = 16_000_000
_DIGEST = 32
_HEAD = 16

logger = logging.getLogger(__name__)


class WordCache:
    """One file per collection of one engine in `folder`, for this user only.

    Every call blocks, and none raises: a folder that cannot be written keeps nothing.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine

    def path(self, collection: str) -> Path:
        """Where a collection's vocabulary is kept; the name does not tell of it."""
        key = f"{FORMAT}\0{self._engine}\0{collection}".encode("utf-8", "surrogatepass")
        return self._folder / f"{hashlib.sha256(key).hexdigest()[:40]}.words"

    def load(self, collection: str) -> tuple[Vocabulary, int] | None:
        """The vocabulary and how many points the collection had; None where there is none."""
        path = self.path(collection)
        try:
            kept = path.read_bytes() if path.stat().st_size <= LARGEST else b""
        except OSError:
            return None
        if hashlib.sha256(kept[_DIGEST:]).digest() != kept[:_DIGEST]:
            logger.info("A vocabulary on disk is damaged and will be made anew.")
            return None
        return unpacked(kept[_DIGEST:])

    def save(self, collection: str, vocabulary: Vocabulary, points: int) -> None:
        """Keep it, whole or not at all; the oldest files beyond 256 go."""
        body = packed(vocabulary, points)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(self.path(collection), hashlib.sha256(body).digest() + body)
            files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
            for file in files[:-MOST_FILES]:
                file.unlink(missing_ok=True)
        except OSError as error:
            logger.info("A vocabulary could not be kept on disk: %s", error)

    def _write(self, path: Path, content: bytes) -> None:
        number, name = tempfile.mkstemp(dir=self._folder, suffix=".tmp")  # of mode 0600
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def packed(vocabulary: Vocabulary, points: int) -> bytes:
    """Points and number of words, the counts, the words."""
    head = np.array([points, len(vocabulary)], "<i8").tobytes()
    counts = vocabulary.counts.astype("<i4").tobytes()
    return zlib.compress(head + counts + vocabulary.text.encode(), 1)


def unpacked(body: bytes) -> tuple[Vocabulary, int]:
    """What `packed` made."""
    content = zlib.decompress(body)
    points, number = np.frombuffer(content[:_HEAD], "<i8").tolist()
    end = _HEAD + 4 * number
    counts = np.frombuffer(content[_HEAD:end], "<i4").astype(np.int32)
    return Vocabulary.read(content[end:].decode(), counts), points
