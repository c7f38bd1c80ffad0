"""Cut a text into chunks that the model reads to their end."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from mcp_server_qdrant.core.datatypes import Chunk
from mcp_server_qdrant.core.notation import SURROGATE

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    Splitter = TextSplitter | MarkdownSplitter

Count = Callable[[str], int]
Span = tuple[int, int]

SECTION = 20_000  # characters split at once: the splitter's time grows with the square
CHARACTERS_PER_TOKEN = 16  # no chunk is longer, even where a long word is a single token
BYTES_PER_TOKEN = 3  # without a tokenizer: UTF-8 bytes, a little below English and CJK
SPECIAL_TOKENS = 2  # without a tokenizer
WORD, WORDS = 32, 100_000  # characters of a word, and number of words, that are remembered
FILLED, SMALL = 0.66, 0.25  # of a chunk that ends at a break where more would fit, or would not
GAP = 256  # characters of white space that a chunk takes along; more of it is no text

MARKDOWN = re.compile(r"^(?:#{1,6} \S|```|~~~)", re.MULTILINE)


def split(
    text: str,
    *,
    limit: int,
    tokenizer_json: str | None,
    overlap: int,
    markdown: bool | None = None,
    breaks: Sequence[int] = (),
) -> list[Chunk]:
    """Chunks of at most `limit` tokens, special ones counted, that share up to `overlap` tokens.

    They begin at `breaks`, which are starts of lines, unless the one before would be too small.
    Elsewhere they end where the text pauses: at paragraphs, sentences, words; in Markdown, before
    headings. The white space between two belongs to the first. A text that fits is one chunk.
    Without a tokenizer the size is guessed, rather too small than too large. Unless the
    caller knows whether a text is Markdown, its signs decide.
    """
    if markdown is None:
        markdown = MARKDOWN.search(text) is not None
    # The splitter takes no surrogates; their stand-in is as long, and a token to every model.
    readable = text if text.isascii() else SURROGATE.sub("?", text)
    counter = _guessing() if tokenizer_json is None else _counter(tokenizer_json)
    capacity = max(limit - counter.special, 1)
    overlap = min(overlap, capacity // 2)
    from semantic_text_splitter import MarkdownSplitter, TextSplitter  # 2 MB of a server

    kind = MarkdownSplitter if markdown else TextSplitter
    longest = limit * CHARACTERS_PER_TOKEN
    cutter = _Cutter(readable, kind.from_callback, capacity, overlap, longest)
    # Handing over a callback is free; handing over the tokenizer costs a copy for every limit.
    spans = cutter.spans(breaks, counter.exact if tokenizer_json is None else counter.by_word)
    sizes = [counter.exact(readable[start:end]) for start, end in spans]
    if any(size > capacity for size in sizes):
        spans = cutter.spans(breaks, counter.exact)
        sizes = [counter.exact(readable[start:end]) for start, end in spans]
    if len(spans) <= 1:
        return [Chunk(text, 0, len(text), sum(sizes))]
    whole = zip(_whole(spans, len(text)), sizes, strict=True)
    return [Chunk(text[start:end], start, end, size) for (start, end), size in whole]


def tokens(text: str, tokenizer_json: str | None) -> int:
    """The tokens of a text, special ones not counted; guessed where there is no tokenizer."""
    counter = _guessing() if tokenizer_json is None else _counter(tokenizer_json)
    return counter.exact(text if text.isascii() else SURROGATE.sub("?", text))


@dataclass(frozen=True)
class _Cutter:
    """Cuts a text into stretches, and those into chunks of at most `longest` characters."""

    text: str
    splitter: "Callable[[Count, int, int], Splitter]"
    capacity: int
    overlap: int
    longest: int

    def spans(self, breaks: Sequence[int], count: Count) -> list[Span]:
        """Start and end of each chunk, in order."""
        found: list[Span] = []
        for first, last, fits in self._stretches(breaks, count):
            start, end = _trimmed(self.text, first, last)
            if not fits or end - start > self.longest:
                found += self._split(start, last, count)
            elif start < end:
                found.append((start, end))
        return sorted(found)

    def _stretches(self, breaks: Sequence[int], count: Count) -> Iterator[tuple[int, int, bool]]:
        """Stretches whose last chunk is filled well enough to end there, and whether each fits."""
        text, capacity = self.text, self.capacity
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

    def _split(self, first: int, last: int, count: Count) -> list[Span]:
        """The chunks of a stretch. The splitter cuts headings off: they stay with the first."""
        found = self._chunks(first, last, count, self.capacity)
        head, after = 0, first
        for _, end in found[:-1]:
            size = count(self.text[first:end])
            if size > self.capacity * SMALL or not self.text.startswith(("\r", "\n"), end):
                break
            head, after = size, end
        if not head:
            return found
        following, _ = _trimmed(self.text, after, last)
        body = self._chunks(following, last, count, self.capacity - head - 1)
        whole = [(first, body[0][1]), *body[1:]]
        return whole if body[0][1] - first <= self.longest else found

    def _chunks(self, first: int, last: int, count: Count, room: int) -> list[Span]:
        splitter = self.splitter(count, room, min(self.overlap, room // 2))
        sections = _sections(self.text[first:last], max(SECTION, self.longest))
        return [
            (first + start + offset, first + start + offset + len(chunk))
            for start, section in sections
            for offset, chunk in _chunks(splitter, section, self.longest)
        ]


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


def _chunks(splitter: "Splitter", text: str, longest: int) -> Iterator[tuple[int, str]]:
    """Offset and text of each chunk; those longer than `longest` characters are cut and split."""
    reached = 0
    for offset, chunk in splitter.chunk_indices(text):
        if len(chunk) <= longest:
            yield offset, chunk
        else:
            # What such a chunk shares with the one before can be many chunks long.
            for cut in range(max(reached - offset, 0), len(chunk), longest):
                # The end of a cut word can be more tokens than the word was.
                for inner, piece in splitter.chunk_indices(chunk[cut : cut + longest]):
                    yield offset + cut + inner, piece
        reached = offset + len(chunk)


class _Counter:
    """Counts the tokens of a text; `special` are those that the model adds to every text."""

    def __init__(self, special: int, exact: Callable[[str], int]) -> None:
        self.special = special
        self.exact = exact
        self._words: dict[str, int] = {}

    def by_word(self, text: str) -> int:
        """The sum over its words, each counted once in a life: a splitter asks again and again.

        Most tokenizers take words one by one. Of others it is nearly right, and may be too low.
        """
        known = self._words
        return sum(known.get(word) or self._count(word) for word in text.split())

    def _count(self, word: str) -> int:
        count = self.exact(word)
        if len(word) <= WORD:
            if len(self._words) >= WORDS:
                self._words.clear()
            self._words[word] = count
        return count


@lru_cache(maxsize=2)
def _counter(tokenizer_json: str) -> _Counter:
    """By the model's tokenizer, which takes 40 ms to build."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    return _Counter(special, lambda text: len(tokenizer.encode(text, add_special_tokens=False)))


@lru_cache(maxsize=1)
def _guessing() -> _Counter:
    """By the bytes, rather too many than too few."""
    return _Counter(SPECIAL_TOKENS, _guess)


def _guess(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
