"""Reading and changing texts beside the map: nothing is lost, and nothing untrue is shown.

The store is small: a layout by neighbours after each change would take most of the tests' time.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp import Client

from tests.browser.conftest import Served
from tests.browser.test_page import ask, settled, titles
from tests.e2e.raw import settings_of

PANEL = "#passage"
LINE = "Line {} of the manual of the quokka pump tells of its valve."
PARTED = " ".join(map(LINE.format, range(40)))
ZABAGLIONE = "Zabaglione needs yolks, sugar and marsala."
BREAD = "Sourdough bread with rye flour"


def tool(address, name, **arguments):
    async def call():
        async with Client(f"{address}/mcp") as client:
            return await client.call_tool(name, arguments)

    with ThreadPoolExecutor() as threads:  # this one belongs to Playwright's loop
        return threads.submit(asyncio.run, call()).result()


@pytest.fixture(scope="module")
def served(tmp_path_factory, model_dir, one_cache):
    """A server with two small collections, which takes the place of the demo's."""
    folder = tmp_path_factory.mktemp("edit")
    server = Served(settings_of(folder, model_dir, one_cache), folder)
    server.start()
    try:
        texts = [f"{BREAD}, recipe {number}." for number in range(3)]
        for number, text in enumerate(texts):
            where = {"collection_name": "recipes", "title": f"{BREAD} {number}"}
            tool(server.address, "qdrant-store", information=text, **where)
        note = "The router is restarted on Sundays."
        tool(server.address, "qdrant-store", information=note, collection_name="homelab")
        yield server
    finally:
        server.stop()


@pytest.fixture
def page(open_page):
    page = open_page()
    page.wait_for_selector("canvas", state="attached")
    settled(page)
    return page


@pytest.fixture
def stored(served):
    """Stores a text to change, which is gone at the end."""
    ids = []

    def store(id_, text, **more):
        ids.append(id_)
        where = {"collection_name": "recipes", "id": id_}
        tool(served.address, "qdrant-store", information=text, **where, **more)
        return where

    yield store
    for name in ("recipes", "homelab"):
        tool(served.address, "qdrant-delete", ids=ids, collection_name=name)


def opened(page, query="manual of the quokka pump"):
    """The page with the text that was found open."""
    ask(page, query)
    page.locator(".hit .open", has_text="Quokka").first.click()
    page.locator(f"{PANEL} .text").wait_for()


def typed(page, words):
    page.get_by_role("button", name="Edit").click()
    page.locator("#edit-text").fill(words)


def open_address(page, id_):
    page.goto(f"{page.url.split('#')[0]}#view=texts&in=recipes&doc={id_}&of=recipes")
    page.locator(f"{PANEL} .text").wait_for()


def test_a_text_of_parts_leaves_list_and_map_at_once_and_comes_back(page, stored, served):
    stored("quokka", PARTED, title="Quokka pump")
    opened(page)
    ids = page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.key)")
    page.get_by_role("button", name="Delete", exact=True).click()
    assert not page.locator(PANEL).is_visible()
    assert not any("Quokka" in one for one in titles(page))
    hits = page.locator(".hit").count()
    page.get_by_role("button", name="Undo").click()
    page.locator(".hit h3", has_text="Quokka").first.wait_for()
    assert page.locator(".hit").count() > hits
    assert page.locator(".hit").evaluate_all("all => all.map(one => one.dataset.key)") == ids

    held = []
    page.route("**/viz/api/delete", lambda route: held.append(route))  # noqa: PLW0108
    ask(page, BREAD)
    count = page.locator(".hit").count()
    assert count > 1
    page.locator(".hit .open").first.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator(PANEL).wait_for(state="hidden")
    ranks = page.locator(".hit .rank").all_inner_texts()
    assert ranks == [str(rank) for rank in range(2, count + 1)]
    assert page.locator("#results-about").inner_text().startswith(f"{count - 1} result")
    held[0].continue_()
    page.get_by_role("button", name="Undo").click()
    page.locator("#results-about", has_text=f"{count} result").wait_for()

    text = PARTED.replace("quokka", "wombat")
    done = tool(served.address, "qdrant-store", information=text, collection_name="recipes")
    ask(page, "manual of the wombat pump")  # a text without an id of its own is edited whole
    page.locator(".hit .open").first.click()
    page.locator(f"{PANEL} .text").wait_for()
    assert LINE.format(39).replace("quokka", "wombat") in page.locator(PANEL).inner_text()
    page.get_by_role("button", name="Edit").click()
    page.locator("#edit-title").fill("Wombat pump")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(f"{PANEL} h2", has_text="Wombat pump").wait_for()
    page.locator(f"{PANEL} .text", has_text="Line 39 ").wait_for()
    settled(page)
    ids = [done.structured_content["id"]]
    tool(served.address, "qdrant-delete", ids=ids, collection_name="recipes")


def test_typed_text_is_dropped_neither_unasked_nor_for_somebody_elses_change(page, stored, served):
    where = stored("quokka", PARTED, title="Quokka pump")
    opened(page)
    typed(page, "Zebra words")
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

    typed(page, "Zebra words")
    tool(served.address, "qdrant-store", information="Theirs: a shorter manual.", **where)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Somebody else has changed this text").wait_for()
    assert page.locator("#edit-text").input_value() == "Zebra words"
    page.locator("summary", has_text="Their text").click()
    assert page.get_by_text("Theirs: a shorter manual.").is_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(f"{PANEL} .text", has_text="Zebra words").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator(PANEL).is_visible()
    settled(page)
    page.faults.clear()  # that the first try was refused is in the browser's log


def test_a_text_is_edited_brought_back_moved_and_deleted_and_each_can_be_undone(
    page, stored, served
):
    stored("scratch", ZABAGLIONE, title="Zabaglione", tags=["egg"])
    open_address(page, "scratch")
    text = page.locator(f"{PANEL} .text")

    def edit(words):
        typed(page, words)
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator(f"{PANEL} .text", has_text=words).wait_for()

    edit("The scratch text is another one now.")
    page.get_by_role("button", name="Undo").click()
    page.locator(f"{PANEL} .text", has_text=ZABAGLIONE).wait_for()
    edit("And now a third one.")
    page.get_by_role("button", name="Earlier versions").click()
    page.locator(f"{PANEL} .like .open").first.click()
    page.locator(f"{PANEL} .hint", has_text="is an earlier version").wait_for()
    assert not page.get_by_role("button", name="Delete", exact=True).is_visible()
    page.get_by_role("button", name="Bring it back").click()
    page.get_by_role("button", name="Edit").wait_for()
    assert text.inner_text() == ZABAGLIONE
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill("Zabaione")
    page.get_by_label("Tags, by comma").fill("egg, wine")
    page.get_by_role("button", name="Save").click()
    page.locator(f"{PANEL} h2", has_text="Zabaione").wait_for()
    assert "egg, wine" in page.locator(f"{PANEL} dl").inner_text()

    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Undo").wait_for()
    assert tool(served.address, "qdrant-get", ids=["scratch"]).is_error
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("It is back.").wait_for()
    assert not tool(served.address, "qdrant-get", ids=["scratch"]).is_error
    open_address(page, "scratch")
    page.get_by_label("Move to").select_option("homelab")
    page.get_by_text("Moved to homelab.").wait_for()
    page.locator(f"{PANEL} dd", has_text="homelab").first.wait_for()
    for name, gone in (("homelab", False), ("recipes", True)):
        got = tool(served.address, "qdrant-get", ids=["scratch"], collection_name=name)
        assert got.is_error is gone
    page.get_by_role("button", name="Close").click()
    assert "doc=" not in page.url
    settled(page)
    assert not page.locator(PANEL).is_visible()


def test_what_an_agent_stores_appears_by_itself(page, stored):
    page.locator(".newest li").first.wait_for()
    points = int(page.locator("canvas").get_attribute("data-points"))
    stored("quoll", "A quoll is no cat.")
    page.locator(f"canvas[data-points='{points + 1}']").wait_for()
    page.locator(".newest li", has_text="quoll").wait_for()
    settled(page)
