"""The map in the chat: the MCP App in a real browser, in a sandbox, before a host of our own."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_server_qdrant.tools.project import APP
from tests.browser.app_host import Host, Server
from tests.browser.conftest import PATIENCE
from tests.support import corpus

WIDE, NARROW = {"width": 900, "height": 900}, {"width": 360, "height": 800}


async def fill(client: Any) -> None:
    for number, text in enumerate(corpus(40)):
        await client.call_tool(
            "qdrant-store",
            {
                "information": f"{text} <b>bold</b>",
                "collection_name": "notes" if number % 4 else "letters",
                "title": f"Title {number} <img src=x onerror=alert(1)>",
                "metadata": {"source": f"https://example.org/{number}"},
            },
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(fill) as running:
        for arguments in ({}, {"collections": ["notes"]}):
            asked = arguments | {"points": True}  # until both layouts are there: no app asks again
            while running.call("qdrant-project", asked)["structuredContent"]["map"]["coming"]:
                time.sleep(0.05)
        yield running


@pytest.fixture
def host(browser: Any, server: Server) -> Iterator[Any]:
    """Opens the app before a host; at the end nothing may have gone wrong in it."""
    opened: list[Host] = []

    def open_(view: Any = WIDE, **context: Any) -> Host:
        context_of_page = browser.new_context(viewport=view, reduced_motion="reduce")
        context_of_page.set_default_timeout(PATIENCE)
        page = context_of_page.new_page()
        host = Host(page, server, {"serverTools": {}, "openLinks": {}}, context)
        opened.append(host)
        host.open(server.read(APP).text)
        return host

    yield open_
    for one in opened:
        one.page.context.close()
        assert one.faults == []


PLOT = "document.querySelector('canvas').plot"


def look(host: Host, what: str) -> Any:
    """A value of the plot, such as `camera.transform`, once it was painted."""
    host.app.locator("canvas[data-frame]").wait_for()
    return host.page.frames[1].evaluate(f"() => {{ {PLOT}.paint(); return {PLOT}.{what}; }}")


def spot(host: Host, what: str) -> dict[str, float]:
    """Where on the page something of the app is, by its place on the canvas."""
    x, y = look(host, what)
    box = host.app.locator("canvas").bounding_box()
    return {"x": box["x"] + x, "y": box["y"] + y}


def drawn(host: Host) -> int:
    """How many pixels of the canvas are not the background."""
    pixels = "context.getImageData(0, 0, 400, 300).data.filter((one, n, all) => one !== all[n % 4])"
    count: int = look(host, f"{pixels}.length")
    return count


def test_a_result_is_drawn_and_its_hits_tell_what_they_are(host):
    app = host()
    result = app.show({"query": "copper ember"})

    hits = result["structuredContent"]["hits"]
    items = app.app.locator("#hits li")
    items.first.wait_for()
    assert items.count() == len(hits) > 3
    for number, hit in enumerate(hits):
        assert items.nth(number).inner_text().startswith(f"{number + 1}. {hit['title'][:60]}")
    assert app.app.locator("#share").inner_text() == "40 points"
    assert app.app.get_by_label("Search on the map").input_value() == "copper ember"
    assert app.app.locator("canvas").get_attribute("data-rest-opacity") == "0.4"
    assert look(app, "colours") == ["#3b82d0", "#e08a00"]  # as on the page
    assert drawn(app) > 500
    app.page.wait_for_function(
        "window.sent.some(one => one.method === 'ui/notifications/size-changed'"
        " && one.params.height > 400 && one.params.height < 480)"
    )
    assert app.calls == []

    place = spot(app, "hits[0].pin")
    app.page.mouse.move(**place)
    tip = app.app.locator("#tip")
    tip.wait_for()
    assert "no. 1, relevance" in tip.inner_text()
    assert "<img src=x onerror=alert(1)>" in tip.inner_text()  # a text, never an element
    assert "ember" in tip.inner_text()
    app.page.mouse.click(**place)
    text = app.app.get_by_label("Text of a point")
    text.get_by_text("<b>bold</b>").wait_for()
    (name, arguments) = app.called()[0]
    assert name == "qdrant-get"
    assert arguments["collection_name"] in ("notes", "letters")
    text.get_by_role("button", name="Open the source").click()
    app.until(lambda: app.links)
    assert app.links[0].startswith("https://example.org/")
    text.get_by_role("button", name="Close").click()
    assert text.is_hidden()

    app.page.set_viewport_size(NARROW)
    root = "document.documentElement"
    assert app.page.frames[1].evaluate(f"{root}.scrollWidth <= {root}.clientWidth")


def test_the_map_has_regions_is_zoomed_and_moved_and_hides_a_collection(host):
    app = host()
    app.show({})
    app.app.locator("canvas[data-regions]:not([data-regions='0'])").wait_for()
    assert app.app.locator("canvas").get_attribute("data-rest-opacity") == "0.85"
    words = look(app, "labels[0].region.words.join(', ')")
    x, y = (look(app, f"labels[0].{axis}") for axis in "xy")
    app.page.mouse.click(**spot(app, f"labels[0] && [{x}, {y}]"))
    text = app.app.get_by_label("Text of a point")
    assert text.get_by_role("heading").inner_text() == words
    assert text.get_by_role("listitem").count() > 1
    text.get_by_role("button", name="Close").click()

    view = "camera.transform"
    canvas = app.app.locator("canvas")
    app.app.get_by_label("Search on the map").focus()
    canvas.hover()
    app.page.mouse.wheel(0, -600)
    assert look(app, view) == {"k": 1, "x": 0, "y": 0}  # a wheel scrolls the chat until the click
    canvas.focus()
    app.page.mouse.wheel(0, -600)
    app.until(lambda: look(app, f"{view}.k") > 2)
    zoomed = look(app, view)
    app.page.mouse.down()
    box = canvas.bounding_box()
    app.page.mouse.move(box["x"] + 20, box["y"] + 20, steps=3)
    app.page.mouse.up()
    moved = look(app, view)
    assert moved["k"] == zoomed["k"]
    assert moved["x"] < zoomed["x"] - 100
    app.app.get_by_role("button", name="Show all").click()
    assert look(app, view) == {"k": 1, "x": 0, "y": 0}

    button = app.app.get_by_role("button", name="letters 10")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert look(app, "place.filter((one, n) => n % 3 === 2 && one > 0).length") == 30


def test_points_searches_and_errors_go_through_the_host(host):
    app = host()
    app.show({"collections": ["notes"], "limit": 12}, points=False)
    app.app.get_by_text("12 of 30 points").wait_for()
    box = app.app.get_by_label("Search on the map")
    search = app.app.get_by_role("button", name="Search", exact=True)
    box.press_sequentially("falcon bridge")
    box.press("Enter")
    app.app.get_by_role("listitem").filter(has_text="1. Title ").wait_for()
    box.fill("")
    search.click()
    app.app.locator("#hits:empty").wait_for(state="attached")
    asked = {"collections": ["notes"], "limit": 12, "points": True}
    assert app.called(3) == [
        ("qdrant-project", asked),
        ("qdrant-project", asked | {"query": "falcon bridge"}),
        ("qdrant-project", asked),
    ]

    app.broken = "The engine is gone."
    search.click()
    status = app.app.get_by_role("status")
    status.filter(has_text="The engine is gone.").wait_for()
    assert drawn(app) > 500  # the map stays
    app.broken = None
    failed = app.server.call("qdrant-project", {"collections": ["x"]})
    app.tell("ui/notifications/tool-result", failed)
    status.filter(has_text="There is no collection 'x'").wait_for()
    app.tell("ui/notifications/tool-cancelled", {"reason": "The person stopped it."})
    status.filter(has_text="The person stopped it.").wait_for()

    for number, method in enumerate(("ping", "ui/resource-teardown", "other"), 900):
        request = {"id": number, "method": method, "params": {}}
        app.page.evaluate("message => window.tell(message)", request)
    app.page.wait_for_function("window.sent.filter(one => one.id >= 900).length === 3")
    answers = app.page.evaluate("window.sent.filter(one => one.id >= 900)")
    assert [one.get("result") for one in answers] == [{}, {}, None]
    assert answers[2]["error"]["code"] == -32601


def test_a_client_that_lets_the_app_ask_nothing_and_an_empty_store_are_told(browser, server):
    async def nothing(_: Any) -> None:
        pass

    page = browser.new_context(viewport=WIDE).new_page()
    silent = Host(page, server, {}, {})
    silent.open(server.read(APP).text)
    silent.show({}, points=False)
    silent.app.get_by_text("The answer in words is complete.").wait_for()
    assert silent.app.get_by_role("button", name="Search", exact=True).is_disabled()
    assert silent.app.locator("canvas").count() == 0
    page.context.close()

    with Server(nothing) as empty:
        page = browser.new_context(viewport=WIDE).new_page()
        app = Host(page, empty, {"serverTools": {}}, {})
        app.open(empty.read(APP).text)
        app.show({})
        app.app.get_by_role("status").filter(has_text="There is nothing to draw yet.").wait_for()
        page.context.close()
    assert silent.faults == app.faults == []


def test_the_host_decides_about_light_and_dark_and_axe_finds_nothing_serious_in_either(host):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is missing")
    expect = pytest.importorskip("playwright.sync_api").expect
    app = host(theme="dark", styles={"variables": {"--color-text-primary": "rgb(250, 251, 252)"}})
    app.show({"query": "copper"})
    app.app.locator("#hits button").first.click()
    app.app.get_by_label("Text of a point").get_by_text("<b>bold</b>").wait_for()
    body = app.app.locator("body")  # asked from outside: the app's policy forbids polling inside
    frame = app.page.frames[1]
    frame.evaluate(axe.AXE_FILE_PATH.read_text())
    for theme, paper in (("dark", "rgb(21, 26, 35)"), ("light", "rgb(255, 255, 255)")):
        styles = {"variables": {"--color-text-primary": "rgb(9, 9, 9)"}} if theme == "light" else {}
        app.tell("ui/notifications/host-context-changed", {"theme": theme, "styles": styles})
        expect(body).to_have_css("background-color", paper)
        expect(body).to_have_css("color", {"dark": "rgb(250, 251, 252)"}.get(theme, "rgb(9, 9, 9)"))
        found = frame.evaluate("axe.run()")["violations"]
        serious = [one for one in found if one["impact"] != "minor"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
