"""The page as a place: addresses, sizes, the list of texts, an empty store."""

from typing import Any

from tests.browser.conftest import PHONE, WIDE, Served
from tests.browser.test_page import FIRST, QUERY, ask, settings, settled, start, titles

LAPTOP = {"width": 1280, "height": 800}
TABLET = {"width": 1000, "height": 900}

assert start  # a fixture


def inside(page, selector):
    """True where the element's top is on the screen."""
    return 0 <= page.locator(selector).first.bounding_box()["y"] < page.viewport_size["height"]


def test_an_address_holds_query_settings_and_open_text_and_back_and_forward_walk_through_them(
    start,
):
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
    page.get_by_role("button", name="Without algorithm").click()
    settled(page)

    page.get_by_role("link", name="Texts").click()
    page.locator("#texts-list tbody tr").first.wait_for()
    page.locator("#texts-list .open").first.click()
    page.locator("#passage .text").wait_for()
    page.go_back()
    page.locator("#passage .text").wait_for(state="hidden")
    page.go_back()
    page.locator(".hit h3", has_text=FIRST).wait_for()
    page.goto(f"{page.url.split('#')[0]}#")
    page.locator(".tile").first.wait_for()
    page.go_back()
    page.locator(".hit h3", has_text=FIRST).wait_for()
    page.go_forward()
    page.locator(".tile").first.wait_for()
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


def test_texts_are_listed_filtered_and_sorted_without_a_query(start):
    page = start()
    page.get_by_role("link", name="Texts").click()
    rows = page.locator("#texts-list tbody tr")
    rows.first.wait_for()
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
    page.get_by_text("No text matches").wait_for()
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
        "Why not?",
        "Earlier versions",
    ]
    page.get_by_role("button", name="Why not?").click()
    page.get_by_text("Found: it is result 1 of").wait_for()
    page.evaluate("location.hash += '&in=homelab'")
    page.get_by_label("Without in: homelab").wait_for(state="attached")
    page.get_by_role("button", name="Why not?").click()
    page.get_by_text("Scope: it is in meetings, and the search covers homelab.").wait_for()
    page.go_back()
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
        page.get_by_text("This page is read-only.").wait_for()
        assert page.locator("#home button").count() == 0
        assert page.locator("pre").first.inner_text() == "mcp-server-qdrant init"
        page.unroute("**/viz/api/setup")
        page.reload()
        page.get_by_role("button", name="Load three demo collections").wait_for()
        assert f"{empty.address}/mcp" in page.locator("pre").first.inner_text()
        page.get_by_role("button", name="Load three demo collections").click()
        page.locator(".tile h3", has_text="recipes").wait_for(timeout=120_000)
        page.locator("canvas[data-points]").wait_for(timeout=120_000)
        assert page.locator("canvas").get_attribute("data-points") == "111"  # all of it at once
        page.close()
    finally:
        empty.stop()


def test_what_is_late_says_so_and_comes_by_itself(open_page):
    """The map while it is drawn; a collection that did not answer in time."""
    held, silent = [], True

    def hold(route):
        held.append(route)

    def late(route):
        answer = route.fetch().json()
        if silent:
            unknown = {"points": 0, "legs": [], "note": "it did not answer in time"}
            answer["collections"][0] |= unknown
        route.fulfill(json=answer)

    page = open_page(routes={"**/viz/api/map": hold, "**/viz/api/setup": late})
    page.locator(".tile").first.wait_for()
    page.locator("#progress").wait_for()
    said = """getComputedStyle(document.querySelector("#canvas"), "::after").content"""
    assert "The map is being drawn." in page.evaluate(said)
    while not held:
        page.wait_for_timeout(20)
    unknown = page.locator(".tile .where", has_text="\N{EN DASH} points")
    unknown.wait_for()
    page.unroute("**/viz/api/map")
    held[0].continue_()
    page.locator("#canvas canvas").first.wait_for()
    assert page.evaluate(said) == "none"
    silent = False
    unknown.wait_for(state="detached")
    assert titles(page) == []
