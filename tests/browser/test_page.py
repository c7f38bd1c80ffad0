"""What a person sees and does on the page /viz."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mcp_server_qdrant.evaluation.labels import read_labels
from tests import forked
from tests.browser.conftest import PATIENCE, PHONE, Served, laid_out
from tests.e2e.raw import clean_environment

SHOTS = os.environ.get("MCP_SCREENSHOTS")  # a folder, for somebody who wants to look
QUERY = "certificate ran out and nobody noticed"
FIRST = "Review of the outage of 5 April"


def shot(page, name, **options):
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), **options)


def settled(page):
    """Nothing is under way, and a change of the settings has been searched for."""
    page.wait_for_selector("#progress", state="hidden")


def ask(page, query=QUERY):
    page.get_by_role("searchbox", name="Query").fill(query)
    with page.expect_response("**/viz/api/map"):
        page.keyboard.press("Enter")
    page.wait_for_selector(".hit .bar")
    settled(page)


def change(page, act):
    """Do something to the settings; the body of the search that follows."""
    with page.expect_response("**/viz/api/map"), page.expect_request("**/viz/api/search") as asked:
        act()
    settled(page)
    return asked.value.post_data_json


def titles(page):
    return page.locator(".hit h3").all_inner_texts()


def settings(page):
    """Open the settings."""
    page.get_by_role("button", name="Settings").first.click()
    page.locator("#controls").wait_for()


def canvas(page, name):
    return page.locator("canvas").first.get_attribute(f"data-{name}")


@pytest.fixture
def start(open_page, served: Served):
    """The page, its map drawn."""

    def open_(**options):
        laid_out(served.address)
        page = open_page(**options)
        page.wait_for_selector("canvas", state="attached")
        settled(page)
        return page

    return open_


@pytest.fixture
def page(start):
    return start()


def test_a_search_shows_results_in_the_servers_order_their_reasons_and_their_places(start):
    page = start(reduced_motion="no-preference")
    assert canvas(page, "points") == "111"
    assert (canvas(page, "hits"), canvas(page, "rest-opacity")) == ("0", "0.85")
    shot(page, "start")
    with page.expect_response("**/viz/api/search") as answered:
        ask(page)
    results = answered.value.json()["results"]

    assert page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.id)") == [
        one["id"] for one in results
    ]
    assert titles(page)[0] == FIRST
    assert "results in" in page.locator("#results-about").inner_text()
    assert page.locator(".hit").count() == int(canvas(page, "hits"))
    assert canvas(page, "rest-opacity") == "0.4"
    reason = page.locator(".bar").first.get_attribute("aria-label")
    assert reason.startswith("meaning 0.")
    assert "is relevance 0.53" in reason
    assert "times recency 0." in reason
    assert "gives score 0." in reason
    assert "results in" in page.locator("#status").inner_text()
    said = page.locator("#map-notes").inner_text()
    assert "% of the variance is seen" in said or "What is alike lies near" in said


def test_a_result_shows_its_text_one_number_and_reasons_that_add_up(page):
    ask(page)
    excerpts = page.locator(".hit .excerpt")
    assert excerpts.count() > 0
    assert all(excerpts.all_inner_texts())
    assert excerpts.first.locator("mark").count() > 0

    scores = page.locator(".relevance").evaluate_all(
        "all => all.map(one => Number(one.lastChild.textContent))"
    )
    assert scores == sorted(scores, reverse=True)
    parts = page.locator(".hit .parts").first
    assert not parts.is_visible()
    page.locator(".hit summary").first.click()
    assert "relevance 0." in parts.inner_text()
    assert "times priority 1.00" not in page.locator(".hits").text_content()

    reason = page.locator(".hit .reason").first.inner_text()
    assert " words" in reason
    assert "old: \N{MINUS SIGN}" in reason
    for said in page.locator(".bar").evaluate_all("all => all.map(one => one.ariaLabel)"):
        given, _, rest = said.partition(" is relevance ")
        whole = sum(round(100 * float(one.split()[-1])) for one in given.split(" plus "))
        assert whole == round(100 * float(rest.split(",")[0].split(";")[0].split()[0]))
    hues = page.evaluate(
        """async () => {
            const style = getComputedStyle(document.documentElement);
            const names = ['--meaning', '--words', '--gains'];
            const own = names.map(name => style.getPropertyValue(name));
            return [...(await import('/viz/raster.js')).HUES, ...own];
        }"""
    )
    assert len(set(hues)) == len(hues)


def test_each_setting_is_sent_with_the_search_that_follows_and_is_seen(page):
    ask(page)
    settings(page)
    asked = change(page, lambda: page.locator("#algorithm").select_option("keyword"))
    assert asked["algorithm"] == "keyword"
    assert titles(page)
    assert "meaning 0.00" in page.locator(".parts").first.text_content()
    change(page, lambda: page.locator("#algorithm").select_option(""))

    page.locator("#meaning").focus()
    asked = change(page, lambda: page.locator("#meaning").select_option("0.7"))
    assert [asked[f"{leg}_weight"] for leg in ("semantic", "keyword")] == [0.7, 0.3]
    assert page.evaluate("document.activeElement.id") == "meaning"

    asked = change(page, lambda: page.get_by_label("Priority").select_option("hard"))
    assert asked["priority"] == "hard"
    assert "preferred: +50 %" in page.locator(".hits").text_content()
    recency = page.get_by_role("slider", name="Recency")
    asked = change(page, lambda: (recency.focus(), page.keyboard.press("Home")))
    assert asked["recency_weight"] == 0
    assert "recency" not in page.locator(".hits").text_content()
    spelling = page.get_by_role("slider", name="Spelling")
    asked = change(page, lambda: (spelling.focus(), page.keyboard.press("End")))
    assert asked["fuzzy_boost"] == 0.2

    asked = change(page, lambda: page.locator("#controls").get_by_label("meetings").uncheck())
    where = page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.collection)")
    assert asked["collections"] == ["homelab", "recipes"]
    assert "meetings" not in where
    page.locator("canvas[data-points='80']").wait_for()
    asked = change(page, page.locator(".chip", has_text="backup").first.click)
    assert asked["tags"] == ["backup"]
    assert 0 < len(titles(page)) < len(where)
    change(page, page.locator(".chip", has_text="backup").first.click)
    asked = change(page, lambda: page.locator("#limit").select_option("5"))
    assert asked["limit"] == 5
    assert len(titles(page)) == 5
    page.get_by_role("button", name="more", exact=False).filter(has_text="Show").click()
    page.locator(".hit").nth(7).wait_for()
    assert "raise limit" not in page.locator("#results").inner_text()
    settled(page)


def test_a_point_tells_what_it_is_and_opens_as_its_title_does(page):
    ask(page)
    plot = page.get_by_role("application")
    plot.focus()
    page.keyboard.press("ArrowRight")

    tip = page.locator("#tip")
    assert FIRST in tip.inner_text()
    assert "07:52" in tip.inner_text()
    assert page.locator(".hit.pointed h3").inner_text() == FIRST
    assert FIRST in page.locator("#status").inner_text()
    page.keyboard.press("Enter")
    dialog = page.locator("#passage")
    assert dialog.get_by_role("heading").inner_text() == FIRST
    dialog.get_by_text("Certbot had renewed it").wait_for()
    shot(page, "passage")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()

    page.get_by_role("button", name=FIRST, exact=True).click()
    dialog.locator(".text").wait_for()
    assert "meetings" in dialog.locator("dl").inner_text()
    assert "outage" in dialog.locator("dl").inner_text()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


def test_the_mouse_points_and_clicks(start):
    """Where a point lies is asked of a second plot of the same size."""
    page = start()
    by_neighbours(page)
    page.get_by_role("radio", name="PCA").check()
    box = page.locator("canvas").bounding_box()
    spot = page.evaluate(
        """async () => {
            const { decode } = await import('/viz/mapdata.js');
            const { call } = await import('/viz/api.js');
            const { Plot } = await import('/viz/plot.js');
            const { find } = await import('/viz/input.js');
            const panel = decode(await call('map', { collections: ['*'] })).panels[0];
            const holder = document.querySelector('.canvas').cloneNode();
            document.querySelector('.panel').append(holder);
            const plot = new Plot(holder, panel, ['red', 'red', 'red'], { hover() {} });
            plot.resize(); plot.paint();
            const free = [...panel.titles.keys()].find((n) => 'point' in
                (find(plot, ...plot.at(n)) ?? {}));
            const spot = plot.at(free);
            plot.destroy(); holder.remove();
            return spot;
        }"""
    )
    page.mouse.move(box["x"] + spot[0], box["y"] + spot[1])
    page.locator("#tip").wait_for()
    assert page.locator("#tip strong").inner_text()
    page.mouse.click(box["x"] + spot[0], box["y"] + spot[1])
    page.locator("#passage .text").wait_for()
    assert page.locator("#passage dl").inner_text().count("-") >= 4


def by_neighbours(page):
    """The map has moved over to the layout by neighbours."""
    page.locator("#layout input[value=neighbours]:not(:disabled)").wait_for(state="attached")


def open_region(page):
    """Click on the name of a region."""
    by_neighbours(page)
    page.locator("canvas[data-regions]:not([data-regions='0'])").first.wait_for()
    label = json.loads(page.locator("canvas").first.get_attribute("data-labels"))[0]
    page.locator("canvas").first.click(position={"x": label["x"], "y": label["y"]})
    page.get_by_role("region", name="Region").wait_for()
    return label


def test_the_map_is_by_neighbours_goes_to_the_hits_and_back_and_has_other_layouts(start):
    page = start()
    by_neighbours(page)
    assert page.get_by_role("radio", name="Neighbours").is_checked()
    assert "What is alike lies near" in page.locator("#map-notes").inner_text()
    ask(page)
    assert page.locator(".hit").count() == int(canvas(page, "hits"))
    page.locator("canvas[data-zoom]:not([data-zoom='1.00'])").wait_for()
    page.keyboard.press("Escape")
    page.locator("canvas[data-zoom='1.00']").wait_for()
    assert page.get_by_role("searchbox").input_value() == QUERY

    page.get_by_role("radio", name="PCA").check()
    assert "% of the variance is seen" in page.locator("#map-notes").inner_text()
    page.get_by_role("radio", name="3-D").check()
    assert canvas(page, "layout") == "3-D"
    assert "PC 3" in page.locator("#map-notes").inner_text()
    plot = page.get_by_role("application")
    plot.focus()
    for key in ("+", "-", "0", "Shift+ArrowLeft", "Shift+ArrowUp"):
        page.keyboard.press(key)
    shot(page, "three")
    page.wait_for_url("**at=1.00+0.500+0.500+**")


def test_a_region_opens_by_key_or_click_and_a_search_can_be_kept_to_it(start):
    page = start()
    region = page.get_by_role("region", name="Region")
    title = region.get_by_role("heading")
    names = page.get_by_role("list", name="Regions").get_by_role("button")
    names.first.wait_for()
    names.first.focus()
    page.keyboard.press("Enter")
    title.wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H3"
    assert names.first.inner_text().split()[0] in title.inner_text()
    page.keyboard.press("Escape")
    region.wait_for(state="hidden")
    assert names.first.evaluate("one => one === document.activeElement")

    label = open_region(page)
    shot(page, "region")
    assert label["text"].split()[0] in title.inner_text()
    assert region.locator(".open").count() > 0
    ask(page)
    everywhere = page.locator(".hit").count()
    with page.expect_request("**/viz/api/search") as asked:
        region.get_by_role("button", name="Search only here").click()
    settled(page)
    ids = asked.value.post_data_json["ids"]
    shown = page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.id)")
    assert len(shown) < everywhere or len(ids) >= everywhere
    assert set(shown) <= set(ids)
    with page.expect_request("**/viz/api/search") as asked:
        region.get_by_role("button", name="Close").click()
    settled(page)
    assert "ids" not in asked.value.post_data_json
    assert not region.is_visible()


def kept_ids(page):
    """The ids that the search which follows a reload is kept to."""
    with page.expect_request(
        lambda asked: asked.url.endswith("/api/search") and "ids" in asked.post_data_json
    ) as found:
        page.reload()
    page.wait_for_selector(".hit .bar", state="attached")  # weak matches are folded
    return found.value.post_data_json["ids"]


def test_what_is_in_view_tells_its_texts_and_an_address_holds_a_search_kept_to_it(start):
    page = start()
    by_neighbours(page)
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="What is in view").click()
    region = page.get_by_role("region", name="Region")
    region.wait_for()
    points = region.locator("p.hint").inner_text()
    inside = int(points.split()[0])

    assert 3 < inside < int(canvas(page, "points"))
    assert region.locator(".open").count() > 0
    ask(page)
    with page.expect_request("**/viz/api/search") as asked:
        region.get_by_role("button", name="Search only here").click()
    settled(page)
    ids = asked.value.post_data_json["ids"]
    assert len(ids) == inside
    shown = page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.id)")
    assert shown
    assert set(shown) <= set(ids)
    page.wait_for_url("**only=1**")
    assert "area=" in page.url
    assert kept_ids(page) == ids
    assert region.locator("p.hint").inner_text() == points
    page.get_by_role("button", name="Without only in").click()
    settled(page)
    assert "only=" not in page.url
    assert "area=" in page.url


def test_a_loop_around_points_holds_them_in_its_link_too(start):
    page = start()
    by_neighbours(page)
    box = page.locator("canvas").bounding_box()
    page.get_by_role("button", name="Draw a loop around points").click()
    left, top = box["x"] + 20, box["y"] + 20
    right, low = box["x"] + box["width"] - 20, box["y"] + box["height"] - 20
    page.mouse.move(left, top)
    page.mouse.down()
    for corner in ((right, top), ((left + right) / 2, low), (left, top)):
        page.mouse.move(*corner, steps=20)
    page.mouse.up()
    region = page.get_by_role("region", name="Region")
    region.wait_for()
    inside = region.locator("p.hint").inner_text()

    assert 3 < int(inside.split()[0]) < int(canvas(page, "points"))
    page.reload()
    region.wait_for()
    assert region.locator("p.hint").inner_text() == inside


def test_the_legend_hides_a_collection_and_is_one_of_tags_where_these_give_the_colours(page):
    legend = page.locator("figcaption").get_by_role("button", name="recipes")
    legend.click()
    assert legend.get_attribute("aria-pressed") == "false"
    legend.click()
    page.get_by_label("Colour by").select_option("tags")
    values = page.locator(".key.values li")
    assert 3 <= values.count() <= 9
    assert "others" in page.locator(".key.values").inner_text()
    assert page.locator("figcaption .key:visible").count() == 1
    shot(page, "tags")


def test_a_thumb_can_be_taken_back_and_thumbs_give_the_comparison_its_precision(page):
    ask(page)
    up = page.get_by_role("button", name=f"Answers the query: {FIRST}")
    up.click()
    assert up.get_attribute("aria-pressed") == "true"
    up.click()
    assert up.get_attribute("aria-pressed") == "false"
    assert "No thumbs given yet." in page.locator("#judgements").inner_text()

    up.click()
    page.get_by_role("button", name="Does not answer the query:").nth(1).click()
    page.get_by_role("button", name="Compare").click()
    columns = page.locator(".ranks .column")
    columns.first.wait_for()
    assert columns.locator("h3").all_inner_texts() == ["Hybrid", "Semantic", "Keyword"]
    figures = columns.first.locator(".hint").inner_text()
    assert figures.endswith("100 % in common with hybrid, precision 50 % of 2")
    assert FIRST in columns.first.locator("li").first.inner_text()
    shot(page, "light", full_page=True)


def test_judgements_are_what_eval_reads(page, served: Served, tmp_path):
    ask(page)
    page.get_by_role("button", name=f"Answers the query: {FIRST}").click()
    page.get_by_role("button", name="Does not answer the query:").nth(1).click()
    ask(page, "the lentil dish we cooked for the team lunch")
    page.get_by_role("button", name="Answers the query:").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export for mcp-server-qdrant eval").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)

    labels = read_labels(path)
    assert [label.query for label in labels] == [
        QUERY,
        "the lentil dish we cooked for the team lunch",
    ]
    assert len(labels[0].ids) == 1
    assert labels[0].collections == ("*",)
    assert sorted(json.loads(path.read_text())[0]["expect"]["ids"].values()) == [0, 1]
    done = forked.run(
        [sys.executable, "-P", "-m", "mcp_server_qdrant", "eval", "--queries", str(path)],
        env=clean_environment(served.env),
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "hybrid" in done.stdout


def test_a_server_that_is_gone_is_one_sentence_and_the_page_recovers(start, served, tmp_path):
    page = start()
    ask(page)
    served.stop()
    page.get_by_role("searchbox").fill("backup of the photos")
    page.keyboard.press("Enter")
    alert = page.get_by_role("alert")
    alert.wait_for()

    assert "The server does not answer." in alert.inner_text()
    page.get_by_text("There are no results: the search failed.").wait_for()
    assert titles(page) == []
    shot(page, "error")
    served.start()
    page.locator(".hit h3", has_text="Backups: restic").wait_for()
    assert not alert.is_visible()
    page.faults.clear()  # that the server was away stands in the browser's log


def test_an_engine_that_is_gone_is_one_sentence_and_the_page_recovers(start):
    page = start()
    sentence = "Qdrant cannot be reached: look whether it runs."
    page.route(
        "**/viz/api/search",
        lambda route: route.fulfill(status=422, json={"error": sentence}),
    )
    page.get_by_role("searchbox").fill(QUERY)
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text=sentence).wait_for()
    page.unroute("**/viz/api/search")
    page.get_by_role("button", name="Try again").click()

    page.wait_for_selector(".hit .bar")
    assert not page.get_by_role("alert").is_visible()
    page.faults.clear()


def test_weak_matches_none_at_all_and_no_collection_are_said(page):
    page.get_by_role("searchbox").fill("quantum chromodynamics of gluons")
    page.keyboard.press("Enter")
    page.locator("#notes", has_text="Weak matches only").wait_for()
    assert not page.locator(".hit").first.is_visible()
    page.get_by_role("button", name="weak match").click()
    assert page.locator(".hit").first.is_visible()

    settings(page)
    page.locator("#algorithm").select_option("keyword")
    page.get_by_role("searchbox").fill("zzqqxxy")
    page.keyboard.press("Enter")
    page.locator("#notes", has_text="Nothing found").wait_for()
    page.get_by_text("Nothing fits.").wait_for()
    assert page.locator(".hit").count() == 0

    page.get_by_role("button", name="None").click()
    page.get_by_role("searchbox").fill(QUERY)
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="Choose at least one collection.").wait_for()


def test_a_map_that_is_being_laid_out_waits_while_no_collection_is_chosen(open_page):
    asked, held = [], []

    def answer(route):
        asked.append(route.request.post_data_json)
        drawn = asked[-1].get("points", True)
        if not (drawn or held):
            held.append(route)
            return
        response = route.fetch()
        coming = drawn and not held
        route.fulfill(response=response, json=response.json() | {"coming": coming})

    page = open_page(routes={"**/viz/api/map": answer})
    with page.expect_request(lambda _: bool(held)):
        pass
    settings(page)
    page.get_by_role("button", name="None").click()
    with page.expect_response("**/viz/api/map"):
        held[0].fulfill(response=held[0].fetch())
    with page.expect_response(lambda one: "snippets" in one.text()):
        page.get_by_role("button", name="All", exact=True).click()

    assert all(one["collections"] == ["*"] for one in asked)


def test_a_server_that_wants_a_token_gets_it_and_a_wrong_one_is_told(open_page):
    refusal = {"error": "invalid_token", "error_description": "No token."}
    seen = []

    def guard(route):
        seen.append(route.request.headers.get("authorization"))
        if seen[-1] == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=401, json=refusal)

    page = open_page(routes={"**/viz/api/*": guard})
    for token in ("wrong", "secret"):
        page.get_by_label("Token", exact=True).fill(token)
        page.get_by_role("button", name="Use it").click()
        if token == "wrong":
            page.get_by_text("This server does not accept the token that it got.").wait_for()
    page.wait_for_selector("canvas")

    assert {"Bearer wrong", "Bearer secret"} <= set(seen)
    assert page.evaluate("Object.values(localStorage).includes('secret')") is False
    settled(page)
    page.faults.clear()


def test_a_phone_shows_everything_without_scrolling_sideways(start):
    page = start(viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    ask(page)
    page.get_by_role("button", name="Compare").click()
    page.locator(".ranks").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert titles(page)[0] == FIRST
    shot(page, "phone", full_page=True)
    settings(page)
    assert page.locator("#algorithm").is_visible()
    page.get_by_role("button", name="Close the settings").click()

    page.locator(".hit .open").first.click()
    page.locator("#passage .text").wait_for()
    page.locator("#passage").evaluate("one => one.scrollTo(0, one.scrollHeight)")
    shot(page, "sheet")
    for name in ("h2", "[aria-label=Close]"):
        assert 0 <= page.locator(f"#passage {name}").bounding_box()["y"] < 100
    page.get_by_role("button", name="Close").click()
    assert page.locator("#results").is_visible()

    page.get_by_role("link", name="Map").click()
    plot = page.get_by_role("application")
    plot_now = pytest.importorskip("playwright.sync_api").expect(plot)
    plot_now.to_have_css("touch-action", "pan-y")  # one finger scrolls until the map was touched
    plot.tap(position={"x": 5, "y": 5})
    plot_now.to_have_css("touch-action", "none", timeout=PATIENCE)  # a tap focuses a moment later


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, scheme):
    """Of the dark scheme, which follows the system, only colours are looked at."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is missing")
    rules = ["color-contrast", "link-in-text-block"] if scheme == "dark" else None
    page = start(color_scheme=scheme)
    page.locator(".newest li").first.wait_for()
    page.keyboard.press("Control+k")
    page.locator("#palette [role=option]").first.wait_for()
    assert findings(axe, page, rules) == []
    page.keyboard.press("Escape")
    open_region(page)
    assert findings(axe, page, rules) == []
    page.get_by_role("region", name="Region").get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Texts").click()
    page.locator("#texts-list tbody tr").first.wait_for()
    assert findings(axe, page, rules) == []
    page.get_by_role("link", name="Search").click()
    ask(page)
    page.get_by_role("button", name="Compare").click()
    page.locator(".ranks").wait_for()
    settled(page)
    shot(page, f"results-{scheme}", full_page=True)
    settings(page)
    change(page, lambda: page.locator("#meaning").select_option("0.7"))
    page.wait_for_selector("#results:not(.stale)")
    assert findings(axe, page, rules) == []
    page.get_by_role("button", name="Close the settings").click()
    page.get_by_role("button", name=FIRST, exact=True).first.click()
    page.locator("#passage .text").wait_for()
    assert findings(axe, page, rules) == []
    page.get_by_role("button", name="Edit").click()
    assert findings(axe, page, rules) == []

    paper = "getComputedStyle(document.documentElement).backgroundColor"
    papers = {"light": "rgb(244, 245, 248)", "dark": "rgb(13, 16, 22)"}
    other = "light" if scheme == "dark" else "dark"
    assert page.evaluate(paper) == papers[scheme]
    page.emulate_media(color_scheme=other)
    assert page.evaluate(paper) == papers[other]


def findings(axe, page, rules=None):
    options = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.AXE_FILE_PATH.read_text())
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found]


def test_everything_can_be_reached_with_the_keyboard(page):
    page.keyboard.press("Shift+Tab")
    page.get_by_role("link", name="Skip to the results").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    page.get_by_role("searchbox").focus()
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit .bar")
    wanted, seen = {"open", "icon thumb", "compare-run"}, set()
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.className || document.activeElement.id"))
        if wanted <= seen:
            break

    assert wanted <= seen
    settled(page)


def test_ten_thousand_points_are_drawn(start):
    """How long a frame takes is told, not judged: the machine may be busy."""
    page = start()
    page.evaluate(
        """async () => {
            const { Plot } = await import('/viz/plot.js');
            const count = 10000, xyz = new Float32Array(count * 3).map(() => Math.random() - 0.5);
            const panel = { count, xyz, groupOf: new Uint16Array(count).map((_, n) => n % 3),
                groups: ['a', 'b', 'c'].map(collection => ({ collection })), titles: [],
                explained: [0.2, 0.1, 0.05], regions: [],
                about: n => ({ id: String(n), collection: 'abc'[n % 3] }) };
            const holder = document.querySelector('.canvas');
            holder.replaceChildren();
            const plot = new Plot(holder, panel, ['#4269d0', '#efb118', '#ff725c'], { hover() {} });
            plot.resize();
            plot.arrange("3-D");
            globalThis.plot = plot;
        }"""
    )
    frames = page.evaluate(
        """() => new Promise(done => { const all = []; const next = () => {
            plot.rotate(0.05, 0); plot.paint(); all.push(Number(plot.canvas.dataset.frame));
            all.length < 20 ? requestAnimationFrame(next) : done(all); }; next(); })"""
    )
    drawn = page.evaluate(
        """() => { const c = plot.canvas; const d = c.getContext('2d')
            .getImageData(0, 0, c.width, c.height).data;
            let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"""
    )
    print(f"\n10,000 points: {sorted(frames)[10]} ms a frame")
    assert drawn > 10_000


def test_the_command_serves_the_page_on_loopback(browser, served, tmp_path, model_dir):
    process = forked.Popen(
        [sys.executable, "-P", "-m", "mcp_server_qdrant", "viz"],
        env=clean_environment(served.env),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        plain, _, key = address.partition("?key=")
        assert len(key) > 40
        for path in ("viz", "viz/api/about", "mcp"):
            url = plain.replace("viz", path)
            assert httpx.request("POST" if path != "viz" else "GET", url).status_code == 403
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.wait_for_selector("canvas")
        assert key not in page.url
        page.close()
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


def test_a_port_that_is_taken_is_one_sentence(served, tmp_path):
    done = forked.run(
        [sys.executable, "-P", "-m", "mcp_server_qdrant", "viz", "--port", str(served.port)],
        env=clean_environment(served.env),
        cwd=tmp_path,
        timeout=60,
    )

    assert done.returncode == 2
    assert f"Port {served.port} of 127.0.0.1 cannot be used" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
