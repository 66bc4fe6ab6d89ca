"""The choice of a story's model where the server has several; with one model the page knows nothing of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import violations
from tests.page.conftest import MakePage, Troubles
from tests.page.writer import ENDLESS, START, Writer
from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e


@pytest.fixture
def two(server_with: MakeServer) -> Server:
    return server_with(models="red=fake:25,blue=fake:25", model="", ignore_eos="true", model_seconds=0)


@pytest.fixture(scope="module")
def broken(server_with: MakeServer, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A model, and one that cannot be loaded."""
    file = tmp_path_factory.mktemp("broken") / "broken.gguf"
    file.write_bytes(b"no model")
    return server_with(models=f"red=fake:25,{file}", model="", ignore_eos="true")


@pytest.fixture
def writer(two: Server, page: Page, troubles: Troubles) -> Writer:
    troubles.allow("status of 503")  # while a model is being loaded
    return Writer(page, two.url).set(max_tokens=8, stop_at="", n=2)


def picker(writer: Writer) -> Locator:
    """Open the settings by the model's name in the header."""
    writer.page.locator("srb-header").get_by_role("button", name="More").click()
    writer.page.get_by_role("button", name="red", exact=True).or_(
        writer.page.get_by_role("button", name="blue", exact=True)
    ).click()
    select = writer.page.get_by_role("dialog", name="Settings of this story").get_by_label("Model", exact=True)
    expect(select).to_be_visible()
    return select


def close(page: Page) -> None:
    page.get_by_role("dialog", name="Settings of this story").get_by_role("button", name="Close").click()


def runs(writer: Writer) -> list[str]:
    """The models of the story's rounds, oldest first."""
    found: list[dict[str, Any]] = sorted(writer.story()["runs"].values(), key=lambda run: run["made"])
    return [run["model"] for run in found]


def loaded(server: Server) -> list[str]:
    return [
        each["id"]
        for each in server.get("/v1/models").json()["data"]
        if each["status"]["value"] in ("loaded", "loading")
    ]


def test_a_story_is_continued_by_the_model_that_is_chosen_for_it(writer: Writer, two: Server) -> None:
    page = writer.page
    writer.write(START).go().wait_for_end()
    assert runs(writer) == ["red"]
    select = picker(writer)
    expect(select.locator("option")).to_have_text(["the server's: red", "red (loaded)", "blue"])
    select.select_option("blue")
    close(page)
    expect(page.locator("srb-header .model")).to_have_text("blue")
    assert loaded(two) == ["red"], "a choice alone loads nothing"
    writer.press("Escape")
    page.locator("srb-manuscript").click()
    writer.go().wait_for_end()
    assert runs(writer) == ["red", "blue"]
    assert loaded(two) == ["blue"]
    writer.wait_until_saved()
    page.reload()
    writer.wait_until_ready()
    expect(page.locator("srb-header .model")).to_have_text("blue")
    page.evaluate("desk.newStory()")
    expect(page.locator("srb-header .model")).to_have_text("red")  # the model belongs to the story


def test_what_is_waited_for_is_said_until_the_model_is_loaded(writer: Writer, two: Server) -> None:
    """Another client holds the one place that there is."""
    page = writer.page
    body = {"prompt": "Hi", "max_tokens": 100_000, "ignore_eos": True, "stream": True, "model": "red"}
    held = two.post("/v1/completions", body, stream=True)
    writer.set(model="blue").write(START)
    expect(page.locator("srb-header .model")).to_have_text("blue")
    writer.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="blue is loaded as soon as there is room for it.")).to_be_visible()
    held.close()
    writer.wait_for_end()
    expect(page.locator("srb-banner .server")).to_have_count(0)
    assert runs(writer) == ["blue"]


def test_a_model_that_is_gone_is_told_of_and_another_can_be_chosen(
    writer: Writer, two: Server, troubles: Troubles
) -> None:
    page = writer.page
    troubles.expect("status of 404")
    writer.set(model="green").write(START)
    banner = page.get_by_role("alert").filter(has_text="This server has no model “green”, which this story asks for.")
    expect(banner).to_be_visible()
    writer.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="The model 'green' does not exist")).to_be_visible()
    page.get_by_role("button", name="Choose another model").first.click()
    select = page.get_by_role("dialog", name="Settings of this story").get_by_label("Model", exact=True)
    expect(select).to_have_value("green")
    select.select_option("blue")
    close(page)
    expect(banner).to_have_count(0)
    page.locator("srb-manuscript").click()
    writer.go().wait_for_end()
    assert runs(writer) == ["blue"]


def test_a_model_that_cannot_be_loaded_gives_its_reason_and_the_way_out(
    broken: Server, make_page: MakePage, troubles: Troubles
) -> None:
    troubles.expect("status of 503")
    page = make_page(bypass_csp=True)  # axe puts styles into the document
    writer = Writer(page, broken.url).set(max_tokens=8, stop_at="", n=2, model="broken").write(START)
    expect(page.locator("srb-header .model")).to_have_text("broken")
    writer.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="broken cannot be loaded: ")).to_be_visible()
    page.get_by_role("button", name="Choose another model").first.click()
    select = page.get_by_role("dialog", name="Settings of this story").get_by_label("Model", exact=True)
    expect(select.locator("option:checked")).to_have_text("broken (cannot be loaded)")
    assert violations(page) == []
    select.select_option("red")
    close(page)
    page.locator("srb-manuscript").click()
    writer.go().wait_for_end()
    assert runs(writer) == ["red"]


def test_with_one_model_nothing_is_chosen(page: Page, slow: Server) -> None:
    writer = Writer(page, slow.url).set(max_tokens=8, stop_at="", n=2).write(START).go().wait_for_end()
    expect(page.locator("srb-header span.model")).to_have_text("fake:25")
    page.evaluate("desk.openDialog('settings', { section: 'model' })")
    dialog = page.get_by_role("dialog", name="Settings of this story")
    expect(dialog.get_by_text("The model is fake:25.")).to_be_visible()
    expect(dialog.get_by_label("Model", exact=True)).to_have_count(0)
    wait_for(lambda: len(runs(writer)) == 1, "its round is in the story")


@pytest.fixture
def both(server_with: MakeServer) -> Server:
    """Two models that are loaded at once."""
    return server_with(models="red=fake:25,blue=fake:25", model="", ignore_eos="true", max_engines=2)


def labels(page: Page) -> list[str]:
    """The models that the cards name, in their order."""
    return page.locator(".card .voice").all_text_contents()


def tick(writer: Writer, name: str) -> None:
    """Let another model write beside the story's own, by its check box."""
    writer.page.evaluate("desk.openDialog('settings', { section: 'model' })")
    dialog = writer.page.get_by_role("dialog", name="Settings of this story")
    dialog.get_by_role("group", name="Written by red, and also by").get_by_label(name, exact=True).check()
    close(writer.page)
    writer.page.locator("srb-manuscript").click()


def test_two_models_share_a_round_and_each_card_names_its_own(
    both: Server, make_page: MakePage, troubles: Troubles
) -> None:
    troubles.allow("status of 503")
    page = make_page(bypass_csp=True)  # axe puts styles into the document
    writer = Writer(page, both.url).set(max_tokens=8, stop_at="", n=4).write(START)
    tick(writer, "blue")
    writer.go().wait_for_end()
    assert labels(page) == ["red", "blue", "red", "blue"]
    expect(page.locator(".card").nth(1)).to_have_accessible_description(re.compile("By blue"))
    assert violations(page) == []
    writer.to_cards().press("g")
    writer.wait("desk.round.slots.length === 8").wait_for_end()
    assert sorted(labels(page)) == ["blue"] * 4 + ["red"] * 4
    assert labels(page)[:4] == ["red", "blue", "red", "blue"]
    writer.press("2")  # and on
    writer.wait("desk.round.slots.length === 4").wait_for_end().wait_until_saved()
    # Red's first request may have given way to blue's loading before more was asked of it, and then red has three.
    found = [["blue"] * 2 + ["red"] * times for times in (2, 3)]
    wait_for(lambda: sorted(runs(writer)) in found, "the requests of both rounds are in the story")


def test_the_outline_says_which_model_wrote_a_branch_also_after_a_reload(both: Server, page: Page) -> None:
    writer = Writer(page, both.url).set(max_tokens=8, stop_at="", n=2, voices=["blue"]).write(START)
    writer.go().wait_for_end().wait_until_saved()
    writer.reload()
    writer.wait("desk.round?.slots.length === 2")
    expect(page.locator(".card .voice")).to_have_text(["red", "blue"])
    dots = {each.get_attribute("title"): each.get_attribute("data-hue") for each in page.locator(".card .dot").all()}
    assert (set(dots), set(dots.values())) == ({"red", "blue"}, {"1", "2"})
    page.locator("srb-outline").get_by_role("button", name="Outline").click()
    rows = page.get_by_role("treeitem").locator(".dot")
    assert {each.get_attribute("title"): each.get_attribute("data-hue") for each in rows.all()} == dots
    page.evaluate("desk.openDialog('map')")
    painted = "desk.round.slots.map(({ node }) => document.querySelector('srb-map').tree.lookOf(node).hue)"
    hues = f"{dots['red']},{dots['blue']}"
    writer.wait(f"document.querySelector('srb-map')?.tree && {painted}.join() === argument", hues)
    expect(page.get_by_role("treeitem", name=re.compile("by blue"))).to_have_count(1)
    expect(page.get_by_role("treeitem", name=re.compile("by red"))).to_have_count(1)


def test_a_reload_in_the_middle_of_a_shared_round_goes_on_in_the_same_cards(both: Server, page: Page) -> None:
    writer = Writer(page, both.url).set(max_tokens=ENDLESS, stop_at="", n=2, voices=["blue"]).write(START)
    writer.go().wait_until_saved()
    before = [len(slot["text"]) for slot in writer.slots()]
    writer.reload()
    # All that is kept of the cards is shown as ended until their requests are found again.
    longer = "desk.round.slots.every(({ text }, number) => text.length > argument[number] + 20)"
    writer.wait(f"desk.round?.slots.length === 2 && {longer}", before).press("Escape").wait_for_end()
    expect(page.locator(".card .voice")).to_have_text(["red", "blue"])


def test_models_for_which_there_is_room_one_after_the_other_share_a_round(writer: Writer, two: Server) -> None:
    writer.set(voices=["blue"]).write(START).go().wait_for_end()
    assert labels(writer.page) == ["red", "blue"]
    assert sorted(runs(writer)) == ["blue", "red"]
    assert loaded(two) == runs(writer)[-1:], "requests are sent at once, and each waits for its model"


def test_a_model_that_cannot_be_loaded_leaves_the_cards_of_the_others(
    broken: Server, page: Page, troubles: Troubles
) -> None:
    troubles.expect("status of 503")
    writer = Writer(page, broken.url).set(max_tokens=8, stop_at="", n=4, voices=["broken"]).write(START)
    writer.go().wait_for_end()
    assert page.evaluate("desk.round.slots.map(({state}) => state)") == ["ended", "failed", "ended", "failed"]
    assert runs(writer) == ["red"]
