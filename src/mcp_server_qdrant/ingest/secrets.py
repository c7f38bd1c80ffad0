"""Finds keys, tokens and passwords in a text by their known forms; entropy is not used.

The forms are in secrets.toml. Secret scanners report lines for a person to review; masking needs
the exact span of each secret.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any

MASK = "[masked]"
BELOW = 300  # characters after the line of a name in which its value may be
NAME = 20  # characters before and after the start of such a word that are searched for a name
STRETCHES = re.compile(r"[\s\S]{1,50000}(?:\n|\Z)|[\s\S]{1,50000}")
# Every name of a secret contains one of these, in lower case; other lines are skipped.
WORDS = re.compile(
    r"pass|pwd|secret|token|key|psk|credential|kennwort|wacht|contrase|senha|mdp|has[łl]o|heslo"
    r"|lösen|salas|parola|şifre|пароль|密码|密碼|口令|パスワード|비밀번호"
)
# A key with a known prefix, not within a word, but possibly after an escape such as \n or %20.
# The literal comes first because that is fast; a lookbehind checks what precedes it.
BEGUN = (
    r"({0}(?:(?<![A-Za-z0-9]{0})|(?<=\\[nrt]{0})|(?<=%[0-9A-F][0-9A-F]{0}))(?:{1}))(?![A-Za-z0-9])"
)
QUOTE = r"\\?[\"'`“”„«»\u2018\u2019]"
SIGN = r"(?::=|=>|[:=\uff1a])"
BOLD = r"[\"'`*]{0,3}"
BARE = r"([^\s\"'`,;&(){}\[\]<>$|\\]{4,200}+)(?![({\[<$\\])"
SURE = r"(?=\S{6})(?=\S{0,200}?\d)(?=\S{0,200}?[A-Za-z])"
# In prose: digits, capitals and small letters.
MIXED = r"(?=\S{8})(?-i:(?=\S{0,99}?\d)(?=\S{0,99}?[A-Z])(?=\S{0,99}?[a-z]))"
# What may be between the name of a secret and its value, and the value.
BETWEEN = rf"""
(?:[_-]?(?:base(?:64)?|data|value|plain|text))?[_-]?\d{{0,2}}
(?: {QUOTE}?\]?\*{{0,2}}\s{{0,3}}{SIGN}\*{{0,2}}\s{{0,3}}{QUOTE}([^\s\"'`]{{4,200}}?){QUOTE}
| ={BARE}
| {BOLD}[\ \t]*{SIGN}{BOLD}[\ \t]+(?=\S{{6}}){BARE}[\ \t]*$
| {BOLD}[\ \t]*{SIGN}{BOLD}[\ \t]*{SURE}{BARE}
| {BOLD}[\ \t]*\|[\ \t]*{BOLD}{SURE}{BARE}{BOLD}[\ \t]*(?:\||$)
| [\"']?(?:\s[^<>\n]{{0,80}})?(?:>|</\w+>\s*<\w[^<>\n]{{0,80}}>)\s*([^\s<>]{{4,200}})\s*</
| \(\s{{0,3}}{QUOTE}{SURE}([^\s\"'`]{{4,200}}?){QUOTE}
| {QUOTE}?\s*[,;]?\s{{0,40}}{QUOTE}?(?:value|val|content){QUOTE}?\s*[:=]\s*{QUOTE}?{BARE}
| (?:\s[\w'-]{{1,20}}){{0,4}}\s(?:is|was|ist|lautet|war|est|es|è)[:\ ]\s*{BOLD}{SURE}{BARE}
| [\ \t]+(?:(?:to|as|auf|als|\d)\s)?{BOLD}{MIXED}(?![a-z_]\w*=\w){BARE}
)"""
ENDING = r"(?:(?<!token)s)?[_-]?\d{0,2}\s*\Z"  # the end of a complete name
# A command-line option, a variable in a Dockerfile, a `set` or `config` command.
OPTION = r"(?:(?<!\S)--?(?:[a-z][\w-]{0,50}?)?|(?:^ENV|\bset|\bconfig)\ +[\w./:@-]{0,100}?)"
# An environment variable with any value.
VARIABLE = (
    r"(?<![A-Za-z0-9_-])([A-Z0-9_]*?(?:PASSWORD|PASSWD|(?<![A-Z])PASS|SECRET|TOKEN|_KEY)=)"
    rf"(?:[\"']([^\s\"']{{6,200}})[\"']|{BARE})"
)
PEM = r"----[- ]{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?[- ]----"
HEADERS = r"(?:(?:\s|\\n)*(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n\\]{0,200})*"
# A private key, also if its first or its last line is missing.
BLOCK = (
    rf"(?:{PEM.format('BEGIN')}(?:(?:[^-]|-(?!----)){{40,20000}}?-{{0,3}}{PEM.format('END')}"
    rf"|{HEADERS}(?:(?:[\s>|#*]|\\n)*[A-Za-z0-9+/=]{{16,}})+))"
    rf"|(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/=]{{40,80}}+(?:\s|\\n)+){{1,400}}(?:[A-Za-z0-9+/=]{{1,80}}(?:\s|\\n)+)?"
    rf"{PEM.format('END')}"
)

# Capitals as in random letters, not as in camelCase.
UNEVEN = re.compile(r"[A-Z][a-z][A-Z]|[a-z][A-Z]{2,}[a-z]")
HEX = re.compile(r"[0-9a-fA-F-]+\Z")
# The cells of a row for each separator, in the order of trying.
CELLS = tuple(map(re.compile, (r"[^|\n]+", r"[^\t\n]+", r"[^;\n]+", r"[^,\n]+", r"\S+(?: \S+)*")))
HEAD, RULE = re.compile(r"[\w .#-]{1,40}\Z"), re.compile(r"[\s|:+=-]*\Z")
CELL = re.compile(r"[^\s()\[\]{};,<>]+")

Span = tuple[int, int]


@cache
def _load_table() -> Mapping[str, Mapping[str, str]]:
    text = resources.files(__package__).joinpath("secrets.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def _forms() -> list[tuple[str, str]]:
    """(keyword, pattern to try on texts that contain it)."""
    begun = _load_table()["prefixes"].items()
    keys = [(key, BEGUN.format(re.escape(key), rest)) for key, rest in begun]
    return [*keys, *_load_table()["forms"].items()]


_compile = cache(partial(re.compile, flags=re.MULTILINE))


@cache
def _tests() -> Mapping[str, re.Pattern[str]]:
    """The patterns that classify names and values, by kind."""
    flags = re.VERBOSE | re.MULTILINE | re.IGNORECASE
    names = _load_table()["names"]
    name = f"(?:{'|'.join(names.values())})"
    tests = {
        **_load_table()["tests"],
        "begun": name,
        "assigned": name + BETWEEN,
        "option": rf"{OPTION}{name}[\ =]\s{{0,3}}{QUOTE}?{BARE}",
        "name": rf".*{name}{ENDING}",
        "password": rf".*(?:{names['password']}){ENDING}",
    }
    return {kind: re.compile(pattern, flags) for kind, pattern in tests.items()}


def spans(text: str, known: Sequence[str] = ()) -> list[Span]:
    """The spans of the secrets in a text, in order and without overlaps.

    Every occurrence of a `known` secret is included.
    """
    found = [match.span() for match in _compile(BLOCK).finditer(text)]
    for one in known:
        found += [one.span() for one in re.finditer(rf"(?<!\w){re.escape(one)}(?!\w)", text)]
    # In pieces, because a regex search holds the GIL.
    for stretch in STRETCHES.finditer(text):
        piece, (start, end) = stretch[0], stretch.span()
        for pattern in (pattern for keyword, pattern in _forms() if keyword in piece):
            for match in _compile(pattern).finditer(text, start, end):
                if not _is_placeholder(match[match.lastindex or 0]):
                    found.append(match.span(match.lastindex or 0))
        found += _find_named(text, start, end)
    return merge(found)


def merge(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, with overlapping ones merged."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _find_named(text: str, start: int, end: int) -> Iterator[Span]:
    """The values in a piece of a text that are named like a secret."""
    lower, last, done = text[start:end].replace("İ", "I").lower(), start, start
    for word in WORDS.finditer(lower):
        at = start + word.start()
        if at >= last:
            first = text.rfind("\n", start, at) + 1 or start
            last = text.find("\n", at, end) + 1 or end
            yield from _find_in_line(text, first, last)
        for name in _tests()["begun"].finditer(text, max(at - NAME, first, done), at + NAME):
            if match := _tests()["assigned"].match(text, name.start(), last + BELOW):
                yield from _check_assigned(match)
                done = match.end()


def _check_assigned(match: re.Match[str]) -> Iterator[Span]:
    """The value assigned to a name such as password, if it looks like a secret."""
    start, value = match.start(match.lastindex or 0), match[match.lastindex or 0].rstrip(".,:;")
    if likely(value):
        yield start, start + len(value)


def _find_in_line(text: str, first: int, last: int) -> Iterator[Span]:
    """The secrets in options and variables of a line, or in the table below it."""
    for match in _tests()["option"].finditer(text, first, last):
        yield from _check_assigned(match)
    for match in _compile(VARIABLE).finditer(text, first, last):
        name, value = match[1], match[match.lastindex or 0]
        known = _tests()["name"].match(name.rstrip("=")) is not None
        other = len(value) >= 12 and likely(value) and not HEX.match(value)
        if not _tests()["key"].search(name) and (likely(value, whatever=True) if known else other):
            yield match.span(match.lastindex or 0)
    for pattern in CELLS:
        head = [one[0].strip(" *_`\"'\r") for one in pattern.finditer(text, first, last)]
        if len(head) > 1:
            named = all(map(HEAD.match, head))
            columns = [n for n, cell in enumerate(head) if named and _tests()["name"].match(cell)]
            yield from _find_in_cells(text, last, pattern, len(head), columns) if columns else ()
            break


def _find_in_cells(
    text: str, at: int, pattern: re.Pattern[str], count: int, columns: Sequence[int]
) -> Iterator[Span]:
    """The secrets in these columns of the rows below a table's header."""
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        cells = list(pattern.finditer(text, at, end))
        if len(cells) != count and not RULE.match(text[at:end]):
            return
        for cell in (cells[n] for n in columns if n < len(cells)):
            value = cell[0].strip().strip("*`\"'")
            if CELL.fullmatch(value) and likely(value):
                start = cell.start() + cell[0].index(value)
                yield start, start + len(value)
        at = end


def likely(value: str, *, whatever: bool = False) -> bool:
    """True if a value named like a secret looks like one: no word, variable or placeholder.

    `whatever`: words count too.
    """
    short = value[:300].strip().rstrip(".,:;?")
    if len(short) < (4 if whatever else 6) or " " in short or _is_placeholder(short):
        return False
    if _tests()["code"].fullmatch(short):
        return False
    odd = any(one.isdigit() or one in "!@#%^*?" for one in short) or UNEVEN.search(short)
    return whatever or (bool(odd) and any(map(str.isalpha, short)))


def _is_placeholder(value: str) -> bool:
    """True for a placeholder in the place of a secret, as in examples."""
    begins, part, whole = (_tests()[kind] for kind in ("begins", "part", "whole"))
    return bool(begins.match(value) or part.search(value) or whole.fullmatch(value))


def without(text: str, parts: Sequence[Span], put: str = MASK) -> str:
    """The text with each of these spans replaced by `put`."""
    ends = [0, *(end for _, end in parts)]
    starts = [*(start for start, _ in parts), len(text)]
    return put.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def masked(value: Any, name: str = "") -> tuple[Any, int]:
    """A text, or all texts in metadata, with secrets masked, and their number.

    If `name` is that of a secret, a value that looks like one is masked as a whole.
    """
    if name and is_secret(name, value):
        return MASK, 1
    if isinstance(value, str):
        found = spans(value)
        return without(value, found), len(found)
    if isinstance(value, Mapping):
        called = next((value[one] for one in ("name", "key") if one in value), "")
        pairs = [
            (masked(key), masked(one, str(called if key == "value" else key)))
            for key, one in value.items()
        ]
        return {key: one for (key, _), (one, _) in pairs}, sum(a + b for (_, a), (_, b) in pairs)
    if isinstance(value, list | tuple):
        each = [masked(one, name) for one in value]
        return [one for one, _ in each], sum(count for _, count in each)
    return value, 0


def is_secret(name: str, value: Any) -> bool:
    """True if a metadata value is a secret by its name: a word, a phrase or a number."""
    phrase = _tests()["password"].match(name) is not None
    if isinstance(value, str) and value.strip():
        if " " in value.strip():
            return phrase and not re.search(r"[.:,?]\s|\[masked", value)
        vague = not phrase and re.search(r"(?:token|pass|credentials?)\s*\Z", name, re.IGNORECASE)
        return _tests()["name"].match(name) is not None and likely(value, whatever=not vague)
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1000
    return number and (phrase or _tests()["number"].match(name) is not None)
