"""The words of drawn texts: forms of one word count together, stop words not at all."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from mcp_server_qdrant.core.bm25 import ENGLISH
from mcp_server_qdrant.encoders.bm25 import NEUTRAL, PAIRED, Bm25Encoder
from mcp_server_qdrant.encoders.language import sure

LETTERS = re.compile(r"[^\W\d_]{3,30}")
READ = 400  # characters of a text
ASKED = 100  # texts whose language is looked at
SPOKEN = 0.05  # share of them from which on a language's stop words are left out


class Words:
    """The distinct words of each text, as numbers: `of[n]` are those of text n."""

    def __init__(self, texts: Sequence[str]) -> None:
        languages = _languages(texts)
        self._encoders = [Bm25Encoder(one) for one in languages]
        self._numbers: dict[str, int | None] = {}
        self._spellings: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.of = [self._read(text[:READ].lower()) for text in texts]
        self.texts_with: Counter[int] = Counter()
        for words in self.of:
            self.texts_with.update(words)
        self.spelled = {word: forms.most_common(1)[0][0] for word, forms in self._spellings.items()}
        del self._encoders, self._numbers, self._spellings

    def _read(self, text: str) -> tuple[int, ...]:
        found = set()
        written = LETTERS.findall(PAIRED.sub(" ", text))
        if not text.isascii():
            runs = PAIRED.findall(text)
            written += [run[at : at + 2] for run in runs for at in range(0, len(run) - 1, 2)]
        for word in written:
            if word not in self._numbers:
                self._numbers[word] = self._number(word)
            number = self._numbers[word]
            if number is not None:
                found.add(number)
                self._spellings[number][word] += 1
        return tuple(found)

    def _number(self, word: str) -> int | None:
        """The word's stem in the texts' main language; None for a stop word of any of theirs."""
        stems = [one.tokens(word) for one in self._encoders]
        return stems[0][0] if all(stems) else None


def _languages(texts: Sequence[str]) -> list[str]:
    """The languages of the texts, the most frequent first."""
    looked_at = texts[:: max(1, len(texts) // ASKED)]
    found = Counter(sure(text, NEUTRAL) or ENGLISH for text in looked_at)
    return [name for name, count in found.most_common() if count >= SPOKEN * len(looked_at)]
