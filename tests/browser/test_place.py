"""The page as a place: links, what is here, the texts and their changes, the comparison."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp import Client

from tests.browser.conftest import PHONE, WIDE, Served
from tests.browser.test_page import FIRST, QUERY, ask, settings, settled, shot, start, titles

LAPTOP = {"width": 1280, "height": 800}
TABLET = {"width": 1000, "height": 900}

assert start  # a fixture


def tool(address, name, **arguments):
    async def call():
        async with Client(f"{address}/mcp") as client:
            return await client.call_tool(name, arguments)

    with ThreadPoolExecutor() as threads:  # this one belongs to Playwright's loop
        return threads.submit(asyncio.run, call()).result()


@pytest.fixture
def scratch(served):
    """A text of its own, to change."""
    where = {"collection_name": "recipes", "id": "scratch"}
    text = "Zabaglione needs yolks, sugar and marsala."
    tool(
        served.address, "qdrant-store", information=text, title="Zabaglione", tags=["egg"], **where
    )
    yield where
    for name in ("recipes", "homelab"):
        tool(served.address, "qdrant-delete", ids=["scratch"], collection_name=name)


def inside(page, selector):
    """True where the element's top is on the screen."""
    return 0 <= page.locator(selector).first.bounding_box()["y"] < page.viewport_size["height"]


def test_an_address_holds_query_settings_and_the_open_text(start):
    page = start()
    ask(page)
    settings(page)
    with page.expect_response("**/viz/api/search"):
        page.locator("#algorithm").select_option("keyword")
    page.get_by_role("button", name="Close the settings").click()
    assert page.locator("#settings-count").inner_text() == "1"
    settled(page)
    page.locator(".hit .open").first.click()
    page.locator("#passage .text").wait_for()
    address = page.url
    page.reload()
    page.locator("#passage .text").wait_for()

    assert page.url == address
    assert page.get_by_role("searchbox").input_value() == QUERY
    page.keyboard.press("Escape")
    page.wait_for_selector(".hit .bar")
    assert "algorithm=keyword" in page.url
    assert "doc=" not in page.url
    assert page.locator("#settings-count").inner_text() == "1"


def test_back_and_forward_walk_through_queries_views_and_texts(start):
    page = start()
    ask(page)
    page.get_by_role("link", name="Texts").click()
    page.locator("#texts-list tbody tr").first.wait_for()
    page.locator("#texts-list .open").first.click()
    page.locator("#passage .text").wait_for()
    page.go_back()
    page.locator("#passage .text").wait_for(state="hidden")
    page.go_back()
    page.locator(".hit h3", has_text=FIRST).wait_for()
    page.go_back()
    page.locator(".tile").first.wait_for()
    page.go_forward()
    page.locator(".hit h3", has_text=FIRST).wait_for()

    assert page.get_by_role("searchbox").input_value() == QUERY


def test_the_bare_address_leads_to_the_page_which_loads_its_modules_together(browser, served):
    page = browser.new_page()
    page.goto(served.address)
    assert page.url.startswith(f"{served.address}/viz")
    page.locator(".tile").first.wait_for()
    answer = page.request.get(f"{served.address}/viz")
    named = answer.headers["link"].split(", ")
    loaded = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    modules = [one.rpartition("/")[2] for one in loaded if one.endswith(".js")]

    assert sorted(modules) == sorted(one.removeprefix("<viz/").partition(">")[0] for one in named)
    page.close()


def test_before_a_query_there_are_collections_topics_and_the_newest(start):
    page = start()
    page.locator(".newest li").first.wait_for()
    shot(page, "home")

    assert page.locator(".tile h3").all_inner_texts() == ["homelab", "meetings", "recipes"]
    assert "points" in page.locator(".tile .where").first.inner_text()
    tag = page.locator(".tile .use").first
    word = tag.inner_text()
    with page.expect_request("**/viz/api/list") as asked:
        tag.click()
    assert asked.value.post_data_json["tags"] == [word]
    settled(page)
    page.go_back()
    samples = page.locator(".tries .use")
    samples.nth(3).wait_for()  # beside the demo's own one about a region, once there are some
    assert samples.nth(3).inner_text().startswith("What is said about ")
    samples.first.click()
    page.wait_for_selector(".hit .bar")
    settled(page)


def test_from_1200_pixels_results_stand_beside_the_map_below_a_switch_shows_one_of_both(start):
    page = start()
    ask(page)
    for size in (WIDE, LAPTOP):
        page.set_viewport_size(size)
        results, plot = (page.locator(name).bounding_box() for name in ("#results", "#map"))
        assert results["x"] + results["width"] <= plot["x"]
        assert abs(results["y"] - plot["y"]) < 2
        assert inside(page, ".hit:nth-child(3)")
        assert not page.locator("#tabs").get_by_text("Map").is_visible()
    page.mouse.wheel(0, 900)
    page.wait_for_function("() => scrollY > 300")
    ask(page, "backup of the photos")
    assert page.evaluate("scrollY") == 0, "a search begins at its first result"

    for size in (TABLET, PHONE):
        page.set_viewport_size(size)
        page.locator("#map").wait_for(state="hidden")
        page.get_by_role("link", name="Map").click()
        page.locator("canvas").wait_for()
        assert not page.locator("#results").is_visible()
        page.get_by_role("link", name="Search").click()
        assert page.locator("#results").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_map_is_still_at_the_hits_when_one_comes_back_to_it(start):
    page = start(viewport=PHONE)
    ask(page)
    page.get_by_role("link", name="Map").click()
    page.wait_for_function("() => location.hash.includes('at=')")
    for tab in ("Search", "Map"):
        page.get_by_role("link", name=tab, exact=True).click()
    page.wait_for_timeout(500)  # a glide to the whole map would have begun

    assert float(page.locator("canvas").get_attribute("data-zoom")) > 1


def test_words_of_the_query_are_marked_in_any_form_and_common_ones_are_not(browser, served):
    page = browser.new_page()
    page.goto(f"{served.address}/viz/icon.svg")  # only for what may be imported here
    marked = page.evaluate(
        """async () => {
            const { marked } = await import('/viz/words.js');
            const words = (text, query) =>
                marked(text, query).filter(one => one.tagName).map(one => one.textContent);
            const text = 'The backups of the planet were tested; a backup plan.';
            return [words(text, 'the plans and the backup test'),
                words('UPS batteries last', 'how long does the battery of the UPS last'),
                words('noticing notices', 'noticed')];
        }"""
    )

    assert marked == [
        ["backups", "tested", "backup", "plan"],
        ["UPS", "batteries", "last"],
        ["noticing", "notices"],
    ]
    page.close()


def test_texts_are_listed_filtered_and_sorted_without_a_query(start):
    page = start()
    page.get_by_role("link", name="Texts").click()
    rows = page.locator("#texts-list tbody tr")
    rows.first.wait_for()
    shot(page, "texts")
    assert "43 texts" in page.locator("#texts-about").inner_text()
    page.locator("#sieve").get_by_label("Collection").select_option("recipes")
    page.locator("tr[data-collection='homelab']").first.wait_for(state="detached")
    page.locator("thead").get_by_role("button", name="Title").click()
    page.locator("th[aria-sort='ascending']").wait_for()
    shown = page.locator("#texts-list tbody .open").all_inner_texts()
    order = "all => all.toSorted((a, b) => a.toLowerCase().localeCompare(b.toLowerCase()))"
    assert shown == page.evaluate(order, shown)
    assert len(shown) == 14
    assert "sort=title" in page.url
    assert "in=recipes" in page.url

    page.goto(f"{page.url.split('#')[0]}#view=texts&until=2001-01-01")
    page.get_by_text("No text fits").wait_for()
    page.goto(f"{page.url.split('#')[0]}#")
    page.locator(".tile").first.wait_for()
    settings(page)
    page.locator("#controls .chip", has_text="backup").first.click()
    page.wait_for_url("**tag=backup**")
    rows.first.wait_for()
    tags = page.locator("td[data-label='Tags']").all_inner_texts()
    assert tags
    assert all("backup" in one for one in tags)
    page.get_by_role("button", name="Without tag: backup").click()
    page.locator("#texts-about", has_text="43 texts").wait_for()


def open_scratch(page):
    page.goto(f"{page.url.split('#')[0]}#view=texts&in=recipes&doc=scratch&of=recipes")
    page.locator("#passage .text").wait_for()


def test_a_deletion_can_be_undone_and_a_text_moved_to_another_collection(start, scratch, served):
    page = start()
    open_scratch(page)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Undo").wait_for()
    assert tool(served.address, "qdrant-get", ids=["scratch"]).is_error
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("It is back.").wait_for()
    assert not tool(served.address, "qdrant-get", ids=["scratch"]).is_error

    open_scratch(page)
    page.get_by_label("Move to").select_option("homelab")
    page.get_by_text("Moved to homelab.").wait_for()
    page.locator("#passage dd", has_text="homelab").first.wait_for()
    for name, gone in (("homelab", False), ("recipes", True)):
        got = tool(served.address, "qdrant-get", ids=["scratch"], collection_name=name)
        assert got.is_error is gone
    page.get_by_role("button", name="Close").click()
    assert "doc=" not in page.url
    settled(page)
    assert not page.locator("#passage").is_visible()


def test_a_text_is_edited_undone_and_an_earlier_version_read_and_brought_back(start, scratch):
    page = start()
    open_scratch(page)
    before = page.locator("#passage .text").inner_text()

    def edit(text):
        page.get_by_role("button", name="Edit").click()
        page.locator("#edit-text").fill(text)
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator("#passage .text", has_text=text).wait_for()

    edit("The scratch text is another one now.")
    page.get_by_role("button", name="Undo").click()
    page.locator("#passage .text", has_text=before[:20]).wait_for()
    edit("And now a third one.")
    page.get_by_role("button", name="Earlier versions").click()
    page.locator("#passage .like .open").first.click()
    page.locator("#passage .hint", has_text="is an earlier version").wait_for()
    assert not page.get_by_role("button", name="Delete", exact=True).is_visible()
    page.get_by_role("button", name="Bring it back").click()
    page.get_by_role("button", name="Edit").wait_for()
    assert page.locator("#passage .text").inner_text() == before

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill("Zabaione")
    page.get_by_label("Tags, by comma").fill("egg, wine")
    page.get_by_role("button", name="Save").click()
    page.locator("#passage h2", has_text="Zabaione").wait_for()
    assert "egg, wine" in page.locator("#passage dl").inner_text()


def only_reads(route: Any) -> None:
    """As `viz` answers, which writes nothing."""
    answer = route.fetch().json()
    route.fulfill(json=answer | {"may": {"store": False, "delete": False}})


def test_a_text_has_others_like_it_and_where_none_may_be_changed_nothing_is_offered(start):
    page = start(routes={"**/viz/api/setup": only_reads})
    ask(page)
    page.locator(".hit .open").first.click()
    page.locator("#passage .text").wait_for()
    assert page.locator("#passage footer").inner_text().split("\n") == [
        "More like this",
        "Earlier versions",
    ]
    page.get_by_role("button", name="More like this").click()
    page.locator(".like li .open").first.click()
    page.locator("#passage h2").wait_for()
    assert page.locator("#passage h2").inner_text() != FIRST
    settled(page)


def test_an_empty_store_helps_and_fills_by_itself(browser, served, tmp_path):
    empty = Served(served.env | {"QDRANT_LOCAL_PATH": str(tmp_path / "engine")}, tmp_path)
    empty.start()
    try:
        page = browser.new_page()
        page.route("**/viz/api/setup", only_reads)
        page.goto(f"{empty.address}/viz")
        page.get_by_text("This page only reads.").wait_for()
        assert page.locator("#home button").count() == 0
        assert page.locator("pre").first.inner_text() == "mcp-server-qdrant init"
        page.unroute("**/viz/api/setup")
        page.reload()
        page.get_by_role("button", name="Load three demo collections").wait_for()
        shot(page, "empty")
        assert f"{empty.address}/mcp" in page.locator("pre").first.inner_text()
        page.get_by_role("button", name="Load three demo collections").click()
        page.locator(".tile h3", has_text="recipes").wait_for(timeout=120_000)
        page.locator("canvas[data-points]").wait_for(timeout=120_000)
        assert page.locator("canvas").get_attribute("data-points") == "111"  # all of it at once
        page.close()
    finally:
        empty.stop()


def test_while_the_map_is_drawn_its_place_says_so(open_page):
    held = []

    def hold(route):
        held.append(route)

    page = open_page(routes={"**/viz/api/map": hold})
    page.locator(".tile").first.wait_for()
    page.locator("#progress").wait_for()
    said = """getComputedStyle(document.querySelector("#canvas"), "::after").content"""
    assert "The map is being drawn." in page.evaluate(said)
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    page.locator("#canvas canvas").first.wait_for()
    assert page.evaluate(said) == "none"


def test_a_collection_that_did_not_answer_has_no_number_and_is_asked_again(open_page):
    silent = True

    def late(route):
        answer = route.fetch().json()
        if silent:
            late = {"points": 0, "legs": [], "note": "it did not answer in time"}
            answer["collections"][0] |= late
        route.fulfill(json=answer)

    page = open_page(routes={"**/viz/api/setup": late})
    page.locator(".tile .where", has_text="\N{EN DASH} points").wait_for()
    silent = False
    page.locator(".tile .where", has_text="\N{EN DASH} points").wait_for(state="detached")

    assert titles(page) == []
