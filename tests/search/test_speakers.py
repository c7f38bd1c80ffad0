"""Of a conversation, what those said whom a query names ranks before what others said."""

import pytest

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.speakers import OTHERS, by_speaker

CHAT = {"B1:4": "user: The sprint ends on Friday.", "B1:5": "assistant: Your sprint ends soon."}
TALK = {"D1:1": "Ann Lee: I adopted a cat.", "D1:2": "Bob: Ann's cat is so cute!"}


def hits(texts: dict[str, str], collection: str = "talks") -> list[Hit]:
    """The later, the better."""
    found = []
    for place, (own, text) in enumerate(texts.items(), 1):
        document = Document(id=own, collection=collection, text=text, document=own)
        score = 0.5 + place / 20
        found.append(
            Hit(
                collection,
                own,
                score,
                score,
                0.0,
                score,
                score,
                {"doc": {"id": own, "chunk": 0, "chunks": 1}},
                lambda document=document: document,
            )
        )
    return found[::-1]


@pytest.mark.parametrize(
    ("texts", "query", "order"),
    [
        (TALK, "What did Ann adopt?", ["D1:1", "D1:2"]),
        (TALK, "What did bob say about it?", ["D1:2", "D1:1"]),
        (TALK, "What did Ann's friend Bob like?", ["D1:2", "D1:1"]),  # both speak
        (TALK, "Who has a cat?", ["D1:2", "D1:1"]),
        (CHAT, "When does my sprint end?", ["B1:4", "B1:5"]),
        (CHAT, "Can you tell me when I finish?", ["B1:4", "B1:5"]),
        (CHAT, "What date have you given me for my sprint?", ["B1:5", "B1:4"]),
        (CHAT, "Which sprint did I say you'd also recommended?", ["B1:5", "B1:4"]),
        (CHAT, "Can you summarize how my sprint went?", ["B1:5", "B1:4"]),
        (CHAT, "When does the sprint end?", ["B1:5", "B1:4"]),
        # The middle of an answer says no name; what is no message does not either.
        (CHAT | {"B1:7": "3. The sprint"}, "When does my sprint end?", ["B1:4", "B1:7", "B1:5"]),
        (CHAT | {"log#7": "The sprint"}, "When does my sprint end?", ["log#7", "B1:4", "B1:5"]),
        # Notes are labelled for other reasons.
        ({"a": "user: roles", "b": "Sprint: ends"}, "When does my sprint end?", ["b", "a"]),
    ],
)
def test_what_others_said_than_those_whom_the_query_names_counts_less(texts, query, order):
    assert [hit.id for hit in by_speaker(hits(texts), query)] == order


def test_the_relevance_stays_and_the_factor_is_recorded():
    best, other = by_speaker(hits(CHAT), "When does my sprint end?")

    assert (best.factors, best.score) == ((), 0.55)
    assert other.factors == (("speaker", OTHERS),)
    assert (other.relevance, other.score) == (0.6, 0.6 * OTHERS)
