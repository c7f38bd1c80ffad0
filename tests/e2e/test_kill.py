"""Nothing acknowledged is lost when the service or a client's pipe is killed."""

import random
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest

from tests.e2e.raw import RawServer, kill_service, text_of

pytestmark = pytest.mark.model(False)


def test_a_server_whose_data_folder_is_deleted_goes_on_with_a_new_one(env, tmp_path):
    folder = Path(env["QDRANT_LOCAL_PATH"])
    server = RawServer(env, tmp_path)
    server.call("qdrant-store", information="The first.", collection_name="facts")
    shutil.rmtree(folder)

    refusals = set()
    for _ in range(1000):
        stored = server.call("qdrant-store", information="The second.", collection_name="facts")
        if not stored.get("isError"):
            break
        refusals.add(text_of(stored))
    found = server.call("qdrant-find", query="second", collections=["*"])
    status, log = server.close()

    # None where the service noticed the deletion before the store came, and a new one took it.
    assert [text for text in refusals if "was deleted or moved" not in text] == []
    assert [one["text"] for one in found["structuredContent"]["results"]] == ["The second."]
    assert status == 0
    assert [line for line in log.splitlines() if "No such file or directory" not in line] == []


class Memory:
    """What a client knows of its texts: of each the states that its last call allows.

    A state is the collections that have the text, and the text. A call that was answered allows
    one, one that was cut off also what was before; of a move, that the text is in both.
    """

    def __init__(self) -> None:
        self.server: RawServer | None = None
        self.allowed: dict[str, set[tuple[frozenset[str], str]]] = {}
        self.stored: dict[str, set[str]] = {}
        self.acknowledged: Counter[str] = Counter()
        self.calls = 0
        self.strike: tuple[int, Timer] | None = None

    def do(self, kind: str, key: str, tool: str, after: set[str], text: str, **arguments) -> None:
        before = self.allowed.get(key, {(frozenset(), "")})
        done = (frozenset(after), text)
        both = {(here | done[0], text) for here, was in before if was == text}
        self.allowed[key] = before | {done} | (both if kind == "move" else set())
        self.calls += 1
        if self.strike and self.strike[0] == self.calls:
            self.strike[1].start()
        answer = self.server.call(tool, **arguments)
        if not answer.get("isError"):
            self.allowed[key] = {done}
            self.acknowledged[kind] += 1
            self.stored.setdefault(key, set()).update({text} - {""})

    def one_text(self, key: str) -> None:
        first, second = (
            " ".join(f"{key} {version} sentence {n} of harbour {n}." for n in range(60))
            for version in ("old", "new")
        )
        notes, archive = {"collection_name": "notes"}, {"collection_name": "archive"}
        store = {"id": key, "create": True}
        self.do("store", key, "qdrant-store", {"notes"}, first, information=first, **store, **notes)
        self.do(
            "update", key, "qdrant-store", {"notes"}, second, information=second, **store, **notes
        )
        if self.allowed[key] == {(frozenset({"notes"}), second)}:
            self.do("move", key, "qdrant-store", {"archive"}, second, **store, **archive)
        if key.endswith("0") and self.allowed[key] == {(frozenset({"archive"}), second)}:
            self.do("delete", key, "qdrant-delete", set(), "", ids=[key], **archive)

    def lost(self) -> list[str]:
        """The texts that were acknowledged and are neither there nor among the versions."""
        return [key for key, texts in self.stored.items() if texts - self._known(key)]

    def _known(self, key: str) -> set[str]:
        """The text of this id, and all its versions."""
        listed = self.server.call("qdrant-get", ids=[key], versions=True)
        versions = (listed.get("structuredContent") or {}).get("versions", [])
        places = ("notes", "archive")
        asked = [(key, place) for place in places]
        asked += [(one["id"], one["collection"]) for one in versions]
        got = [self.server.call("qdrant-get", ids=[i], collection_name=c) for i, c in asked]
        found = [(one.get("structuredContent") or {}).get("documents", []) for one in got]
        return {one["text"] for documents in found for one in documents}

    def faults(self) -> dict[str, object]:
        """The texts that are not in an allowed state."""
        found = {}
        for key, allowed in self.allowed.items():
            there = {}
            for place in ("notes", "archive"):
                got = self.server.call("qdrant-get", ids=[key], collection_name=place)
                for one in (got.get("structuredContent") or {}).get("documents", []):
                    there[place] = one["text"]
            state = (frozenset(there), next(iter(there.values()), ""))
            if state not in allowed or len(set(there.values())) > 1:
                found[key] = (state, allowed)
        return found


@pytest.mark.parametrize("victim", ["service", "pipe"])
def test_every_acknowledged_move_update_and_deletion_holds_after_kills(
    env, tmp_path, rounds, victim
):
    """The kill comes at a random moment of a round, another one each time.

    What was replaced or deleted is a version, whenever the kill came.
    """
    env |= {"EMBEDDING_PROVIDER": "none"}  # its time is that of writing
    moments, memory, texts = random.Random(7), Memory(), 8
    for round_ in range(rounds):
        memory.server = RawServer(env, tmp_path)

        def kill(server: RawServer = memory.server) -> None:
            if victim == "pipe":
                server.process.kill()
            else:
                kill_service(Path(env["QDRANT_LOCAL_PATH"]))

        timer = Timer(moments.uniform(0, 0.03), kill)
        memory.strike = (memory.calls + moments.randint(2, 3 * texts), timer)
        with suppress(EOFError, BrokenPipeError):
            for number in range(texts):
                memory.one_text(f"r{round_}-{number}")
        timer.cancel()
        memory.server.kill()

    memory.server = RawServer(env, tmp_path)

    assert memory.acknowledged["move"] >= rounds
    assert memory.faults() == {}
    assert memory.lost() == []
    memory.server.close()
