"""Cut a text into chunks that the model reads to their end."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from mcp_server_qdrant.datatypes import Chunk

SECTION = 20_000  # characters split at once: the splitter's time grows with the square
CHARACTERS_PER_TOKEN = 16  # no chunk is longer, even where a long word is a single token
BYTES_PER_TOKEN = 3  # without a tokenizer: UTF-8 bytes, a little below English and CJK
SPECIAL_TOKENS = 2  # without a tokenizer
GAP = 256  # characters of white space that a chunk takes along; more of it is no text

Splitter = TextSplitter | MarkdownSplitter

MARKDOWN = re.compile(r"^(?:#{1,6} \S|```|~~~)", re.MULTILINE)
SURROGATE = re.compile(r"[\ud800-\udfff]")


def split(text: str, *, limit: int, tokenizer_json: str | None, overlap: int) -> list[Chunk]:
    """Chunks of at most `limit` tokens, special ones counted, that share up to `overlap` tokens.

    Chunks end where the text pauses: at paragraphs, sentences, words; in Markdown, before headings.
    The white space between two belongs to the first. A text that fits is one chunk, whole.
    Without a tokenizer the size is guessed, rather too small than too large.
    """
    markdown = MARKDOWN.search(text) is not None
    splitter = _splitter(tokenizer_json, limit, overlap, markdown=markdown)
    # The splitter takes no surrogates; their stand-in is as long, and a token to every model.
    readable = text if text.isascii() else SURROGATE.sub("?", text)
    longest = limit * CHARACTERS_PER_TOKEN
    spans = sorted(
        (start + offset, start + offset + len(chunk))
        for start, section in _sections(readable, max(SECTION, longest))
        for offset, chunk in _chunks(splitter, section, longest)
    )
    if len(spans) <= 1:
        return [Chunk(text, 0, len(text))]
    return [Chunk(text[start:end], start, end) for start, end in _whole(spans, len(text))]


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


def _chunks(splitter: Splitter, text: str, longest: int) -> Iterator[tuple[int, str]]:
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


def _splitter(tokenizer_json: str | None, limit: int, overlap: int, *, markdown: bool) -> Splitter:
    kind = MarkdownSplitter if markdown else TextSplitter
    special, measure = (
        (SPECIAL_TOKENS, _guess) if tokenizer_json is None else _tokenizer(tokenizer_json)
    )
    capacity = max(limit - special, 1)
    # Handing over a callback is free; handing over the tokenizer costs a copy for every limit.
    return kind.from_callback(measure, capacity, min(overlap, capacity // 2))


@lru_cache(maxsize=2)
def _tokenizer(tokenizer_json: str) -> tuple[int, Callable[[str], int]]:
    """How many special tokens the model adds, and what counts the others. Takes 40 ms to build."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    return special, lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _guess(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
