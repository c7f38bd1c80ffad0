"""Lowers the messages of a conversation that the person named in the query did not write."""

import re
from collections.abc import Sequence

from mcp_server_qdrant.search.relevance import Hit, by_score, series_of

OTHERS = 0.75  # factor of what others said; measured (docs/ranking.md)

_LABEL = re.compile(r"\W*(?:\[[^\]]*\]\s*)?([^\W\d][\w. '-]{0,40}):\s")
_ROLES = frozenset(("user", "assistant", "human", "system", "agent"))
# Labels that name the kind of a note, not its speaker.
_KINDS = frozenset(("correction", "decision", "fact", "fix", "note", "policy", "preference"))
_KINDS |= {"reminder", "rule", "status", "summary", "todo", "update", "warning"}
_ASKER = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
_TOLD = re.compile(  # asks what the other side said, or what both did
    r"\b(?:did|had|have) you\b|\byou(?:'d|'ve)? (?:\w+ )?(?:said|told|gave|wrote|\w+ed)\b"
    r"|\bsummar(?:y|i[sz]e)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")


def speaker_of(text: str) -> str | None:
    """The speaker's name at the beginning of a text: "Ada Lovelace:", but not "Decision:"."""
    if not (found := _LABEL.match(text)):
        return None
    name = found[1].casefold()
    capital = all(word[:1].isupper() for word in found[1].split())
    return name if name in _ROLES or (capital and name not in _KINDS) else None


def by_speaker(hits: Sequence[Hit], query: str) -> list[Hit]:
    """Multiply what others said by 0.75 if the query names a speaker; best first.

    This applies to numbered series in which texts begin with a speaker (`Ann: …`). A query in the
    first person names `user`, unless it asks what "you" said or for a summary. A text without a
    speaker, such as a later part of a long message, counts as somebody else's.
    """
    series = [series_of(hit) for hit in hits]
    said = [
        speaker_of(hit.document.text) if one else None
        for hit, one in zip(hits, series, strict=True)
    ]
    words = _asked(query)
    named = {name for name in said if name and not words.isdisjoint(_WORD.findall(name))}
    if not named:
        return list(hits)
    talks = {one for one, name in zip(series, said, strict=True) if name}
    return by_score(
        hit.rescored("speaker", OTHERS) if one in talks and name not in named else hit
        for hit, one, name in zip(hits, series, said, strict=True)
    )


def _asked(query: str) -> set[str]:
    """The words of a query; in the first person also the roles that stand for the asker."""
    words = set(_WORD.findall(query.casefold()))
    own = _ASKER.search(query) and not _TOLD.search(query)
    return words | {"user", "human"} if own else words
