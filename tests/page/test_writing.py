"""The loop: write, continue, read, take; and what else a person does with cards, in a browser and against a real server."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Request, expect

from tests.page.writer import ENDLESS, PICTURED, START, Writer
from tests.processes import wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

POINT = """(at) => {
  const text = document.querySelectorAll("srb-branches article.card .text")[1];
  const node = document.createTreeWalker(text, NodeFilter.SHOW_TEXT).nextNode();
  const range = document.createRange();
  range.setStart(node, at);
  range.setEnd(node, at + 1);
  const { x, y, width, height } = range.getBoundingClientRect();
  return [x + width / 2, y + height / 2];
}"""  # of a character in the second card's first paragraph


END_AT_A_WORD = """(indices) => {
  const [{ id }] = desk.round.requests.values();
  const end = (index) => desk.api.send("PATCH", `v1/srb/completions/${id}/branches/${index}`, { stop_at: "word" });
  return Promise.all(indices.map(end));
}"""  # of branches that would go on for longer than any machine is busy


def completions(page: Page) -> list[Request]:
    """Return the list to which each new request for a completion is added."""
    requests: list[Request] = []
    page.on(
        "request",
        lambda each: (
            requests.append(each) if each.url.endswith("/v1/srb/completions") and each.method == "POST" else None
        ),
    )
    return requests


@pytest.mark.smoke
def test_a_fresh_page_has_the_focus_in_the_manuscript_and_shows_eight_growing_cards(writer: Writer) -> None:
    writer.set(max_tokens=ENDLESS).write(START).press("Control+Enter")
    expect(writer.cards).to_have_count(8)
    writer.wait("desk.round.slots.filter(({ state, text }) => state === 'running' && text).length >= 2")
    wait_for(lambda: sum(bool(text.strip()) for text in writer.shown()) >= 2, "two cards show text")


def test_sorting_is_by_the_likelihood_that_the_server_tells_from_then_on(writer: Writer) -> None:
    asked = completions(writer.page)
    writer.set(n=4, max_tokens=3, stop_at="").write(START).go().wait_for_end().to_cards().press("o")
    writer.wait("desk.round.slots.every(({ meanLogprob }) => meanLogprob !== null)")
    writer.press("3").wait("desk.round.base.node !== null && desk.round.slots.every((slot) => slot.end)")
    assert ["rank" in (each.post_data_json or {}) for each in asked] == [False, True]
    logprobs = writer.page.evaluate("desk.round.slots.map((slot) => slot.meanLogprob)")
    assert all(isinstance(each, float) for each in logprobs)
    likeliest = sorted(range(4), key=lambda number: -logprobs[number])  # in one of 24 rounds their own order
    writer.press("o").wait("desk.round.order.join() === argument", ",".join(map(str, likeliest)))
    expect(writer.card(1)).to_have_accessible_description(re.compile("Beside the others: expected"))


@pytest.mark.smoke
def test_a_digit_takes_the_card_of_that_moment_and_goes_on(writer: Writer) -> None:
    asked, closed = completions(writer.page), list[Request]()
    writer.page.on("requestfailed", lambda each: closed.append(each))
    writer.set(max_tokens=ENDLESS).write(START).go().to_cards()
    assert len(asked) == 1
    first = writer.page.evaluate("desk.round.id")
    with writer.page.expect_event("requestfailed", lambda each: each == asked[0]):
        writer.press("3")
    writer.wait("desk.round.id !== argument", first)
    taken = writer.text
    kept = [node for node in writer.story()["nodes"].values() if node.get("slot") == 2 and node["run"] == first]
    written = START + kept[0]["text"]
    assert written.startswith(taken)
    assert not written[len(taken) :].strip(), "a text that ends in a space is taken without it"
    assert len(taken) > len(START)
    writer.wait("desk.round.slots.every((slot) => slot.text)")
    assert len(asked) == 2
    writer.expect_text(taken)
    assert asked[0] in closed
    assert asked[1] not in closed


@pytest.mark.smoke
def test_taking_ends_the_round_on_the_server(writer: Writer, slow: Server) -> None:
    writer.set(max_tokens=ENDLESS).write(START).go().to_cards()
    wait_for(lambda: slow.metric("branches_running") == 8, "the round's branches run")
    writer.press("Shift+Digit2").wait("!desk.isRunning")
    wait_for(lambda: slow.metric("branches_running") == 0, "no branch runs any more")


def test_a_round_that_is_asked_for_twice_at_once_runs_once_on_the_server(writer: Writer, slow: Server) -> None:
    writer.set(max_tokens=ENDLESS).write(START).press("Control+Enter", "Control+Enter")
    writer.wait("desk.round?.slots.every((slot) => slot.text)")
    wait_for(lambda: slow.metric("branches_running") == 8, "the branches of one round run")


@pytest.mark.smoke
def test_a_reload_in_the_middle_of_a_round_goes_on_in_the_same_cards(writer: Writer) -> None:
    writer.set(max_tokens=ENDLESS).write(START).go()
    writer.wait("desk.round.slots.every((slot) => slot.node)").wait_until_saved()
    before = writer.page.evaluate("desk.round.slots.map(({ text }) => text)")
    writer.reload()
    grown = "desk.isRunning && desk.round.slots.every((slot, number) => slot.text.length > argument[number].length)"
    writer.wait(grown, before)
    after = writer.page.evaluate("desk.round.slots.map(({ text }) => text)")
    assert all(text.startswith(part) for text, part in zip(after, before, strict=True))
    writer.to_cards().press("Shift+Digit2").wait("!desk.isRunning")
    assert writer.page.evaluate("desk.text").startswith(START + after[1])  # shown with signs for control characters
    assert writer.page.evaluate("desk.story.length(desk.head.node) >= desk.head.at")


@pytest.mark.smoke
def test_digits_typed_in_the_manuscript_are_text(writer: Writer) -> None:
    asked = completions(writer.page)
    writer.write(START).go().write(" 3 1 4")
    writer.expect_text(START + " 3 1 4")
    assert len(asked) == 1


@pytest.mark.smoke
def test_undo_goes_back_through_typing_and_taking_in_their_order(writer: Writer) -> None:
    writer.write("One").go()
    first_round = writer.page.evaluate("desk.round.id")
    writer.to_cards().press("Shift+Digit1").wait("!desk.isRunning")
    first = writer.text
    first_cards = [slot["text"] for slot in writer.slots()]
    assert len(first_cards) == 8
    writer.press("F6", "F6", "F6").wait("document.activeElement.localName === 'srb-manuscript'")
    writer.write(" two").go()
    second_cards = writer.page.evaluate("desk.round.id")
    writer.to_cards().press("Shift+Digit4").wait("!desk.isRunning")
    second = writer.text
    assert second.startswith(first + " two")  # and then a space or, from some seeds, a comma
    assert len(second) > len(first + " two")
    for expected in (first + " two", first, "One"):
        writer.press("Control+z")
        writer.expect_text(expected)
        if expected == first + " two":
            assert writer.page.evaluate("desk.round.id") == second_cards
        if expected == "One":
            assert writer.page.evaluate("desk.round.id") == first_round
            assert [slot["text"] for slot in writer.slots()] == first_cards
    for expected in (first, first + " two", second):
        writer.press("Control+Shift+z")
        writer.expect_text(expected)


@pytest.mark.smoke
def test_escape_stops_all_and_keeps_every_text(writer: Writer, slow: Server) -> None:
    writer.set(seed=11, max_tokens=ENDLESS).write(START).go()
    wait_for(lambda: slow.metric("branches_running") == 8, "the round's branches run")
    writer.press("Escape").wait("!desk.isRunning")
    texts = [slot["text"] for slot in writer.slots()]
    assert all(texts)
    wait_for(lambda: slow.metric("branches_running") == 0, "no branch runs any more")
    assert [slot["text"] for slot in writer.slots()] == texts
    writer.to_cards().press("Shift+Digit5")
    writer.expect_text(START + texts[4].rstrip())


@pytest.mark.smoke
def test_a_double_click_on_a_word_of_a_growing_card_takes_the_text_up_to_it(writer: Writer) -> None:
    writer.set(seed=11).write(START).go().wait("desk.round.slots[1].text.split(' ').length > 12")
    words = re.match(r"(\W*\w+){4}", writer.slots()[1]["text"])
    assert words
    point = writer.page.evaluate(POINT, len(words[0].lstrip()) - 2)
    with writer.page.expect_event("requestfinished", lambda each: "/v1/srb/completions/" in each.url):  # its end
        writer.page.keyboard.down("Shift")
        writer.page.mouse.dblclick(*point)
        writer.page.keyboard.up("Shift")
    writer.expect_text(START + words[0])
    written = [text for text in writer.model_texts() if text.startswith(words[0])]
    assert max(map(len, written)) > len(words[0]), "all that the branch had written stays in the story"


@pytest.mark.smoke
def test_pruning_ends_one_branch_and_the_others_go_on_to_their_ends(writer: Writer, slow: Server) -> None:
    writer.set(max_tokens=ENDLESS).write(START).go().to_cards()
    writer.press("x").wait("desk.round.slots[0].state === 'pruned'")
    wait_for(lambda: slow.metric("branches_running") == 7, "seven branches run")
    before = [len(slot["text"]) for slot in writer.slots()]
    writer.page.evaluate(END_AT_A_WORD, [*range(1, 8)])
    writer.wait_for_end()
    assert [slot["state"] for slot in writer.slots()] == ["pruned"] + 7 * ["ended"]
    assert [slot["end"]["reason"] for slot in writer.slots()[1:]] == 7 * ["boundary"]
    assert all(len(slot["text"]) > length for slot, length in list(zip(writer.slots(), before, strict=True))[1:])


def test_refill_fills_the_pruned_slots_and_extend_goes_on_in_place(page: Page, slow: Server) -> None:
    writer = Writer(page, slow.url).set(max_tokens=6, stop_at="").write(START).go()
    writer.wait("desk.round.slots.every((slot) => slot.end)").to_cards()
    ended = writer.slots()
    writer.press("x", "ArrowRight", "x").wait("desk.round.slots.filter((slot) => slot.state === 'pruned').length === 2")
    writer.press("r").wait("desk.round.slots.every((slot) => slot.end && slot.state === 'ended')")
    refilled = writer.slots()
    assert len(refilled) == 8
    assert [slot["number"] for slot, old in zip(refilled, ended, strict=True) if slot["node"] != old["node"]] == [0, 1]
    writer.press("ArrowRight", "ArrowRight", "e").wait(
        "desk.round.slots.some((slot) => slot.text.length > 60 || slot.length > 6)"
    )
    writer.wait("desk.round.slots.every((slot) => slot.end)")
    longer = [slot for slot, old in zip(writer.slots(), refilled, strict=True) if slot["text"] != old["text"]]
    assert len(longer) == 1
    assert longer[0]["text"].startswith(refilled[longer[0]["number"]]["text"])


def test_no_card_leaves_its_column_or_its_digit_while_a_round_runs_and_each_ends_as_high_as_its_text(
    page: Page, slow: Server
) -> None:
    writer = Writer(page, slow.url).set(max_tokens=30, stop_at="sentence").write(START).go()
    cards = """[...document.querySelectorAll('srb-branches article.card')].map((card) => [
      card.getAttribute("aria-label"), card.querySelector(".digit").textContent,
      card.getBoundingClientRect().x, card.getBoundingClientRect().width,
    ])"""
    before = page.evaluate(cards)
    writer.wait("desk.round.slots.every((slot) => slot.end)")
    assert page.evaluate(cards) == before
    writer.wait("""[...document.querySelectorAll('srb-branches article.card .body')].every(
      (body) => Math.abs(body.clientHeight - body.querySelector('.text').offsetHeight) <= 2)""")


def test_equal_texts_are_counted_and_folded_on_request(page: Page, slow: Server) -> None:
    writer = Writer(page, slow.url).set(temperature=0, max_tokens=8, stop_at="").write(START).go()
    writer.wait("desk.round.slots.every((slot) => slot.end)").to_cards()
    expect(writer.card(1).locator(".same")).to_have_text("×8")
    order = [writer.card(number).get_attribute("aria-describedby") for number in range(1, 9)]
    writer.press("f")
    expect(page.locator("article.card:visible")).to_have_count(1)
    writer.card(1).get_by_role("button", name="Show 7 equal").click()
    expect(page.locator("article.card:visible")).to_have_count(8)
    assert [writer.card(number).get_attribute("aria-describedby") for number in range(1, 9)] == order


@pytest.mark.smoke
def test_three_takes_need_no_mouse(writer: Writer) -> None:
    writer.write(START).go().to_cards()
    for key in "142":
        before = writer.page.evaluate("desk.round.id")
        writer.press(key).wait("desk.round.id !== argument && desk.round.slots.every((slot) => slot.text)", before)
        assert writer.page.evaluate("document.activeElement.matches(':focus-visible')")
    panes = []
    for _ in range(4):
        writer.press("F6")
        panes.append(
            writer.page.evaluate(
                "document.activeElement.closest('srb-manuscript, srb-branches, srb-outline, srb-header').localName"
            )
        )
    assert sorted(panes) == ["srb-branches", "srb-header", "srb-manuscript", "srb-outline"]


def test_a_word_changed_in_the_middle_leaves_other_branches_alone(writer: Writer) -> None:
    page = writer.set(seed=11, max_tokens=16).write(START).go().wait_for_end().page  # the same texts on every machine
    writer.to_cards().press("Shift+Digit1")
    writer.wait("desk.text !== argument", START)
    before, written = writer.text, writer.texts()
    assert len(written) == 8
    word = re.compile(r"\b[a-z]+\b").search(before, len(START) + 8)  # one of the model's, with its words on both sides
    assert word
    writer.to_text().press("Control+Home", *word.start() * ["ArrowRight"], *len(word[0]) * ["Shift+ArrowRight"])
    expect(page.locator(".cm-line .by-edit")).to_have_count(0)
    writer.write("nobody")
    after = before[: word.start()] + "nobody" + before[word.end() :]
    for turn in ("as typed", "as saved"):
        writer.expect_text(after)
        expect(page.locator(".cm-line .by-edit"), turn).to_have_text(["nobody"])
        model = page.locator(".cm-line .by-model").all_inner_texts()
        assert "".join(model).translate(PICTURED) == (before[len(START) : word.start()] + before[word.end() :])
        assert writer.texts() == written
        writer.wait_until_saved().reload()
    page.get_by_role("button", name="Outline").click()
    old = before[len(START) :].strip()
    page.get_by_role("searchbox", name="Search").fill(old)
    row = page.get_by_role("treeitem").filter(has_text=old[:30]).first
    row.click()
    row.get_by_role("button", name="Open").click()
    writer.wait("desk.text.startsWith(argument)", before)


def test_rivals_of_a_word_have_probabilities_and_one_of_them_begins_a_branch(writer: Writer) -> None:
    page = writer.set(seed=11).write(START).go().press("Escape").wait_for_end().to_cards().page
    writer.press("ArrowRight", "Control+ArrowRight", "Control+ArrowRight", "t")
    rivals = page.locator("srb-alternatives dialog li")
    expect(rivals.nth(4)).to_be_visible()
    assert all("%" in words for words in rivals.all_inner_texts())
    mark = page.evaluate("desk.round.slots[1].mark")
    before = writer.slots()[1]["text"][:mark].rpartition(" ")[0]
    rival = page.evaluate("document.querySelector('srb-alternatives').rivals[1]")
    assert 0 < rival["probability"] < 1
    writer.press("2").wait("desk.round.slots.length === 9 && desk.round.slots[8].text.length > 20")
    assert writer.slots()[8]["text"].startswith(before + rival["text"])


def test_a_rival_of_a_word_in_the_manuscript_is_another_way_on(writer: Writer) -> None:
    writer.write(START).go().press("Escape").wait_for_end()
    page, round_ = writer.page, writer.page.evaluate("desk.round.id")
    writer.press("Control+Home", "Control+ArrowRight", "ArrowRight", "ArrowRight", "Alt+t")  # in "upon"
    dialog = page.get_by_role("dialog", name="In place of “upon”")
    items = dialog.get_by_role("listitem")
    expect(items.nth(4)).to_be_visible()
    assert all("%" in words for words in items.all_inner_texts())
    rivals = page.evaluate("document.querySelector('srb-alternatives').rivals")
    assert 0 < sum(rival["probability"] for rival in rivals) <= 1.0001
    writer.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("srb-manuscript")).to_be_focused()
    writer.expect_text(START)
    writer.press("Alt+t")
    expect(items.nth(4)).to_be_visible()
    writer.press("2").expect_text("Once" + rivals[1]["text"])
    writer.wait("desk.round.id !== argument", round_)


def test_alternatives_are_asked_for_at_a_word_of_the_manuscript_only(writer: Writer) -> None:
    writer.press("Alt+t")
    expect(writer.page.get_by_role("status").filter(has_text="Put the caret at a word")).to_be_visible()
    writer.write("Once").press("Control+f", "Alt+t")
    assert writer.page.locator("dialog[open]").count() == 0
