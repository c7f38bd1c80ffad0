"""The part of qdrant-store for texts that supersede others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp_server_qdrant.core.datatypes import Document
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import cite, cite_all, document_id, heir_id, one_line, own_id
from mcp_server_qdrant.core.writes import Stored
from mcp_server_qdrant.tools.rendering import day
from mcp_server_qdrant.tools.services import Services


def name_successor(one: Document, advice: str) -> str:
    """The sentence that names the successor of a text."""
    heir, place = heir_id(one) or "", one.superseded_in or one.collection
    return f"{cite(document_id(one))} was superseded by id {cite(heir)} in {cite(place)}: {advice}"


async def check_free(
    services: Services, olds: Sequence[Document], own: str | None, text: str | None
) -> None:
    """Raise RequestError if one of the texts has another successor than the new text.

    `own` and `text` are the new text's id and text, if known.
    """
    listed = {(one.collection, one.document) for one in olds}
    for one in olds:
        heir = await services.store.points.find_heir(one)
        if heir is None or (heir.collection, heir.document) in listed or heir.document == own:
            continue
        if text is None or not text.strip().startswith(heir.text.strip()):
            raise RequestError(f"supersedes: {name_successor(one, 'give that id.')}")


async def link(services: Services, done: Stored, olds: Sequence[Document] | None) -> Stored:
    """Mark these texts as superseded by the stored one; [] lifts its links, None changes nothing.

    Raises RequestError.
    """
    store, points = services.store, services.store.points
    own = next(iter(await points.by_id(done.collection, done.ids[:1])), None)
    if own is None or olds is None:
        return done
    if olds:
        await store.retire(own, olds)
        return replace(done, retired=tuple(olds))
    lifted = await store.lift(own)
    if not lifted and await points.find_heir(own):
        what = "to undo that, give the other text's id with supersedes=[]."
        raise RequestError(f"It supersedes no text. {name_successor(own, what)}")
    return replace(done, lifted=tuple(lifted))


def describe_links(done: Stored) -> list[str]:
    """The texts that it supersedes now, those it no longer supersedes, and its successor."""
    said = []
    if done.retired:
        said.append(f"Superseded: id {cite_all(map(document_id, done.retired))}.")
    if done.lifted:
        said.append(f"No longer superseded: id {cite_all(map(document_id, done.lifted))}.")
    elif done.lifted is not None:
        said.append("It superseded no text.")
    if done.heir:
        own, heir = _own_id(done), cite(document_id(done.heir))
        said.append(
            f"It is still superseded by id {heir} in {cite(done.heir.collection)}. If it is "
            f"valid again, call with id={own} and supersedes={heir}."
        )
    return said


def describe_near(done: Stored) -> list[str]:
    """Memories about the same subject, one per line, and how to retire outdated ones."""
    if not done.near:
        return []
    lines = [
        f"On the same subject. If one is outdated, call again with id={_own_id(done)} and the "
        "outdated id in supersedes; to keep only one, delete the other:"
    ]
    for known, cosine, heir in done.near:
        where = f" in {cite(known.collection)}" if known.collection != done.collection else ""
        about = f", {day(known)}" if day(known) else ""
        about += f", superseded by id {cite(document_id(heir))}" if heir else ""
        own = cite(document_id(known))
        lines += [f"- [{cosine:.2f}] id {own}{where}{about}", f"> {one_line(known.text)}"]
    return ["\n".join(lines)]


def near_data(done: Stored) -> list[dict[str, Any]]:
    """The same as data."""
    return [
        {"id": document_id(known), "relevance": round(cosine, 3), "collection": known.collection}
        | ({"superseded_by": document_id(heir)} if heir else {})
        for known, cosine, heir in done.near
    ]


def _own_id(done: Stored) -> str:
    return cite(own_id(done.collection, done.ids[0], done.document))
