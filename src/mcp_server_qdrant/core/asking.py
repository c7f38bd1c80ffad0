"""Finds the parts of a long prompt that ask or instruct, to search for these only.

Material is left out: code, logs, quoted lines, tables, headings, tags, paths and mentions of files.
Apart from some word lists, nothing depends on the language.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SHORT = 400  # characters; most models read a query of this length completely
LONGEST = 8_000  # characters read at each end of the text
ALONE = 250  # characters of a paragraph that can be a question of its own
LEAST = 2  # words; a part without more, such as "go on", has no subject
PROMPTED = 3  # instructions to a model that make a text a prompt
SEVERAL = 6  # sentences from which a paragraph that stands apart counts as the question
WIDE = 120  # bytes of a line that is a whole paragraph

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][\w-]{0,40}(?:\s[^<>\n]{0,200})?>")
_ASKER = (
    r"^\W{0,4}(?:(?:users?(?:'s)?|[^\W\d_]+) )?(?:user|human|question|query|task|request|input|q"
    r"|frage|anfrage|aufgabe|nutzer|benutzer|demande|utilisateur|pregunta|usuario|consulta|domanda"
    r"|utente|vraag|gebruiker|pergunta|问题|用户|質問|ユーザー|вопрос)\W{0,4}"
)
_LABEL = re.compile(_ASKER + r"[:\uff1a][\s*_`]{0,4}(?=\S)", re.IGNORECASE)
_LABEL_LINE = re.compile(_ASKER + "$", re.IGNORECASE)
_LOG = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d?:|\[?\d\d:\d\d:\d\d|\w{3} +\d+ \d\d:\d\d|\[\w+\]\s"
    r"|(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL|npm ERR!|E  )\b[\s:\]]"
    r"|Traceback\b|File \"|at \S+[(:]|[\w.]+(?:Error|Exception|Warning)\b:?|[$%>]\s|[|]"
    r"|diff --git|@@|[+-]{3}\s|[+-]\S|(?:FAILED|PASSED|ok|not ok)\s+\S|goroutine \d|Caused by:)"
    r"|[{};]\s*$|=>|\s==+\s|^[ \t]{4,}\S"
)
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s|(?:[A-Z]{4,}\s+){1,9}[A-Z]{4,}\b|[-=*_~]{3,}\s*$)|[:\uff1a]\s*$"
)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_PATH = re.compile(
    r"(?<!\S)(?:@\S+|[A-Za-z]+://\S+|(?:~|\.{1,2})?/?(?:[\w.+-]+/)+[\w.+-]*|/[\w.+-]+)"
)
_STOP = re.compile(
    r"(?<=[.!?\u2026])(?<![\s.]\w\.)[\"'\u201d\u00bb)\]]*\s+|(?<=[\u3002\uff01\uff1f])"
)
_WORD = re.compile(r"[\u2e80-\U0003ffff]|[^\W\d_]{2,}|\w{4,}")
_QUESTION = re.compile("[?\uff1f\u061f\u037e][\"'\u201d\u00bb)*_ ]*$")
_ASKING = re.compile(
    r"^\W*(?:wh(?:at|ich|en|ere|o|om|ose|y)|how|was|wer|wen|wem|wann|wo|wie|warum|wieso|welche[rsnm]?"
    r"|que|qu'|quel(?:le)?s?|qui|quand|où|comment|pourquoi|combien|qué|cuál|cuándo|dónde|cómo|quién"
    r"|por qué|che|chi|quando|dove|come|perché|wat|welke?|wanneer|waar|hoe|waarom)\b",
    re.IGNORECASE,
)
_TELLING = re.compile(  # instructions to a model
    r"\b(?:you|your|you're|yourself|the user'?s?|the assistant|du|dir|dich|deine?[rnms]?|sie sollen"
    r"|der benutzer|tu|toi|ton|tes|vous|votre|l'utilisateur|tú|usted|tus?|el usuario|lei|l'utente"
    r"|jij|je|de gebruiker|você)\b"
    r"|^\W*(?:always|never|do not|don't|only|avoid|(?:if|when|where)\b[^?]*,|use|prefer"
    r"|keep|answer|write|cite"
    r"|follow|ignore|remember|respond|think|first|then|before|refuse|stop|quote|read|run"
    r"|immer|niemals|nie|wenn|antworte|nutze|erfinde|beachte|si|ne |n'|évite|cite|réponds|utilise"
    r"|nunca|siempre|no |usa|responde|non |mai|sempre|usa|rispondi)",
    re.IGNORECASE,
)  # fmt: skip
# "Think step by step.", after the question.
_CLOSING = re.compile(
    r"^\W*(?:please |bitte |por favor,? )?"
    r"(?:answer|respond|reply|think|let'?s think|explain|cite|be |keep|thanks?\b|antworte|denk"
    r"|danke|erkläre|réponds|merci|responde|piensa|gracias|rispondi|grazie)",
    re.IGNORECASE,
)
CLOSING = 8  # words of such a sentence
# "Please search my memory for this: ": the instruction to search is not part of the query.
_LEAD = re.compile(
    r"\s*[^:\n\uff1a]{4,250}?(?::\s+|[\uff1a\u3002\uff01\uff1f]\s*|\s[-\u2013\u2014]\s|\n+"
    r"|(?:[.?!]|\u2026)+\s+)(?=\S)"
)
_LOOK = re.compile(
    r"\b(?:search|look|find|check|tell|use|recall|consult|durchsuch|such|schau|sieh|sag|cherche"
    r"|regarde|consulte|busca|mira|cerca|guarda|zoek|kijk|procur|sök|szuka|najd|поищ|найд|ищи)"
    "|搜索|查找|查一下|検索|探し|調べ",
    re.IGNORECASE,
)
_MEMORY = re.compile(
    r"\b(?:memor(?:y|ies|ia)|notes?|notizen|gedächtnis|erinnerungen|mémoire|memória|geheugen"
    r"|notities|appunti|apuntes|notas|minne|anteckningar|pamię\w+|записк\w+|заметк\w+|памят\w+"
    r"|collections?|sammlungen|knowledge base|wissensbasis|vault|qdrant[\w-]*)\b"
    "|记忆|笔记|メモ|記憶|ノート",
    re.IGNORECASE,
)
_THIRD = re.compile(
    "ください|なさい|してはいけ|请|不要|必须|你|您|あなた|ユーザー|用户|вы|ваш|ты|пользовател",
    re.IGNORECASE,
)


class Part(NamedTuple):
    """A sentence; `alone`: it is a paragraph; `labelled`: a label such as "Task:" precedes it."""

    text: str
    alone: bool
    labelled: bool

    @property
    def asks(self) -> bool:
        """True for a question."""
        return bool(_QUESTION.search(self.text) or _ASKING.match(self.text))

    @property
    def closes(self) -> bool:
        """True for a short sentence on how to answer."""
        short = len(self.text.split()) <= CLOSING
        return short and not self.asks and bool(_CLOSING.match(self.text))

    @property
    def instructs(self) -> bool:
        """True for a sentence that instructs a model."""
        return bool(_TELLING.search(self.text) or _THIRD.search(self.text))


def extract_question(text: str) -> str:
    """The part of a prompt to search for: the whole text if it is short or has no such part.

    The last part weighs most, then the first. Paragraphs of their own, questions and labelled parts
    weigh more, instructions to a model less.
    """
    short, lead = len(text.strip()) <= SHORT, _LEAD.match(text)
    if short and lead and _LOOK.search(lead[0]) and _MEMORY.search(lead[0]):
        return text[lead.end() :]
    found = list(_parts(text))
    if short and ("\n\n" not in text or sum(part.instructs for part in found) < PROMPTED):
        return text
    while len(found) > 1 and found[-1].closes:
        found.pop()
    marked = any(part.labelled or part.asks for part in found)
    alone = [part for part in found if part.alone]
    apart = len(found) >= SEVERAL and (len(alone) == 1 or found[0] in alone or found[-1] in alone)
    if not marked and not apart and sum(part.instructs for part in found) < PROMPTED:
        return text  # prose: search for all of it
    best, most = None, 0.0
    for place, part in enumerate(found):
        worth = 4.0 * part.labelled + 2.5 * part.alone + 2.0 * bool(_QUESTION.search(part.text))
        worth += 2.0 * (place == len(found) - 1) + 1.5 * (place == 0) - 2.0 * part.instructs
        if worth >= max(most, 1.5):
            best, most = place, worth
    if best is None:
        return text
    asked = found[best].text
    few = len(_WORD.findall(asked)) <= LEAST and _QUESTION.search(asked)
    return f"{found[best - 1].text} {asked}" if few and best else asked


def asking_parts(text: str, most: int) -> list[str]:
    """At most `most` parts of a prompt that have a subject: labelled ones first, then questions."""
    parts = [one._replace(text=" ".join(_PATH.sub(" ", one.text).split())) for one in _parts(text)]
    parts = [one for one in parts if len(_WORD.findall(one.text)) > LEAST]
    order = sorted(range(len(parts)), key=lambda n: (-parts[n].labelled, -parts[n].asks, n))
    return list(dict.fromkeys(parts[n].text[:SHORT] for n in order))[:most]


def _parts(text: str) -> Iterator[Part]:
    """The sentences of prose in order, without code, logs, headings, quotes and repetitions."""
    if len(text) > 2 * LONGEST:
        text = f"{text[:LONGEST]}\n\n{text[-LONGEST:]}"
    text = _TAG.sub("\n\n", _FENCE.sub("\n\n", text))
    times = Counter(map(str.strip, text.splitlines()))
    called = False
    for block in re.split(r"\n[ \t]*\n", text):
        lines = []
        for line in block.splitlines():
            named = bool(_LABEL_LINE.match(line))
            noise = _LOG.search(line) or _HEADING.search(line) or line.lstrip().startswith(">")
            if not noise and not named and times[line.strip()] < 3 and _WORD.search(line):
                lines.append(line.strip())
            called = called or named
        for number, line in enumerate(lines):
            short = len(line) <= ALONE and _apart(lines, number)
            label = _LABEL.match(line)
            rest = _ITEM.sub("", line[label.end() :] if label else line)
            pieces = [one.strip() for one in _STOP.split(rest) if one and _WORD.search(one)]
            for place, piece in enumerate(pieces):
                last = place == len(pieces) - 1
                alone = short and len(pieces) <= 2 and last
                yield Part(piece, alone, last and (label is not None or called))
            called = False


def _apart(lines: Sequence[str], number: int) -> bool:
    """True for a line that is a paragraph, or the first or last line next to a long one."""
    if len(lines) == 1:
        return True
    if number == len(lines) - 1:
        return len(lines[-2].encode()) > WIDE and lines[-2][-1] in ".!?\u3002"
    return number == 0 and len(lines[1].encode()) > WIDE
