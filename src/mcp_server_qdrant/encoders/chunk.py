"""Splits a text into chunks that fit the model's token limit."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from mcp_server_qdrant.core.notation import SURROGATE
from mcp_server_qdrant.core.sentences import RULES, SIGNS, blocks

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

Count = Callable[[str], int]
Span = tuple[int, int]  # start and end, in characters

SECTION = 20_000  # characters split at once, because the splitter takes quadratic time
CHARACTERS_PER_TOKEN = 16  # upper bound, even if a long word is one token
BYTES_PER_TOKEN = 3  # without a tokenizer: UTF-8 bytes, a little below English and CJK
SPECIAL_TOKENS = 2  # without a tokenizer
WORD, WORDS = 32, 100_000  # cache limits: characters of a word, number of words
# Least fill of a chunk that ends at a break: if the next block fits too, and if not.
FILLED, SMALL = 0.66, 0.25
GAP = 256  # most characters of white space in a chunk

_LEADS = re.compile(
    r"[:?\uff1a\uff1f][\"'`*_)\u201d\u00bb]*$"
)  # end of a paragraph that introduces the next
_UNDERLINE = re.compile(rf"\r?\n([{SIGNS}])\1{{2,}}\s*\n")  # of a heading
_EXPLAINS = re.compile(r"\s*:\s")  # start of a paragraph that defines the term above


def split(
    text: str, limit: int, tokenizer_json: str | None, overlap: int, breaks: Sequence[int] = ()
) -> list[Span]:
    """Start and end of chunks of at most `limit` tokens, including special ones.

    Chunks overlap by up to `overlap` tokens.

    They begin at `breaks` (starts of lines), unless the previous chunk would be too small.
    Otherwise they end at paragraphs, items, sentences or words; a heading or an introducing line
    stays with what follows. White space between two chunks belongs to the first. A text that fits
    is one chunk. Without a tokenizer, token counts are estimated generously.
    """
    # The splitter rejects surrogates; the replacement has the same length and is one token.
    seen = _keep_good_breaks(_replace_surrogates(text))
    special, exact, quick = _token_counters(tokenizer_json)
    capacity = max(limit - special, 1)
    spans = _spans(seen, breaks, quick, capacity, overlap)
    if any(exact(seen[start:end]) > capacity for start, end in spans):
        spans = _spans(seen, breaks, exact, capacity, overlap)
    return list(_close_gaps(spans, len(text))) if len(spans) > 1 else [(0, len(text))]


def token_count(text: str, tokenizer_json: str | None) -> int:
    """The tokens of a text without special ones; estimated without a tokenizer."""
    _, exact, _ = _token_counters(tokenizer_json)
    return exact(_replace_surrogates(text))


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else SURROGATE.sub("?", text)


def _spans(
    text: str, breaks: Sequence[int], count: Count, capacity: int, overlap: int
) -> list[Span]:
    """Start and end of each chunk, in order."""
    from semantic_text_splitter import TextSplitter  # imported late: takes 2 MB

    # A callback is free; passing the tokenizer would copy it for each limit.
    splitter = TextSplitter.from_callback(count, capacity, min(overlap, capacity // 2))
    found: list[Span] = []
    for first, last, fits in _stretches(text, breaks, count, capacity):
        start, end = _trim(text, first, last)
        if not fits:
            size = max(SECTION, capacity * CHARACTERS_PER_TOKEN)
            found += _split(splitter, text, start, last, size)
        elif start < end:
            found.append((start, end))
    return found


def _stretches(
    text: str, breaks: Sequence[int], count: Count, capacity: int
) -> Iterator[tuple[int, int, bool]]:
    """(start, end, fits): stretches that end at a break; `fits`: the stretch is one chunk."""
    blocks = list(pairwise([0, *breaks, len(text)]))
    sizes = [
        sum(count(text[at : min(at + SECTION, end)]) for at in range(start, end, SECTION))
        for start, end in blocks
    ]
    first, size = 0, 0
    for (start, _), more in zip(blocks, sizes if sum(sizes) > capacity else (), strict=False):
        filled = size if size <= capacity else size % capacity  # approximate size of the last chunk
        if filled > capacity * (FILLED if filled + more <= capacity else SMALL):
            yield first, start, size <= capacity
            first, size = start, 0
        size += more
    yield first, len(text), size <= capacity


def _split(splitter: "TextSplitter", text: str, first: int, last: int, size: int) -> Iterator[Span]:
    """The chunks of a stretch, including the indentation of their first lines."""
    reached = first
    for at, section in _sections(text[first:last], size):
        for offset, chunk in splitter.chunk_indices(section):
            start = first + at + offset
            line = text.rfind("\n", reached, start) + 1
            indented = 0 < line < start <= line + GAP
            reached = start + len(chunk)
            yield line if indented else start, reached


def _keep_good_breaks(text: str) -> str:
    """The text with line breaks only at good places to split, and with the same offsets.

    Wrapped lines are joined, and so is an introduction with the next paragraph: a heading, a
    question, a colon, a defined term. Rules are blanked, since no model reads them.
    """
    seen = RULES.sub(lambda rule: " " * len(rule[0]), text)
    parts, at, leads = list[str](), 0, False
    for start, end, kind in blocks(text):
        one = text[start:end].rstrip()
        leads = leads or bool(_UNDERLINE.match(text, at) or _EXPLAINS.match(one))
        parts.append(_join_lines(seen[at:start]) if leads and at else seen[at:start])
        at = start + len(one)
        parts.append(_join_lines(seen[start:at]) if kind == "prose" else seen[start:at])
        leads = kind == "heading" or (kind == "prose" and _LEADS.search(one) is not None)
    return "".join([*parts, seen[at:]])


def _join_lines(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _trim(text: str, first: int, last: int) -> Span:
    """The stretch without surrounding white space, but with its first line's indentation."""
    stretch = text[first:last]
    start = first + len(stretch) - len(stretch.lstrip())
    line = max(text.rfind("\n", first, start) + 1, first)
    return line if start - line <= GAP else start, first + len(stretch.rstrip())


def _close_gaps(spans: Sequence[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Extend the spans by the white space between them, so that they cover the text."""
    following = [start for start, _ in spans[1:]] + [length]
    for number, ((start, end), after) in enumerate(zip(spans, following, strict=True)):
        first = 0 if number == 0 and start <= GAP else start
        yield first, after if 0 < after - end <= GAP else end


def _sections(text: str, size: int) -> Iterator[tuple[int, str]]:
    """Stretches of at most `size` characters, which end at a line or else at a space."""
    start = 0
    while len(text) - start > size:
        middle, end = start + size // 2, start + size
        cuts = (text.rfind(mark, middle, end) for mark in ("\n\n", "\n", " "))
        cut = next((cut for cut in cuts if cut > 0), end)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]


@lru_cache(maxsize=2)
def _token_counters(tokenizer_json: str | None) -> tuple[int, Count, Count]:
    """(number of special tokens, exact counter, fast counter).

    The fast counter caches counts per word, because a splitter counts the same words again and
    again. That is exact for tokenizers that work word by word, and may be slightly low for others.
    """
    if tokenizer_json is None:
        return SPECIAL_TOKENS, _estimate_tokens, _estimate_tokens
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)  # takes 40 ms
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def exact(text: str) -> int:
        return max(len(tokenizer.encode(text, add_special_tokens=False)), _least_tokens(text))

    word = lru_cache(WORDS)(exact)

    def by_word(text: str) -> int:
        return sum(word(one) if len(one) <= WORD else exact(one) for one in text.split())

    return tokenizer.num_special_tokens_to_add(is_pair=False), exact, by_word


def _estimate_tokens(text: str) -> int:
    """An estimate by bytes, rather too high than too low."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _least_tokens(text: str) -> int:
    """A lower bound: a long word may be a single unknown token."""
    return len(text) // CHARACTERS_PER_TOKEN
