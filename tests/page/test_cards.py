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
    expect(pane.page.locator(".counts")).to_have_text("three are being written")


SHOWN_BEFORE = """() => [...document.querySelectorAll("srb-branches .cards .text")].map((text) => {
  const [block] = text.children;
  const { content } = getComputedStyle(block, "::before");
  return [content === "none" ? "" : JSON.parse(content), block.textContent];
})"""


@pytest.mark.parametrize(
    ("text", "cards", "halves"),
    [
        ("It was a thoro", ("ugh search", " and", ". He", "ly"), ["thoro", "", "", "thoro"]),
        ("She doesn’t kn", ("ow", "\nOn", "*it*", "1"), ["kn", "", "", "kn"]),
        ("She slept.", ("ugh", " He"), ["", ""]),
        ("夜の海", ("辺", " He"), ["", ""]),
    ],
)
def test_a_card_shows_before_its_letters_the_half_word_that_they_go_on(
    pane: Pane, text: str, cards: tuple[str, ...], halves: list[str]
) -> None:
    pane.tell("desk.story.before = given", text)
    pane.begin(*cards)
    for number, card in enumerate(cards, 1):
        expect(pane.text(number)).to_have_text(card.strip())
    shown = pane.page.evaluate(SHOWN_BEFORE)
    assert shown == [[half, card.lstrip()] for half, card in zip(halves, cards, strict=True)]


def test_the_next_round_shows_the_half_word_of_its_own(pane: Pane) -> None:
    pane.tell("desk.story.before = given", "It was a thoro")
    pane.begin("ugh search")
    pane.tell("desk.story.before = given", "It was a thorough search. He")
    pane.begin("rs was not")
    expect(pane.text(1)).to_have_text("rs was not")
    assert pane.page.evaluate(SHOWN_BEFORE) == [["He", "rs was not"]]


def test_a_card_that_ends_is_as_high_as_its_text_and_moves_no_other_but_those_below_it(pane: Pane) -> None:
    pane.begin(*TEXTS, " two gulls", " five", " six", " seven", " eight")
    before = boxes(pane)
    assert [digit for *_, digit in before] == list("12345678")
    line = pane.tell("return branches.board.line * (branches.board.reserve - 1)")  # what each gives back
    pane.tell("desk.stopBranch(2, 'eos'); desk.stopBranch(3, 'boundary'); desk.stopBranch(4, 'limit');")
    pane.tell("desk.events([{ event: 'error', index: 5, code: 'x', message: 'the engine was restarted' }])")
    expect(pane.page.locator(".counts")).to_have_text("four are still being written, one failed")
    ended = {2, 3, 4, 5}
    wanted = []
    for place, (x, y, width, height, digit) in enumerate(before):
        above = sum(each % 2 == place % 2 and each < place for each in ended)  # one line of two, each
        wanted.append(
            [x, pytest.approx(y - above * line), width, pytest.approx(height - line * (place in ended)), digit]
        )
    wait_for(lambda: boxes(pane) == wanted, "only what is below has moved")


@pytest.mark.parametrize("way", ["pointer", "focus"])
def test_no_end_moves_a_card_that_is_read(pane: Pane, way: str) -> None:
    pane.begin(*TEXTS, " two gulls", " five", " six")
    before = boxes(pane)
    if way == "pointer":
        pane.card(5).hover()
    else:
        pane.card(5).focus()
    columns = pane.tell("return branches.board.columns")
    for index in range(5):
        pane.tell("desk.stopBranch(given, 'limit')", index)
    pane.tell("desk.stopBranch(5, 'limit')")
    wait_for(lambda: boxes(pane)[5][3] < before[5][3], "the last one is as high as its text")
    assert [box[1] for box in boxes(pane)][4::columns] == [box[1] for box in before][4::columns]


def test_a_card_is_as_high_as_its_text_and_moves_only_those_below_it_in_its_column(pane: Pane) -> None:
    pane.begin(*TEXTS, " four", " five", " six", " seven", " eight")
    before = boxes(pane)
    pane.write(" and much more text" * 12)
    wait_for(lambda: boxes(pane)[0][3] > before[0][3], "the card grows")
    after = boxes(pane)
    columns = [[place for place in range(8) if before[place][0] == x] for x in sorted({box[0] for box in before})]
    assert columns == [[0, 2, 4, 6], [1, 3, 5, 7]]
    grown = after[0][3] - before[0][3]
    for place in range(1, 8):
        moved = grown if place in columns[0] else 0
        x, y, width, height, digit = before[place]
        assert after[place] == [x, pytest.approx(y + moved), width, height, digit]
    assert boxes(pane)[1][3] < boxes(pane)[0][3]  # a short text has no box around nothing


def test_a_line_stands_above_each_card_and_its_focus_moves_no_text(pane: Pane) -> None:
    pane.begin(*TEXTS)
    line = "(card) => Number.parseFloat(getComputedStyle(card).borderTopWidth)"
    assert [pane.card(number).evaluate(line) for number in (1, 2, 3)] == [1, 1, 1]
    before = pane.text(1).bounding_box()
    pane.card(1).focus()
    pane.press("ArrowRight", "ArrowLeft")  # as with a keyboard
    assert pane.card(1).evaluate(line) == 2
    assert pane.text(1).bounding_box() == before


EDGES = """() => {
  const box = (each) => each.getBoundingClientRect();
  const words = document.createRange();
  words.selectNodeContents(document.querySelector(".counts"));
  const cards = [...document.querySelectorAll(".card")].map(box);
  const last = [...document.querySelectorAll(".branches-head button")].at(-1);
  const end = box(last).right - Number.parseFloat(getComputedStyle(last).paddingRight);
  return [box(words).left - Math.min(...cards.map(({ left }) => left)), end - Math.max(...cards.map(({ right }) => right))];
}"""


def test_the_words_above_the_cards_begin_and_end_where_these_do(pane: Pane) -> None:
    for width in (1440, 1920, 800):
        pane.page.set_viewport_size({"width": width, "height": 900})
        pane.begin(*TEXTS, " four")
        expect(pane.page.locator(".counts")).not_to_be_empty()
        left, right = pane.page.evaluate(EDGES)
        assert (abs(left) < 1.5, abs(right) < 1.5) == (True, True), f"at {width} px"  # the button's own border


def test_what_a_card_offers_begins_where_its_text_does(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("desk.stopBranch(0, 'eos')")
    left = """(each) => {
      const words = document.createRange();
      words.selectNodeContents(each);
      return words.getBoundingClientRect().left;
    }"""
    offer = pane.card(1).get_by_role("button", name="Go on anyway")
    assert abs(offer.evaluate(left) - pane.text(1).evaluate(left)) < 1


def test_a_first_round_reserves_what_its_length_lets_expect_and_is_in_view(pane: Pane) -> None:
    heights = []
    for stop_at in ("paragraph", "word"):
        pane.tell("branches.board.last = []; desk.setSetting('stop_at', given)", stop_at)
        pane.begin(count=8)
        wait_for(lambda: len({box[3] for box in boxes(pane)}) == 1 and len(boxes(pane)) == 8, "eight cards are placed")
        *_, (_, top, _, height, _) = boxes(pane)
        assert top + height <= 900
        heights.append(height)
        is_least = "return branches.board.reserve === 2"
        wait_for(lambda: pane.tell(is_least) is (stop_at == "word"), "a word needs little room")  # noqa: B023
    wait_for(lambda: {box[3] < heights[0] for box in boxes(pane)} == {True}, "words take less room")


def test_the_next_round_reserves_the_lines_that_the_last_one_needed(pane: Pane) -> None:
    pane.tell("desk.setSetting('stop_at', 'word')")  # a first round of two lines
    pane.begin(*[" and much more text" * 12] * 4)
    wait_for(lambda: len({box[3] for box in boxes(pane)}) == 1 and boxes(pane)[0][3] > 150, "long texts")
    long = boxes(pane)[0][3]
    pane.begin(" a", " b", " c", " d")
    expect(pane.text(1)).to_have_text("a")
    assert [box[3] for box in boxes(pane)] == [long] * 4


def test_a_card_gives_back_all_that_the_last_round_made_it_reserve_when_it_ends(pane: Pane) -> None:
    pane.tell("desk.setSetting('stop_at', 'word')")  # a first round of two lines
    pane.begin(*[" and much more text" * 12] * 4)
    wait_for(lambda: len({box[3] for box in boxes(pane)}) == 1 and boxes(pane)[0][3] > 150, "long texts")
    long = boxes(pane)[0][3]
    pane.begin(" a", " b")
    pane.tell("desk.stopBranch(0, 'eos')")
    wait_for(lambda: boxes(pane)[0][3] < long / 2, "as high as its text")
    assert boxes(pane)[1][3] == long  # it is still being written
    pane.tell("desk.stopBranch(1, 'eos')")
    wait_for(lambda: boxes(pane)[1][3] == boxes(pane)[0][3], "both as high as their texts")


def test_what_is_set_aside_is_folded_away_and_comes_back_with_undo(pane: Pane) -> None:
    pane.begin(*[" and much more text" * 12] * 2)
    pane.tell("desk.stopBranch(0, 'eos')")
    wait_for(lambda: boxes(pane)[0][3] > 150, "a long text")
    expect(pane.card(1).locator(".end")).not_to_be_empty()  # it takes a line too
    whole = boxes(pane)[0][3]
    pane.tell("desk.prune(0)")
    wait_for(lambda: boxes(pane)[0][3] < whole / 2, "one line of it")
    expect(pane.card(1).locator(".end")).to_have_text("set aside")
    pane.card(1).focus()  # so that its buttons are shown
    expect(pane.card(1).get_by_role("button", name="Read")).to_be_visible()
    expect(pane.card(1).get_by_role("button", name="Go on")).to_have_count(0)
    expect(pane.card(1).get_by_role("button", name="Set aside")).to_have_count(0)
    pane.tell("desk.round.unprune(0); desk.tell('round')")
    wait_for(lambda: boxes(pane)[0][3] == whole, "the whole text again")


def test_eight_cards_are_in_view_at_once(pane: Pane) -> None:
    pane.begin(count=8)
    for x, y, width, height, _ in boxes(pane):
        assert x >= 0
        assert y >= 0
        assert x + width <= 1440
        assert y + height <= 900
        assert height > 80  # two lines


def test_columns_follow_the_number_of_cards_and_leave_few_holes(page: Page) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    pane = Pane(page)
    for count, columns in ((1, 1), (2, 2), (4, 2), (6, 3), (8, 2), (9, 3)):
        pane.begin(count=count)
        wait_for(lambda count=count: len(boxes(pane)) == count, "the cards")  # type: ignore[misc]
        assert len({box[0] for box in boxes(pane)}) == columns, f"{count} cards"


ENDS: list[tuple[dict[str, Any], str]] = [
    ({"reason": "eos"}, "would end the text here"),
    ({"reason": "word", "stopping_word": "."}, "stop word “.”"),
    ({"reason": "boundary"}, "the sentence is complete"),
    ({"reason": "limit"}, "at its full length"),
    ({"reason": "limit", "truncated": True}, "context is full"),
    ({"reason": "cancelled"}, "Stopped"),
]


def test_each_end_is_told_in_words(pane: Pane) -> None:
    for event, description in ENDS:
        pane.begin(*TEXTS)
        expect(pane.card(1)).to_have_accessible_description(re.compile("^Being written"))
        pane.tell("desk.stopBranch(0, given.reason, given)", event)
        expect(pane.card(1)).to_have_accessible_description(re.compile(re.escape(description)))
        expect(pane.card(1)).to_have_attribute("aria-busy", "false")


CUT = """() => [...document.querySelectorAll(".card .end")]
  .filter((end) => {
    const { bottom, top } = end.closest(".foot").getBoundingClientRect();
    const box = end.getBoundingClientRect();
    const isIn = box.top >= top - 1 && box.bottom <= bottom + 1;
    return !isIn || end.scrollHeight > end.clientHeight + 1 || end.scrollWidth > end.clientWidth + 1;
  })
  .map(({ textContent }) => textContent)"""


@pytest.mark.parametrize("width", [1000, 720, 390])
def test_an_end_is_said_whole_on_the_narrowest_cards(pane: Pane, width: int) -> None:
    pane.page.set_viewport_size({"width": width, "height": 900})
    pane.tell("desk.setSetting('likelihood', true)")
    for reason in ("eos", "lost", "engine_restarted", "truncated"):
        pane.begin(*[" the same"] * 3)
        for index in range(3):  # with all that can stand beside it
            pane.tell("desk.stopBranch(given[0], given[1], { logprob: -1 - given[0] })", [index, reason])
            pane.tell("desk.setNodeMark(desk.round.slots[given].node, 'star', true)", index)
        expect(pane.card(3).locator(".bar")).to_have_attribute("data-step", "5")
        expect(pane.card(1).locator(".same")).to_have_text("×3")
        expect(pane.card(1).locator(".marks")).to_have_text("★")
        assert pane.page.evaluate(CUT) == [], reason


def test_a_failure_is_told_in_words(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("desk.events([{ event: 'error', index: 1, code: 'x', message: 'no memory' }])")
    expect(pane.card(2)).to_have_accessible_description(re.compile("Failed: no memory"))
    pane.tell("desk.round.lost('r1', 'the server is gone'); desk.tell('round')")
    expect(pane.card(1)).to_have_accessible_description(re.compile("connection was lost"))


def test_a_refilled_card_shows_the_new_branch_alone(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("desk.prune(1)")
    pane.card(2).get_by_role("button", name="Try another here").click()
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
    pane.page.get_by_role("button", name="Sort").click()
    pane.page.get_by_role("button", name="Group the same").click()
    expect(pane.page.locator(".card:visible")).to_have_count(1)
    pane.card(1).get_by_role("button", name="Show 3 equal").click()
    expect(pane.text(3)).to_be_visible()
    expect(pane.page.locator(".card:visible")).to_have_count(4)


def test_what_is_grouped_takes_no_place_no_digit_and_no_focus(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell("for (const index of [0, 1, 2]) desk.stopBranch(index, 'limit');")
    pane.card(1).focus()
    pane.tell("desk.round.group([[1, 0], [2]]); desk.tell('round')")
    expect(pane.page.locator(".card:visible")).to_have_count(2)
    expect(pane.card(1)).to_be_focused()
    expect(pane.text(1)).to_have_text(TEXTS[1].strip())
    pane.press("ArrowRight", "ArrowRight")
    expect(pane.card(2)).to_be_focused()
    pane.press("3")
    assert pane.calls("take") == []
    pane.card(1).get_by_role("button", name="Show 1 more").click()
    expect(pane.page.locator(".card:visible")).to_have_count(3)
    expect(pane.text(1)).to_have_text(TEXTS[0].strip())


def sort(pane: Pane, by: str = "Likeliest first") -> None:
    """Choose an order in the menu of the cards' head."""
    pane.page.get_by_role("button", name="Sort").click()
    pane.page.get_by_role("button", name=by).click()
    expect(pane.page.get_by_role("button", name=by)).to_be_hidden()


def test_only_sorting_deals_the_digits_anew(pane: Pane) -> None:
    pane.begin(*TEXTS)
    sort(pane)
    assert "No branch has told its likelihood yet" in pane.calls("notice")[0][0]
    for index, logprob in enumerate([-3, -2, -1]):
        pane.tell("desk.stopBranch(given[0], 'eos', { logprob: given[1] })", [index, logprob])
    expect(pane.text(1)).to_have_text(TEXTS[0].strip())
    sort(pane)
    expect(pane.text(1)).to_have_text(TEXTS[2].strip())
    expect(pane.text(3)).to_have_text(TEXTS[0].strip())
    sort(pane, "As written")
    assert pane.calls("unsort") == [[]]


def test_a_card_whose_likelihood_is_not_known_has_no_bar(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.tell(
        "desk.stopBranch(0, 'eos'); for (const index of [1, 2]) desk.stopBranch(index, 'eos', { logprob: -index });"
    )
    sort(pane)
    assert pane.tell("return desk.settings.likelihood") is True
    expect(pane.card(3)).not_to_have_accessible_description(re.compile("Beside the others"))
    steps = [pane.card(number).locator(".bar").get_attribute("data-step") for number in (1, 2, 3)]
    assert steps == ["1", "5", None]


def test_the_bars_that_sorting_brings_are_switched_off_beside_it(pane: Pane) -> None:
    switch = pane.page.get_by_role("button", name="Likelihood")
    pane.begin(*TEXTS)
    pane.card(1).focus()
    expect(pane.page.get_by_role("button", name="Sort")).to_be_visible()
    expect(switch).to_have_count(0)
    pane.press("o")
    pane.page.get_by_role("button", name="Sort").click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    ends = [{"event": "stop", "index": n, "length": 9, "reason": "limit", "logprob": -1 - n} for n in range(3)]
    pane.tell("desk.events(given)", ends)
    bars = pane.page.locator(".card .bar[data-step]")
    expect(bars).to_have_count(3)
    expect(bars.first).to_have_attribute("title", re.compile("^Beside the others"))
    assert "gradient" in bars.first.evaluate("(bar) => getComputedStyle(bar).backgroundImage")
    switch.click()
    expect(bars).to_have_count(0)
    assert pane.tell("return desk.settings.likelihood") is False
    pane.page.get_by_role("button", name="Sort").click()
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(bars).to_have_count(3)


RINGS = """() => {
  const cut = [];
  const outer = (box, by) => ({ left: box.left - by, top: box.top - by, right: box.right + by, bottom: box.bottom + by });
  for (const each of document.querySelectorAll(".card, .card button")) {
    each.focus();
    if (document.activeElement !== each) continue;
    const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(each);
    const ring = outlineStyle === "none" ? 0 : Number.parseFloat(outlineWidth) + Number.parseFloat(outlineOffset);
    const own = outer(each.getBoundingClientRect(), ring);
    const place = each.closest(".card-place").getBoundingClientRect(); // it cuts what is outside of it
    const fits = own.left >= place.left && own.top >= place.top && own.right <= place.right && own.bottom <= place.bottom;
    if (!fits) cut.push(`${each.className} ${each.dataset.act ?? ""} ${JSON.stringify({ own, place })}`);
  }
  return cut;
}"""


def test_no_focus_ring_of_a_card_or_its_buttons_is_cut(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.card(1).focus()
    pane.press("ArrowRight")
    assert pane.page.evaluate(RINGS) == []


def test_one_card_at_most_shows_its_actions(pane: Pane) -> None:
    shown = """() => [...document.querySelectorAll(".card .actions")]
      .map((each, place) => (each.checkVisibility() ? place + 1 : 0)).filter(Boolean)"""
    pane.begin(*TEXTS)
    pane.card(1).focus()
    pane.page.mouse.move(0, 0)
    assert pane.page.evaluate(shown) == [1]
    pane.card(3).hover()
    assert pane.page.evaluate(shown) == [3]
    pane.page.mouse.move(0, 0)
    assert pane.page.evaluate(shown) == [1]


def test_a_card_offers_to_go_on_once_and_only_when_it_has_ended(pane: Pane) -> None:
    pane.begin(*TEXTS)
    pane.card(1).focus()
    expect(pane.card(1).get_by_role("button", name="Read")).to_be_visible()
    expect(pane.card(1).get_by_role("button", name="Go on")).to_have_count(0)
    pane.tell("desk.stopBranch(0, 'limit')")
    expect(pane.card(1).get_by_role("button", name="Go on")).to_have_count(1)


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
    assert pane.tell("return document.querySelectorAll('*').length") < 1000


def test_progress_of_a_long_prompt_is_shown_until_a_branch_runs(pane: Pane) -> None:
    pane.begin(count=2)
    pane.tell("desk.events([{ event: 'prompt', total: 2000, cache: 800, processed: 1400, time_ms: 300 }])")
    counts = pane.page.locator(".counts")
    expect(counts).to_contain_text("reading your text: 70 %")
    pane.write(" a")
    expect(counts).to_have_text("two are being written")


def wait_until_running(pane: Pane) -> None:
    """Wait until the cards in view show that their branches run; a change of state is a write of its own."""
    shown = "[...branches.board.cards.values()].filter((card) => card.isVisible)"
    wait_for(
        lambda: pane.tell(f"return {shown}.filter((card) => card.state === 'running').length > 7"), "running cards"
    )


def test_sixty_four_branches_cost_one_write_per_visible_card_and_frame(pane: Pane) -> None:
    cdp = pane.page.context.new_cdp_session(pane.page)
    cdp.send("Performance.enable")
    pane.tell("window.streamed = desk.stream(64, { tokens: 2000, perSecond: 200 });")
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


def marked(pane: Pane, tag: str) -> list[str]:
    return pane.text(1).locator(tag).all_text_contents()


def test_emphasis_is_shown_in_place_of_its_signs_and_no_text_is_markup(pane: Pane) -> None:
    text = " She said *never*, **always** and <b>may_be</b> \\*."
    pane.begin(text)
    assert (marked(pane, "em"), marked(pane, "strong"), marked(pane, "b")) == (["never"], ["always"], [])
    expect(pane.text(1)).to_have_text(text.strip())  # in the document are all of its signs, so that offsets stay
    assert pane.text(1).inner_text() == "She said never, always and <b>may_be</b> *."


@pytest.mark.parametrize("size", [1, 2, 7])
def test_emphasis_comes_as_the_text_grows(pane: Pane, size: int) -> None:
    text = " One ***two* three** four\nfi_ve_s _six_\n* * *\n*seven and **eight*"
    pane.begin(" On")
    for at in range(3, len(text), size):
        pane.write(text[at : at + size])
        wait_for(lambda at=at: pane.text(1).text_content() == text[1 : at + size], "the words are drawn")
    assert marked(pane, "em") == ["two", "six", "eight"]  # by the rules of CommonMark
    assert marked(pane, "strong") == ["two", " three"]


def test_a_word_of_emphasis_is_marked_where_it_stands(pane: Pane) -> None:
    text = " She *never* said **always** so"
    pane.begin(text)
    pane.tell("desk.settings.logprobs = true")
    pane.page.mouse.click(*pane.word(1, "always"))
    wait_for(lambda: pane.calls("setMark") != [] or pane.tell("return desk.round.slots[0].mark") is not None, "a mark")
    assert pane.tell("return desk.round.slots[0].mark") == text.index("always") + len("always")
    wait_for(lambda: pane.highlighted("srb-kept") == [text[1 : text.index("always") + 6]], "the kept part is painted")
    pane.write(" and *ever*")
    wait_for(lambda: "ever" in marked(pane, "em"), "the emphasis is drawn")
    wait_for(lambda: pane.highlighted("srb-kept") == [text[1 : text.index("always") + 6]], "also after nodes came anew")


def begin_rewrite(pane: Pane, passage: str, text: str) -> None:
    pane.tell("desk.begin(1, { passage: given })", passage)
    pane.write(text)
    expect(pane.text(1)).not_to_be_empty()
    pane.tell("desk.stopBranch(0, 'limit')")


def test_a_rewrite_shows_the_words_that_were_taken_away_and_those_that_are_new(pane: Pane) -> None:
    begin_rewrite(pane, "He <i>slowly</i> walked down the *long* road.", " He ran down the *short* road. Away.")
    removed = pane.text(1).locator("del")
    expect(removed).to_have_text(["<i>slowly</i>", "walked", "long"])
    assert marked(pane, "i") == []
    wait_for(lambda: pane.highlighted("srb-new") == ["ran", "short", ". Away"], "new words are painted")
    pane.page.mouse.click(*pane.word(1, "down"))
    wait_for(lambda: pane.tell("return desk.round.slots[0].mark") == len(" He ran down"), "offsets are the text's own")


def test_a_rewrite_that_shares_little_is_shown_as_it_is(pane: Pane) -> None:
    passage = "The dog, the cat and the owl slept in the barn all night."
    little = " The sea, the sky, the sun: all night Mara walked, and the owl was gone."
    pane.tell("desk.begin(2, { passage: given })", passage)
    pane.write(little, " The dog, the cat and the owl slept in the hay all night.")
    pane.tell("desk.stopBranch(0, 'limit'); desk.stopBranch(1, 'limit')")
    wait_for(lambda: pane.highlighted("srb-new") == ["hay"], "of one that shares much the new words are painted")
    expect(pane.text(1)).to_have_text(little.strip())
    expect(pane.text(2).locator("del")).to_have_text("barn")


def test_words_that_were_taken_away_at_the_end_and_over_lines_are_shown(pane: Pane) -> None:
    begin_rewrite(pane, "One day.\nIt rained. Nobody came at all.", "One day.\nIt rained.")
    expect(pane.text(1).locator("del")).to_have_text(" Nobody came at all.")
    expect(pane.text(1).locator("p").last).to_have_text(re.compile("It rained. Nobody"))
