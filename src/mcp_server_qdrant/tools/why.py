"""Explains why a text was not found, or not recalled, and which change finds it.

The search is repeated without its restrictions ("gates": scope, filter, dates, threshold, ...),
then with one at a time: those that hide the text are named. The suggested change was tried.
"""

import asyncio
import math
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from mcp_server_qdrant.core.asking import asking_parts, extract_question
from mcp_server_qdrant.core.datatypes import Algorithm, Document, Result, SearchPage
from mcp_server_qdrant.core.errors import BackendError, RequestError
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.find import MAX_LIMIT, SearchRequest
from mcp_server_qdrant.core.notation import (
    cite,
    cite_all,
    document_id,
    first_few,
    heir_id,
    key_of,
    plural,
)
from mcp_server_qdrant.tools import recall
from mcp_server_qdrant.tools.rendering import BACK, day
from mcp_server_qdrant.tools.services import Services

LEGS: dict[str, Algorithm] = {"meaning": "semantic", "keywords": "keyword"}
_WORD = re.compile(r"\w[\w'-]*")
_QUOTES = re.compile('["\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d]')

# Restrictions that do not depend on relevance.
OPEN = dict.fromkeys(("query_filter", "tags", "since", "until"))

Change = dict[str, Any]
Search = Callable[[SearchRequest], Awaitable[SearchPage]]


async def why_not(
    services: Services,
    asked: SearchRequest,
    wanted: str,
    collection: str | None = None,
    folder: Path | None = None,
) -> list[str]:
    """Sentences on the rank of a text for a query, and on the change that finds it.

    Raises RequestError if no text or several have the id, UnknownCollection, and BackendError if a
    search fails.
    """
    named = asked.collections or ()
    text = await _find_text(services, wanted, collection or (named[0] if len(named) == 1 else None))
    search = partial(services.pipeline.search, folder=folder)
    page, scope = await search(asked), await services.catalog.scope(folder)
    names = scope.names if scope and asked.collections is None else asked.collections
    searched = [target.collection for target in await services.catalog.resolve(names)]
    said, change = _found_sentence(page, text), Change()
    if not said:
        said, change = await _explain_gates(search, asked, page, text, searched)
    faults = [one for one in page.statuses if one.collection == text.collection]
    # Rank and words are those without what hides the text.
    opened = asked.model_copy(update=change)
    return [
        *said,
        *_state_sentences(text),
        await _leg_ranks(search, opened, text),
        *await _compare_words(services, opened, text),
        *_relevance_sentence(await _find_best_part(search, opened, text)),
        *(f"{cite(one.collection)}: {one.reason}" for one in faults if one.state != "ok"),
        f"The page has {plural(len(page.results), 'result')}; "
        f"notes: {' '.join(page.notes) or 'none'}",
    ]


async def why_not_recalled(services: Services, prompt: str, wanted: str, folder: Path) -> list[str]:
    """Sentences on why the hook does not recall a text for this prompt in the folder.

    Raises as `why_not` does.
    """
    text = await _find_text(services, wanted, None)
    parts = await asyncio.to_thread(asking_parts, prompt, recall.ASKED)
    if not parts:
        return [
            "Nothing is searched for this prompt: recall searches for sentences of more than two "
            "words, but not for code, logs, quoted lines or paths."
        ]
    found = [one.document for _, one in await recall.find_fitting(services, folder, parts)]
    said = [f"Searched: {cite_all(parts)}."]
    if place := next((n for n, one in enumerate(found, 1) if key_of(one) == key_of(text)), 0):
        said.append(f"Recalled: it is text {place} of {len(found)}; each session gets it once.")
        return said
    said.append(f"Not recalled; {plural(len(found), 'other text')} would be.")
    scope = await services.catalog.scope(folder)
    home = await services.catalog.folder_collections(folder)
    outside = scope is not None and text.collection not in scope.names
    if (why := recall.why_not_recallable(text, home)) or outside:
        said += [why] if why else []
        command = shlex.join(["mcp-server-qdrant", "describe", text.collection])
        said.append(f"Scope: `{command} --folder {shlex.quote(str(folder))}` adds its collection.")
    for part in parts:
        said += await _explain_part(services, part, text, folder)
    return [*said, *_state_sentences(text)]


async def _find_text(services: Services, wanted: str, collection: str | None) -> Document:
    """A part of the text with this id, preferably in that collection."""
    known = collection if collection in await services.catalog.names() else None
    for place in dict.fromkeys((known, None)):
        found, _ = await services.lookup.locate([wanted], place, refusal="")
        if found:
            return found[0]
    if versions := await services.history.versions(wanted):
        raise RequestError(
            f"No text has the id {wanted!r} any more. Its last version is {versions[0].id}: {BACK}."
        )
    allowed = services.catalog.allowed
    within = f" in the collections that QDRANT_COLLECTIONS allows ({cite_all(allowed)})"
    raise RequestError(f"No text has the id {wanted!r}{within if allowed else ''}.")


def _rank_of(page: SearchPage, text: Document) -> int | None:
    """The index of the text on a page, or of the result that has it as a copy; None: absent."""
    for place, one in enumerate(page.results):
        if key_of(text) in map(key_of, (one.document, *one.also)):
            return place
    return None


def _found_sentence(page: SearchPage, text: Document) -> list[str]:
    """A sentence on the rank of the text on the page; empty if it is not there."""
    if (place := _rank_of(page, text)) is None:
        return []
    one = page.results[place]
    if key_of(one.document) != key_of(text):
        return [f"Found: result {place + 1} has the same text, and is shown in its place."]
    said = f"Found: it is result {place + 1} of {len(page.results)}"
    room = f"without a passage: the page had no room. within={document_id(text)!r} shows some"
    return [f"{said}." if one.passages else f"{said}, {room}."]


async def _explain_gates(
    search: Search, asked: SearchRequest, page: SearchPage, text: Document, searched: Sequence[str]
) -> tuple[list[str], Change]:
    """Sentences on the gates that hide the text, and the change that finds it."""
    gates = _gates(asked, text, searched)

    async def place(change: Change) -> tuple[int, float] | None:
        try:
            deep = await search(asked.model_copy(update={**change, "limit": MAX_LIMIT}))
        except RequestError:  # no such tag, or no such key of the filter
            return None
        at = _rank_of(deep, text)
        return None if at is None else (at, deep.results[at].relevance or 0.0)

    def without(closed: Collection[str]) -> Change:
        opened = (change for name, (_, change) in gates.items() if name not in closed)
        return {key: value for change in opened for key, value in change.items()}

    if await place(without(())) is None:
        return [f"Not found, nor among the best {MAX_LIMIT} of a search without restrictions."], {}
    hiding = [name for name in gates if await place(without([name])) is None]
    change = without(gates.keys() - hiding)
    if (found := await place(change)) is None:  # gates that hide it only together
        hiding, change = [*gates], without(())
        found = await place(change)
    at, relevance = found or (0, 0.0)
    if "score_threshold" in change:
        change["score_threshold"] = math.floor(100 * relevance) / 100
    for limit in (asked.limit, at + 1, MAX_LIMIT):  # only a limit that was tried is named
        change |= {} if limit == asked.limit else {"limit": limit}
        if (now := _rank_of(await search(asked.model_copy(update=change)), text)) is not None:
            break
    last = page.results[-1].relevance if page.results else None
    beside = "" if last is None else f", and that of the last result {last:.2f}"
    named = ", ".join(
        f"no {key}" if value is None else f"{key}={value!r}" for key, value in change.items()
    )
    return [
        f"Not on the page: its relevance is {relevance:.2f}{beside}.",
        *(gates[name][0] for name in hiding),
        f"With {named} it is result {(now or 0) + 1}.",
    ], change


def _gates(
    asked: SearchRequest, text: Document, searched: Sequence[str]
) -> dict[str, tuple[str, Change]]:
    """The gates of a request: name -> (sentence, change that removes it)."""
    least = asked.score_threshold
    tail = "Without score_threshold, less than a quarter of the best relevance is left out."
    gates: dict[str, tuple[str, Change]] = {
        "scope": (
            f"Scope: it is in {cite(text.collection)}, and the search covers "
            f"{first_few(searched, shown=cite)}.",
            {"collections": [text.collection]},
        ),
        "filter": ("It does not match query_filter.", {"query_filter": None}),
        "tags": (
            f"It has none of the tags: its own are {cite_all(text.tags) or 'none'}.",
            {"tags": None},
        ),
        "dates": (
            f"It is outside these dates: its own date is {day(text) or 'none'}.",
            {"since": None, "until": None},
        ),
        "threshold": (
            tail if least is None else f"It is below score_threshold {least}.",
            {"score_threshold": 0.0},
        ),
        "quotes": (
            "It does not have the words in quotes as they are written.",
            {"query": " ".join(_QUOTES.sub(" ", asked.query).split())},
        ),
        "algorithm": (
            f"The algorithm {asked.algorithm} alone does not find it.",
            {"algorithm": "hybrid"},
        ),
    }
    now = asked.model_dump()
    if not _QUOTES.search(asked.query):
        del gates["quotes"]
    return {
        name: (said, change)
        for name, (said, change) in gates.items()
        if any(now[key] != value for key, value in change.items())
    }


async def _leg_ranks(search: Search, asked: SearchRequest, text: Document) -> str:
    """A sentence on the rank by meaning only and by keywords only."""
    ranks = []
    for leg, algorithm in LEGS.items():
        alone = {"algorithm": algorithm, "limit": MAX_LIMIT, "score_threshold": 0.0}
        try:
            place = _rank_of(await search(asked.model_copy(update=alone)), text)
        except BackendError:  # no collection has this leg
            ranks.append(f"{leg} not searched")
            continue
        ranks.append(f"{leg} {f'beyond {MAX_LIMIT}' if place is None else place + 1}")
    return f"Rank by one leg alone: {', '.join(ranks)}."


async def _compare_words(services: Services, asked: SearchRequest, text: Document) -> list[str]:
    """Sentences on the words of the query that the text has and lacks."""
    asked = asked.model_copy(update={"query": extract_question(asked.query)})
    query = await services.pipeline.understanding.query(asked)
    whole, *_ = await services.lookup.get([str(text.document or text.id)], whole=True)
    written = "\n".join(filter(None, (text.title, *(one.text for one in whole))))
    there = set(query.words.tokens(written))
    held: list[str] = []
    lacking: list[str] = []
    for word in dict.fromkeys(_WORD.findall(query.terms.query)):
        if terms := set(query.words.tokens(word)):
            (held if terms & there else lacking).append(word)
    said = [
        f"Words that it has: {cite_all(held)}." if held else "It has none of the question's words."
    ]
    if lacking:
        said.append(f"Words that it lacks: {cite_all(lacking)}. A title or tag with them helps.")
    return said


async def _find_best_part(search: Search, asked: SearchRequest, text: Document) -> Result | None:
    """The best result of a search within the text."""
    own = {"within": str(text.document or text.id), "collections": [text.collection]}
    opened = {**OPEN, **own, "explain": True, "limit": None, "score_threshold": 0.0}
    found = await search(asked.model_copy(update=opened))
    return next(iter(found.results), None)


def _relevance_sentence(one: Result | None) -> list[str]:
    """A sentence on how the relevance adds up; empty if a successor takes the text's place."""
    if one is None or one.why is None:
        return ["It has neither a vector nor words that this search could compare."]
    legs = {"meaning": one.why["meaning"], "words": one.why["words"]}
    parts = [f"{name} {value:.2f}" for name, value in legs.items() if value is not None]
    if not parts:
        return []
    parts += [f"{name} + {value:.2f}" for name, value in one.why["gains"].items()]
    factors = [f"{name} x {value:.2f}" for name, value in one.why["factors"].items() if value != 1]
    of = f" ({', '.join([*parts, *factors])}; share of meaning {one.why['alpha']:.2f})"
    return [f"Its best part has relevance {one.relevance or 0:.2f}{of}."]


def _state_sentences(text: Document) -> list[str]:
    """Sentences on the text's state: superseded, expired, without a vector or a text."""
    said = []
    if heir := heir_id(text):
        said.append(f"It was superseded by {heir}, and ranks behind all others.")
    if is_expired(text, datetime.now(UTC)):
        said.append(f"It expired on {text.expires}: {BACK}.")
    if text.pending:
        said.append("Its vector is still being computed: until then only keywords find it.")
    if text.textless:
        said.append("It has no text, so no page shows it.")
    return said


async def _explain_part(services: Services, part: str, text: Document, folder: Path) -> list[str]:
    """Sentences on how the text fits one part of a prompt, and why it is not recalled for it."""
    page = await recall.search_part(services, folder, part)
    one = await _find_best_part(services.pipeline.search, recall.make_request(part), text)
    said = [f"For {part!r}: {' '.join(_relevance_sentence(one))}".rstrip()]
    if page.weak:
        said.append("Even the best match is weak: nothing is recalled for this.")
    elif one is None or (one.relevance or 0.0) < recall.LEAST:
        said.append(f"Its relevance is below {recall.LEAST}, the least to be recalled.")
    elif not recall.fits(one):
        said.append(
            f"Its meaning is below {recall.MEANING}, the least to be recalled; without vectors "
            f"its words are below {recall.WORDS}."
        )
    elif _rank_of(page, text) is None:
        said.append(f"It is not among the best {recall.LOOK} of what this folder covers.")
    return said
