"""Cut a text into chunks that the model reads to their end."""

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
Span = tuple[int, int]  # start and end in characters

SECTION = 20_000  # characters split at once: the splitter's time grows with the square
CHARACTERS_PER_TOKEN = 16  # at most, even where a long word is a single token
BYTES_PER_TOKEN = 3  # without a tokenizer: UTF-8 bytes, a little below English and CJK
SPECIAL_TOKENS = 2  # without a tokenizer
WORD, WORDS = 32, 100_000  # characters of a word, and number of words, that are remembered
FILLED, SMALL = 0.66, 0.25  # of a chunk that ends at a break where more would fit, or would not
GAP = 256  # characters of white space that a chunk takes along; more of it is no text

_LEADS = re.compile(r"[:?\uff1a\uff1f][\"'`*_)\u201d\u00bb]*$")  # at the end of a paragraph
_UNDERLINE = re.compile(rf"\r?\n([{SIGNS}])\1{{2,}}\s*\n")  # of a heading
_EXPLAINS = re.compile(r"\s*:\s")  # at the beginning of one: of the term above it


def split(
    text: str, limit: int, tokenizer_json: str | None, overlap: int, breaks: Sequence[int] = ()
) -> list[Span]:
    """Start and end of chunks of at most `limit` tokens, special ones counted.

    They share up to `overlap` tokens.

    They begin at `breaks`, which are starts of lines, unless the one before would be too small.
    Elsewhere they end where the text pauses: at paragraphs, items, sentences, words; a heading, or
    a line that leads to the next, stays with what follows. The white space between two belongs to
    the first. A text that fits is one chunk. Without a tokenizer the size is guessed, rather too
    small than too large.
    """
    # The splitter takes no surrogates; their stand-in is as long, and a token to every model.
    seen = _paused(_readable(text))
    special, exact, quick = _counting(tokenizer_json)
    capacity = max(limit - special, 1)
    spans = _spans(seen, breaks, quick, capacity, overlap)
    if any(exact(seen[start:end]) > capacity for start, end in spans):
        spans = _spans(seen, breaks, exact, capacity, overlap)
    return list(_whole(spans, len(text))) if len(spans) > 1 else [(0, len(text))]


def token_count(text: str, tokenizer_json: str | None) -> int:
    """The tokens of a text, special ones not counted; guessed where there is no tokenizer."""
    _, exact, _ = _counting(tokenizer_json)
    return exact(_readable(text))


def _readable(text: str) -> str:
    return text if text.isascii() else SURROGATE.sub("?", text)


def _spans(
    text: str, breaks: Sequence[int], count: Count, capacity: int, overlap: int
) -> list[Span]:
    """Start and end of each chunk, in order."""
    from semantic_text_splitter import TextSplitter  # 2 MB of a server

    # Handing over a callback is free; handing over the tokenizer costs a copy for every limit.
    splitter = TextSplitter.from_callback(count, capacity, min(overlap, capacity // 2))
    found: list[Span] = []
    for first, last, fits in _stretches(text, breaks, count, capacity):
        start, end = _trimmed(text, first, last)
        if not fits:
            size = max(SECTION, capacity * CHARACTERS_PER_TOKEN)
            found += _split(splitter, text, start, last, size)
        elif start < end:
            found.append((start, end))
    return found


def _stretches(
    text: str, breaks: Sequence[int], count: Count, capacity: int
) -> Iterator[tuple[int, int, bool]]:
    """Stretches whose last chunk is filled well enough to end there, and whether each fits."""
    blocks = list(pairwise([0, *breaks, len(text)]))
    sizes = [
        sum(count(text[at : min(at + SECTION, end)]) for at in range(start, end, SECTION))
        for start, end in blocks
    ]
    first, size = 0, 0
    for (start, _), more in zip(blocks, sizes if sum(sizes) > capacity else (), strict=False):
        filled = size if size <= capacity else size % capacity  # nearly: of the last chunk
        if filled > capacity * (FILLED if filled + more <= capacity else SMALL):
            yield first, start, size <= capacity
            first, size = start, 0
        size += more
    yield first, len(text), size <= capacity


def _split(splitter: "TextSplitter", text: str, first: int, last: int, size: int) -> Iterator[Span]:
    """The chunks of a stretch, each with the indentation of its first line."""
    reached = first
    for at, section in _sections(text[first:last], size):
        for offset, chunk in splitter.chunk_indices(section):
            start = first + at + offset
            line = text.rfind("\n", reached, start) + 1
            indented = 0 < line < start <= line + GAP
            reached = start + len(chunk)
            yield line if indented else start, reached


def _paused(text: str) -> str:
    """The text with line breaks only where it pauses; as long, so that places are the same.

    A line that is wrapped goes on, and what leads to the next paragraph is one with it: a heading,
    a question, a colon, a term that is explained. Rules are blank, since no model reads them.
    """
    seen = RULES.sub(lambda rule: " " * len(rule[0]), text)
    parts, at, leads = list[str](), 0, False
    for start, end, kind in blocks(text):
        one = text[start:end].rstrip()
        leads = leads or bool(_UNDERLINE.match(text, at) or _EXPLAINS.match(one))
        parts.append(_joined(seen[at:start]) if leads and at else seen[at:start])
        at = start + len(one)
        parts.append(_joined(seen[start:at]) if kind == "prose" else seen[start:at])
        leads = kind == "heading" or (kind == "prose" and _LEADS.search(one) is not None)
    return "".join([*parts, seen[at:]])


def _joined(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _trimmed(text: str, first: int, last: int) -> Span:
    """The stretch without the white space around it, but with the indentation of its first line."""
    stretch = text[first:last]
    start = first + len(stretch) - len(stretch.lstrip())
    line = max(text.rfind("\n", first, start) + 1, first)
    return line if start - line <= GAP else start, first + len(stretch.rstrip())


def _whole(spans: Sequence[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """The spans with the white space around them, so that together they are the text."""
    following = [start for start, _ in spans[1:]] + [length]
    for number, ((start, end), after) in enumerate(zip(spans, following, strict=True)):
        first = 0 if number == 0 and start <= GAP else start
        yield first, after if 0 < after - end <= GAP else end


def _sections(text: str, size: int) -> Iterator[tuple[int, str]]:
    """The text in stretches of at most `size` characters that end at a line, else at a space."""
    start = 0
    while len(text) - start > size:
        middle, end = start + size // 2, start + size
        cuts = (text.rfind(mark, middle, end) for mark in ("\n\n", "\n", " "))
        cut = next((cut for cut in cuts if cut > 0), end)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]


@lru_cache(maxsize=2)
def _counting(tokenizer_json: str | None) -> tuple[int, Count, Count]:
    """The tokens that the model adds to every text; a function that counts, and a quicker one.

    The latter counts each word once in a life: a splitter asks again and again. Most tokenizers
    take words one by one. Of others it is nearly right, and may be too low.
    """
    if tokenizer_json is None:
        return SPECIAL_TOKENS, _guess, _guess
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)  # takes 40 ms
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def exact(text: str) -> int:
        return max(len(tokenizer.encode(text, add_special_tokens=False)), _least(text))

    word = lru_cache(WORDS)(exact)

    def by_word(text: str) -> int:
        return sum(word(one) if len(one) <= WORD else exact(one) for one in text.split())

    return tokenizer.num_special_tokens_to_add(is_pair=False), exact, by_word


def _guess(text: str) -> int:
    """By the bytes, rather too many than too few."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _least(text: str) -> int:
    """What a text counts at least: a long word may be a single token, unknown to the model."""
    return len(text) // CHARACTERS_PER_TOKEN
