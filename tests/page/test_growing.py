"""A story grows by itself: the person's text and rounds stay theirs, and the map shows which ends differ most."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e


@in_each_look
def test_a_story_grows_beside_a_round_that_a_person_asks_for(
    make_page: MakePage, slow: Server, look: dict[str, object]
) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).set(n=2, max_tokens=6, stop_at="").write(START)
    dialog = writer.open_dialog("grow")
    expect(dialog.get_by_label("For", exact=True)).to_be_focused()
    assert violations(page) == []
    expect(page.locator("dialog:modal")).to_have_count(0)
    dialog.get_by_label("For", exact=True).fill("60")
    writer.press("Escape")
    expect(page.locator("srb-manuscript")).to_be_focused()
    writer.open_dialog("grow")
    expect(dialog.get_by_label("For", exact=True)).to_have_value("60")
    writer.press("Enter")
    expect(dialog).to_be_hidden()
    writer.go().wait_for_end()
    round_of_hers = page.evaluate("desk.round.id")
    writer.wait("desk.rounds.growth?.words > 0 || desk.rounds.ends.length > 0")
    expect(page.get_by_text(re.compile(r"^The story has grown by \d+ words\.$"))).to_be_visible()
    page.get_by_role("button", name="Show the ends that differ most").click()
    chart = page.get_by_role("region", name="Map")
    chart.get_by_role("button", name="Next end").click()
    expect(chart.locator(".words")).to_contain_text("an end that differs")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert writer.text == START
    assert page.evaluate("desk.round.id") == round_of_hers


def test_a_growth_is_stopped_and_goes_on_after_a_reload(writer: Writer) -> None:
    page = writer.set(max_tokens=20, stop_at="").write(START).page
    page.evaluate("void desk.grow({ words: 100000 })")
    writer.wait("desk.rounds?.growth?.words > 0")
    page.get_by_role("button", name=re.compile("^grows: ")).click()
    page.get_by_role("dialog", name="Let it grow").get_by_role("button", name="Stop").click()
    writer.wait("desk.rounds.growth === null")
    writer.press("Escape").wait_until_saved().reload()
    before: int = page.evaluate("desk.story.nodes.size")
    page.evaluate("void desk.grow({ words: 10 })")
    writer.wait("desk.rounds?.ends.length > 0")
    nodes = writer.story()["nodes"].values()
    assert len(nodes) > before
    depth: int = page.evaluate("Math.max(...[...desk.story.nodes.keys()].map((id) => desk.story.path(id).length))")
    assert depth >= 3  # it went on from ends, and did not begin anew
    assert writer.text == START


def test_a_growth_is_taken_up_by_the_window_that_is_opened_again_and_one_that_was_closed_for_long_is_not(
    writer: Writer,
) -> None:
    page = writer.set(max_tokens=40, stop_at="").write(START).page
    dialog = writer.open_dialog("grow")
    dialog.get_by_label("For", exact=True).fill("100000")
    dialog.get_by_label("When this window is closed,").select_option(label="it can be taken up for a minute")
    dialog.get_by_role("button", name="Let it grow", exact=True).click()
    writer.wait("desk.rounds?.growth?.words > 0").wait_until_saved()
    writer.wait("desk.rounds.growth.live?.round.slots.every(({ text }) => text)")
    writer.reload()
    page.evaluate(
        """() => {
            const left = JSON.parse(localStorage["srb.growth"]);
            localStorage["srb.growth"] = JSON.stringify({ ...left, seen: Date.now() - 20_000 });
        }"""
    )
    page.evaluate("desk.rounds.takeUpGrowth()")
    writer.wait("desk.rounds.growth?.words > 0")
    texts = "[...desk.story.nodes.values()].map(({ text, parent, slot, run }) => `${run} ${slot} ${parent}`)"
    keys: list[str] = page.evaluate(texts)
    assert len(keys) == len(set(keys))  # the part that was begun was read once
    page.get_by_role("button", name=re.compile("^grows: ")).click()
    page.get_by_role("dialog", name="Let it grow").get_by_role("button", name="Stop").click()
    writer.wait("desk.rounds.growth === null")
    assert page.evaluate("localStorage.getItem('srb.growth')") is None
    assert writer.text == START
