"""Cards: each shows its branch as text, at its place, with its end in words; many at once cost little."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.cards import TEXTS, Pane
from tests.processes import wait_for

pytestmark = pytest.mark.e2e

# Counts changes of the document per card and frame, by a MutationObserver; the timeline's time stands still in a frame.
COUNT_WRITES = """
const seen = (window.seen = { most: 0, hidden: 0, writes: 0 });
const last = new Map();
new MutationObserver((records) => {
  for (const { target } of records) {
    const place = (target.nodeType === 1 ? target : target.parentElement)?.closest(".card-place");
    if (!place) continue;
    const known = last.get(place);
    const frame = document.timeline.currentTime;
    const count = known?.frame === frame ? known.count + 1 : 1;
    last.set(place, { frame, count });
    seen.writes += 1;
    seen.most = Math.max(seen.most, count);
    if (!branches.board.byPlace.get(place).isVisible) seen.hidden += 1;
  }
}).observe(branches.querySelector(".cards"), { subtree: true, childList: true, characterData: true });
"""


@pytest.fixture
def pane(page: Page) -> Pane:
    return Pane(page)


def boxes(pane: Pane) -> list[Any]:
    """Return the place, size and digit of each card."""
    found: list[Any] = pane.tell(
        """return [...document.querySelectorAll(".card")].map((card) => {
          const { x, y, width, height } = card.getBoundingClientRect();
          return [x, y, width, height, card.querySelector(".digit").textContent];
        })"""
    )
    return found


def test_each_branch_grows_in_its_own_card(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.write(" brightly", "", " and a crab")
    for number, text in enumerate(["one little lamp. It burned brightly", TEXTS[1][1:], "two gulls and a crab"], 1):
        expect(pane.text(number)).to_have_text(text)
        expect(pane.card(number)).to_have_attribute("aria-busy", "true")
    expect(pane.page.locator(".counts")).to_have_text("3 running")


def test_no_card_moves_and_no_digit_changes_while_branches_end_fail_and_fold(pane: Pane) -> None:
    pane.begin(*TEXTS, " two gulls", " five", " six", " seven", " eight")
    before = boxes(pane)
    assert [digit for *_, digit in before] == list("12345678")
    pane.write("\n\nand much more text " * 40)
    pane.tell("desk.stopBranch(2, 'eos'); desk.stopBranch(3, 'eos'); desk.prune(4); desk.fold();")
    pane.tell("desk.events([{ event: 'error', index: 5, code: 'x', message: 'the engine was restarted' }])")
    expect(pane.card(4)).to_have_attribute("data-same", "folded")
    expect(pane.page.locator(".counts")).to_have_text("4 running, 2 ended, 1 pruned, 1 failed")
    assert boxes(pane) == before


def test_eight_cards_are_in_view_at_once(pane: Pane) -> None:
    pane.begin(count=8)
    for x, y, width, height, _ in boxes(pane):
        assert x >= 0
        assert y >= 0
        assert x + width <= 1440
        assert y + height <= 900
        assert height > 100


@pytest.mark.parametrize(
    ("event", "description"),
    [
        ({"reason": "eos"}, "the model ended the text"),
        ({"reason": "word", "stopping_word": "."}, "stop word “.”"),
        ({"reason": "boundary"}, "the sentence is complete"),
        ({"reason": "limit"}, "limit of 1 token"),
        ({"reason": "limit", "truncated": True}, "context is full"),
        ({"reason": "cancelled"}, "Stopped"),
    ],
    ids=["eos", "stop word", "boundary", "limit", "context full", "stopped"],
)
def test_each_end_is_told_in_words(pane: Pane, event: dict[str, Any], description: str) -> None:
    pane.begin(*TEXTS)
    expect(pane.card(1)).to_have_accessible_description(re.compile("^Running"))
    pane.tell("desk.stopBranch(0, given.reason, given)", event)
    expect(pane.card(1)).to_have_accessible_description(re.compile(re.escape(description)))
    expect(pane.card(1)).to_have_attribute("aria-busy", "false")


def test_a_failure_is_told_in_words(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("desk.events([{ event: 'error', index: 1, code: 'x', message: 'no memory' }])")
    expect(pane.card(2)).to_have_accessible_description(re.compile("Failed: no memory"))
    pane.tell("desk.round.lost('r1', 'the server is gone'); desk.tell('round')")
    expect(pane.card(1)).to_have_accessible_description(re.compile("Connection lost"))


def test_a_refilled_card_shows_the_new_branch_alone(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("desk.prune(1)")
    pane.card(2).get_by_role("button", name="Refill").click()
    pane.tell("desk.events([{ event: 'branch', index: 3, seed: 9 }])")
    pane.write("", " late", "", " fresh")
    expect(pane.text(2)).to_have_text("fresh")
    assert pane.calls("refill") == [[[1]]]


def test_shared_beginnings_are_dimmed_and_the_first_own_word_is_underlined(pane: Pane) -> None:
    pane.begin(*TEXTS)
    wait_for(lambda: pane.highlighted("srb-own") == ["lamp", "boat"], "own words")
    assert pane.highlighted("srb-shared") == ["one little ", "one little "]
    pane.write("", "", "", "")
    assert pane.tell("return document.querySelectorAll('.card .text *').length") == 3  # no elements for it


def test_a_sentence_that_the_manuscript_has_already_is_dimmed_and_told(pane: Pane) -> None:
    pane.tell("desk.story.before = 'The lamp burned all night. Nobody came. Far out a bell'")
    pane.begin(" rang twice. The lamp burned", " rang. Nobody came. And then")
    pane.write(" all night. It was", " the lamp burned all night!")
    wait_for(lambda: pane.highlighted("srb-already") == ["The lamp burned all night."], "the one that has ended")
    for index in range(2):
        pane.tell("desk.stopBranch(given, 'eos')", index)
    expect(pane.card(1)).to_have_accessible_description(re.compile("Already in your text: 1 sentence."))
    expect(pane.card(1).get_by_title("Already in your text")).to_be_attached()
    expect(pane.card(2)).not_to_have_accessible_description(re.compile("Already"))  # "Nobody came." may well come again
    pane.begin(" rang. The lamp burned all night. Over")
    wait_for(lambda: pane.highlighted("srb-already") == ["The lamp burned all night."], "the new round's")
    pane.tell("desk.story.before = ''")
    pane.begin(" The lamp burned all night. Over")
    wait_for(lambda: pane.highlighted("srb-own") == [] == pane.highlighted("srb-already"), "nothing stood there before")


def test_words_are_shaded_by_probability_only_where_the_settings_say_so(pane: Pane) -> None:
    script = """desk.begin(2); desk.events([0, 1].map((index) => ({ event: "stream", index, text: " a b",
      logprobs: [{ token: " a", logprob: -0.1 }, { token: " b", logprob: -5 - index }] })))"""
    pane.tell(script)
    expect(pane.text(1)).to_have_text("a b")
    assert pane.highlighted("srb-step-5") == []
    pane.tell("desk.setSetting('logprobs', true)")
    wait_for(lambda: pane.highlighted("srb-step-5") == ["b", "b"], "shading")
    assert pane.highlighted("srb-step-1") == ["a", "a"]
    expect(pane.card(1)).to_have_accessible_description(re.compile("Beside the others: expected"))
    expect(pane.card(2)).to_have_accessible_description(re.compile("Beside the others: unlikely"))


def test_equal_texts_are_told_and_fold_only_when_asked(pane: Pane) -> None:
    pane.begin(*[" the same"] * 4)
    for index in range(4):
        pane.tell("desk.stopBranch(given, 'eos')", index)
    expect(pane.card(1).locator(".same")).to_have_text("×4")
    expect(pane.card(3).locator(".same")).to_have_text("= 1")
    expect(pane.text(3)).to_be_visible()
    pane.page.get_by_role("button", name="Fold").click()
    expect(pane.text(3)).to_be_hidden()
    expect(pane.card(3)).to_have_accessible_description(re.compile("Folded: same text as branch 1"))
    pane.card(3).get_by_role("button", name="Unfold").click()
    expect(pane.text(3)).to_be_visible()
    expect(pane.text(4)).to_be_hidden()


def test_only_sorting_deals_the_digits_anew(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.page.get_by_role("button", name="Sort").click()
    assert "No branch has told its likelihood yet" in pane.calls("notice")[0][0]
    for index, logprob in enumerate([-3, -2, -1]):
        pane.tell("desk.stopBranch(given[0], 'eos', { logprob: given[1] })", [index, logprob])
    expect(pane.text(1)).to_have_text(TEXTS[0].strip())
    pane.page.get_by_role("button", name="Sort").click()
    expect(pane.text(1)).to_have_text(TEXTS[2].strip())
    expect(pane.text(3)).to_have_text(TEXTS[0].strip())


def test_a_round_without_likelihoods_says_so_and_the_next_one_asks_for_them(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("for (const index of [0, 1, 2]) desk.stopBranch(index, 'eos');")
    sort = pane.page.get_by_role("button", name="Sort")
    expect(pane.card(1)).to_have_accessible_description(re.compile("the model ended the text here"))
    expect(pane.card(1)).not_to_have_accessible_description(re.compile("likelihood"))
    sort.click()
    assert "Those of the next round have it" in pane.calls("notice")[0][0]
    assert pane.tell("return desk.settings.likelihood") is True
    expect(pane.card(1)).to_have_accessible_description(re.compile("Its likelihood was not asked for"))
    expect(pane.card(1).locator(".bar")).to_have_attribute("data-step", "unknown")
    assert [pane.text(number).inner_text() for number in (1, 2, 3)] == [text.strip() for text in TEXTS]


def test_markup_and_control_characters_are_shown_as_text(pane: Pane) -> None:
    pane.begin(" <img src=x onerror=alert(1)> \x1b[31m \u202etxt\u202c \x00", " שלום, world", " x")
    expect(pane.text(1)).to_have_text("<img src=x onerror=alert(1)> ␛[31m ⇄txt⇄ ␀")
    assert pane.tell("return document.images.length") == 0
    assert pane.text(2).locator("p").evaluate("(line) => getComputedStyle(line).direction") == "rtl"


def test_a_text_without_a_space_stays_in_its_card(pane: Pane) -> None:
    pane.begin("x" * 100_000, " y" * 50_000, "\n" * 50_000 + "z")
    expect(pane.text(3)).to_have_text("z")
    assert pane.tell("return branches.scrollWidth <= branches.clientWidth")
    pane.tell("for (const index of [0, 1, 2]) desk.stopBranch(index)")
    pane.tell("branches.run({ name: 'read' })")
    expect(pane.page.locator("dialog.reader .text")).to_have_text("x" * 100_000)
    assert pane.tell("return document.querySelectorAll('*').length") < 1000


def test_progress_of_a_long_prompt_is_shown_until_a_branch_runs(pane: Pane) -> None:
    pane.begin(count=2)
    pane.tell("desk.events([{ event: 'prompt', total: 2000, cache: 800, processed: 1400, time_ms: 300 }])")
    counts = pane.page.locator(".counts")
    expect(counts).to_contain_text("reading: 70 % · 2,000 tokens/s · 800 of 2,000 cached")
    pane.write(" a")
    expect(counts).to_have_text("1 running, 1 waiting")


def wait_until_running(pane: Pane) -> None:
    """Wait until the cards in view show that their branches run; a change of state is a write of its own."""
    shown = "[...branches.board.cards.values()].filter((card) => card.isVisible)"
    wait_for(
        lambda: pane.tell(f"return {shown}.filter((card) => card.state === 'running').length > 7"), "running cards"
    )


def test_sixty_four_branches_cost_one_write_per_visible_card_and_frame(pane: Pane) -> None:
    cdp = pane.page.context.new_cdp_session(pane.page)
    cdp.send("Performance.enable")
    pane.tell("window.streamed = desk.stream(64, { tokens: 2000, perSecond: 400 });")
    wait_until_running(pane)
    pane.tell(COUNT_WRITES)
    pane.page.evaluate("window.streamed")
    seen = pane.tell("return seen")
    assert seen["writes"] > 16
    assert seen["most"] == 1
    assert seen["hidden"] == 0
    for index in range(64):
        pane.tell("desk.stopBranch(given)", index)
    wait_for(
        lambda: pane.tell("return [...branches.board.cards.values()].every((card) => !card.isBehind)"), "whole texts"
    )
    assert pane.tell("return document.querySelectorAll('*').length") < 5000
    cdp.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]}
    assert metrics["JSHeapUsedSize"] < 60e6


def test_fifty_events_a_second_of_sixty_four_branches_are_written_once_a_frame(pane: Pane) -> None:
    pane.tell("desk.setSetting('logprobs', true); window.streamed = desk.stream(64, { tokens: 150, perSecond: 50 });")
    wait_until_running(pane)
    pane.tell(COUNT_WRITES)
    pane.page.evaluate("window.streamed")
    seen = pane.tell("return seen")
    assert seen["writes"] > 16
    assert (seen["most"], seen["hidden"]) == (1, 0)


def test_the_first_word_is_on_its_card_in_the_first_frame_after_it_came(pane: Pane) -> None:
    pane.tell("desk.begin(2)")
    texts = pane.page.evaluate("""async () => {
      desk.write([" one", " two"]);
      await new Promise(requestAnimationFrame); // after the callbacks that were there before
      return [...document.querySelectorAll("article.card .text")].map((each) => each.textContent);
    }""")
    assert texts == ["one", "two"]


def test_a_card_that_is_scrolled_to_shows_all_that_came_meanwhile(pane: Pane) -> None:
    pane.begin(count=40)
    pane.write(*[f" text {number}." for number in range(1, 41)])
    expect(pane.text(1)).to_have_text("text 1.")
    assert pane.text(40).text_content() == ""
    pane.tell("document.querySelector('.cards').scrollTop = 1e6")
    expect(pane.text(40)).to_have_text("text 40.")
    expect(pane.card(40)).to_have_attribute("data-state", "running")
