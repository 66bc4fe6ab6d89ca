"""Cards are sorted by what they mean, and counted, where the server has a model that tells it."""

from __future__ import annotations

import re

import orjson
import pytest
from playwright.sync_api import expect

from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.writer import PICTURED, Writer
from tests.processes import wait_for
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e

MODELS = orjson.dumps(
    [{"name": "writer", "model": "fake:"}, {"name": "judge", "model": "fake:", "embedding": True}]
).decode()


def test_cards_are_sorted_by_meaning_and_the_head_says_how_many_differ(
    make_server: MakeServer, make_page: MakePage
) -> None:
    server = make_server(models=MODELS, model="", max_engines=2).start()
    page = make_page(bypass_csp=True)
    writer = Writer(page, server.url).set(n=4, max_tokens=12, stop_at="").write("Once upon a time,")
    writer.go().wait_for_end()
    page.get_by_role("button", name="Sort").click()
    page.get_by_role("button", name="By meaning").click()
    expect(page.locator("srb-branches .different")).to_have_text(re.compile(r"^[1-4]\.\d of 4 differ$"))
    expect(page.get_by_title("As many really different texts as these cards have in what they mean")).to_be_visible()
    order: list[int] = page.evaluate("desk.round.order")
    texts = [writer.slots()[number]["text"].strip() for number in order]
    wait_for(
        lambda: [shown.translate(PICTURED).strip() for shown in writer.shown()] == texts,
        "the cards stand in the order of their meaning",
    )
    page.get_by_role("button", name="Sort").click()
    page.get_by_role("button", name="Group alike").click()
    groups: list[list[int]] = page.evaluate("desk.round.meaning.groups")
    expect(writer.cards.locator("visible=true")).to_have_count(len(groups))
    assert sorted(number for group in groups for number in group) == [0, 1, 2, 3]
    assert violations(page) == []
    page.evaluate("document.querySelector('srb-branches').focus()")
    writer.press("x")
    expect(page.locator("srb-branches .different")).to_have_count(0)  # the cards are others


def test_without_such_a_model_nothing_offers_it(writer: Writer) -> None:
    writer.set(n=2, max_tokens=8).write("Once upon a time,")
    writer.go().wait_for_end()
    expect(writer.page.get_by_role("button", name="Sort", exact=True)).to_be_visible()
    expect(writer.page.get_by_role("button", name="By meaning")).to_have_count(0)


def test_of_sixteen_that_are_written_four_are_shown_and_all_are_in_the_outline(writer: Writer) -> None:
    page = writer.set(max_tokens=50, stop_at="").page  # two seconds, of which the head says for how many cards it is
    page.get_by_role("combobox", name="Branches").select_option("4/16")
    writer.write("Once upon a time,").press("Control+Enter")
    expect(page.locator(".counts")).to_contain_text("for 4 cards")
    expect(page.locator("srb-branches .different")).to_have_text(re.compile(r"^\d+\.\d of 16 differ in their words$"))
    expect(writer.cards.locator("visible=true")).to_have_count(4)
    assert len({node["slot"] for node in writer.story()["nodes"].values() if "slot" in node}) == 16
    page.get_by_role("button", name=re.compile("^Show .* more$")).first.click()
    wait_for(lambda: writer.cards.locator("visible=true").count() > 4, "those behind a card are shown")
    page.get_by_role("combobox", name="Branches").select_option("4")
    assert page.evaluate("[desk.settings.n, desk.settings.chosen_from]") == [4, None]
