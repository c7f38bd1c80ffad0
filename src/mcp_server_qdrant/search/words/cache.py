"""Vocabularies on disk. A cache and nothing else: what is lost or damaged is sampled again."""

import json
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import mkstemp

import numpy as np

from mcp_server_qdrant.search.words.vocabulary import Vocabulary

MOST = 256  # vocabularies, of a megabyte at most where their words are of usual length
EARLIER = ("*.words", "words-1.sqlite3*")  # the files of earlier versions
_DAMAGE = (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError)


class WordCache:
    """The vocabularies of one engine's collections: files in a folder that engines share.

    Calls block, and none raises. Each file is replaced as a whole.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine

    def place(self, collection: str) -> Path:
        """The file of a collection, whose name does not give the collection's away."""
        named = f"{self._engine}\0{collection}".encode("utf-8", "surrogatepass")
        return self._folder / f"{blake2b(named, digest_size=20).hexdigest()}.json"

    def load(self, collection: str) -> tuple[Vocabulary, int] | None:
        """The vocabulary and how many points the collection had; None where there is none."""
        with suppress(*_DAMAGE):
            found = json.loads(self.place(collection).read_bytes())
            counts = np.array(found["counts"], np.int32)
            return Vocabulary.read(found["words"], counts), int(found["points"])
        return None

    def save(self, collection: str, vocabulary: Vocabulary, points: int) -> None:
        """Keep the vocabulary; the oldest ones beyond 256 go."""
        held = {
            "points": points,
            "words": vocabulary.text,
            "counts": vocabulary.counts.tolist(),
        }
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, draft = mkstemp(dir=self._folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(held, file)
                Path(draft).replace(self.place(collection))
            except OSError:
                Path(draft).unlink()
                raise
            self._tidy()

    def _tidy(self) -> None:
        kept = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        earlier = (file for pattern in EARLIER for file in self._folder.glob(pattern))
        for old in (*kept[:-MOST], *earlier):
            old.unlink(missing_ok=True)
