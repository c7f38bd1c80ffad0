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


def drawn(host: Host) -> int:
    """How many pixels of the canvas are not the paper, once it was painted."""
    host.app.locator("canvas[data-frame]").wait_for()
    frame = host.page.frames[1]
    count: int = frame.evaluate(
        """() => { const c = document.querySelector("canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] !== d[0]) n++; return n; }"""
    )
    return count


def spot(host: Host, which: str) -> dict[str, float]:
    """Where on the page something of the app lies: `which` gives it, in the app's own terms."""
    host.app.locator("canvas[data-frame]").wait_for()
    frame = host.page.frames[1]
    frame.evaluate("() => plot.paint()")
    x, y = frame.evaluate(f"() => {which}")
    box = host.app.locator("canvas").bounding_box()
    return {"x": box["x"] + x, "y": box["y"] + y}


def test_the_result_is_drawn_with_its_hits_in_their_order(host):
    app = host()
    result = app.show({"query": "copper ember"})

    hits = result["structuredContent"]["hits"]
    items = app.app.locator("#hits li")
    items.first.wait_for()
    assert items.count() == len(hits) > 3
    for number, hit in enumerate(hits):
        assert items.nth(number).inner_text().startswith(f"{number + 1}. {hit['title'][:60]}")
    assert "40 of 40 points" in app.app.locator("#share").inner_text()
    assert app.app.get_by_label("Search on the map").input_value() == "copper ember"
    assert drawn(app) > 500
    assert app.calls == []


def test_the_host_is_told_the_size(host):
    app = host()
    app.show({})
    app.page.wait_for_function(
        "window.sent.some(one => one.method === 'ui/notifications/size-changed'"
        " && one.params.height > 400 && one.params.height < 480)"
    )


def test_a_result_without_points_makes_the_app_ask_for_them(host):
    app = host()
    app.show({"collections": ["notes"], "limit": 12}, points=False)

    app.app.get_by_text("12 of 30 points").wait_for()
    assert app.called() == [
        ("qdrant-project", {"collections": ["notes"], "limit": 12, "points": True})
    ]


def test_a_search_inside_goes_through_the_host(host):
    app = host()
    app.show({"collections": ["notes"], "query": "ember"})
    box = app.app.get_by_label("Search on the map")
    box.fill("falcon bridge")
    box.press("Enter")

    app.app.get_by_role("listitem").filter(has_text="1. Title 22").wait_for()
    assert app.called() == [
        ("qdrant-project", {"collections": ["notes"], "query": "falcon bridge", "points": True})
    ]
    box.fill("")
    app.app.get_by_role("button", name="Search", exact=True).click()
    app.app.locator("#hits:empty").wait_for(state="attached")
    assert app.called(2)[1] == ("qdrant-project", {"collections": ["notes"], "points": True})


def test_hover_shows_title_and_excerpt_and_a_click_reads_the_text(host):
    app = host()
    app.show({"query": "copper ember"})
    app.app.locator("#hits li").first.wait_for()
    place = spot(app, "plot.hits[0].pin")
    app.page.mouse.move(**place)

    tip = app.app.locator("#tip")
    tip.wait_for()
    assert "no. 1, relevance" in tip.inner_text()
    assert "<img src=x onerror=alert(1)>" in tip.inner_text()  # a text, never an element
    assert "copper" in tip.inner_text()
    app.page.mouse.click(**place)
    text = app.app.get_by_label("Text of a point")
    text.get_by_text("<b>bold</b>").wait_for()
    (name, arguments) = app.called()[0]
    assert name == "qdrant-get"
    assert arguments["collection_name"] in ("notes", "letters")
    text.get_by_role("button", name="Close").click()
    assert text.is_hidden()


def test_a_point_that_is_no_hit_is_read_by_its_id(host):
    app = host()
    app.show({"collections": ["letters"]})
    app.app.get_by_text("10 of 10 points").wait_for()
    app.page.mouse.click(**spot(app, "[plot.place[9], plot.place[10]]"))

    app.app.get_by_label("Text of a point").get_by_text("alpha").wait_for()
    assert app.called()[0][1]["ids"] == [app.page.frames[1].evaluate("plot.panel.about(3).id")]


def test_the_source_is_opened_by_the_host(host):
    app = host()
    app.show({"query": "copper"})
    app.app.locator("#hits button").first.click()
    app.app.get_by_role("button", name="Open the source").click()
    app.until(lambda: app.links)

    assert app.links[0].startswith("https://example.org/")


def test_the_map_can_be_zoomed_moved_and_shown_whole_again(host):
    app = host()
    app.show({})
    app.app.get_by_text("40 of 40 points").wait_for()
    canvas = app.app.locator("canvas")
    look = "[plot.camera.transform.k, plot.camera.transform.x]"
    canvas.hover()
    app.page.mouse.wheel(0, -600)
    scrolled = app.page.frames[1].evaluate(look)
    canvas.focus()  # a wheel scrolls the chat until then
    app.page.mouse.wheel(0, -600)
    app.until(lambda: app.page.frames[1].evaluate(look)[0] > 2)
    zoomed = app.page.frames[1].evaluate(look)
    app.page.mouse.down()
    box = canvas.bounding_box()
    app.page.mouse.move(box["x"] + 20, box["y"] + 20, steps=3)
    app.page.mouse.up()
    moved = app.page.frames[1].evaluate(look)
    app.app.get_by_role("button", name="Show all").click()

    assert scrolled == [1, 0]
    assert moved[0] == zoomed[0]
    assert moved[1] < zoomed[1] - 100
    assert app.page.frames[1].evaluate(look) == [1, 0]


def test_three_dimensions_turn_when_dragged(host):
    app = host()
    app.show({"dimensions": 3})
    app.app.get_by_text("40 of 40 points").wait_for()
    before = spot(app, "[plot.place[0], plot.place[1]]")
    box = app.app.locator("canvas").bounding_box()
    app.page.mouse.move(box["x"] + 200, box["y"] + 200)
    app.page.mouse.down()
    app.page.mouse.move(box["x"] + 320, box["y"] + 240)
    app.page.mouse.up()

    assert spot(app, "[plot.place[0], plot.place[1]]") != before
    assert app.page.frames[1].evaluate("plot.camera.turn.yaw") > 1


def test_a_collection_can_be_hidden(host):
    app = host()
    app.show({})
    button = app.app.get_by_role("button", name="letters (10 of 10)")
    button.wait_for()
    button.click()
    app.page.frames[1].evaluate("plot.paint()")

    assert button.get_attribute("aria-pressed") == "false"
    strengths = app.page.frames[1].evaluate("[...plot.place].filter((_, n) => n % 3 === 2)")
    assert sum(one > 0 for one in strengths) == 30


def test_what_lies_beside_the_hits_is_dimmed_to_forty_percent(host):
    app = host()
    app.show({})
    app.app.locator("canvas[data-rest-opacity='0.85']").wait_for()
    app.show({"query": "copper ember"})
    app.app.locator("canvas[data-rest-opacity='0.4']").wait_for()


def test_a_region_has_its_name_and_tells_its_documents(host):
    app = host()
    app.show({})
    app.app.locator("canvas[data-regions]:not([data-regions='0'])").wait_for()
    region = "(({ x, y }) => [x, y])(plot.labels[0])"
    words = app.page.frames[1].evaluate("plot.labels[0].region.words.join(', ')")
    app.page.mouse.click(**spot(app, region))
    text = app.app.get_by_label("Text of a point")

    assert text.get_by_role("heading").inner_text() == words
    assert text.get_by_role("listitem").count() > 1


def test_colours_and_drawing_are_those_of_the_page(host):
    app = host()
    app.show({})
    app.app.get_by_text("40 of 40 points").wait_for()

    assert app.page.frames[1].evaluate("plot.colours") == ["#3b82d0", "#e08a00"]


def test_a_client_that_lets_the_app_ask_nothing_is_told_so(browser, server):
    page = browser.new_context(viewport=WIDE).new_page()
    app = Host(page, server, {}, {})
    app.open(server.read(APP).text)
    app.show({}, points=False)
    app.app.get_by_text("The answer in words is complete.").wait_for()

    assert app.app.get_by_role("button", name="Search", exact=True).is_disabled()
    assert app.app.locator("canvas").count() == 0
    page.context.close()


def test_an_error_is_told_and_the_map_stays(host):
    app = host()
    app.show({"collections": ["notes"]})
    app.app.get_by_text("30 of 30 points").wait_for()
    app.broken = "The engine is gone."
    app.app.get_by_role("button", name="Search", exact=True).click()

    app.app.get_by_role("status").filter(has_text="The engine is gone.").wait_for()
    assert drawn(app) > 500
    app.broken = None
    app.tell(
        "ui/notifications/tool-result", app.server.call("qdrant-project", {"collections": ["x"]})
    )
    app.app.get_by_role("status").filter(has_text="There is no collection 'x'").wait_for()
    app.tell("ui/notifications/tool-cancelled", {"reason": "The person stopped it."})
    app.app.get_by_role("status").filter(has_text="The person stopped it.").wait_for()


def test_the_host_decides_whether_it_is_dark(host):
    app = host(theme="dark", styles={"variables": {"--color-text-primary": "rgb(1, 2, 3)"}})
    app.show({})

    # asked from outside: the app's policy refuses a condition that the page itself polls
    body = pytest.importorskip("playwright.sync_api").expect(app.app.locator("body"))
    body.to_have_css("background-color", "rgb(21, 26, 35)")
    body.to_have_css("color", "rgb(1, 2, 3)")
    app.tell("ui/notifications/host-context-changed", {"theme": "light"})
    body.to_have_css("background-color", "rgb(255, 255, 255)")


def test_it_fits_a_narrow_screen(host):
    app = host(NARROW)
    app.show({"query": "copper"})
    app.app.locator("#hits li").first.wait_for()

    root = "document.documentElement"
    assert app.page.frames[1].evaluate(f"{root}.scrollWidth <= {root}.clientWidth")


def test_the_app_answers_ping_and_farewell_and_refuses_the_rest(host):
    app = host()
    for number, method in enumerate(("ping", "ui/resource-teardown", "other"), 900):
        app.page.evaluate(
            "message => window.tell(message)", {"id": number, "method": method, "params": {}}
        )
    app.page.wait_for_function("window.sent.filter(one => one.id >= 900).length === 3")
    answers = app.page.evaluate("window.sent.filter(one => one.id >= 900)")

    assert [one.get("result") for one in answers] == [{}, {}, None]
    assert answers[2]["error"]["code"] == -32601


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(host, theme):
    axe = pytest.importorskip(
        "axe_playwright_python.base", reason="pip install axe-playwright-python"
    )
    app = host(theme=theme)
    app.show({"query": "copper"})
    app.app.locator("#hits button").first.click()
    app.app.get_by_label("Text of a point").get_by_text("<b>bold</b>").wait_for()
    frame = app.page.frames[1]
    frame.evaluate(axe.AXE_FILE_PATH.read_text())
    found = frame.evaluate("axe.run()")["violations"]

    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] != "minor"] == []


def test_nothing_stored_is_told(browser):
    async def nothing(_: Any) -> None:
        pass

    with Server(nothing) as empty:
        page = browser.new_context(viewport=WIDE).new_page()
        app = Host(page, empty, {"serverTools": {}}, {})
        app.open(empty.read(APP).text)
        app.show({})
        app.app.get_by_role("status").filter(has_text="There is nothing to draw yet.").wait_for()
        page.context.close()

    assert app.faults == []
