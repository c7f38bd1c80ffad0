"""Red tries everything to learn of blue; it must see the very answers as if blue never were."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mcp_server_qdrant.core.notation import HISTORY
from tests.e2e.tenancy import (
    BLUE,
    BLUE_IDS,
    ENGINES,
    RED,
    SHARED,
    VAULT,
    World,
    ask,
    cleared,
    differences,
    environment,
    leaked,
    post,
    store,
    world,
)

IDS = list(BLUE_IDS.values())
EXACT = {"key": "tenant", "match": {"value": "blue"}}

FILTERS = {
    "must be blue's": {"must": [EXACT]},
    "should be blue's": {"should": [EXACT, {"key": "tags", "match": {"value": "plans"}}]},
    "must not be red's": {"must_not": [{"key": "tenant", "match": {"value": "red"}}]},
    "one condition alone": {"must": EXACT},
    "at least one of": {"min_should": {"conditions": [EXACT], "min_count": 1}},
    "at least none of": {
        "min_should": {
            "conditions": [{"key": "tags", "match": {"value": "obsidian"}}],
            "min_count": 0,
        }
    },
    "any of both": {"must": [{"key": "tenant", "match": {"any": ["red", "blue"]}}]},
    "all except red": {"must": [{"key": "tenant", "match": {"except": ["red"]}}]},
    "as text": {"must": [{"key": "tenant", "match": {"text": "blue"}}]},
    "as quoted key": {"must": [{"key": '"tenant"', "match": {"value": "blue"}}]},
    "as array key": {"must": [{"key": "tenant[]", "match": {"value": "blue"}}]},
    "as first of array": {"must": [{"key": "tenant[0]", "match": {"value": "blue"}}]},
    "as object key": {"must": [{"key": "tenant.name", "match": {"value": "blue"}}]},
    "empty owner": {"must": [{"is_empty": {"key": "tenant"}}]},
    "not an empty owner": {"must_not": [{"is_empty": {"key": "tenant"}}]},
    "null owner": {"must_not": [{"is_null": {"key": "tenant"}}]},
    "number of owners": {"must": [{"key": "tenant", "values_count": {"gte": 1}}]},
    "nested": {"must": [{"nested": {"key": "metadata", "filter": {"must": [EXACT]}}}]},
    "nested doc": {
        "must": [
            {
                "nested": {
                    "key": "doc",
                    "filter": {"must": [{"key": "id", "match": {"value": "plan-1"}}]},
                }
            }
        ]
    },
    "deep": {"must": [{"should": [{"must_not": [{"must": [EXACT]}]}, {"must": [EXACT]}]}]},
    "blue's ids": {"must": [{"has_id": IDS}]},
    "blue's ids or": {"should": [{"has_id": IDS}]},
    "not red's ids": {"must_not": [{"has_id": IDS[:1]}]},
    "at least blue's id": {"min_should": {"conditions": [{"has_id": IDS}], "min_count": 1}},
    "blue's document": {"must": [{"key": "doc.id", "match": {"value": "plan-1"}}]},
    "both have the document": {"must": [{"key": "doc.id", "match": {"value": "note-7"}}]},
    "blue's tag": {"must": [{"key": "tags", "match": {"value": "obsidian"}}]},
    "both have the tag": {"must": [{"key": "tags", "match": {"value": "plans"}}]},
    "blue's metadata": {"must": [{"key": "metadata.project", "match": {"text": "obsidian"}}]},
    "not own metadata": {
        "must_not": [{"key": "metadata.project", "match": {"any": ["cellar", "lamp"]}}]
    },
    "any number": {"must": [{"key": "metadata.number", "range": {"gte": 0}}]},
    "any time": {"must": [{"key": "created_at", "range": {"gte": "2000-01-01T00:00:00Z"}}]},
    "blue's title": {"must": [{"key": "title", "match": {"text": "Obsidian plan"}}]},
    "blue's text": {"must": [{"key": "document", "match": {"text": "zebrafish"}}]},
    "has a vector": {"must": [{"has_vector": "bm25"}]},
    "always true": {"must_not": [{"key": "nothing", "match": {"value": 1}}]},
    "of nothing": {"must": [], "should": [], "must_not": []},
    "other words": {"filter": {"must": [EXACT]}},
}
QUERY = {"query": "plan zebrafish obsidian cellar", "limit": 100, "mode": "full"}

FINDS = {
    "everything": {"collections": ["*"]},
    "blue's collection": {"collections": [VAULT]},
    "the old name of it": {"collection_name": VAULT},
    "a glob": {"collections": ["b*"]},
    "a class": {"collections": ["[a-c]*"]},
    "a question mark": {"collections": ["?lue-vault"]},
    "everything but": {"collections": ["[!c]*"]},
    "a typo of it": {"collections": ["blue-vaullt"]},
    "its case": {"collections": ["Blue-Vault"]},
    "with an own one": {"collections": [SHARED, VAULT]},
    "the shared one": {"collections": [SHARED]},
    "semantic": {"algorithm": "semantic", "query": "quixotic spending of a marine company"},
    "keyword": {"algorithm": "keyword", "query": "zebrafish obsidian marzipan"},
    "typos": {"query": "zebrafsh quixotik obsidan marzpan supplyer"},
    "common words": {"query": "the plan of the cellar", "explain": True},
    "own words weighed": {"query": "cellar lamp boiler water", "explain": True},
    "blue's tags": {"query": "obsidian marzipan plans", "explain": True},
    "own tags": {"query": "cellar lamp plans", "explain": True},
    "no threshold": {"query": "lisbon", "score_threshold": 0},
    "weights": {"query": "zebrafish", "keyword_weight": 1, "semantic_weight": 0},
    "as fresh as can be": {"query": "signed contract", "recency_weight": 1, "priority": "hard"},
    "uncorrected": {"query": "floods in March", "correct": False},
    "many": {"query": "obsidian " * 50, "limit": 100},
    "earlier versions": {"collections": [HISTORY]},
    "an own argument": {"query": "plan", "tenant": "blue"},
    "another argument": {"query": "plan", "claims": {"tenant": "blue"}},
    "a filter as text": {"query": "plan", "query_filter": json.dumps({"must": [EXACT]})},
}
GETS = {
    "points": {"ids": IDS},
    "one point": {"ids": [IDS[0]], "collection_name": SHARED},
    "in blue's collection": {"ids": [IDS[0]], "collection_name": VAULT},
    "in capitals": {"ids": [IDS[4].upper()]},
    "without hyphens": {"ids": [IDS[4].replace("-", "")]},
    "as urn": {"ids": [f"urn:uuid:{IDS[4]}"]},
    "in braces": {"ids": [f"{{{IDS[4]}}}"]},
    "documents": {"ids": ["plan-1", "plan-2", "blueprint-77"]},
    "a document of both": {"ids": ["note-7"]},
    "own and blue's": {"ids": ["lamp", *IDS[:3], "plan-1"]},
    "neighbours": {"ids": ["manual", *IDS], "neighbours": 20},
    "numbers": {"ids": ["0", "1", "18446744073709551615"]},
    "versions": {"ids": [*IDS, "plan-1", "draft", "note-7"], "versions": True},
    "versions in blue's": {"ids": ["plan-1"], "versions": True, "collection_name": VAULT},
    "as they were": {"ids": [f"{one}@2020-01-01" for one in (*IDS, "plan-1", "draft", "note-7")]},
    "where versions are": {"ids": ["plan-1"], "collection_name": HISTORY},
}
DELETES = {
    "points": {"ids": IDS},
    "documents": {"ids": ["plan-1", "plan-2", "blueprint-77"]},
    "by owner": {"query_filter": {"must": [EXACT]}, "collection_name": SHARED},
    "by not owner": {
        "query_filter": {"must_not": [{"key": "metadata.number", "range": {"gte": 0}}]},
        "collection_name": SHARED,
        "confirm_count": 4,
    },
    "by count": {"query_filter": {}, "collection_name": SHARED},
    "by wrong count": {"query_filter": {}, "collection_name": SHARED, "confirm_count": 8},
    "in blue's": {"query_filter": {}, "collection_name": VAULT, "confirm_count": 4},
    "all versions": {"query_filter": {}, "collection_name": HISTORY},
    "a version": {"ids": ["plan-1@2020-01-01", "draft@2020-01-01"]},
}
OTHERS = {
    "the list": [("qdrant-collections", {})],
    "the list with an argument": [("qdrant-collections", {"tenant": "blue"})],
    "resources": [("list", None)],
    "another scheme": [("read", f"file:///{VAULT}")],
    "a map": [("qdrant-project", {"collections": ["*"], "query": "zebrafish"})],
    "a map of blue's": [("qdrant-project", {"collections": [VAULT]})],
    "no default": [("qdrant-store", {"information": "Where can this go?"})],
}


def storing(number: int, **fields):
    """A store, and what can be seen of it afterwards."""
    return [
        ("qdrant-store", {"information": f"Red's text number {number}."} | fields),
        ("qdrant-find", {"query": f"text number {number}", "collections": ["*"], "mode": "full"}),
        ("qdrant-collections", {}),
    ]


STORES = {
    "blue's text": storing(1, information=BLUE[0][1], collection_name=SHARED),
    "blue's id": storing(2, id="plan-1", collection_name=SHARED),
    "blue's point": storing(3, id=IDS[5], collection_name=SHARED),
    "an id of both": storing(4, id="note-7", collection_name=SHARED),
    "an owner in metadata": storing(5, metadata={"tenant": "blue"}, collection_name=SHARED),
    "an owner as json": storing(6, metadata='{"tenant": "blue"}', collection_name=SHARED),
    "an owner as argument": storing(8, collection_name=SHARED, tenant="blue"),
    "a name near blue's": storing(9, collection_name="blue-vaults"),
    "a typo of blue's": storing(10, collection_name="blu-vault"),
    "blue's collection": storing(11, collection_name=VAULT),
    "blue's collection again": storing(12, collection_name=VAULT, id="plan-1", create=True),
    "blue's version": [("qdrant-store", {"id": "plan-1@2020-01-01"})],
    "blue's deleted text": [("qdrant-store", {"id": "draft@2020-01-01", "collection_name": VAULT})],
    "an own version": [
        ("qdrant-store", {"id": "lamp", "tags": ["dim"]}),
        ("qdrant-get", {"ids": ["lamp"], "versions": True}),
        ("qdrant-store", {"id": "lamp@2020-01-01"}),
        ("qdrant-get", {"ids": ["lamp"]}),
    ],
    "blue's tags": storing(13, collection_name=SHARED, tags=["obsidian"], title="Obsidian plan"),
}


MADE = (HISTORY, VAULT, SHARED, "blue-vaults", "blu-vault", "memory")


def attacks() -> Iterator[tuple[str, list]]:
    """Every attempt by name; what writes comes last."""
    for name, where in FILTERS.items():
        yield f"filter: {name}", [("qdrant-find", QUERY | {"query_filter": where})]
    for name, given in FINDS.items():
        yield f"find: {name}", [("qdrant-find", {"query": "zebrafish plan"} | given)]
    for name, given in GETS.items():
        yield f"get: {name}", [("qdrant-get", given)]
    yield from OTHERS.items()
    for name, given in DELETES.items():
        yield f"delete: {name}", [("qdrant-delete", given), ("qdrant-collections", {})]
    for name, calls in STORES.items():
        yield f"store: {name}", calls


ATTACKS = dict(attacks())


@dataclass
class Peopled:
    """A world where blue has stored texts, one where blue never was, and what red is told there."""

    with_blue: World
    without: World | None
    told: dict[str, list[str]]


async def people(one: World, *, blue: bool) -> World:
    for name in (VAULT, SHARED) if blue else ():
        draft, (document, _, title) = "A quixotic draft of the zebrafish plan.", BLUE[0]
        await store(one, "blue", [(document, draft, title), ("draft", draft, title)], name)
        await store(one, "blue", BLUE, name)
        await ask(one, "blue", [("qdrant-delete", {"ids": ["draft"], "collection_name": name})])
    await store(one, "red", RED, SHARED)
    return one


async def attacked(one: World) -> dict[str, list[str]]:
    """What red is told in each attempt, one after the other."""
    answers = iter(await ask(one, "red", [call for calls in ATTACKS.values() for call in calls]))
    return {name: [next(answers) for _ in calls] for name, calls in ATTACKS.items()}


@pytest.fixture(params=ENGINES)
def peopled(request, tmp_path_factory, model_dir, one_cache) -> Iterator[Peopled]:
    """Two embedded engines; of a server there is one, which is the one world and then the other."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("with", "without"))
    envs = [environment(request.param, folder, model_dir, one_cache) for folder in (first, second)]
    with contextlib.ExitStack() as until_read:
        without = until_read.enter_context(world(envs[1], second))
        asyncio.run(people(without, blue=False))
        told = asyncio.run(attacked(without))
        if request.param == "server":
            until_read.close()
            asyncio.run(cleared(envs[1], MADE))
        with world(envs[0], first) as with_blue:
            asyncio.run(people(with_blue, blue=True))
            yield Peopled(with_blue, None if request.param == "server" else without, told)
        asyncio.run(cleared(envs[0], MADE))


def test_the_attempts_are_many():
    assert len(ATTACKS) >= 60


def test_red_sees_what_it_would_see_without_blue_who_keeps_everything(peopled: Peopled):
    """One test, since two worlds take seconds to make: all that it finds is told by name."""
    seen = asyncio.run(attacked(peopled.with_blue))
    faults = {name: differences(seen[name], peopled.told[name]) for name in ATTACKS}
    for name, calls in ATTACKS.items():
        own = [*calls, STORES] if name.startswith("store") else calls  # red's own words by now
        faults[f"{name}: leaks"] = [one for answer in seen[name] for one in leaked(answer, own)]
    faults |= page_faults(peopled)
    faults |= {f"header {one}": header_faults(peopled.with_blue, one) for one in HEADERS}
    faults |= {who: asyncio.run(refusal_faults(peopled.with_blue, who)) for who in NOBODIES}
    faults["figures"] = figure_faults(peopled.with_blue)
    faults["blue"] = asyncio.run(losses(peopled.with_blue))

    assert {name: found for name, found in faults.items() if found} == {}


NOBODIES = ("nobody", "list", "blank")


async def refusal_faults(one: World, who: str) -> list[str]:
    """What is told to somebody without a tenant but the one sentence."""
    calls = [
        ("qdrant-find", {"query": "plan"}),
        ("qdrant-get", {"ids": ["plan-1"]}),
        ("qdrant-store", {"information": "x", "collection_name": SHARED}),
        ("qdrant-collections", {}),
    ]
    sentence = "This token names no tenant: it needs the claim 'tenant', a string."
    answers = await ask(one, who, calls)
    assert len(answers) == len(calls)
    return [answer for answer in answers if sentence not in answer]


HEADERS = ({}, {"X-Tenant": "blue"}, {"Authorization": "Bearer red"})


def header_faults(one: World, headers: dict[str, str]) -> list[str]:
    """What of blue's is told to red with these headers."""
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "qdrant-collections",
            "arguments": {},
            "_meta": {"tenant": "blue", "claims": {"tenant": "blue"}},
        },
    }
    _, said = post(f"{one.address}/mcp", one.tokens["red"], body, **headers)
    assert said
    return leaked(said, [])


def figure_faults(one: World) -> list[object]:
    """Who gets the figures of all tenants, and should not."""
    place, refused = f"{one.address}/metrics", "and without a tenant."
    found = {who: post(place, one.tokens[who], body=None) for who in ("red", "list", "nobody")}
    wrong = [who for who in ("red", "list") if found[who][0] != 403 or refused not in found[who][1]]
    return [*wrong, *([] if found["nobody"][0] == 200 else ["nobody"])]


PAGE_CALLS = [
    ("setup", {}),
    ("tags", {}),
    ("search", {"query": "zebrafish obsidian", "collections": ["*"]}),
    ("search", {"query": "plan", "collections": [VAULT]}),
    ("search", {"query": "obsidian plan", "collections": ["*"], "algorithm": "keyword"}),
    ("map", {"collections": ["*"], "search": {"query": "zebrafish"}}),
    ("map", {"collections": [VAULT], "parts": "neighbours"}),
    ("map", {"collections": [SHARED], "parts": "neighbours"}),
    ("map", {"search": {"query": "plan", "ids": IDS}, "parts": "places"}),
    ("search", {"query": "plan", "ids": IDS}),
    ("list", {"collections": ["*"]}),
    ("list", {"collections": ["*"], "start": 1}),
    ("list", {"collections": ["*"], "source": "blue", "tags": ["obsidian", "plans"]}),
    ("list", {"collections": [VAULT]}),
    ("list", {"collections": ["*"], "query": "obsidian plan", "sort": "-title"}),
    ("get", {"ids": IDS[:1], "collection_name": SHARED, "point_ids": True}),
    ("get", {"ids": ["plan-1"], "collection_name": SHARED, "versions": True}),
    ("get", {"ids": IDS[:1], "collection_name": VAULT, "versions": True}),
    ("store", {"id": "draft@2020-01-01", "collection_name": SHARED}),
    ("store", {"id": "plan-1@2020-01-01", "collection_name": VAULT}),
    ("delete", {"ids": IDS[:1], "collection_name": SHARED}),
    ("delete", {"ids": IDS[:1], "collection_name": VAULT}),
    ("store", {"id": IDS[0], "moved_from": SHARED, "collection_name": SHARED}),
    ("store", {"id": IDS[0], "moved_from": VAULT, "collection_name": SHARED}),
]


def page_faults(peopled: Peopled) -> dict[str, list[object]]:
    """Calls of the page that answer otherwise than without blue, or with something of blue's."""
    if peopled.without is None:
        return {}  # a server is one world at a time
    found = {}
    for call, asked in PAGE_CALLS:
        first, second = (
            post(f"{one.address}/viz/api/{call}", one.tokens["red"], body=asked)
            for one in (peopled.with_blue, peopled.without)
        )
        assert first[0] not in (404, 405)  # there is such a call
        statuses = [] if first[0] == second[0] else [first[0], second[0]]
        found[f"page: {call} {asked}"] = [*statuses, *leaked(first[1], [("", asked)])]
    return found


async def losses(one: World) -> list[object]:
    """What of blue's is not as it was."""
    (listed, *texts) = await ask(
        one,
        "blue",
        [
            ("qdrant-collections", {}),
            *(
                ("qdrant-get", {"ids": [document], "collection_name": name})
                for name in (VAULT, SHARED)
                for document, _, _ in BLUE
            ),
        ],
    )
    told = json.loads(listed)
    found = (told.get("structured_content") or told["structuredContent"])["collections"]
    points = {one["name"]: one["points"] for one in found}
    counted = set(points) == {VAULT, SHARED} and points[VAULT] == points[SHARED] > 4
    changed = [
        answer
        for answer, (_, text, _) in zip(texts, BLUE * 2, strict=True)
        if json.dumps(text.strip())[1:40] not in answer or "Red" in answer
    ]
    return [*([] if counted else [points]), *changed]
