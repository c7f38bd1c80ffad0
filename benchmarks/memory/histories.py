"""Conversations and questions about them, as LoCoMo and LongMemEval publish them.

- `locomo10.json`: conversations of sessions of turns; questions name the turns that answer them.
  Category 5 asks for what was never said: left out.
- a folder of BEIR folders, LoCoMo's conversations (`conv-26/corpus.jsonl`, `queries.jsonl`,
  `qrels.tsv`): ids are `CONVERSATION:SESSION:TURN`, `metadata.date` is the session's date.
- `longmemeval_s.json` or `longmemeval_s_cleaned.json`: a history for each question, which names the
  sessions that answer it (`answer_session_ids`), and in them the turns (`has_answer`). Questions
  whose id ends in `_abs` have no answer: left out. The sessions get ids of their own, since the
  published ones tell which of them answer.
"""

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
EVIDENCE = re.compile(r"D(\d+):(\d+)")


@dataclass(frozen=True)
class Session:
    """The turns of a session, id -> text, and its date in ISO 8601."""

    id: str
    date: str
    turns: dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the turns and sessions that answer it."""

    text: str
    kind: str
    turns: frozenset[str]
    sessions: frozenset[str]


@dataclass(frozen=True)
class History:
    """A conversation, and what is asked about it."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


def read(path: Path) -> list[History]:
    """The conversations of a file or folder of one of these forms."""
    if path.is_dir():
        return [_folder(one) for one in sorted(path.iterdir()) if one.is_dir()]
    rows = json.loads(path.read_text("utf-8"))
    if "haystack_sessions" in rows[0]:
        return [_longmemeval(row) for row in rows if not row["question_id"].endswith("_abs")]
    return [_locomo(row) for row in rows]


def session_of(turn: str) -> str:
    """The session of a turn: its id up to the last colon."""
    return turn.rpartition(":")[0]


def _question(text: str, kind: str, turns: Iterable[str]) -> Question:
    turns = frozenset(turns)
    return Question(text, kind, turns, frozenset(map(session_of, turns)))


def _locomo(row: dict[str, Any]) -> History:
    talk, sessions = row["conversation"], []
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        said = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        turns = {turn["dia_id"]: _spoken(turn) for turn in talk[f"session_{number}"]}
        sessions.append(Session(f"D{number}", said.isoformat(), turns))
    known = {turn for session in sessions for turn in session.turns}
    questions = [
        _question(
            one["question"],
            CATEGORIES[one["category"]],
            {
                turn
                for a, b in EVIDENCE.findall(" ".join(one["evidence"]))
                if (turn := f"D{int(a)}:{int(b)}") in known
            },
        )
        for one in row["qa"]
        if one["category"] in CATEGORIES
    ]
    answered = tuple(question for question in questions if question.turns)
    return History(row["sample_id"], tuple(sessions), answered)


def _spoken(turn: dict[str, Any]) -> str:
    shown = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{shown}"


def _folder(folder: Path) -> History:
    sessions: dict[str, Session] = {}
    for row in _lines(folder / "corpus.jsonl"):
        name = session_of(row["_id"])
        session = sessions.setdefault(name, Session(name, row["metadata"]["date"], {}))
        session.turns[row["_id"]] = row["text"]
    with (folder / "qrels.tsv").open(newline="") as lines:
        judged = list(csv.reader(lines, delimiter="\t"))[1:]
    questions = [
        _question(
            row["text"],
            row["metadata"]["category_name"],
            [turn for query, turn, grade in judged if query == row["_id"] and int(grade) > 0],
        )
        for row in _lines(folder / "queries.jsonl")
    ]
    answered = tuple(question for question in questions if question.turns)
    return History(folder.name, tuple(sessions.values()), answered)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _longmemeval(row: dict[str, Any]) -> History:
    sessions, evidence = [], []
    given = row["haystack_session_ids"]
    names = [f"S{number}" for number in range(1, len(given) + 1)]
    parts = (names, row["haystack_dates"], row["haystack_sessions"])
    for name, date, turns in zip(*parts, strict=True):
        said = datetime.strptime(re.sub(r" \(\w+\)", "", date), "%Y/%m/%d %H:%M")
        texts = {
            f"{name}:{number}": f"{turn['role']}: {turn['content']}"
            for number, turn in enumerate(turns, 1)
            if turn["content"].strip()
        }
        sessions.append(Session(name, said.isoformat(), texts))
        evidence += [
            f"{name}:{number}" for number, turn in enumerate(turns, 1) if turn.get("has_answer")
        ]
    wanted = [
        own for own, name in zip(names, given, strict=True) if name in row["answer_session_ids"]
    ]
    question = Question(
        row["question"], row["question_type"], frozenset(evidence), frozenset(wanted)
    )
    return History(row["question_id"], tuple(sessions), (question,))
