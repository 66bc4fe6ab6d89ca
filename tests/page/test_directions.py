"""Each card of a round is told what happens in it: written, dealt, shown above the text, kept or rolled anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.processes import wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

START = "The bus had left.\n\nClara ran"
HAVE_TEXTS = "desk.round?.slots.length === 4 && desk.round.slots.every(({text}) => text)"


@pytest.fixture
def fixed(writer: Writer) -> Writer:
    return writer.set(seed=11, n=4, max_tokens=12, stop_at="")


def dialog(writer: Writer) -> Locator:
    writer.press("Control+Shift+D")
    return writer.page.get_by_role("dialog", name="What happens in each card")


def lines(asked: Locator) -> list[str]:
    found: list[str] = asked.get_by_role("textbox").evaluate_all("(all) => all.map(({value}) => value)")
    return found


def told(writer: Writer) -> list[str]:
    """The directions as the cards show them."""
    return [words for card in writer.cards.all() for words in card.locator(".direction").all_inner_texts()]


def test_three_keys_lead_from_an_empty_page_to_directed_cards(fixed: Writer) -> None:
    asked = dialog(fixed)
    expect(asked.get_by_label("Card 1", exact=True)).to_be_focused()
    fixed.press("Enter")
    expect(asked.get_by_role("button", name="Write, 4 ways")).to_be_visible()
    dealt = lines(asked)
    assert len(set(dealt)) == 4
    assert all(dealt)
    with fixed.page.expect_request("**/v1/srb/completions") as request:
        fixed.press("Enter")
    assert request.value.post_data_json["directions"] == dealt
    fixed.wait(HAVE_TEXTS)
    assert told(fixed) == dealt
    assert all(direction not in fixed.shown()[number] for number, direction in enumerate(dealt))


def test_lines_are_written_pasted_and_dealt_where_they_are_empty(fixed: Writer) -> None:
    asked = dialog(fixed)
    fixed.page.evaluate(
        """(text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            document.activeElement.dispatchEvent(
                new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        "Tom <b>lies</b>\n\nit rains",
    )
    asked.get_by_role("button", name="Deal", exact=True).click()
    expect(asked.get_by_label("Card 4", exact=True)).not_to_have_value("")
    first = lines(asked)
    assert first[:2] == ["Tom <b>lies</b>", "it rains"]
    asked.get_by_role("button", name="Deal again").click()
    expect(asked.get_by_label("Card 4", exact=True)).not_to_have_value(first[3])
    assert lines(asked)[:2] == first[:2]
    asked.get_by_role("button", name="Write, 4 ways").click()
    fixed.wait(HAVE_TEXTS)
    assert told(fixed)[0] == "Tom <b>lies</b>"  # a text, never HTML


def test_a_kept_line_is_of_every_round_and_cards_have_theirs_after_a_reload(fixed: Writer) -> None:
    fixed.write(START)
    asked = dialog(fixed)
    asked.get_by_label("Card 2", exact=True).fill("a comet is seen")
    asked.get_by_role("button", name="Keep for every round: card 2").click()
    asked.get_by_label("Card 3", exact=True).fill("it rains")
    fixed.press("Enter")
    fixed.wait(HAVE_TEXTS).wait_for_end().wait_until_saved()
    assert told(fixed) == ["", "a comet is seen", "it rains", ""]
    with fixed.page.expect_request("**/v1/srb/completions") as request:
        fixed.to_cards().press("2")
    assert request.value.post_data_json["directions"] == ["", "a comet is seen", "", ""]
    fixed.wait(HAVE_TEXTS).wait_for_end()
    assert "comet" not in fixed.text
    fixed.press("Control+z").wait("desk.round?.directions[2] === 'it rains'").wait_until_saved()
    fixed.reload()
    fixed.wait("desk.round?.directions[2] === 'it rains'")
    expect(fixed.card(3).locator(".direction")).to_have_text("it rains")
    fixed.page.get_by_role("button", name="Outline").click()
    expect(fixed.page.locator("srb-outline .row", has_text="it rains").first).to_be_visible()


def test_lines_stay_while_the_text_is_written_beside_them_and_after_escape(fixed: Writer) -> None:
    page, asked = fixed.write(START).page, dialog(fixed)
    expect(page.locator("dialog:modal")).to_have_count(0)
    asked.get_by_label("Card 2", exact=True).fill("a comet is seen")
    page.locator("srb-manuscript").click(position={"x": 200, "y": 40})
    fixed.press("Control+End").write(" on")
    expect(asked.get_by_label("Card 2", exact=True)).to_have_value("a comet is seen")
    asked.get_by_label("Card 3", exact=True).fill("it rains")
    fixed.press("Escape")
    expect(asked).to_be_hidden()
    fixed.write("ward").wait("desk.text === argument", f"{START} onward").wait_until_saved().reload()
    assert lines(dialog(fixed)) == ["", "a comet is seen", "it rains", ""]
    with page.expect_request("**/v1/srb/completions") as request:
        fixed.press("Control+Enter")
    assert request.value.post_data_json["directions"] == ["", "a comet is seen", "it rains", ""]
    fixed.wait(HAVE_TEXTS)
    assert lines(dialog(fixed)) == [""] * 4  # they were sent


def test_dealt_lines_stay_when_the_keys_come_again(fixed: Writer) -> None:
    fixed.write(START)
    asked = dialog(fixed)
    expect(asked.get_by_label("Card 1", exact=True)).to_be_focused()
    fixed.press("Enter")
    expect(asked.get_by_role("button", name="Write, 4 ways")).to_be_visible()
    dealt = lines(asked)
    fixed.page.locator("srb-manuscript").click(position={"x": 200, "y": 40})
    assert lines(dialog(fixed)) == dealt
    expect(asked.get_by_label("Card 1", exact=True)).to_be_focused()


def test_a_form_that_takes_anothers_place_gives_the_focus_back_to_the_text(fixed: Writer) -> None:
    fixed.write(START).press("Alt+a")
    expect(fixed.page.get_by_role("dialog", name="Ask the story")).to_be_visible()
    asked = dialog(fixed)
    expect(asked.get_by_label("Card 1", exact=True)).to_be_focused()
    fixed.press("Escape")
    expect(asked).to_be_hidden()
    expect(fixed.page.locator("srb-manuscript")).to_be_focused()


def test_another_story_has_none_of_the_lines_that_were_begun(fixed: Writer) -> None:
    fixed.write(START)
    asked = dialog(fixed)
    asked.get_by_label("Card 2", exact=True).fill("a comet is seen")
    asked.get_by_role("button", name="Keep for every round: card 2").click()
    fixed.page.evaluate("desk.newStory()")
    expect(asked).to_be_hidden()
    assert fixed.page.evaluate("desk.settings.directions") == []
    assert lines(dialog(fixed)) == [""] * fixed.page.evaluate("desk.settings.n")


def test_a_card_is_kept_while_the_others_get_new_directions_and_all_can_be_hidden(fixed: Writer) -> None:
    dialog(fixed)
    fixed.press("Enter", "Enter")
    fixed.wait(HAVE_TEXTS).wait_for_end()
    before, texts = told(fixed), fixed.shown()
    fixed.to_cards().press("ArrowRight", "d")
    fixed.wait("desk.round.slots.every((slot) => slot.end && slot.state === 'ended')")
    after = told(fixed)
    assert after[1] == before[1]
    assert fixed.shown()[1] == texts[1]
    assert set(after) & set(before) == {before[1]}
    fixed.choose_action("Show or hide what happens")
    fixed.wait("!document.querySelector('srb-branches .cards').hasAttribute('data-directed')")
    assert told(fixed) == ["", "", "", ""]


def test_the_model_is_asked_for_the_lines_that_are_empty(fixed: Writer) -> None:
    """The model's answer is made up here: a fake one has no ideas, nor a template."""
    fixed.page.evaluate("desk.watch.server = { ...desk.server, chat_template: true }")
    ideas = ["The <i>bus</i> comes back.", "Clara falls.", "It rains."]
    asked = dialog(fixed)
    asked.get_by_label("Card 2", exact=True).fill("a comet is seen")
    fixed.page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(json={"choices": [{"message": {"content": json.dumps(ideas)}}]}),
    )
    with fixed.page.expect_request("**/v1/chat/completions") as request:
        asked.get_by_role("button", name="Ask the model").click()
    assert request.value.post_data_json["json_schema"]["maxItems"] == 3
    expect(asked.get_by_label("Card 4", exact=True)).to_have_value("It rains")
    assert lines(asked) == ["The <i>bus</i> comes back", "a comet is seen", "Clara falls", "It rains"]


def test_a_deck_of_her_own_is_kept_with_the_story_and_saved_as_a_file(fixed: Writer, tmp_path: Path) -> None:
    page, asked = fixed.page, dialog(fixed)
    asked.get_by_text("The deck", exact=True).click()
    with page.expect_download() as saved:
        asked.get_by_role("button", name="Save it as a file").click()
    moves = json.loads(saved.value.path().read_text())
    assert len(moves) == 8
    own = tmp_path / "Rain <b>.json"
    for text, words in (("{", "JSON"), ('{"a": 1}', "Each kind of a deck is a list of lines.")):
        own.write_text(text)
        asked.get_by_label("One of your own").set_input_files(own)
        expect(asked.get_by_role("alert")).to_contain_text(words)
    own.write_text(json.dumps({"rain": ["it rains", "a flood"], "sun": ["a drought", "it is too hot"]}))
    asked.get_by_label("One of your own").set_input_files(own)
    expect(asked.get_by_text("The deck: Rain <b>")).to_be_visible()
    asked.get_by_role("button", name="Deal", exact=True).click()
    expect(asked.get_by_role("button", name="Write, 4 ways")).to_be_visible()
    assert sorted(lines(asked)) == ["a drought", "a flood", "it is too hot", "it rains"]
    fixed.press("Escape")
    fixed.reload()
    asked = dialog(fixed)
    asked.get_by_text("The deck: Rain <b>").click()
    asked.get_by_role("button", name="The page's deck again").click()
    expect(asked.get_by_text("The deck", exact=True)).to_be_focused()
    asked.get_by_role("button", name="Deal", exact=True).click()
    wait_for(lambda: all(lines(asked)), "all lines are dealt")
    assert {move for hand in moves.values() for move in hand}.issuperset(lines(asked))


PROSE, PASSAGE = "The lake was still. Nobody came. It froze.", "Nobody came."


def passage_dialog(writer: Writer) -> Locator:
    """Select a passage, and ask what becomes of it in each card."""
    writer.write(PROSE)
    begin = PROSE.index(PASSAGE)
    writer.page.evaluate("(range) => desk.manuscript.select(...range)", [begin, begin + len(PASSAGE)])
    writer.press("Control+Shift+D")
    return writer.page.get_by_role("dialog", name=f"What becomes of “{PASSAGE}” in each card")


def test_a_passage_is_written_anew_in_a_way_of_its_own_in_each_card(fixed: Writer) -> None:
    asked = passage_dialog(fixed)
    asked.get_by_label("Card 1", exact=True).fill("as a letter")
    asked.get_by_role("button", name="Deal", exact=True).click()
    expect(asked.get_by_role("button", name="Deal again")).to_be_visible()
    ways = lines(asked)
    assert ways[0] == "as a letter"
    assert len(set(ways)) == 4
    with fixed.page.expect_request("**/v1/srb/completions") as request:
        asked.get_by_role("button", name="Write, 4 ways").click()
    assert request.value.post_data_json["directions"] == ways
    fixed.wait(HAVE_TEXTS).wait_for_end()
    assert told(fixed) == ways
    card = fixed.slots()[0]["text"].strip()
    fixed.to_cards().press("1").expect_text(f"The lake was still. {card} It froze.")


def test_the_gap_of_a_passage_has_what_happens_in_each_card(fixed: Writer) -> None:
    fixed.set(directions=["", "ten years pass"])
    asked = passage_dialog(fixed)
    asked.get_by_role("button", name="Deal", exact=True).click()
    expect(asked.get_by_role("button", name="Deal again")).to_be_visible()
    fixed.page.get_by_role("radio", name="Fill the gap").check()
    gap = fixed.page.get_by_role("dialog", name="What happens in each card")
    assert lines(gap) == [""] * 4  # those that were dealt were of a passage
    gap.get_by_label("Card 3", exact=True).fill("a bell rings")
    with fixed.page.expect_request("**/v1/srb/completions") as request:
        gap.get_by_role("button", name="Write, 4 ways").click()
    sent = request.value.post_data_json
    assert (sent["prompt"], sent["directions"]) == ("The lake was still.", ["", "", "a bell rings", ""])
    assert fixed.page.evaluate("desk.settings.directions") == ["", "ten years pass"]


@in_each_look
def test_the_ways_of_a_passage_have_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    asked = passage_dialog(Writer(page, slow.url).set(n=4))
    expect(asked).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@in_each_look
def test_directions_have_no_barriers(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, slow.url).set(max_tokens=8, stop_at="", n=4).write(START)
    dialog(writer)
    assert violations(page) == []
    writer.press("Enter")
    expect(page.get_by_role("button", name="Write, 4 ways")).to_be_visible()
    assert violations(page) == []
    writer.press("Enter").wait("desk.round?.slots.length === 4").wait_for_end()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
