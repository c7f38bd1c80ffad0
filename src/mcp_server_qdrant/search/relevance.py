"""How well a hit fits, as numbers in [0, 1] that compare across collections and queries.

`calibrate` computes them from the scores of the legs. The lifts raise hits that have words of the
query in their tags or title, hits that contain a term exactly as written, and neighbours of better
hits.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from mcp_server_qdrant.core.bm25 import K1
from mcp_server_qdrant.core.datatypes import Document, Payload, PointId, Scored, own_doc
from mcp_server_qdrant.core.exact import Exact
from mcp_server_qdrant.search.words.tags import TagMatch, folded_tag
from mcp_server_qdrant.search.words.terms import Terms, Words

DIGITS = 5  # of a relevance: the legs are float32
KNEE = 0.8
# A tag weighs more than the same words in the text: a text that only mentions a project must not
# outrank a note of that project.
TAG_GAIN = 1.5
TAG_MOST = 0.8  # highest relevance that tags can give
TITLE_GAIN = 0.2  # for a title with all words of the query; measured (docs/ranking.md)
HALF = 0.5  # smallest share of the query that an exact match must have; measured (docs/ranking.md)
NEIGHBOUR_SHARE = 0.5
REACH = 2

_NUMBERED = re.compile(r"(.*[:#])([0-9]{1,9})", re.DOTALL)

Place = tuple[str, str, int]  # collection, the id without its number, the number


class Hit(NamedTuple):
    """A point in the ranking.

    `relevance` in [0, 1] compares across collections and queries. `score` determines the order:
    relevance times `factors`, one per ranking step. `gains` were added to the relevance. `tags` are
    the hit's tags that the query names. `reranked` in [0, 1] replaces relevance in the score if a
    reranker read the text. `reading` parses the payload into a document on demand, since few hits
    need it. `also`: copies of this hit; `parts`: other matching parts of its document, best first;
    `supersedes`: the id of the text that it replaces on the page; `in_time`: "older" or
    "newest of 3" among texts about the same subject; `as_of`: the day of which its document is a
    version.
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
    in_time: str | None = None
    as_of: str | None = None

    @property
    def document(self) -> Document:
        """The document in the payload."""
        assert self.reading is not None
        return self.reading()

    @property
    def doc(self) -> Mapping[str, Any]:
        """The payload's `doc` field, written by this server; empty for points of other tools."""
        return own_doc(self.payload)

    @property
    def own(self) -> str | None:
        """The id of the document; None for points of other tools."""
        value = self.doc.get("id")
        return value if isinstance(value, str) else None

    def rescored(self, step: str, factor: float) -> "Hit":
        """A copy whose score is multiplied by `factor`, with the step recorded."""
        return self._replace(score=self.score * factor, factors=(*self.factors, (step, factor)))

    def lifted(self, step: str, relevance: float) -> "Hit":
        """A copy with this relevance; the difference is recorded as the step's gain."""
        return self._replace(
            relevance=relevance,
            score=relevance * math.prod(factor for _, factor in self.factors),
            gains=(*self.gains, (step, relevance - self.relevance)),
        )


def by_score(hits: Iterable[Hit]) -> list[Hit]:
    """Sort by score, best first; ties by collection and id, so that the order is deterministic."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.collection, str(hit.id)))


def highest_bm25(terms: Terms) -> float:
    """The highest BM25 score that any document can reach for these terms."""
    return (K1 + 1) * (sum(terms.idf.values()) if terms.ceiling is None else terms.ceiling)


def relevance(dense: float | None, sparse: float | None, limit: float, alpha: float) -> float:
    """The relevance of a point.

    `dense` is a cosine, `sparse` a BM25 score under the global idf, `limit` the bound, `alpha`
    the weight of the dense leg. If a leg was not searched (None), the other has its weight too.
    """
    meaning = 0.0 if dense is None else clamp(dense)
    words = 0.0 if sparse is None or limit <= 0 else clamp(sparse / limit)
    if dense is None:
        return words
    if sparse is None or limit <= 0:
        return meaning
    return alpha * meaning + (1 - alpha) * words


def clamp(value: float) -> float:
    """The value clamped to [0, 1], NaN to 0; faster than `min` and `max` in this hot path."""
    return value if 0.0 <= value <= 1.0 else 1.0 if value > 1.0 else 0.0


def calibrate(found: Iterable[Scored], terms: Terms, alpha: float) -> list[Hit]:
    """Merge all candidates into one ranking, best first, ties by collection and id.

    Orphaned parts of replaced or incomplete texts are left out.

        relevance = a * max(cos, 0) + (1 - a) * bm25 / bound,   bound = (k1 + 1) * sum_t idf(t)

    Merging by RRF score would be a round-robin: the first hits of all collections would score the
    same, however bad. Both terms here are absolute. The cosine is by nature. BM25 is, because the
    idf covers all searched collections, and the bound is the highest score that any document can
    reach (k1 + 1 is the limit of BM25's term frequency factor). Measured: docs/ranking.md.
    """
    limit = highest_bm25(terms)
    return by_score(hit for part in found for hit in _hits(part, limit, alpha))


def _hits(found: Scored, limit: float, alpha: float) -> Iterator[Hit]:
    for collection, point, rrf, dense, sparse, payload, current in found.candidates:
        if current is False:
            continue
        # The engine's last digits vary from call to call; without rounding, ties would swap places.
        value = round(relevance(dense, sparse, limit, alpha), DIGITS)
        yield Hit(collection, point, value, value, rrf, dense, sparse, payload)


def lifted(hit: Hit, step: str, part: float, alpha: float) -> Hit:
    """Raise relevance and score; the gain is recorded under `step`.

        relevance' = bent(relevance + (1 - a) * part)

    with a = 0 if no vectors were compared. `part` is the share of the query's idf that the matched
    words have: the most that they could contribute as keywords.
    """
    words = 1.0 if hit.dense is None else 1 - alpha
    raised = saturate(hit.relevance, words * part)
    return hit.lifted(step, raised) if raised > hit.relevance else hit


def saturate(value: float, gain: float) -> float:
    """Relevance plus gain, in [0, 1]; increasing in both.

    Above a knee k at 0.8 (or at the relevance if that is higher) the curve flattens,
    k + (1 - k) * (1 - exp(-(x - k) / (1 - k))), so it stays below 1 and keeps the order.
    """
    knee = max(KNEE, value)
    over, room = value + gain - knee, 1 - knee
    if over <= 0 or room <= 0:
        return min(value + gain, 1.0)
    return knee + room * (1 - math.exp(-over / room))


def lift_tags(
    hits: Sequence[Hit], matches: Mapping[str, TagMatch], words: Words, alpha: float
) -> list[Hit]:
    """Raise the hits that have a tag named in the query; best first.

    The gain is the share of the query that the tag's words have, times TAG_GAIN and the boost.
    """
    if not matches:
        return list(hits)
    fold = cache(folded_tag)  # many hits share a few tags

    @cache
    def part(tags: tuple[str, ...]) -> float:
        return words.part({term for tag in tags for term in words.tokens(fold(tag))})

    def raised(hit: Hit) -> Hit:
        named = matches.get(hit.collection)
        tags = named_tags(hit.payload, named, fold) if named else ()
        if not named or not tags:
            return hit
        gained = lifted(hit, "tags", part(tags) * TAG_GAIN * named.boost, alpha)
        return cap_tag_gain(hit, gained, tags)

    return by_score(map(raised, hits))


def named_tags(
    payload: Payload | None, named: TagMatch, fold: Callable[[str], str] = folded_tag
) -> tuple[str, ...]:
    """The payload's tags (`tags` or `metadata.tags`, a string or a list) that the query names."""
    payload = payload or {}
    values: list[Any] = []
    for place in (payload, payload.get("metadata")):
        tags = place.get("tags") if isinstance(place, dict) else None
        values += tags if isinstance(tags, list) else [tags]
    texts = dict.fromkeys(value for value in values if isinstance(value, str))
    return tuple(text for text in texts if fold(text) in named.names)


def cap_tag_gain(hit: Hit, raised: Hit, tags: tuple[str, ...]) -> Hit:
    """The raised hit, with its relevance limited to TAG_MOST; the rest only raises the score.

    A tag says what a text is about, but not that it answers the query.
    """
    most = max(hit.relevance, min(raised.relevance, TAG_MOST))
    named = hit.lifted("tags", most) if most > hit.relevance else hit
    if raised.relevance > most > 0:
        named = named.rescored("tags", raised.relevance / most)
    return named._replace(tags=tags)


def lift_titles(hits: Sequence[Hit], words: Words, alpha: float) -> list[Hit]:
    """Raise hits by the share of the query that their title contains; best first.

    The BM25 vectors of this server include the title already; those of other tools may not.
    """
    if alpha >= 1:
        return list(hits)

    def raised(hit: Hit) -> Hit:
        # For this server's points the BM25 score includes the title.
        title = None if hit.doc and hit.sparse is not None else hit.document.title
        if not title:
            return hit
        return lifted(hit, "title", TITLE_GAIN * words.part(set(words.tokens(title))), alpha)

    return by_score(map(raised, hits))


def full_text(document: Document) -> str:
    """All text of a part: title, section, source and body."""
    return "\n".join(filter(None, (document.heading, document.source, document.text)))


def lift_verbatim(hits: Sequence[Hit], exact: Exact, words: Words, alpha: float) -> list[Hit]:
    """Keep the hits with all required phrases, and raise those with exact terms; best first.

    BM25 matches `1.2.12` in any text with a 1, a 2 and a 12; vectors match any version number.
    A text with the exact term is raised by the share of the query's idf that the term has,
    independent of `alpha`. A term with less than HALF of the query, such as a number in a long
    question, raises nothing. Nothing is raised in a purely semantic search (`alpha` 1).
    """
    if not exact:
        return list(hits)
    phrases = set(exact.phrases if exact.required else ())
    raised = []
    for hit in hits:
        held = exact.found_in(full_text(hit.document))
        if phrases <= set(held):
            terms = {term for one in held for term in words.tokens(one)}
            part = words.part(terms) if alpha < 1 else 0.0
            raised.append(lifted(hit, "verbatim", part if part >= HALF else 0.0, alpha=0.0))
    return by_score(raised)


def lift_neighbours(hits: Sequence[Hit]) -> list[Hit]:
    """Raise the neighbours of better hits; one hit per text, best first.

        relevance' = relevance + NEIGHBOUR_SHARE * (best - relevance)

    where `best` is the highest relevance of the retrieved neighbours: an answer is often a line or
    two away from the words that it shares with the question. Neighbours are texts of one collection
    whose ids end in numbers that differ by at most REACH, after the same prefix with a colon or a
    hash: D1:3 and D1:5, log.txt#42 and log.txt#43. REACH is 2, because in a conversation the same
    person speaks every other turn. No hit overtakes a better neighbour.
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


def series_of(hit: Hit) -> tuple[str, str] | None:
    """The numbered series of a text: its collection, and its id without the number."""
    place = _place(hit.collection, hit.own)
    return place[:2] if place else None


def _place(collection: str, document: str | None) -> Place | None:
    found = _NUMBERED.fullmatch(document) if document else None
    return (collection, found[1], int(found[2])) if found else None
