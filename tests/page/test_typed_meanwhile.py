"""Words that are typed while cards are shown or grow: a take keeps them, wherever they stand, or says where they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.needs import long
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

STORY = "It was a fox."
MORE = " It was red."


def seam(page: Page) -> Locator:
    return page.locator(".branches-head").filter(has_text="These go on from")


def notice(page: Page) -> Locator:
    return page.locator("srb-banner p")


def card_text(writer: Writer, number: int) -> str:
    text: str = writer.slots()[number - 1]["text"]
    return text.rstrip(" ")


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    """A writer whose cards are the same on every machine."""
    return writer.set(seed=11, max_tokens=8, n=4)


def test_a_typo_that_is_mended_while_cards_are_shown_stays_mended(fixed: Writer) -> None:
    fixed.write(START).go().wait_for_end()
    fixed.press("Control+Home", "Control+Delete").write("Twice")
    expect(seam(fixed.page)).to_have_count(0)
    fixed.to_cards().press("Shift+Digit2")
    fixed.expect_text(START.replace("Once", "Twice") + card_text(fixed, 2))
    fixed.press("Control+z").expect_text(START.replace("Once", "Twice"))


def test_words_typed_while_cards_grow_dim_them_and_stay_before_the_card_that_is_taken(writer: Writer) -> None:
    page = writer.set(n=4).write(STORY).go().write(MORE).page
    expect(seam(page)).to_contain_text(f"These go on from “{STORY}”")
    expect(page.locator(".cards[data-stale]")).to_be_visible()
    writer.press("Escape").wait_for_end().to_cards().press("Shift+Digit3")
    expect(notice(page)).to_contain_text(f"behind what you typed meanwhile: “{MORE.strip()}”")
    assert writer.text.startswith(STORY + MORE)
    assert card_text(writer, 3).strip() in writer.text
    writer.press("Control+z").expect_text(STORY + MORE)


def test_no_word_of_what_the_cards_go_on_from_is_cut(writer: Writer) -> None:
    page = writer.set(n=4).write("Nobody understood such extraordinary watchfulness.").go().write(MORE).page
    words = seam(page).locator("p")
    for width in (1440, 800, 390):
        page.set_viewport_size({"width": width, "height": 844})
        expect(words).to_contain_text("watchfulness.”")
        assert words.evaluate("(words) => words.scrollWidth <= words.clientWidth"), f"at {width} px"


def test_no_card_moves_when_a_person_types_behind_them(writer: Writer) -> None:
    page = writer.page
    top = "document.querySelector('srb-branches .cards').getBoundingClientRect().top"
    for width in (1920, 1440, 1280, 800):
        page.set_viewport_size({"width": width, "height": 900})
        writer.set(n=4).write("Nobody understood such extraordinary watchfulness.").go()
        before = page.evaluate(top)
        writer.write(MORE)
        expect(seam(page)).to_be_visible()
        assert page.evaluate(top) == before, f"at {width} px"
        writer.press("Escape").wait_for_end().page.evaluate("desk.newStory()")
        expect(seam(page)).to_have_count(0)


def test_typed_words_give_way_on_request_and_are_told_of_and_one_undo_has_them_again(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    page.get_by_role("button", name="in place of them").click()
    expect(page.get_by_role("button", name="in place of them")).to_have_attribute("aria-pressed", "true")
    fixed.press("Shift+Digit2").expect_text(STORY + card_text(fixed, 2))
    expect(notice(page)).to_contain_text(f"“{MORE.strip()}” is not in this text. The outline has it.")
    fixed.press("Control+z").expect_text(STORY + MORE)
    assert any(node["text"] == MORE for node in fixed.story()["nodes"].values())


def test_a_card_that_stands_behind_typed_words_is_put_in_their_place_by_a_button(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    card = card_text(fixed, 2)
    fixed.to_cards().press("2").wait("desk.text.length > argument", len(STORY + MORE))
    page.get_by_role("button", name="In place of it").click()
    fixed.expect_text(STORY + card)


def test_a_new_round_goes_on_from_the_typed_words(fixed: Writer) -> None:
    page = fixed.write(STORY).go().wait_for_end().write(MORE).page
    page.get_by_role("button", name="New round").click()
    fixed.wait("desk.round.slots.every((slot) => slot.text) && desk.seam === null")
    expect(seam(page)).to_have_count(0)
    fixed.wait_for_end().press("Shift+Digit1").expect_text(STORY + MORE + card_text(fixed, 1))


# ---- What else is done with cards that go on from other words than the text has now


STALE = "Oh! " + STORY + MORE  # words were put before what the cards go on from, and behind it


def texts(writer: Writer) -> list[str]:
    return [slot["text"] for slot in writer.slots()]


def expect_stale(writer: Writer, cards: list[str]) -> None:
    writer.wait("JSON.stringify(desk.round?.slots.map(({ text }) => text)) === JSON.stringify(argument)", cards)
    expect(seam(writer.page)).to_contain_text(f"These go on from “{STORY}”")
    expect(writer.page.locator(".cards[data-stale]")).to_be_visible()


@pytest.fixture
def stale(fixed: Writer) -> Writer:
    """A writer who has written on, before and behind the place that the cards go on from."""
    fixed.write(STORY).go().wait_for_end().write(MORE).press("Control+Home").write("Oh! ")
    fixed.expect_text(STALE)
    expect_stale(fixed, texts(fixed))
    return fixed


def vary(writer: Writer, way: str) -> None:
    if way == "key":
        writer.press("Control+ArrowRight", "v")  # from its first word on
    else:
        writer.card(1).get_by_role("button", name="Vary").click()


def extend(writer: Writer, way: str) -> None:
    if way == "key":
        writer.press("e")
    else:
        writer.card(1).get_by_role("button", name="Go on").click()


def choose(writer: Writer, way: str) -> None:
    rivals = writer.page.locator("srb-alternatives dialog li button")
    if way == "key":
        writer.press("t")
        expect(rivals.first).to_be_focused()
        writer.press("ArrowDown", "Enter")
    else:
        writer.card(1).get_by_role("button", name="More").click()
        writer.page.locator("dialog.menu").get_by_role("button", name="Other words").click()
        rivals.nth(1).click()


@pytest.mark.parametrize(
    ("act", "way"),
    [(vary, "key"), (extend, "mouse"), (choose, "key"), *long((vary, "mouse"), (extend, "key"), (choose, "mouse"))],
)
def test_what_is_done_with_stale_cards_changes_no_word_of_the_text_and_is_taken_like_the_others(
    stale: Writer, act: Callable[[Writer, str], None], way: str
) -> None:
    before = texts(stale)
    if way == "key":
        stale.to_cards()
    else:
        stale.card(1).hover()
    act(stale, way)
    stale.wait("JSON.stringify(desk.round.slots.map(({ text }) => text)) !== JSON.stringify(argument)", before)
    stale.wait_for_end()
    cards = texts(stale)
    assert cards[1:4] == before[1:]
    assert stale.text == STALE
    expect_stale(stale, cards)
    number = 1 if act is extend else 5
    stale.press(f"Shift+Digit{number}")
    stale.wait("desk.text !== argument", STALE)
    assert stale.text == STALE + card_text(stale, number)
    stale.press("Control+z").expect_text(STALE)
    expect_stale(stale, cards)


@pytest.mark.parametrize("way", ["notice", *long("key")])
def test_another_word_in_the_text_beside_stale_cards_gives_back_by_one_undo_all_words_and_the_cards(
    stale: Writer, way: str
) -> None:
    page, cards = stale.page, texts(stale)
    stale.press("Control+Home", "Control+ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Alt+t")  # in "It"
    rivals = page.get_by_role("dialog", name="In place of “It”").locator("li button")
    expect(rivals.first).to_be_focused()
    stale.press("ArrowDown", "Enter")
    expect(notice(page)).to_contain_text("“It was a fox.” and 3 more words are not in this text. The outline has it.")
    stale.wait("desk.text !== argument", STALE)
    if way == "key":
        stale.press("Control+z")
    else:
        notice(page).get_by_role("button", name="Undo").click()
    stale.expect_text(STALE)
    expect_stale(stale, cards)


@pytest.mark.parametrize("where", ["reload", "another window"])
def test_stale_cards_are_there_after_a_reload_and_in_another_window(stale: Writer, slow: Server, where: str) -> None:
    cards = texts(stale)
    stale.wait_until_saved()
    if where == "reload":
        stale.reload()
    else:
        stale = Writer(stale.page.context.new_page(), slow.url, is_new=False)
    stale.expect_text(STALE)
    expect_stale(stale, cards)
    stale.to_cards().press("Shift+Digit2").expect_text(STALE + card_text(stale, 2))


def test_cards_of_two_windows_are_varied_and_extended_while_both_write_and_no_word_is_lost(
    fixed: Writer, slow: Server
) -> None:
    page = fixed.write(STORY).go().wait_for_end().wait_until_saved().page
    cards = texts(fixed)
    other = Writer(page.context.new_page(), slow.url, is_new=False)
    other.wait("JSON.stringify(desk.round?.slots.map(({ text }) => text)) === JSON.stringify(argument)", cards)
    fixed.write(MORE).wait_until_saved()
    elsewhere = other.page.get_by_role("status").filter(has_text="goes on in another window: 3 words")
    expect(elsewhere).to_be_visible()
    extend(other.to_cards(), "key")
    other.wait("desk.round.slots[0].text.length > argument", len(cards[0])).wait_for_end()
    fixed.to_cards()
    vary(fixed, "key")
    fixed.wait("desk.round.slots.length === 6").wait_for_end()
    other.to_text().press("Control+End").write(" Deep.")
    elsewhere.get_by_role("button", name="Join").click()
    joined = STORY + MORE + " Deep."  # in the order of writing
    other.expect_text(joined)
    longer = card_text(other, 1)
    other.to_cards().press("Shift+Digit1").expect_text(joined + longer)
    fixed.expect_text(joined + longer)  # what was joined has its words, so it follows
    other.press("Control+z").expect_text(joined)
    assert texts(other)[0].startswith(cards[0])
