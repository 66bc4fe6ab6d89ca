"""The branches' pane: keys, clicks and taps do what they say, with and without a mouse, and only where they should."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import PHONE, in_each_look, violations
from tests.page.cards import TEXTS, Pane
from tests.page.conftest import MakePage
from tests.processes import wait_for

pytestmark = pytest.mark.e2e

RIVALS = [{"text": f" rival{i}", "logprob": -i, "probability": 0.5 / (i + 1)} for i in range(12)]


@pytest.fixture
def pane(page: Page) -> Pane:
    """A pane with three running branches; the first card has the focus."""
    pane = Pane(page)
    pane.begin(*TEXTS)
    pane.tell("branches.focus()")
    return pane


# ---- Keys


def test_a_digit_takes_its_card_and_goes_on_and_with_shift_only_takes(pane: Pane) -> None:
    pane.press("2", "Shift+3")
    assert pane.calls("take") == [
        [1, {"at": None, "go": True}, TEXTS[1]],
        [2, {"at": None, "go": False}, TEXTS[2]],
    ]


def test_digits_and_letters_in_the_manuscript_are_text(pane: Pane) -> None:
    pane.page.locator("#manuscript").focus()
    pane.press("End", "3", "x", "p", ".")
    assert pane.page.locator("#manuscript").input_value().endswith(",3xp.")
    assert pane.tell("return desk.calls") == []


def test_single_keys_can_be_switched_off(pane: Pane) -> None:
    pane.tell("desk.setSetting('single_keys', false)")
    pane.press("1", "x", "e", "Shift+2")
    assert pane.tell("return desk.calls") == []
    pane.press("Enter")
    assert len(pane.calls("take")) == 1


def test_keys_of_the_browser_are_left_alone(pane: Pane) -> None:
    pane.press("Alt+1", "Control+2", "Control+x", "q", "Tab")
    assert pane.tell("return desk.calls") == []


def test_arrows_move_between_cards_and_letters_act_on_the_focused_one(pane: Pane) -> None:
    pane.press("ArrowRight")
    expect(pane.card(2)).to_be_focused()
    pane.press("e", "v", "x")
    assert (pane.calls("extend"), pane.calls("vary"), pane.calls("prune")) == ([[1]], [[1, None]], [[1]])
    pane.press("ArrowLeft", "ArrowDown")
    expect(pane.card(3)).to_be_focused()
    pane.press("r", "g")
    assert (pane.calls("refill"), pane.calls("more")) == ([[[1]]], [[8]])
    pane.press("Home")
    expect(pane.card(1)).to_be_focused()


def test_a_card_can_be_starred_and_noted_by_keys(pane: Pane) -> None:
    pane.press("b", "n")
    pane.page.get_by_role("textbox", name="Note on this branch").fill("the calm one")
    pane.page.get_by_role("button", name="Keep").click()
    expect(pane.card(1)).to_have_accessible_description(re.compile(r"Has a star\. Note: the calm one"))
    expect(pane.card(1)).to_be_focused()
    pane.press("b")
    expect(pane.card(1)).not_to_have_accessible_description(re.compile("star"))


def test_the_mark_moves_by_word_and_sentence_and_enter_takes_up_to_it(pane: Pane) -> None:
    pane.press("Control+ArrowRight", "Control+ArrowRight")
    wait_for(lambda: pane.highlighted("srb-kept") == ["one little"], "two words")
    pane.press(".")
    wait_for(lambda: pane.highlighted("srb-kept") == ["one little lamp."], "a sentence")
    pane.press("Control+ArrowLeft")
    wait_for(lambda: pane.highlighted("srb-kept") == ["one little lamp"], "a word less")
    expect(pane.card(1)).to_have_accessible_description(re.compile("Marked up to “one little lamp”"))
    pane.press("v", "Enter")
    assert pane.calls("vary") == [[0, 16]]
    assert pane.calls("take") == [[0, {"at": 16, "go": True}, " one little lamp"]]
    pane.press("Backspace")
    wait_for(lambda: pane.highlighted("srb-kept") == [], "no mark")


def test_shift_marks_where_what_is_taken_begins_by_word_or_by_click(pane: Pane) -> None:
    pane.press("Shift+ArrowRight")
    wait_for(lambda: pane.highlighted("srb-kept") == ["little lamp. It burned"], "one word later")
    pane.press("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft", "Control+ArrowRight")
    expect(pane.card(1)).to_have_accessible_description(re.compile("Marked up to “one”"))
    page = pane.page
    page.mouse.click(*pane.word(1, "lamp"))
    page.keyboard.down("Shift")
    page.mouse.click(*pane.word(1, "little"))
    page.keyboard.up("Shift")
    wait_for(lambda: pane.highlighted("srb-kept") == ["little lamp"], "from click to click")
    expect(pane.card(1)).to_have_accessible_description(re.compile("Marked from “little lamp. It burned”"))
    pane.press("Enter", "s")
    assert pane.calls("take") == [[0, {"at": 16, "go": True}, "little lamp"]]
    assert pane.calls("put") == [[0, "little lamp"]]
    pane.press("Backspace")
    wait_for(lambda: pane.highlighted("srb-kept") == [], "no mark")


def test_the_mark_stays_while_the_branch_grows(pane: Pane) -> None:
    pane.press("Control+ArrowRight")
    pane.write(" and more")
    expect(pane.text(1)).to_have_text(re.compile("and more$"))
    pane.press("Enter")
    assert pane.calls("take")[0][2] == " one"


def test_with_more_than_ten_cards_page_down_moves_the_window_of_digits(pane: Pane) -> None:
    pane.begin(count=24)
    pane.write(*[f" t{number}" for number in range(1, 25)])
    expect(pane.text(1)).to_have_text("t1")
    pane.tell("branches.focus()")
    pane.press("0", "PageDown", "1", "0", "PageDown", "4", "PageUp", "PageUp", "2")
    assert [call[0] for call in pane.calls("take")] == [9, 10, 19, 23, 1]
    pane.press("5")
    expect(pane.card(1).locator(".digit")).to_have_text("1")
    expect(pane.card(11).locator(".digit")).to_have_class(re.compile("idle"))


def shown_in_text(pane: Pane) -> object:
    return pane.tell("return desk.ghost && desk.ghost.number")


def test_space_shows_a_card_in_the_text_until_it_is_pressed_again_and_arrows_go_to_the_next(pane: Pane) -> None:
    pane.press("Space")
    assert shown_in_text(pane) == 0
    pane.press("ArrowRight")
    expect(pane.card(2)).to_be_focused()
    assert shown_in_text(pane) == 1
    pane.press("ArrowLeft", "ArrowLeft")
    assert shown_in_text(pane) == len(TEXTS) - 1
    pane.press("Space")
    assert shown_in_text(pane) is None
    pane.press("Space", "Enter")
    assert pane.calls("take")[0][0] == len(TEXTS) - 1


def test_space_that_is_held_shows_a_card_for_as_long(pane: Pane) -> None:
    pane.page.keyboard.down("Space")
    assert shown_in_text(pane) == 0
    wait_for(lambda: pane.tell("return performance.now() - branches.pressedAt > 400"), "the key is held")
    pane.page.keyboard.up("Space")
    assert shown_in_text(pane) is None


def test_a_card_that_is_pointed_at_is_shown_in_the_text_after_a_beat(pane: Pane) -> None:
    pane.tell("desk.setSetting('shows_pointed', true)")
    pane.card(2).hover()
    wait_for(lambda: shown_in_text(pane) == 1, "the card is shown")
    assert pane.tell("return desk.ghost.moves") is False
    pane.page.mouse.move(0, 0)
    wait_for(lambda: shown_in_text(pane) is None, "the card is not shown any more")


def test_alternatives_are_chosen_by_keys_at_the_mark(pane: Pane) -> None:
    pane.tell("desk.rivals = given", RIVALS)
    pane.press("Control+ArrowRight", "Control+ArrowRight", "t")
    dialog = pane.page.locator("srb-alternatives dialog")
    expect(dialog.get_by_role("button")).to_have_count(13)
    expect(dialog).to_contain_text("In place of “little”")
    expect(dialog.get_by_role("listitem").first).to_contain_text("50 %")
    assert pane.calls("alternatives") == [[0, 4]]
    pane.press("ArrowDown", "Enter")
    expect(dialog).to_be_hidden()
    assert pane.calls("choose") == [[0, 4, " rival1"]]
    expect(pane.card(1)).to_be_focused()
    pane.press("t")
    expect(dialog.get_by_role("button")).to_have_count(13)
    pane.press("Escape")
    expect(dialog).to_be_hidden()
    assert len(pane.calls("choose")) == 1


def test_alternatives_that_are_asked_for_again_at_once_are_shown(pane: Pane) -> None:
    pane.tell("desk.rivals = given", RIVALS)
    pane.press("t")
    buttons = pane.page.locator("srb-alternatives dialog").get_by_role("button")
    expect(buttons).to_have_count(13)
    pane.page.evaluate("""async () => {
      const part = document.querySelector("srb-alternatives");
      part.close();
      await part.open(part.asked);
    }""")
    expect(buttons).to_have_count(13)


SENTENCE = """() => {
  const pane = document.querySelector("srb-branches");
  const { content } = pane.board.currentCard;
  const { left, top, right, bottom } = content.box(0, content.written);
  const list = document.querySelector("srb-alternatives dialog").getBoundingClientRect();
  return list.right <= left || list.left >= right || list.bottom <= top || list.top >= bottom;
}"""


@pytest.mark.parametrize("height", [900, 560])
@pytest.mark.parametrize("card", [1, 8])
def test_alternatives_never_lie_over_their_sentence(make_page: MakePage, height: int, card: int) -> None:
    pane = Pane(make_page(viewport={"width": 1000, "height": height}))
    pane.begin(*[f" one little lamp of {each} which burned for as long as anybody looked at it" for each in range(8)])
    pane.tell("desk.rivals = given", RIVALS)
    pane.tell("branches.board.setCurrent(given, { focus: true, scroll: true })", card - 1)
    expect(pane.text(card)).to_contain_text("looked at it")  # a card is drawn when it has come into view
    pane.press("t")
    expect(pane.page.locator("srb-alternatives dialog").get_by_role("button")).to_have_count(13)
    assert pane.page.evaluate(SENTENCE)


def test_one_row_of_alternatives_is_highlighted_the_one_that_enter_takes(pane: Pane) -> None:
    pane.tell("desk.rivals = given", RIVALS)
    pane.press("t")
    rows = pane.page.locator("srb-alternatives li button")
    expect(rows.first).to_be_focused()
    rows.nth(3).hover()
    expect(rows.nth(3)).to_be_focused()
    pane.press("ArrowDown")  # and the pointer stays
    marked = rows.evaluate_all(
        """(rows) => rows.map((row) => getComputedStyle(row)).map(({ outlineStyle, borderTopColor }) =>
             outlineStyle !== "none" || !["transparent", "rgba(0, 0, 0, 0)"].includes(borderTopColor))"""
    )
    assert [place for place, is_marked in enumerate(marked) if is_marked] == [4]
    pane.press("Enter")
    assert [call[2] for call in pane.calls("choose")] == [RIVALS[4]["text"]]


def test_alternatives_that_differ_by_a_space_alone_can_be_told_apart(pane: Pane) -> None:
    texts = [".", ". ", " lamp", "lamp", " boat", "\n\n"]
    pane.tell("desk.rivals = given", [{"text": text, "logprob": -1, "probability": 0.1} for text in texts])
    pane.press("t")
    rows = pane.page.locator("srb-alternatives .rival")
    expect(rows).to_have_text([".", ".␣", "␣lamp", "lamp", "boat", "↵↵"])


def test_alternatives_that_cannot_be_asked_for_say_why(pane: Pane) -> None:
    pane.tell("desk.alternatives = async () => { throw new Error('the engine is restarting'); }")
    pane.press("t")
    expect(pane.page.get_by_role("alert")).to_have_text("the engine is restarting")


def test_the_focus_stays_in_the_pane_when_the_next_round_begins(pane: Pane) -> None:
    pane.press("ArrowRight")
    pane.begin(" new", " newer")
    expect(pane.card(1)).to_be_focused()
    pane.press("2")
    assert pane.calls("take")[-1][2] == " newer"


def test_cards_that_were_asked_for_are_scrolled_to_and_the_focus_stays(pane: Pane) -> None:
    pane.press("g")
    pane.tell("desk.events([3, 4, 5, 6, 7, 8, 9, 10].map((index) => ({ event: 'branch', index, seed: 1 })))")
    expect(pane.card(4)).to_be_in_viewport()
    expect(pane.card(1)).to_be_focused()


def test_one_card_is_a_stop_of_the_tab_key_with_its_buttons(pane: Pane) -> None:
    pane.press("Tab")
    expect(pane.card(1).get_by_role("button", name="Take")).to_be_focused()
    pane.press("Enter")
    assert pane.calls("take")[0][0] == 0
    assert pane.page.locator(".cards [tabindex='0']").count() == 1 + pane.card(1).locator("button").count()


# ---- Mouse


def test_a_click_on_a_word_of_a_running_card_marks_it_and_taking_ends_there(pane: Pane) -> None:
    pane.page.mouse.move(*pane.word(3, "two"))
    wait_for(lambda: pane.highlighted("srb-preview") == ["two"], "preview")
    pane.page.mouse.click(*pane.word(1, "lamp"))
    wait_for(lambda: pane.highlighted("srb-kept") == ["one little lamp"], "mark")
    assert pane.calls("take") == []
    pane.card(1).get_by_role("button", name="Take").click()
    assert pane.calls("take") == [[0, {"at": 16, "go": True}, " one little lamp"]]


def test_a_second_click_on_a_word_takes_its_mark_away(pane: Pane) -> None:
    pane.page.mouse.click(*pane.word(1, "lamp"))
    wait_for(lambda: pane.tell("return desk.round.slots[0].mark") is not None, "a mark")
    pane.page.mouse.click(*pane.word(2, "boat"))
    pane.page.mouse.click(*pane.word(1, "lamp"))
    wait_for(lambda: pane.tell("return desk.round.slots[0].mark") is None, "no mark")
    assert pane.tell("return desk.round.slots[1].mark") is not None
    assert pane.calls("take") == []


def test_a_double_click_on_a_word_takes_up_to_it(pane: Pane) -> None:
    pane.page.mouse.dblclick(*pane.word(1, "lamp"))
    pane.page.keyboard.down("Shift")
    pane.page.mouse.dblclick(*pane.word(2, "far"))
    pane.page.keyboard.up("Shift")
    assert [(call[1]["go"], call[2]) for call in pane.calls("take")] == [
        (True, " one little lamp"),
        (False, " one little boat, far"),
    ]


def test_a_click_beside_the_text_only_chooses_the_card(pane: Pane) -> None:
    box = pane.card(2).bounding_box()
    assert box
    pane.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.6)
    assert pane.tell("return desk.calls") == []
    expect(pane.card(2)).to_be_focused()


def test_text_can_be_selected_with_the_mouse_and_is_not_taken(pane: Pane) -> None:
    pane.page.mouse.move(*pane.word(1, "one"))
    pane.page.mouse.down()
    pane.page.mouse.move(*pane.word(1, "lamp"), steps=4)
    pane.page.mouse.up()
    assert "little" in pane.tell("return getSelection().toString()")
    assert pane.calls("take") == []
    assert pane.tell("return desk.round.slots[0].mark") is None


def test_copied_text_has_the_characters_of_the_branch(page: Page) -> None:
    pane = Pane(page)
    pane.begin(" red: \x1b[31m\nend")
    pane.text(1).locator("p").select_text()
    copied = pane.text(1).evaluate(
        """(text) => {
          const event = new ClipboardEvent("copy", { bubbles: true, cancelable: true, clipboardData: new DataTransfer() });
          text.dispatchEvent(event);
          return event.clipboardData.getData("text/plain");
        }"""
    )
    assert copied == "red: \x1b[31m\nend"


def test_every_gesture_has_a_button(pane: Pane) -> None:
    pane.card(1).get_by_role("button", name="More").click()
    menu = pane.page.locator("dialog.menu")
    for name in (
        "Take",
        "Read",
        "Go on",
        "Vary",
        "Set aside",
        "Other words",
        "Star",
        "Note",
        "Mark",
        "Sort",
        "Group",
        "Try others",
    ):
        expect(menu.get_by_role("button", name=name).first).to_be_visible()
    menu.get_by_role("button", name="Mark one word more").click()
    expect(menu).to_be_hidden()
    wait_for(lambda: pane.highlighted("srb-kept") == ["one"], "mark")
    pane.page.get_by_role("button", name="Stop").click()
    assert pane.calls("stop") == [[]]


def test_the_merged_tree_shows_a_shared_beginning_once(pane: Pane) -> None:
    pane.page.get_by_role("button", name="Tree").click()
    rows = pane.page.locator(".tree li .text")
    expect(rows).to_have_text(["one little", "lamp. It burned", "boat, far out", "two gulls"])
    pane.write("", "", " fly")
    expect(rows.last).to_have_text("two gulls fly")
    pane.page.get_by_role("button", name="Take branch 2").click()
    assert pane.calls("take")[0][2] == TEXTS[1]
    pane.page.get_by_role("button", name="Tree").click()
    expect(pane.card(1)).to_be_visible()


def differing(pane: Pane) -> list[str]:
    """The words that are marked."""
    words = """[...CSS.highlights.get("srb-differs")].map((range) => {
      const there = document.createRange();
      there.setStart(range.startContainer, range.startOffset);
      there.setEnd(range.endContainer, range.endOffset);
      return there.toString();
    })"""
    return sorted(pane.page.evaluate(words))


def test_cards_are_compared_side_by_side_in_their_pane_and_escape_leads_back(pane: Pane) -> None:
    page = pane.page
    pane.begin(" The lamp was *red* and old.", " The lamp was *blue* and old.", " Two gulls.")
    pane.press("c")
    beside = page.get_by_role("region", name="Side by side")
    expect(beside.locator(".text")).to_have_text(["The lamp was *red* and old.", "The lamp was *blue* and old."])
    expect(beside.locator(".text em").first).to_have_text("red")
    assert differing(pane) == ["blue", "red"]
    expect(page.locator(".cards")).to_be_hidden()
    pane.write("", " So.")
    expect(beside.locator(".text").nth(1)).to_have_text("The lamp was *blue* and old. So.")
    beside.get_by_role("button", name="One more beside them").click()
    expect(beside.locator(".text").nth(2)).to_have_text("Two gulls.")
    assert violations(page) == []
    beside.get_by_role("button", name="Take it away").first.click()
    expect(beside.locator(".text")).to_have_text(["The lamp was *blue* and old. So.", "Two gulls."])
    assert differing(pane) == [], "two texts that share nothing have no marks"
    beside.get_by_role("combobox", name="Text 2").select_option(index=0)
    expect(beside.locator(".text").nth(1)).to_have_text("The lamp was *red* and old.")
    pane.press("Escape")
    expect(beside).to_have_count(0)
    expect(pane.card(1)).to_be_focused()
    pane.press("c", "2")
    assert pane.calls("take")[0][0] == 1


# ---- Touch


def test_a_tap_on_a_word_marks_it_and_the_bar_takes_up_to_it(make_page: MakePage) -> None:
    pane = Pane(make_page(**PHONE))
    pane.begin(*TEXTS)
    pane.page.touchscreen.tap(*pane.word(1, "little"))
    pane.page.get_by_role("button", name="Take what is marked", exact=True).tap()
    pane.page.locator(".phone-bar").get_by_role("button", name="All that can be done").tap()
    pane.page.get_by_role("button", name="Take all of it").tap()
    assert [call[2] for call in pane.calls("take")] == [" one little", TEXTS[0]]


def test_on_a_phone_cards_are_a_list_and_the_bar_acts_on_the_one_that_was_tapped(make_page: MakePage) -> None:
    pane = Pane(make_page(**PHONE))
    pane.begin(*TEXTS)
    tops = [pane.card(number).bounding_box() for number in (1, 2, 3)]
    assert len({box["x"] for box in tops if box}) == 1
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    pane.card(3).tap(position={"x": 200, "y": 8})
    pane.page.locator(".phone-bar").get_by_role("button", name="Set aside").tap()
    assert pane.calls("prune") == [[2]]
    assert pane.tell("return document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_a_long_card_shows_its_beginning_and_a_tap_opens_it(make_page: MakePage) -> None:
    pane = Pane(make_page(**PHONE))
    pane.begin(" word" * 200, *TEXTS)
    expect(pane.card(1).locator("[data-more]")).to_be_attached()
    closed = pane.card(1).bounding_box()
    pane.page.touchscreen.tap(*pane.word(1, "word"))
    expect(pane.card(1).locator("[data-more]")).not_to_be_attached()
    opened = pane.card(1).bounding_box()
    assert closed
    assert opened
    assert opened["height"] > 2 * closed["height"]
    assert pane.tell("return desk.round.slots[0].mark") is None
    pane.page.touchscreen.tap(*pane.word(1, "word"))
    wait_for(lambda: pane.tell("return desk.round.slots[0].mark") == len(" word"), "a tap in an open card marks")


TAKE, PRUNE = ["take", 1, {"at": None, "go": True}, TEXTS[1]], ["prune", 1]


def test_a_swipe_takes_a_card_or_sets_it_aside(make_page: MakePage) -> None:
    """To the right and to the left, and too short to mean it."""
    pane = Pane(make_page(**PHONE))
    cdp = pane.page.context.new_cdp_session(pane.page)
    for way, calls in ((60, []), (-60, []), (150, [TAKE]), (-150, [PRUNE])):
        pane.begin(*TEXTS)
        pane.tell("desk.calls.length = 0")
        x, y = pane.word(2, "boat")
        touch = [("touchStart", 0), *(("touchMove", way * step / 5) for step in range(1, 6)), ("touchEnd", None)]
        for kind, moved in touch:
            points = [] if moved is None else [{"x": x + moved, "y": y}]
            cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        if calls:
            wait_for(lambda: pane.tell("return desk.calls.length") > 0, "the swipe acts")
        wait_for(lambda: pane.card(2).evaluate("(card) => card.style.translate") == "", "the card is back at its place")
        assert pane.tell("return desk.calls") == calls, f"{way} px"


def test_on_a_phone_every_button_is_large_enough_for_a_finger(make_page: MakePage) -> None:
    pane = Pane(make_page(**PHONE))
    small = """return [...document.querySelectorAll("button")].filter((each) => each.checkVisibility())
      .map((each) => [each.textContent.trim(), each.getBoundingClientRect()])
      .filter(([, { width, height }]) => width < 44 || height < 44).map(([name]) => name)"""
    assert pane.tell(small) == []
    pane.begin(*TEXTS)
    pane.tell("desk.stopBranch(0); branches.setMark")
    assert pane.tell(small) == []
    pane.page.locator(".phone-bar").get_by_role("button", name="All that can be done").tap()
    expect(pane.page.locator("dialog.menu")).to_be_visible()
    assert pane.tell(small) == []


# ---- Accessibility


SCENES = {
    "empty": "",
    "running": "desk.begin(3); desk.write(given); desk.setMark(0, 4);",
    "ended": """desk.begin(4); desk.write([...given, given[2]]); desk.stopBranch(0, 'eos');
      desk.stopBranch(2); desk.stopBranch(3); desk.prune(1); desk.fold(); desk.setSetting('logprobs', true);""",
    "tree": "desk.begin(3); desk.write(given); branches.isTree = true;",
    "menu": "desk.begin(3); desk.write(given); branches.run({ name: 'menu' });",
    "note": "desk.begin(3); desk.write(given); branches.run({ name: 'note' });",
    "alternatives": """desk.rivals = [{ text: ' a', logprob: -1, probability: 0.3 }]; desk.begin(3); desk.write(given);
      branches.run({ name: 'alternatives' });""",
}


@in_each_look
@pytest.mark.parametrize("scene", SCENES)
def test_axe_finds_no_violation(make_page: MakePage, scene: str, look: dict[str, Any]) -> None:
    pane = Pane(make_page(**look))
    pane.tell(SCENES[scene], TEXTS)
    if scene not in ("empty", "tree"):
        expect(pane.text(1)).not_to_be_empty()
    assert violations(pane.page) == []


def test_cards_are_articles_in_a_list_and_no_live_regions(pane: Pane) -> None:
    expect(pane.page.get_by_role("list", name="Cards").get_by_role("article")).to_have_count(3)
    assert pane.page.locator(".cards [aria-live], .cards [role=status], .cards [role=log]").count() == 0


def test_the_empty_pane_says_what_to_do(page: Page) -> None:
    pane = Pane(page)
    steps = page.locator(".first-steps")
    expect(steps.get_by_role("listitem")).to_have_count(3)
    expect(steps).to_contain_text("Ctrl+Enter: 8 continuations")
    expect(steps.locator(".openings").get_by_role("button")).to_have_count(3)
    expect(steps.locator(".buttons").get_by_role("button")).to_have_text(["Open a sample story", "All keys"])
    pane.tell("desk.go = () => desk.call('go'); desk.text = 'Once'; desk.tell('head')")
    steps.get_by_role("button", name="Go on from my text").click()
    assert pane.calls("go") == [[]]
    expect(steps.get_by_role("button", name="Open a sample story")).to_have_count(0)
