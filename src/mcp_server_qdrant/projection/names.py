"""Names of groups of texts: phrases, as they stand there, that tell a group from every other.

Class-based tf-idf: the share of a group's texts with a phrase, times how rare it is in all.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from mcp_server_qdrant.core.bm25 import ENGLISH
from mcp_server_qdrant.encoders.bm25 import NEUTRAL, PAIRED, Bm25Encoder
from mcp_server_qdrant.encoders.language import sure

READ = 400  # characters of a text
MOST = 10_000  # texts of all groups
PHRASES = 8  # of a group
WORDS = 3  # of a phrase
CHARACTERS = range(2, 5)  # of a phrase in a script without spaces
FEWEST = 3  # texts of a group that have a phrase of its name
SHARES = (0.13, 0.08)  # of them; the second where none has the first
PLAIN = 0.5  # what a phrase weighs that no title has
CLEARLY = 2.0  # times as frequent as in any other group
ASKED, SPOKEN = 100, 0.02  # texts whose language is looked at; its share from which it counts

WORD = re.compile(r"[^\W\d_]{3,30}")
BREAK = re.compile(r"[^\w\s'\u2019-]+|\n|[\d_]+")  # no phrase goes across it
# Addresses, names of fields before their values, suffixes of files.
FOREIGN = re.compile(
    r"\w+://\S+|%\w+"
    r"|^[^\W\d][\w -]{0,30}:(?=\s)|\b[A-Z]{6,}(?= [A-Z][a-z])|(?<=\w)\.[a-z]\w{1,3}\b",
    re.MULTILINE,
)
# Words without spaces around them that tell nothing, Chinese and Japanese.
PARTICLES = re.compile(
    "他们|她们|它们|我们|你们|因为|所以|但是|可能|可以|没有|包括|这些|那些|一些|一个|许多|以及|部分"
    "|[的了是在和與与為为有于之不也就以及其这這那上到被對对由而等并將将從个個年月日のはをにがとでも]"
)

Phrase = tuple[int | str, ...]  # stems, or characters
Stem = Callable[[str], int | None]


def names(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """The phrases of each group, the best first; none where nothing tells it from the others."""
    step = -(-sum(map(len, groups)) // MOST) or 1
    read = [[text[:READ] for text in texts[::step]] for texts in groups]
    counted = [_counted(texts) for texts in read]
    everywhere = Counter[Phrase]()
    for count in counted:
        everywhere.update(count.held)
    total = sum(map(len, read))
    made = []
    for texts, count in zip(read, counted, strict=True):
        size = len(texts)
        pairs = zip(counted, read, strict=True)
        others = [(one.all, len(of)) for one, of in pairs if of and one is not count]
        for share in SHARES:
            scored = [
                (count.weight(phrase) * math.log(1 + total / everywhere[phrase]), phrase)
                for phrase, held in count.held.items()
                if held >= max(min(FEWEST, size), share * size)
                and all(held / size >= CLEARLY * other[phrase] / of for other, of in others)
            ]
            if scored:
                break
        scored.sort(key=lambda one: (-one[0], str(one[1])))
        best = _distinct(phrase for _, phrase in scored)
        made.append([count.spelled[phrase].most_common(1)[0][0] for phrase in best])
    return made


def called(phrases: Sequence[str]) -> str:
    """What a group is called: its best phrase, or two where that is a single word."""
    single = bool(phrases) and WORD.fullmatch(phrases[0]) and not PAIRED.match(phrases[0])
    return ", ".join(phrases[: 2 if single else 1])


@dataclass(slots=True)
class _Count:
    """The phrases of a group: in how many texts each is, in how many titles, how it is written.

    The parts of one document repeat its title, a line of its own: for `held` it counts once.
    """

    held: Counter[Phrase] = field(default_factory=Counter)
    all: Counter[Phrase] = field(default_factory=Counter)
    titled: Counter[Phrase] = field(default_factory=Counter)
    spelled: defaultdict[Phrase, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def weight(self, phrase: Phrase) -> float:
        """Many texts have it, it is long, and titles are made of it."""
        length = len(phrase) / 2 if isinstance(phrase[0], str) else len(phrase)
        return length * (PLAIN * self.held[phrase] + self.titled[phrase])


def _counted(texts: Sequence[str]) -> _Count:
    count, stem, titles = _Count(), _stemmer(texts), dict[str, dict[Phrase, str]]()
    for text in texts:
        title, line, body = text.partition("\n")
        found = dict(_phrases(body if line else text, stem))
        new = bool(line) and title not in titles
        if new:
            titles[title] = dict(_phrases(title, stem))
            count.titled.update(titles[title].keys())
        named = titles[title] if line else {}
        count.all.update(named.keys() | found.keys())
        own = named | found if new else found
        count.held.update(own.keys())
        for phrase, written in own.items():
            count.spelled[phrase][written] += 1
    return count


def _distinct(phrases: Iterable[Phrase]) -> list[Phrase]:
    """The first phrases that share half of their words at most with those before."""
    known, kept = set[int | str](), list[Phrase]()
    for phrase in phrases:
        if 2 * sum(part in known for part in phrase) <= len(phrase):
            kept.append(phrase)
            known.update(phrase)
        if len(kept) == PHRASES:
            break
    return kept


def _phrases(text: str, stem: Stem) -> Iterator[tuple[Phrase, str]]:
    text = FOREIGN.sub("\n", text)
    for part in BREAK.split(PAIRED.sub("\n", text)):
        run: list[tuple[int, str]] = []
        for word in part.split():
            number = stem(word.lower())
            run = [] if number is None else [*run[1 - WORDS :], (number, word)]
            for start in range(len(run)):
                stems, words = zip(*run[start:], strict=True)
                yield stems, " ".join(words)
    for written in () if text.isascii() else PAIRED.findall(text):
        for run_on in PARTICLES.split(written):
            for size in CHARACTERS:
                for at in range(len(run_on) - size + 1):
                    yield tuple(run_on[at : at + size]), run_on[at : at + size]


_encoder = cache(Bm25Encoder)


def _stemmer(texts: Sequence[str]) -> Stem:
    """A word's stem in a group's main language; None for a stop word of any of its own."""
    looked_at = texts[:: max(1, len(texts) // ASKED)]
    found = Counter(sure(text, NEUTRAL) or ENGLISH for text in looked_at)
    languages = [name for name, count in found.most_common() if count >= SPOKEN * len(looked_at)]
    encoders = [_encoder(one) for one in languages]
    known: dict[str, int | None] = {}

    def stem(word: str) -> int | None:
        if word not in known:
            stems = [one.tokens(word) for one in encoders] if WORD.match(word) else [[]]
            known[word] = stems[0][0] if all(stems) else None
        return known[word]

    return stem
