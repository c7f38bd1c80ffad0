"""The page's server side: what it answers to whom, and that it answers as the tools do."""

from typing import Any

import httpx
import pytest

from mcp_server_qdrant.app.server import make_server
from mcp_server_qdrant.core.errors import EngineUnavailable
from mcp_server_qdrant.http.page.desk import Desk
from mcp_server_qdrant.http.page.routes import CLIENT_HEADER, WEB, calls
from mcp_server_qdrant.http.serving import build_app
from tests.http.page.conftest import ADDRESS, HEADERS, filled
from tests.support import make_settings, memory_engine

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

ASKED = [
    {},
    {"algorithm": "semantic"},
    {"algorithm": "keyword", "limit": 3},
    {"algorithm": "keyword"},
    {"semantic_weight": 0.2, "keyword_weight": 0.7, "fuzzy_boost": 0.1},
    {"recency_weight": 1.0, "priority": "hard"},
    {"collections": ["letters"], "correct": False, "tags": ["even"]},
]


async def test_a_search_gives_the_hits_of_qdrant_find_in_its_order_and_the_map_marks_them(page):
    def hits(found):
        return [(one["id"], one["collection"], one["relevance"]) for one in found["results"]]

    for more in ASKED:
        asked = {"query": "bridge copper", "collections": ["*"]} | more
        tool = await page.tool(**asked, explain=True, point_ids=True)
        answer = await page.ask("search", **asked)
        drawn = await page.ask("map", collections=["*"], search=asked)

        assert hits(answer) == hits(tool) != [], more
        assert all("why" in one for one in answer["results"])
        assert [one["id"] for one in drawn["hits"]] == [one["id"] for one in answer["results"]]
        assert all(one["at"] for one in drawn["hits"])


async def test_the_setup_tells_the_collections_their_tags_and_what_the_server_does_by_default(page):
    setup = await page.ask("setup")

    assert (await page.ask("tags"))["tags"] == {"letters": ["even"], "notes": ["even"]}
    assert [(one["name"], one["points"]) for one in setup["collections"]] == [
        ("letters", 16),
        ("notes", 8),
    ]
    assert setup["defaults"]["priority_order"] == ["letters"]
    assert setup["defaults"]["recency_weight"] == 0.15


async def test_the_setup_tells_every_collection_and_not_what_fits_an_agents_page(one):
    for number in range(45):
        name = f"{number:02} a rather long name"
        await one.ask("store", collection_name=name, information="a text")

    assert len((await one.ask("setup"))["collections"]) == 47


async def test_only_coordinates_and_words_leave_the_server_and_places_travel_alone(one):
    (panel,) = (await one.ask("map", collections=["*"]))["panels"]

    assert [group["count"] for group in panel["groups"]] == [16, 8]
    assert len(panel["explained"]) == 3
    assert set(panel) == {
        *("model", "explained", "groups", "scale", "xyz", "facets", "neighbours"),
        *("ids", "documents", "titles", "snippets"),
    }
    search = {"query": "copper", "limit": 2}
    drawn = await one.ask("map", collections=["*"], search=search, points=False)

    assert set(drawn["panels"][0]) == {"model", "explained", "groups"}
    assert len(drawn["hits"]) == 2


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"collections": ["*"]}, "query is empty"),
    ("search", {"query": "x", "collections": ["notse"]}, "Did you mean 'notes'?"),
    ("search", {"query": "x", "query_filter": {}}, "There is no field 'query_filter'."),
    ("search", {"query": "alpha", "ids": "x"}, "ids must be a list of ids."),
    ("map", {"collections": []}, "collections must be a list of names, and not empty."),
    ("map", {"search": "x"}, "search must be an object."),
    ("map", {"vectors": True}, "There is no field 'vectors'."),
]


async def test_what_cannot_be_done_is_one_sentence_and_the_page_recovers(one):
    for name, asked, sentence in REFUSED:
        assert sentence in await one.refused(name, **asked)
    asked = {"query": "copper", "collections": ["*"]}
    one.engine.down = EngineUnavailable("Qdrant cannot be reached.")
    assert "Qdrant cannot be reached." in await one.refused("search", **asked)
    assert (await one.post("map", {"search": asked})).json()["error"]
    one.engine.down = None

    assert (await one.ask("search", **asked))["results"]


async def test_no_other_site_can_ask_and_a_foreign_name_that_leads_here_gets_nothing(one):
    for headers, status in (
        ({CLIENT_HEADER: "somebody"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ):
        response = await one.post("setup", {}, **headers)
        assert (response.status_code, list(response.json())) == (status, ["error"])
    for host in ("evil.example", "127.0.0.1.evil.example:8000"):
        assert (await one.post("setup", {}, host=host)).status_code == 421
        assert (await one.client.get("/viz", headers={"host": host})).status_code == 421


async def test_with_a_token_the_page_is_open_and_its_calls_are_not():
    token = "a-token-of-at-least-32-characters-in-all"
    async with (
        memory_engine() as engine,
        filled(engine.client, auth_mode="token", auth_token=token) as page,
    ):
        assert (await page.client.get("/")).status_code == 307
        assert (await page.client.get("/viz")).status_code == 200
        assert (await page.client.get("/viz/app.js")).status_code == 200
        for name in calls(Desk(lambda _: (), None, None)):
            refused = await page.client.post(name, content="{}", headers=HEADERS)
            assert refused.status_code == 401, name
            assert refused.json()["error_description"]
        answer = await page.post("setup", {}, authorization=f"Bearer {token}")
        assert len(answer.json()["collections"]) == 2


async def test_calls_are_posts_of_a_json_object_that_is_not_too_long(one):
    for body in (b"", b"[]", b"{", b"\xff", b'"x"', b"[" * 5000):
        response = await one.client.post("/viz/api/setup", content=body, headers=HEADERS)
        assert response.status_code == 422
        assert "JSON" in response.json()["error"]
    long = await one.client.post("/viz/api/search", content=b" " * 4_200_000, headers=HEADERS)
    assert long.status_code == 413
    assert (await one.client.get("/viz/api/setup")).status_code == 404
    assert (await one.client.post("/viz", headers=HEADERS)).status_code == 405


async def test_everything_is_sent_with_a_strict_policy_and_from_one_address(one):
    for name in ("", "/app.js", "/style.css", "/plot.js", "/nothing"):
        response = await one.client.get(f"/viz{name}")
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.status_code == (404 if name == "/nothing" else 200)
    for path in ("../routes.py", "%2e%2e/routes.py", "../chat.html", "nothing/"):
        assert (await one.client.get(f"/viz/{path}")).status_code == 404
    for path in ("/", "/viz/"):
        response = await one.client.get(path)
        assert response.status_code == 307
        assert response.next_request.url == f"{ADDRESS}/viz"


async def test_answers_are_not_kept_by_the_browser_and_files_only_while_they_are_the_same(one):
    answer = await one.post("setup")
    page = await one.client.get("/viz")
    first = await one.client.get("/viz/app.js")
    again = await one.client.get("/viz/app.js", headers={"if-none-match": first.headers["etag"]})

    assert "<viz/app.js>; rel=modulepreload" in page.headers["link"].split(", ")
    assert answer.headers["cache-control"] == "no-store"
    assert (first.headers["cache-control"], first.status_code) == ("no-cache", 200)
    assert (again.status_code, again.content) == (304, b"")


async def test_answers_are_compressed_and_event_streams_are_not(one):
    zipped = {"accept-encoding": "gzip"}
    script = await one.client.get("/viz/plot.js", headers=zipped)
    answer = await one.post("search", {"query": "copper"}, **zipped)
    plain = await one.client.get("/viz/app.js", headers={"accept-encoding": "identity"})
    agents = await one.client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        headers=zipped | {"accept": "application/json, text/event-stream"},
    )

    assert script.headers["content-encoding"] == answer.headers["content-encoding"] == "gzip"
    assert script.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in agents.headers


def test_the_page_names_no_other_host():
    ours = {path.name: path for path in WEB.iterdir() if path.is_file()}

    assert {"index.html", "app.js", "style.css"} <= set(ours)
    for name, path in ours.items():
        text = path.read_text("utf-8").replace('"http://www.w3.org/2000/svg"', "")
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "innerHTML" not in text, name


async def test_without_the_page_there_is_none():
    served = build_app(make_server(make_settings()), "sse", make_settings())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=served), base_url=ADDRESS
    ) as client:
        assert (await client.get("/viz")).status_code == 404


async def test_filters_that_the_operator_configured_are_those_of_the_tool():
    field = {"name": "year", "description": "The year", "field_type": "integer", "condition": ">="}
    async with (
        memory_engine() as engine,
        filled(
            engine.client, filterable_fields=(field,), qdrant_allow_arbitrary_filter=False
        ) as page,
    ):
        (told,) = (await page.ask("setup"))["defaults"]["filters"]
        assert (told["name"], told["condition"]) == ("year", ">=")
        answer = await page.ask("search", query="copper", collections=["*"], year=2020)
        assert answer["results"] == []
        assert (await page.ask("search", query="alpha", tags=["even"]))["results"]
