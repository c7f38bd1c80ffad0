"""Reading and editing beside the map, so that nothing is lost and nothing untrue stands there."""

import json

import pytest

from tests.browser.conftest import PHONE
from tests.browser.test_page import ask, by_neighbours, settled, shot, start, titles
from tests.browser.test_place import tool

assert start  # a fixture
PANEL = "#passage"
LINE = "Line {} of the manual of the quokka pump tells of its valve."
PARTED = " ".join(map(LINE.format, range(90)))


@pytest.fixture
def parted(served):
    """A text of several parts, of which a search finds any."""
    where = {"collection_name": "recipes", "id": "quokka"}
    tool(served.address, "qdrant-store", information=PARTED, title="Quokka pump", **where)
    yield where
    for name in ("recipes", "homelab"):
        tool(served.address, "qdrant-delete", ids=["quokka"], collection_name=name)


def drawn(page):
    return int(page.locator("canvas").first.get_attribute("data-points"))


def opened(page, query="manual of the quokka pump"):
    """The page with the text that was found open."""
    ask(page, query)
    page.locator(".hit .open", has_text="Quokka").first.click()
    page.locator(f"{PANEL} .text").wait_for()


def typed(page, words="Zebra words"):
    page.get_by_role("button", name="Edit").click()
    page.locator("#edit-text").fill(words)


def test_a_deleted_text_leaves_list_and_map_at_once_whichever_part_was_found(start, parted, served):
    page = start(reduced_motion="reduce")
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
        assert LINE.format(89).replace("quokka", "wombat") in page.locator(PANEL).inner_text()
        page.get_by_role("button", name="Edit").click()
        page.locator("#edit-title").fill("Wombat pump")
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator(f"{PANEL} h2", has_text="Wombat pump").wait_for()
        page.locator(f"{PANEL} .text", has_text="Line 89 ").wait_for()
        settled(page)
    finally:
        tool(served.address, "qdrant-delete", **where)


def test_equal_results_overlap_wholly(start, parted):
    page = start()
    ask(page, "quokka pump")
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


def test_typed_text_is_never_dropped_unasked(start, parted):
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
    page.keyboard.press("Escape")
    assert not page.locator(PANEL).is_visible()
    settled(page)


def test_close_closes_after_a_move_too(start, parted):
    page = start()
    opened(page)
    page.get_by_label("Move to").select_option("homelab")
    page.locator(f"{PANEL} dd", has_text="homelab").first.wait_for()
    page.get_by_role("button", name="Close").click()

    assert not page.locator(PANEL).is_visible()
    assert "doc=" not in page.url
    settled(page)
    assert not page.locator(PANEL).is_visible()


def test_somebody_elses_change_is_told_and_what_was_typed_stays(start, parted, served):
    page = start()
    opened(page)
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


def test_on_the_phone_the_sheet_keeps_its_head(start):
    page = start(viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    ask(page)
    page.locator(".hit .open").first.click()
    page.locator(f"{PANEL} .text").wait_for()
    page.locator(PANEL).evaluate("one => one.scrollTo(0, one.scrollHeight)")
    shot(page, "sheet")

    for name in ("h2", "[aria-label=Close]"):
        assert 0 <= page.locator(f"{PANEL} {name}").bounding_box()["y"] < 100
    page.get_by_role("button", name="Close").click()
    assert page.locator("#results").is_visible()


def test_all_points_are_drawn_and_the_second_layout_tells_its_state(open_page):
    page = open_page()
    neighbours = page.locator("#layout input[value=neighbours]")
    page.wait_for_selector("canvas", state="attached")
    width = page.locator("#layout").bounding_box()
    by_neighbours(page)
    after = page.locator("#layout").bounding_box()

    assert neighbours.is_checked()
    assert abs(width["x"] + width["width"] - after["x"] - after["width"]) < 30
    for name, count in (
        ("homelab", 49),
        ("meetings", 31),
        ("recipes", 31),
    ):  # of what is stored now
        page.locator("figcaption").get_by_role("button", name=f"{name} {count}").wait_for()
    page.get_by_role("radio", name="3-D").check()
    assert "PC 3" in page.locator("#map-notes").inner_text()
    settled(page)


def test_after_a_search_the_map_is_at_its_hits_and_escape_leads_back(start):
    page = start(reduced_motion="reduce")
    by_neighbours(page)
    zoom = "() => Number(document.querySelector('canvas').dataset.zoom)"
    page.wait_for_function(f"{zoom} === 1")
    ask(page, "lentil soup with rye bread")
    page.wait_for_function(f"{zoom} > 1.2")
    page.locator("#results-title").click()
    page.keyboard.press("Escape")
    page.wait_for_function(f"{zoom} === 1")


def test_titles_stand_on_the_map_where_few_points_are_in_sight(start):
    page = start(reduced_motion="reduce")
    by_neighbours(page)
    plot = page.get_by_role("application")
    plot.focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.wait_for_function("() => Number(document.querySelector('canvas').dataset.zoom) > 2")
    page.wait_for_function("() => document.querySelector('canvas').dataset.labels !== '[]'")
    labels = json.loads(plot.get_attribute("data-labels"))
    assert len(labels) > int(plot.get_attribute("data-regions"))


def test_reasons_are_a_sentence_whose_parts_add_up(start):
    page = start()
    ask(page)
    reason = page.locator(".hit .reason").first.inner_text()

    assert " words" in reason
    assert "old: \N{MINUS SIGN}" in reason
    for said in page.locator(".bar").evaluate_all("all => all.map(one => one.ariaLabel)"):
        parts, _, rest = said.partition(" is relevance ")
        given = sum(round(100 * float(one.split()[-1])) for one in parts.split(" plus "))
        assert given == round(100 * float(rest.split(",")[0].split(";")[0].split()[0]))
    hues = page.evaluate(
        """async () => {
            const style = getComputedStyle(document.documentElement);
            const names = ['--meaning', '--words', '--gains'];
            const own = names.map(name => style.getPropertyValue(name));
            return [...(await import('/viz/raster.js')).HUES, ...own];
        }"""
    )
    assert len(set(hues)) == len(hues)
    settled(page)


def test_an_address_holds_layout_colours_and_region(start):
    page = start(reduced_motion="reduce")
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
    page.reload()
    page.wait_for_selector("canvas[data-layout='3-D']")
    assert page.get_by_role("radio", name="3-D").is_checked()
    settled(page)


def test_weak_matches_are_folded_and_more_results_are_a_button(start):
    page = start()
    page.get_by_role("searchbox").fill("quantum chromodynamics of gluons")
    page.keyboard.press("Enter")
    page.locator("#notes", has_text="Weak matches only").wait_for()
    assert not page.locator(".hit").first.is_visible()
    page.get_by_role("button", name="weak match").click()
    assert page.locator(".hit").first.is_visible()
    page.goto(f"{page.url.split('#')[0]}#q=backup+of+the+photos&limit=5")
    page.locator(".hit").nth(4).wait_for()
    page.get_by_role("button", name="more", exact=False).filter(has_text="Show").click()
    page.locator(".hit").nth(7).wait_for()
    assert "raise limit" not in page.locator("#results").inner_text()
    settled(page)


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


def test_a_wrong_token_is_said(start):
    page = start()
    page.route("**/viz/api/*", lambda route: route.fulfill(status=401, json={}))
    page.reload()
    page.get_by_label("Token", exact=True).fill("wrong")
    page.get_by_role("button", name="Use it").click()
    page.get_by_text("This server does not accept the token that it got.").wait_for()
    page.faults.clear()


def test_coloured_by_a_tag_there_is_one_legend(start):
    page = start()
    page.get_by_label("Colour by").select_option("tags")

    assert page.locator("figcaption .key:visible").count() == 1
    assert "others" in page.locator(".key.values").inner_text()


def kept_ids(page):
    """The ids that the search which follows a reload is kept to."""
    with page.expect_request(
        lambda asked: asked.url.endswith("/api/search") and "ids" in asked.post_data_json
    ) as found:
        page.reload()
    page.wait_for_selector(".hit .bar")
    return found.value.post_data_json["ids"]


def test_an_address_holds_what_was_in_view_and_the_search_kept_to_it(start):
    page = start(reduced_motion="reduce")
    by_neighbours(page)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="What is in view").click()
    region = page.get_by_role("region", name="Region")
    region.wait_for()
    points = region.locator("p.hint").inner_text()
    ask(page)
    with page.expect_request("**/viz/api/search") as asked:
        region.get_by_role("button", name="Search only here").click()
    settled(page)
    page.wait_for_url("**only=1**")
    assert "area=" in page.url
    assert kept_ids(page) == asked.value.post_data_json["ids"]
    assert region.locator("p.hint").inner_text() == points
    page.get_by_role("button", name="Without only in").click()
    settled(page)
    assert "only=" not in page.url
    assert "area=" in page.url


def test_an_address_holds_the_turn_in_three_dimensions(start):
    page = start(reduced_motion="reduce")
    page.get_by_role("radio", name="3-D").check()
    page.get_by_role("application").focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_url("**at=**0.48**")
    address = page.url
    page.reload()
    page.wait_for_selector("canvas[data-layout='3-D']")
    page.wait_for_function("() => document.querySelector('canvas').dataset.zoom")
    settled(page)
    assert page.url == address
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('at=')")


def test_one_line_searches_opens_colours_and_goes_to_a_region(start):
    page = start(reduced_motion="reduce")
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


def test_the_page_loads_its_modules_together(start, served):
    page = start()
    answer = page.request.get(f"{served.address}/viz")
    named = answer.headers["link"].split(", ")
    loaded = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    modules = [one.rpartition("/")[2] for one in loaded if one.endswith(".js")]

    assert sorted(modules) == sorted(one.removeprefix("<viz/").partition(">")[0] for one in named)
