"""Motion of a take: its text comes into the manuscript while the other cards fade; no key waits for it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.page.conftest import MakePage
from tests.page.paused import Paused, pause
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

# Notes each animation that begins, its length, and whether it ended, on the page and in the manuscript's shadow root.
WATCH = """() => {
  window.moved = [];
  const known = new Set();
  const look = () => {
    const shadow = document.querySelector("srb-manuscript").shadowRoot;
    for (const each of [...document.getAnimations(), ...shadow.getAnimations()]) {
      if (known.has(each)) continue;
      known.add(each);
      const note = { of: each.effect.target.className, duration: each.effect.getTiming().duration, ends: false };
      moved.push(note);
      each.finished.then(() => { note.ends = true; }, () => { note.ends = true; });
    }
    requestAnimationFrame(look);
  };
  look();
}"""


def take_and_type(page: Page, server: Server, held: list[Paused]) -> tuple[Writer, str]:
    """Take a card and go on, type at once, and return the text that was taken into. The next round's request is held."""
    writer = Writer(page, server.url).set(n=3, max_tokens=8, stop_at="").write(START).go().wait_for_end()
    page.evaluate(WATCH)
    pause(page, "*/v1/srb/completions", held.append)
    taken = writer.page.evaluate("desk.round.slots[1].text")
    writer.page.evaluate("void desk.take(1)")
    writer.page.locator("srb-manuscript").focus()
    writer.write(" and then")
    return writer, START + taken


def test_a_taken_text_arrives_while_the_cards_fade_and_every_typed_key_is_kept(page: Page, slow: Server) -> None:
    held: list[Paused] = []  # the next round's request: its first words would end the fading
    writer, text = take_and_type(page, slow, held)
    for name in ("arriving", "cards"):
        writer.wait("moved.some(({of}) => of.includes(argument))", name)
    held.pop().continue_()
    writer.wait_for_end().wait("moved.every(({ends}) => ends) && document.getAnimations().length === 0")
    assert {each["duration"] for each in page.evaluate("moved")} == {120}
    assert page.locator(".arriving").count() == 0
    assert page.evaluate("desk.text") == f"{text} and then"
    assert page.locator("srb-branches .cards").evaluate("(list) => getComputedStyle(list).opacity") == "1"


def test_nothing_moves_for_those_who_have_asked_for_less(make_page: MakePage, slow: Server) -> None:
    page = make_page(reduced_motion="reduce")
    held: list[Paused] = []
    writer, text = take_and_type(page, slow, held)
    writer.wait("document.querySelector('srb-branches').board.round === desk.round")  # its empty cards are shown
    held.pop().continue_()
    writer.wait_for_end()
    assert page.evaluate("moved") == []
    assert page.evaluate("desk.text") == f"{text} and then"
