"""How well a hit fits, as numbers in [0, 1] that compare across collections and queries.

`calibrate` makes them of the legs' scores; the lifts raise the relevance of a hit that has words of
the query in its tags, its title or as they are written, and of one beside a better one.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from mcp_server_qdrant.core.bm25 import K1
from mcp_server_qdrant.core.datatypes import Document, Payload, PointId, Scored
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.search.words.tags import TagMatch, folded_tag
from mcp_server_qdrant.search.words.terms import Terms, Words

DIGITS = 5  # of a relevance: the legs are float32
KNEE = 0.8
# A tag counts more than its words in the text could earn as keywords: there they would be part of
# the meaning too, and a look-alike that mentions a project must not pass for one of its notes.
TAG_GAIN = 1.5
TAG_MOST = 0.8  # relevance that tags can give
TITLE_GAIN = 0.2  # of a title that holds the whole query: measured (docs/ranking.md)
HALF = 0.5  # of the query, for what is written exactly: measured (docs/ranking.md)
NEIGHBOUR_SHARE = 0.5
REACH = 2

_NUMBERED = re.compile(r"(.*[:#])([0-9]{1,9})", re.DOTALL)

Place = tuple[str, str, int]  # collection, the id up to its number, the number


class Hit(NamedTuple):
    """One point on its way to the answer.

    `relevance` in [0, 1] compares across collections and queries; `score`, which orders, is
    relevance times the factors. `factors` records what each ranking step did, `gains` what was
    added to the relevance; `tags` are those of the hit that the query names. `reranked`, in [0, 1],
    stands in for relevance where a reranker read the text. `reading` makes a document of the
    payload, once it is fetched: few are looked at. `also`: its copies; `parts`: what else was found
    of its document, best first; `supersedes`: the id of the text in whose place it stands.
    """

    collection: str
    id: PointId
    relevance: float
    score: float
    rrf: float
    dense: float | None
    sparse: float | None
    payload: Payload | None = None
    reading: Callable[[], Document] | None = None
    factors: tuple[tuple[str, float], ...] = ()
    gains: tuple[tuple[str, float], ...] = ()
    tags: tuple[str, ...] = ()
    reranked: float | None = None
    also: tuple["Hit", ...] = ()
    parts: tuple["Hit", ...] = ()
    supersedes: str | None = None

    @property
    def document(self) -> Document:
        """What its payload says, as a document."""
        assert self.reading is not None
        return self.reading()

    @property
    def doc(self) -> Mapping[str, Any]:
        """What this server wrote of its document, which need not be read; empty of other tools'."""
        doc = (self.payload or {}).get("doc")
        return doc if isinstance(doc, dict) else {}

    @property
    def own(self) -> str | None:
        """The id of its document; None for points of other tools."""
        value = self.doc.get("id")
        return value if isinstance(value, str) else None

    def rescored(self, step: str, factor: float) -> "Hit":
        """A copy whose score is multiplied by `factor`, with the step recorded."""
        return self._replace(score=self.score * factor, factors=(*self.factors, (step, factor)))

    def lifted(self, step: str, relevance: float) -> "Hit":
        """A copy that is more relevant, by what is recorded as the step's gain."""
        return self._replace(
            relevance=relevance,
            score=relevance * math.prod(factor for _, factor in self.factors),
            gains=(*self.gains, (step, relevance - self.relevance)),
        )


def by_score(hits: Iterable[Hit]) -> list[Hit]:
    """Best first; ties by collection and id, so that the same request gives the same order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.collection, str(hit.id)))


def bound(terms: Terms) -> float:
    """The largest BM25 score that any document could reach for these terms."""
    return (K1 + 1) * (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling)


def relevance(dense: float | None, sparse: float | None, limit: float, alpha: float) -> float:
    """Relevance of one point; None stands for a leg that was not searched.

    `dense` is a cosine, `sparse` a BM25 score under the global idf, `limit` the bound, `alpha`
    the dense leg's share. The share of a leg that was not searched goes to the other.
    """
    meaning = 0.0 if dense is None else within_one(dense)
    words = 0.0 if sparse is None or limit <= 0 else within_one(sparse / limit)
    if dense is None:
        return words
    if sparse is None or limit <= 0:
        return meaning
    return alpha * meaning + (1 - alpha) * words


def within_one(value: float) -> float:
    """The value held to [0, 1], nan as 0; quicker than `min` and `max`, which counts here."""
    return value if 0.0 <= value <= 1.0 else 1.0 if value > 1.0 else 0.0


def calibrate(found: Iterable[Scored], terms: Terms, alpha: float) -> list[Hit]:
    """All candidates as one ranking, best first, ties by collection and id.

    Without parts of texts that were replaced, or are not whole yet.

        relevance = a * max(cos, 0) + (1 - a) * bm25 / bound,   bound = (k1 + 1) * sum_t idf(t)

    Merging by RRF score would be a round-robin: every collection's first hit scores the same,
    however bad. Both terms here are absolute: cos by nature, bm25 because the bound is the largest
    score that any document could reach (k1 + 1 is the limit of BM25's term frequency part) and
    because idf is that of all searched collections together. Source: DESIGN 3.3, measured there.
    """
    limit = bound(terms)
    return by_score(hit for part in found for hit in _hits(part, limit, alpha))


def _hits(found: Scored, limit: float, alpha: float) -> Iterator[Hit]:
    for collection, point, rrf, dense, sparse, payload, current in found.candidates:
        if current is False:
            continue
        # Engines differ in the last digits from call to call: equal texts would change places.
        value = round(relevance(dense, sparse, limit, alpha), DIGITS)
        yield Hit(collection, point, value, value, rrf, dense, sparse, payload)


def lifted(hit: Hit, step: str, part: float, alpha: float) -> Hit:
    """The hit with relevance and score raised, the gain recorded under `step`.

        relevance' = bent(relevance + (1 - a) * part)

    with a = 0 where no vectors were compared. `part` is the part of the query, by idf, that the
    words found are: what they could earn in the text at most.
    """
    words = 1.0 if hit.dense is None else 1 - alpha
    raised = bent(hit.relevance, words * part)
    return hit.lifted(step, raised) if raised > hit.relevance else hit


def bent(value: float, gain: float) -> float:
    """The relevance with the gain, in [0, 1]; increasing in both.

    Above a knee at 0.8 (or at the relevance, where that is more) the line bends,
    k + (1 - k) * (1 - exp(-(x - k) / (1 - k))), so that it stays below 1 and keeps the order.
    """
    knee = max(KNEE, value)
    over, room = value + gain - knee, 1 - knee
    if over <= 0 or room <= 0:
        return min(value + gain, 1.0)
    return knee + room * (1 - math.exp(-over / room))


def lift_tags(
    hits: Sequence[Hit], matches: Mapping[str, TagMatch], words: Words, alpha: float
) -> list[Hit]:
    """The hits, best first, those that carry a tag which the query names raised.

    The part of the query that the tags' words are counts TAG_GAIN times, and by the match's boost.
    """
    if not matches:
        return list(hits)
    fold = cache(folded_tag)  # the same few tags are in many hits

    @cache
    def part(tags: tuple[str, ...]) -> float:
        return words.part({term for tag in tags for term in words.tokens(fold(tag))})

    def raised(hit: Hit) -> Hit:
        named = matches.get(hit.collection)
        tags = carried(hit.payload, named, fold) if named else ()
        if not named or not tags:
            return hit
        return capped(hit, lifted(hit, "tags", part(tags) * TAG_GAIN * named.boost, alpha), tags)

    return by_score(map(raised, hits))


def carried(
    payload: Payload | None, named: TagMatch, fold: Callable[[str], str] = folded_tag
) -> tuple[str, ...]:
    """The named tags of a payload: `tags` or `metadata.tags`, a string or a list."""
    payload = payload or {}
    values: list[Any] = []
    for place in (payload, payload.get("metadata")):
        tags = place.get("tags") if isinstance(place, dict) else None
        values += tags if isinstance(tags, list) else [tags]
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    return tuple(text for text in texts if fold(text) in named.names)


def capped(hit: Hit, raised: Hit, tags: tuple[str, ...]) -> Hit:
    """The raised hit, its relevance at most TAG_MOST by tags; what is beyond counts in its score.

    A tag says what a text is about, not that it answers.
    """
    most = max(hit.relevance, min(raised.relevance, TAG_MOST))
    named = hit.lifted("tags", most) if most > hit.relevance else hit
    if raised.relevance > most > 0:
        named = named.rescored("tags", raised.relevance / most)
    return named._replace(tags=tags)


def lift_titles(hits: Sequence[Hit], words: Words, alpha: float) -> list[Hit]:
    """The hits, best first, raised by the part of the query that their title holds.

    What this server stores has its title in the BM25 vector already. How the vectors of other
    points were made is not known.
    """
    if alpha >= 1:
        return list(hits)

    def raised(hit: Hit) -> Hit:
        # Of a point that this server wrote the BM25 score has the title in it.
        title = None if hit.doc and hit.sparse is not None else hit.document.title
        if not title:
            return hit
        return lifted(hit, "title", TITLE_GAIN * words.part(set(words.tokens(title))), alpha)

    return by_score(map(raised, hits))


def written(document: Document) -> str:
    """All that is written in a part: title, section, source and text."""
    return "\n".join(filter(None, (document.heading, document.source, document.text)))


def lift_verbatim(hits: Sequence[Hit], exact: Exact, words: Words, alpha: float) -> list[Hit]:
    """The hits that have the quoted phrases, best first.

    BM25 finds `1.2.12` in every text that has a 1, a 2 and a 12, and vectors in texts on any
    version. A text with the compound itself is raised by the part of the query, by idf, that it is,
    whatever the share of the words: no vector knows better. Of a sentence that mentions a number
    that part is less than HALF, and it raises nothing; nor where words count nothing (`alpha` 1).
    """
    if not exact:
        return list(hits)
    phrases = set(exact.phrases)
    raised = []
    for hit in hits:
        held = exact.held(written(hit.document))
        if phrases <= set(held):
            terms = {term for one in held for term in words.tokens(one)}
            part = words.part(terms) if alpha < 1 else 0.0
            raised.append(lifted(hit, "verbatim", part if part >= HALF else 0.0, alpha=0.0))
    return by_score(raised)


def lift_neighbours(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, one per text, best first, those beside a better one raised.

        relevance' = relevance + NEIGHBOUR_SHARE * (best - relevance)

    with the best relevance of the neighbours that were found, where that is more: an answer often
    stands a line or two from the words that it shares with the question. Neighbours are texts of
    one collection whose own ids end in numbers that differ by REACH at most, behind the same text
    and a colon or a hash: D1:3 and D1:5, log.txt#42 and log.txt#43. Two, since in a conversation
    the same person speaks every other turn. No text passes a better neighbour, and the best one
    gains nothing.
    Source of the idea: Fernández, Losada and Azzopardi, "Extending the language modeling framework
    for sentence retrieval to include local context", Information Retrieval 14, 2011; share and
    reach are measured (docs/ranking.md).
    """
    places = [_place(hit.collection, hit.own) for hit in hits]
    known = {place: hit.relevance for place, hit in zip(places, hits, strict=True) if place}
    if len(known) < 2:
        return list(hits)

    def beside(hit: Hit, place: Place | None) -> Hit:
        if place is None:
            return hit
        collection, series, number = place
        around = range(number - REACH, number + REACH + 1)
        gain = max(known.get((collection, series, n), 0.0) for n in around) - hit.relevance
        return hit.lifted("neighbours", hit.relevance + NEIGHBOUR_SHARE * gain) if gain > 0 else hit

    return by_score(map(beside, hits, places))


def _place(collection: str, document: str | None) -> Place | None:
    found = _NUMBERED.fullmatch(document) if document else None
    return (collection, found[1], int(found[2])) if found else None
