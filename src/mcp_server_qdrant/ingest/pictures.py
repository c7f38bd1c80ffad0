"""Finds pictures and other data in a text, as data URIs, base64 or hex, to cut them out exactly.

Data outside of data URIs is recognised by length and characters. Hashes, addresses, paths, genes
and long names stay, and so do private keys and tokens, which are masked later.
"""

import re
from collections.abc import Iterator

from mcp_server_qdrant.ingest.secrets import Span, merge

FEWEST = 256  # characters of data at least
SHORTEST = 32  # the same in a data URI; shorter ones are examples
PLAIN = 2_000  # characters from which data may have few digits, like a white picture
ADDRESS = 4_000  # characters of an address or a token at most
KEY = 20_000  # characters of a private key at most
SAMPLE = 20_000  # characters examined to recognise data

SIGN = r"(?:[A-Za-z0-9+/]|\\/)"
# Between two lines: the end of a literal or of a JSON line; indentation, marks of quotes, comments.
BREAK = (
    r"(?:[\"'`,.+ \t]{0,5}+(?:\\?\r{0,2}\n|(?:\\r)?\\n|(?:&#(?:1[03]|x[aAdD]);){1,2}\n?)"
    r"[ \t>#*|\"'`%;-]{0,40}+(?:b['\"]|//[ \t]|\+[ \t][\"'])?+|[\"'],[ ]?[\"'])"
)
LAST = (
    rf"(?P<last>{BREAK}(?P<word>{SIGN}{{1,75}}+)(?P<pad>={{0,2}}+)"
    r"(?=[ \t]*+(?:[\s\"'`<),;&\\]|\Z)))"
)
WRAPPED = rf"(?:(?:(?:{BREAK}|[ ])(?:\r?\n[ \t]*+)?+{SIGN}{{48,}}+)++={{0,2}}+{LAST}?+)?+"
# A property's line, as in a vCard, may begin with its name. A lookbehind after the first character
# is twice as fast as one before it.
PROPERTY = rf"(?<=[:=,;].){SIGN}*+(?={BREAK}{SIGN}{{48}})"
RUN = re.compile(
    rf"[A-Za-z0-9+/](?<![A-Za-z0-9+/]{{2}})(?:{SIGN}{{47,}}+|{PROPERTY})={{0,2}}+{WRAPPED}"
)
URL_SAFE = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{256,}+={0,2}+")
# Bytes in hex, as in C and Python; lines of hexdump or xxd; uuencoded lines. The first byte stands
# alone in the pattern, because a search for a set of characters is fast.
BYTES = re.compile(
    r"[0-9a-fA-F\\](?<![0-9A-Za-z].)x?[0-9a-fA-F]{1,2}(?::\s{0,40}+(?:[0-9a-fA-F]{2}:\s{0,40}+)++"
    r"|(?:(?=\\x)|[,\s\\]{1,40}+)(?:(?:0x[0-9a-fA-F]{1,2}|[0-9a-fA-F]{2})[,\s\\]{1,40}+"
    r"|\\x[0-9a-fA-F]{2}(?:[\"']\s{1,40}+b?[\"'])?+)++)",
    re.DOTALL,
)
LISTED = re.compile(
    r"(?:^[ \t]*+[0-9a-fA-F]{6,16}:?[ \t]++"
    r"(?:(?:[0-9a-fA-F]{2}){1,4}+[ \t]++){4,16}+[^\n]*+\n){8,}+"
    r"|(?<=\n)(?:M[ -`]{60}\r?\n){4,}+",
    re.MULTILINE,
)
PREFIX = re.compile(r"0x|\\x|\W")
URI = re.compile(
    r"[dD][aA][tT][aA]:(?:(?P<kind>[a-zA-Z]{1,20})/[\w.+-]{1,100}+)?+"
    r"(?P<more>(?:\\?;[^\s,;\"'<>\\]{1,100}+){0,9}+)\\?,"
)
CONTENT = re.compile(
    rf"(?: (?={SIGN}{{48}}))?+(?:[A-Za-z0-9+/_=-]|\\/|%[0-9A-Fa-f]{{2}})*+{WRAPPED}"
)
PICTURES = ("image", "audio", "video", "font")
UNQUOTED = re.compile(r"[^\s\"'()<>]*+")
QUOTED = {'"': re.compile(r'[^"\n]*+'), "'": re.compile(r"[^'\n]*+")}

BETWEEN = re.compile(r"&#\w+;|\\[rn]|(?<=\s)(?:b['\"]|//\s|\+\s[\"'])|[^A-Za-z0-9+/_-]")
HEX = re.compile(r"(?:0?x)?[0-9a-fA-F]+\Z")
HASHES = (48, 56, 64, 96, 128)  # characters of a hash in hex
WORD = re.compile(r"[A-Za-z]?[a-z]*\Z|[A-Z]+\Z")
WORDS = re.compile(r"[a-z]{4,}")
END_OF_TOKEN = re.compile(r"[\s\"'<>|`]")


def pictures(text: str) -> list[Span]:
    """The spans of data in a text, in order and without overlaps, in linear time."""
    found = [*_addressed(text)]
    for pattern in (RUN, URL_SAFE):
        for run in pattern.finditer(text):
            start, end = run.start(), _end(run)
            if _is_data(text[start:end]) and not _is_kept(text, start, end):
                found.append((start, end))
    found += [run.span() for run in BYTES.finditer(text) if _is_data(PREFIX.sub("", run[0]))]
    return merge([*found, *(run.span() for run in LISTED.finditer(text))])


def _addressed(text: str) -> Iterator[Span]:
    """The data URIs, except those with readable text."""
    at = 0
    while uri := URI.search(text, at):
        at = start = uri.end()
        quoted = QUOTED.get(text[uri.start() - 1 : uri.start()], UNQUOTED)
        if uri["more"].lower().endswith(";base64"):
            content = CONTENT.match(text, at)
        else:
            content = quoted.match(text, at) if (uri["kind"] or "").lower() in PICTURES else None
        at = _end(content) if content else at
        if at - start >= SHORTEST:
            yield uri.start(), at


def _end(run: re.Match[str]) -> int:
    """The end of data; what looks like its last line may be a word below it."""
    if "last" not in run.re.groupindex or run["last"] is None or run["pad"]:
        return run.end()
    whole = len(BETWEEN.sub("", run[0])) % 4 == 0
    return run.end() if whole and not WORD.match(run["word"]) else run.start("last")


def _is_data(run: str) -> bool:
    """True for base64 or hex, but not for words, names and hashes."""
    lines = [one for one in BETWEEN.split(run.replace("\\/", "/")) if one.strip("+")]
    data = "".join(lines)
    if len(data) < FEWEST:
        return False
    if max(map(len, lines)) < FEWEST:  # wrapped: all inner lines have one length
        widths = {len(line) for line in lines[1:-1]}
        if len(widths) > 1 or (widths <= {*HASHES} and HEX.match(data)):
            return False
    data = data[:SAMPLE]
    digits, capitals = sum(map(str.isdigit, data)), sum(map(str.isupper, data))
    if HEX.match(data):
        return 0.02 < digits / len(data) < 0.98
    words = sum(map(len, WORDS.findall(data))) / len(data)
    joints = data.count("_") + data.count("-")
    if words > 0.3 or not digits or not capitals or joints > 0.05 * len(data):
        return False
    small = sum(map(str.islower, data))
    return len(data) >= PLAIN or min(digits * 5, capitals, small) > 0.1 * len(data)


def _is_kept(text: str, start: int, end: int) -> bool:
    """True for a private key, and for a part of an address or a token."""
    if end - start < KEY and (
        "PRIVATE KEY" in text[max(0, start - 300) : start] or "PRIVATE KEY" in text[end : end + 60]
    ):
        return True
    if end - start > ADDRESS:
        return False
    *_, token = END_OF_TOKEN.split(text[max(0, start - ADDRESS) : start])
    beside = token.endswith(".") or text[end : end + 1] == "."
    return "://" in token or (beside and (token + text[start:end]).startswith("eyJ"))
