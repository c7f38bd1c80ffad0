"""What a person sees and does on the page /viz."""

import json

import pytest

from mcp_server_qdrant.evaluation.labels import read_labels
from tests.browser.conftest import PATIENCE, PHONE, Served, laid_out
from tests.e2e.raw import run

QUERY = "certificate ran out and nobody noticed"
FIRST = "Review of the outage of 5 April"


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


def by_neighbours(page):
    """The map has moved over to the layout by neighbours."""
    page.locator("#layout input[value=neighbours]:not(:disabled)").wait_for(state="attached")


def spot(page, which):
    """Where on the page something of the plot is."""
    page.locator("canvas[data-frame]").first.wait_for()
    plot = "const { plot } = document.querySelector('canvas'); plot.paint();"
    x, y = page.evaluate(f"() => {{ {plot} return {which}; }}")
    return x, y


def test_before_a_query_there_are_collections_questions_and_the_newest(start):
    page = start()
    page.locator(".newest li").first.wait_for()
    assert canvas(page, "points") == "111"
    assert (canvas(page, "hits"), canvas(page, "rest-opacity")) == ("0", "0.85")
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


def test_a_search_shows_results_in_the_servers_order_their_reasons_and_their_places(start):
    page = start(reduced_motion="no-preference")
    with page.expect_response("**/viz/api/search") as answered:
        ask(page)
    results = answered.value.json()["results"]
    hits = page.locator(".hit")
    assert hits.evaluate_all("all => all.map(one => one.dataset.id)") == [
        one["id"] for one in results
    ]
    assert titles(page)[0] == FIRST
    assert hits.count() == int(canvas(page, "hits")) > 3
    assert canvas(page, "rest-opacity") == "0.4"
    for said in ("#results-about", "#status"):
        assert "results in" in page.locator(said).inner_text()
    assert all(page.locator(".hit .excerpt").all_inner_texts())
    assert page.locator(".hit .excerpt").first.locator("mark").count() > 0
    scores = page.locator(".relevance").evaluate_all(
        "all => all.map(one => Number(one.lastChild.textContent))"
    )
    assert scores == sorted(scores, reverse=True)
    why = page.locator(".bar").first.get_attribute("aria-label")
    assert why.startswith("meaning 0.")
    assert "is relevance 0.53" in why
    assert "times recency 0." in why
    assert "gives score 0." in why
    parts = page.locator(".hit .parts").first
    assert not parts.is_visible()
    page.locator(".hit summary").first.click()
    assert "relevance 0." in parts.inner_text()
    reason = page.locator(".hit .reason").first.inner_text()
    assert " words" in reason
    assert "old: \N{MINUS SIGN}" in reason

    plot = page.get_by_role("application")
    plot.focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#tip")
    assert FIRST in tip.inner_text()
    assert "07:52" in tip.inner_text()
    assert page.locator(".hit.pointed h3").inner_text() == FIRST
    assert FIRST in page.locator("#status").inner_text()
    page.keyboard.press("Enter")
    panel = page.locator("#passage")
    assert panel.get_by_role("heading").inner_text() == FIRST
    panel.get_by_text("Certbot had renewed it").wait_for()
    assert "meetings" in panel.locator("dl").inner_text()
    assert "outage" in panel.locator("dl").inner_text()
    page.keyboard.press("Escape")
    assert not panel.is_visible()

    page.get_by_role("button", name=FIRST, exact=True).click()
    panel.locator(".text").wait_for()
    names = titles(page)
    page.keyboard.press("j")
    page.locator("#passage h2", has_text=names[1]).wait_for()
    assert page.locator("canvas").first.is_visible()
    assert not page.locator("#results").is_visible()
    assert page.locator("#passage header .count").inner_text() == f"2 of {len(names)}"
    page.keyboard.press("k")
    page.locator("#passage h2", has_text=names[0]).wait_for()
    assert page.get_by_role("button", name="Previous").is_disabled()
    page.keyboard.press("Escape")
    assert page.locator("#results").is_visible()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"

    page.locator("canvas[data-zoom]:not([data-zoom='1.00'])").wait_for()
    page.keyboard.press("Escape")
    page.locator("canvas[data-zoom='1.00']").wait_for()
    assert page.get_by_role("searchbox").input_value() == QUERY
    settled(page)


def test_each_setting_is_sent_with_the_search_that_follows_and_is_seen(start):
    page = start()
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

    asked = change(page, lambda: page.get_by_label("Priority", exact=True).select_option("hard"))
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


def test_the_map_has_layouts_colours_and_titles_and_its_points_are_pointed_at(start):
    page = start()
    by_neighbours(page)
    assert page.get_by_role("radio", name="Neighbours").is_checked()
    notes = page.locator("#map-notes")
    assert "Similar texts are close together" in notes.inner_text()
    plot = page.get_by_role("application")
    plot.focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.wait_for_function("() => Number(document.querySelector('canvas').dataset.zoom) > 2")
    page.wait_for_function("() => document.querySelector('canvas').dataset.labels !== '[]'")
    labels = json.loads(plot.get_attribute("data-labels"))
    assert len(labels) > int(plot.get_attribute("data-regions"))  # titles of points, too
    page.keyboard.press("0")

    legend = page.locator("figcaption")
    for name, count in (("homelab", 49), ("meetings", 31), ("recipes", 31)):
        legend.get_by_role("button", name=f"{name} {count}").wait_for()
    recipes = legend.get_by_role("button", name="recipes")
    recipes.click()
    assert recipes.get_attribute("aria-pressed") == "false"
    recipes.click()
    page.get_by_label("Colour by").select_option("tags")
    values = page.locator("#legend li")
    assert 3 <= values.count() <= 9
    assert "others" in page.locator("#legend").inner_text()
    assert page.locator("figcaption .key:visible").count() == 1

    page.get_by_role("radio", name="PCA").check()
    assert "% of the variance is shown" in notes.inner_text()
    x, y = spot(page, "plot.at(0)")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.locator("#tip").wait_for()
    assert page.locator("#tip strong").inner_text()
    page.mouse.click(box["x"] + x, box["y"] + y)
    page.locator("#passage .text").wait_for()
    assert page.locator("#passage dl").inner_text().count("-") >= 4
    page.keyboard.press("Escape")

    page.get_by_role("radio", name="3-D").check()
    assert canvas(page, "layout") == "3-D"
    assert "PC 3" in notes.inner_text()
    plot.focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_url("**at=**0.48**")
    address = page.url
    page.reload()
    page.wait_for_selector("canvas[data-layout='3-D']")
    page.wait_for_function("() => document.querySelector('canvas').dataset.zoom")
    assert page.get_by_role("radio", name="3-D").is_checked()
    assert page.get_by_label("Colour by").input_value() == "tags"
    settled(page)
    assert page.url == address
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('at=')")


def open_region(page):
    """Click on the name of a region."""
    by_neighbours(page)
    page.locator("canvas[data-regions]:not([data-regions='0'])").first.wait_for()
    label = json.loads(page.locator("canvas").first.get_attribute("data-labels"))[0]
    page.locator("canvas").first.click(position={"x": label["x"], "y": label["y"]})
    page.get_by_role("region", name="Region").wait_for()
    return label


def test_a_region_opens_by_key_or_click_and_an_address_holds_a_search_kept_to_it(start):
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

    def kept(request):
        return request.url.endswith("/api/search") and "ids" in request.post_data_json

    with page.expect_request(kept) as asked:
        page.reload()
    assert asked.value.post_data_json["ids"] == ids
    page.get_by_role("button", name="Without only in").click()
    settled(page)
    assert "only=" not in page.url
    assert "region=" in page.url
    region.get_by_role("button", name="Search only here").click()
    settled(page)
    with page.expect_request("**/viz/api/search") as asked:
        region.get_by_role("button", name="Close").click()
    settled(page)
    assert "ids" not in asked.value.post_data_json
    assert not region.is_visible()


def test_thumbs_can_be_taken_back_and_are_what_eval_reads(start, served: Served, tmp_path):
    page = start()
    ask(page)
    up = page.get_by_role("button", name=f"Answers the query: {FIRST}")
    assert not page.locator("#judgements").is_visible()
    for pressed in ("true", "false", "true"):
        up.click()
        assert up.get_attribute("aria-pressed") == pressed
        assert page.locator("#judgements").is_visible() is (pressed == "true")
    page.get_by_role("button", name="Does not answer the query:").nth(1).click()
    ask(page, "the lentil dish we cooked for the team lunch")
    page.get_by_role("button", name="Answers the query:").first.click()
    assert "3 judged for 2 queries." in page.locator("#judgements").inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export for mcp-server-qdrant eval").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    page.get_by_role("button", name="Forget them").click()
    assert not page.locator("#judgements").is_visible()

    labels = read_labels(path)
    assert [label.query for label in labels] == [
        QUERY,
        "the lentil dish we cooked for the team lunch",
    ]
    assert len(labels[0].ids) == 1
    assert labels[0].collections == ("*",)
    assert sorted(json.loads(path.read_text())[0]["expect"]["ids"].values()) == [0, 1]
    done = run(served.env, "eval", "--queries", path)
    assert done.returncode == 0, done.stderr
    assert "hybrid" in done.stdout


def test_what_is_gone_weak_or_not_there_is_one_sentence_and_the_page_recovers(
    start, served: Served
):
    page = start()
    alert = page.get_by_role("alert")

    def search(words):
        page.get_by_role("searchbox").fill(words)
        page.keyboard.press("Enter")

    sentence = "Qdrant cannot be reached: look whether it runs."
    refused = {"status": 422, "json": {"error": sentence}}
    page.route("**/viz/api/search", lambda route: route.fulfill(**refused))
    search(QUERY)
    alert.filter(has_text=sentence).wait_for()
    page.unroute("**/viz/api/search")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".hit .bar")
    assert not alert.is_visible()

    served.stop()
    search("backup of the photos")
    alert.filter(has_text="The server does not answer.").wait_for()
    page.get_by_text("There are no results: the search failed.").wait_for()
    assert titles(page) == []
    served.start()
    found = page.locator(".hit h3", has_text="Backups: restic")
    late = alert.filter(has_text="no answer in time")  # a busy machine, and an engine that is cold
    found.or_(late).first.wait_for()
    while late.is_visible():
        page.get_by_role("button", name="Try again").click()
        settled(page)
    found.wait_for()
    assert not alert.is_visible()

    search("quantum chromodynamics of gluons")
    page.locator("#notes", has_text="Weak matches only").wait_for()
    assert not page.locator(".hit").first.is_visible()
    page.get_by_role("button", name="weak match").click()
    assert page.locator(".hit").first.is_visible()
    settings(page)
    page.locator("#algorithm").select_option("keyword")
    search("zzqqxxy")
    page.locator("#notes", has_text="Nothing found").wait_for()
    page.get_by_text("Nothing fits.").wait_for()
    assert page.locator(".hit").count() == 0
    page.get_by_role("button", name="None").click()
    search(QUERY)
    alert.filter(has_text="Choose at least one collection.").wait_for()
    page.faults.clear()  # the refusals are in the browser's log


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
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert titles(page)[0] == FIRST
    settings(page)
    assert page.locator("#algorithm").is_visible()
    page.get_by_role("button", name="Close the settings").click()

    page.locator(".hit .open").first.click()
    page.locator("#passage .text").wait_for()
    page.locator("#passage").evaluate("one => one.scrollTo(0, one.scrollHeight)")
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
    page.wait_for_function("() => location.hash.includes('at=')")
    for tab in ("Search", "Map"):
        page.get_by_role("link", name=tab, exact=True).click()
    plot.evaluate("one => new Promise(requestAnimationFrame)")
    assert float(plot.get_attribute("data-zoom")) > 1, "it is still at the hits"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, scheme):
    """Of the dark scheme, which follows the system, only colours are looked at."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is missing")
    rules = ["color-contrast", "link-in-text-block"] if scheme == "dark" else None
    page = start(color_scheme=scheme)
    page.locator(".newest li").first.wait_for()
    open_region(page)
    assert findings(axe, page, rules) == []
    page.get_by_role("region", name="Region").get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Texts").click()
    page.locator("#texts-list tbody tr").first.wait_for()
    assert findings(axe, page, rules) == []
    page.get_by_role("link", name="Search").click()
    ask(page)
    page.get_by_role("button", name="Answers the query:").first.click()
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


def test_everything_can_be_reached_with_the_keyboard(start):
    page = start()
    page.keyboard.press("Shift+Tab")
    page.get_by_role("link", name="Skip to the results").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    page.get_by_role("searchbox").focus()
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit .bar")
    wanted, seen = {"open", "icon thumb", "toggle"}, set()
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.className || document.activeElement.id"))
        if wanted <= seen:
            break

    assert wanted <= seen
    settled(page)
