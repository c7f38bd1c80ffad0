"""Conversations and questions about them, as they are published.

- `locomo10.json`: conversations of sessions of turns; questions name the turns that answer them.
  Category 5 asks for what was never said.
- a folder of BEIR folders, LoCoMo's conversations (`conv-26/corpus.jsonl`, `queries.jsonl`,
  `qrels.tsv`): ids are `CONVERSATION:SESSION:TURN`, `metadata.date` is the session's date.
- `longmemeval_s.json` or `longmemeval_s_cleaned.json`: a history for each question, which names the
  sessions that answer it (`answer_session_ids`), and in them the turns (`has_answer`). Questions
  whose id ends in `_abs` have no answer. The sessions get ids of their own, since the published
  ones tell which of them answer.
- BEAM's `chats/100K`, `500K` or `1M`: a folder for each chat, `chat_trunecated.json` where it was
  cut and `chat.json` elsewhere; its batches are the sessions. `probing_questions.json` names the
  messages that answer (`source_chat_ids`). Marks of the plan (`->-> 1,4`) are removed.
- REALTALK's `data`: `Chat_*.json`, much like LoCoMo; a session is what its ids count as one.

Questions that have an answer but name no text that is there are left out.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
REALTALK = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
UNANSWERED = "without an answer"
EVIDENCE = re.compile(r"D(\d+):(\d+)")
PLANNED = re.compile(r"\s*->->[\s\d,/NA)]*$")


@dataclass(frozen=True)
class Session:
    """The turns of a session, id -> text, and its date in ISO 8601."""

    id: str
    date: str
    turns: dict[str, str]


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the turns and sessions that answer it, if any do."""

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
        if files := sorted(path.glob("Chat_*.json"), key=_number):
            rows = [(one.stem, json.loads(one.read_text("utf-8"))) for one in files]
            return [
                _locomo(row) if "conversation" in row else _realtalk(name, row)
                for name, row in rows
            ]
        folders = [one for one in sorted(path.iterdir(), key=_number) if one.is_dir()]
        return [_beam(f) if (f / "chat.json").exists() else _folder(f) for f in folders]
    rows = json.loads(path.read_text("utf-8"))
    if "haystack_sessions" in rows[0]:
        return [_longmemeval(row) for row in rows]
    return [_locomo(row) for row in rows]


def _number(path: Path) -> tuple[int, str]:
    """The order of `Chat_2_…` and `Chat_10_…`."""
    found = re.search(r"\d+", path.name)
    return int(found[0]) if found else 0, path.name


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
    return _asked(row["sample_id"], sessions, row["qa"], CATEGORIES)


def _realtalk(name: str, talk: dict[str, Any]) -> History:
    sessions = dict[str, Session]()
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    for turn in (turn for number in numbers for turn in talk[f"session_{number}"]):
        said = datetime.strptime(turn["date_time"], "%d.%m.%Y, %H:%M:%S")
        place = session_of(turn["dia_id"])
        session = sessions.setdefault(place, Session(place, said.isoformat(), {}))
        session.turns[turn["dia_id"]] = _spoken({**turn, "text": turn.get("clean_text", "")})
    return _asked(name, list(sessions.values()), talk["qa"], REALTALK)


def _asked(
    name: str, sessions: list[Session], asked: list[dict[str, Any]], kinds: dict[int, str]
) -> History:
    """The conversation with the questions whose evidence is there, or that have none."""
    known = {turn for session in sessions for turn in session.turns}
    questions = []
    for one in asked:
        named = EVIDENCE.findall(" ".join(one["evidence"]))
        turns = {f"D{int(a)}:{int(b)}" for a, b in named} & known
        if one["category"] not in kinds:
            questions.append(_question(one["question"], UNANSWERED, ()))
        elif turns:
            questions.append(_question(one["question"], kinds[one["category"]], turns))
    return History(name, tuple(sessions), tuple(questions))


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


def _beam(folder: Path) -> History:
    cut, sessions, places = folder / "chat_trunecated.json", [], dict[int, str]()
    path = cut if cut.exists() else folder / "chat.json"
    for number, batch in enumerate(json.loads(path.read_text("utf-8")), 1):
        messages = [message for turn in batch["turns"] for message in turn]
        turns = {f"B{number}:{one['id']}": one for one in messages}
        places |= {one["id"]: key for key, one in turns.items()}
        day = next(filter(None, (one.get("time_anchor") for one in messages)))
        said = datetime.strptime(day, "%B-%d-%Y")
        texts = {k: f"{m['role']}: {PLANNED.sub('', m['content'])}" for k, m in turns.items()}
        sessions.append(Session(f"B{number}", said.isoformat(), texts))
    rows = json.loads((folder / "probing_questions/probing_questions.json").read_text("utf-8"))
    questions = []
    for kind, one in ((kind, one) for kind, some in rows.items() for one in some):
        named = re.findall(r"\d+", json.dumps(list(_values(one.get("source_chat_ids", [])))))
        turns = {places[number] for number in map(int, named) if number in places}
        if turns or kind == "abstention":
            name = UNANSWERED if kind == "abstention" else kind.replace("_", " ")
            questions.append(_question(one["question"], name, turns))
    return History(f"beam-{folder.name}", tuple(sessions), tuple(questions))


def _values(ids: Any) -> Iterator[Any]:
    """The ids that a list holds, or an object whose keys say what each is for."""
    if isinstance(ids, dict | list):
        for one in ids.values() if isinstance(ids, dict) else ids:
            yield from _values(one)
    else:
        yield ids


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
    answered = not row["question_id"].endswith("_abs")
    question = Question(
        row["question"],
        row["question_type"] if answered else UNANSWERED,
        frozenset(evidence if answered else ()),
        frozenset(wanted if answered else ()),
    )
    return History(row["question_id"], tuple(sessions), (question,))
