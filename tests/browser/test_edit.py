"""Reading and editing beside the map, so that nothing is lost and nothing untrue stands there."""

import json

import pytest

from tests.browser.test_page import ask, by_neighbours, settled, shot, start, titles
from tests.browser.test_place import tool

assert start  # a fixture
PANEL = "#passage"
LINE = "Line {} of the manual of the quokka pump tells of its valve."
PARTED = " ".join(map(LINE.format, range(40)))


@pytest.fixture
def parted(served):
    """A text of several parts, of which a search finds any."""
    where = {"collection_name": "recipes", "id": "quokka"}
    tool(served.address, "qdrant-store", information=PARTED, title="Quokka pump", **where)
    yield where
    for name in ("recipes", "homelab"):
        tool(served.address, "qdrant-delete", ids=["quokka"], collection_name=name)


def opened(page, query="manual of the quokka pump"):
    """The page with the text that was found open."""
    ask(page, query)
    page.locator(".hit .open", has_text="Quokka").first.click()
    page.locator(f"{PANEL} .text").wait_for()


def typed(page, words="Zebra words"):
    page.get_by_role("button", name="Edit").click()
    page.locator("#edit-text").fill(words)


def test_a_text_is_one_in_comparison_and_leaves_list_and_map_at_once_whichever_part_was_found(
    start, parted
):
    page = start()
    by_neighbours(page)
    opened(page)
    assert any("Quokka" in one for one in titles(page))
    page.get_by_role("button", name="Delete", exact=True).click()

    assert not page.locator(PANEL).is_visible()
    assert not any("Quokka" in one for one in titles(page))
    hits = page.locator(".hit").count()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search, open").fill("quokka")
    offered = page.locator("#palette [role=option]").all_inner_texts()
    assert "Search for quokka" in offered
    assert not any(one.startswith("Open") for one in offered)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Undo").click()
    page.locator(".hit h3", has_text="Quokka").first.wait_for()
    assert page.locator(".hit").count() > hits

    page.get_by_role("button", name="Compare").click()
    columns = page.locator(".ranks .column")
    columns.first.wait_for()
    found = [
        (one.locator("li").count(), "Quokka" in one.inner_text(), one.locator(".hint").inner_text())
        for one in columns.all()
    ]
    assert any(quokka for _, quokka, _ in found)
    for count, quokka, figures in found:
        assert "100 % in common" in figures or not (count == 1 and quokka)
    first = page.locator(".ranks li[data-key]", has_text="Quokka")
    assert len({one.get_attribute("data-key") for one in first.all()}) == 1


def test_ranks_and_number_of_the_others_are_true_while_a_text_is_being_deleted(start):
    page = start()
    ask(page, "sourdough bread with rye flour")
    count, held = page.locator(".hit").count(), []
    assert count > 1

    def hold(route):
        held.append(route)

    page.route("**/viz/api/delete", hold)
    page.locator(".hit .open").first.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator(PANEL).wait_for(state="hidden")

    ranks = page.locator(".hit .rank").all_inner_texts()
    assert ranks == [str(rank) for rank in range(2, count + 1)]
    assert page.locator("#results-about").inner_text().startswith(f"{count - 1} result")

    held[0].continue_()
    page.get_by_role("button", name="Undo").click()
    page.locator("#results-about", has_text=f"{count} result").wait_for()


def test_a_text_without_an_own_id_is_read_and_edited_whole(start, served):
    page = start()
    text = PARTED.replace("quokka", "wombat")
    done = tool(served.address, "qdrant-store", information=text, collection_name="recipes")
    where = {"collection_name": "recipes", "ids": [done.structured_content["id"]]}
    try:
        ask(page, "manual of the wombat pump")
        page.locator(".hit .open").first.click()
        page.locator(f"{PANEL} .text").wait_for()
        assert LINE.format(39).replace("quokka", "wombat") in page.locator(PANEL).inner_text()
        page.get_by_role("button", name="Edit").click()
        page.locator("#edit-title").fill("Wombat pump")
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator(f"{PANEL} h2", has_text="Wombat pump").wait_for()
        page.locator(f"{PANEL} .text", has_text="Line 39 ").wait_for()
        settled(page)
    finally:
        tool(served.address, "qdrant-delete", **where)


def test_typed_text_is_dropped_neither_unasked_nor_for_somebody_elses_change(start, parted, served):
    page = start()
    opened(page)
    typed(page)
    asked = []

    def keep(dialog):
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", keep)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Texts").click()
    page.go_back()
    page.locator("canvas").first.wait_for()
    assert len(asked) == 4
    assert page.locator("#edit-text").input_value() == "Zebra words"
    page.remove_listener("dialog", keep)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    page.locator(f"{PANEL} .text", has_text="quokka pump").wait_for()

    typed(page)
    tool(served.address, "qdrant-store", information="Theirs: a shorter manual.", **parted)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Somebody else has changed this text").wait_for()
    shot(page, "conflict")
    assert page.locator("#edit-text").input_value() == "Zebra words"
    page.locator("summary", has_text="Their text").click()
    assert page.get_by_text("Theirs: a shorter manual.").is_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(f"{PANEL} .text", has_text="Zebra words").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator(PANEL).is_visible()
    settled(page)
    page.faults.clear()  # that the first try was refused stands in the browser's log


def test_j_and_k_go_through_the_results_beside_the_lit_map(start):
    page = start()
    ask(page)
    names = titles(page)
    page.locator(".hit .open").first.click()
    page.locator(f"{PANEL} .text").wait_for()
    page.keyboard.press("j")
    page.locator(f"{PANEL} h2", has_text=names[1]).wait_for()
    shot(page, "panel")

    assert page.locator("canvas").first.is_visible()
    assert not page.locator("#results").is_visible()
    assert page.locator(f"{PANEL} header .count").inner_text() == f"2 of {len(names)}"
    page.keyboard.press("k")
    page.locator(f"{PANEL} h2", has_text=names[0]).wait_for()
    assert page.get_by_role("button", name="Previous").is_disabled()
    page.keyboard.press("Escape")
    assert page.locator("#results").is_visible()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    settled(page)


def test_all_points_are_drawn_and_titles_where_few_are_in_sight(open_page):
    page = open_page()
    page.wait_for_selector("canvas", state="attached")
    before = page.locator("#layout").bounding_box()
    by_neighbours(page)
    after = page.locator("#layout").bounding_box()
    assert abs(before["x"] + before["width"] - after["x"] - after["width"]) < 30
    assert page.locator("#layout input[value=neighbours]").is_checked()
    for name, count in (
        ("homelab", 49),
        ("meetings", 31),
        ("recipes", 31),
    ):  # of what is stored now
        page.locator("figcaption").get_by_role("button", name=f"{name} {count}").wait_for()
    plot = page.get_by_role("application")
    plot.focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.wait_for_function("() => Number(document.querySelector('canvas').dataset.zoom) > 2")
    page.wait_for_function("() => document.querySelector('canvas').dataset.labels !== '[]'")
    labels = json.loads(plot.get_attribute("data-labels"))
    assert len(labels) > int(plot.get_attribute("data-regions"))
    settled(page)


def test_an_address_holds_layout_colours_region_and_the_turn_in_three_dimensions(start):
    page = start()
    by_neighbours(page)
    page.get_by_label("Colour by").select_option("tags")
    page.get_by_role("list", name="Regions").get_by_role("button").first.click()
    title = page.get_by_role("region", name="Region").get_by_role("heading")
    name = title.inner_text()
    page.wait_for_url("**region=**")
    page.reload()
    title.wait_for()
    assert title.inner_text() == name
    assert page.get_by_label("Colour by").input_value() == "tags"

    page.get_by_role("radio", name="3-D").check()
    page.wait_for_url("**layout=3-D**")
    page.get_by_role("application").focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_url("**at=**0.48**")
    address = page.url
    page.reload()
    page.wait_for_selector("canvas[data-layout='3-D']")
    page.wait_for_function("() => document.querySelector('canvas').dataset.zoom")
    assert page.get_by_role("radio", name="3-D").is_checked()
    settled(page)
    assert page.url == address
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('at=')")


def test_what_an_agent_stores_appears_by_itself_and_the_map_can_be_kept(start, served):
    page = start()
    page.locator(".newest li").first.wait_for()
    try:
        where = {"collection_name": "recipes", "id": "quoll"}
        tool(served.address, "qdrant-store", information="A quoll is no cat.", **where)
        page.locator("canvas[data-points='112']").wait_for()
        page.locator(".newest li", has_text="quoll").wait_for()
    finally:
        tool(served.address, "qdrant-delete", ids=["quoll"], collection_name="recipes")
    page.locator("canvas[data-points='111']").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the map").click()
    assert download.value.suggested_filename == "map.png"
    settled(page)


def test_one_line_searches_opens_colours_and_goes_to_a_region(start):
    page = start()
    by_neighbours(page)
    line = page.get_by_role("combobox", name="Search, open")
    rows = page.locator("#palette [role=option]")

    def choose(words):
        page.keyboard.press("Control+k")
        line.fill(words)
        shot(page, "palette")

    choose("colour by tag")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_by_label("Colour by").input_value() == "tags"
    choose("go to region")
    name = rows.nth(1).inner_text().removeprefix("Go to region ")
    rows.nth(1).click()
    region = page.get_by_role("region", name="Region")
    assert name.split(",")[0] in region.get_by_role("heading").inner_text()
    choose(f"open {titles_of_home(page)}")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(f"{PANEL} .text").wait_for()
    page.keyboard.press("Escape")
    choose("lentil soup")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit .bar")
    assert page.get_by_role("searchbox", name="Query").input_value() == "lentil soup"
    settled(page)


def titles_of_home(page):
    """The title of one of the newest texts."""
    return page.locator(".newest .open").first.inner_text()
