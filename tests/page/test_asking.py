"""Questions about the story are answered beside it, from what the model knows already, and cards are checked against it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage, Troubles
from tests.page.writer import Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

TEXT = "Mara had never seen the sea. " * 12 + "She went on."


@pytest.fixture
def chat(server_with: MakeServer) -> Server:
    """A server whose model takes questions."""
    return server_with(model="fake:200", chat_template="chatml", n_ctx=4096)


@pytest.fixture
def fixed(page: Page, chat: Server) -> Writer:
    return Writer(page, chat.url).set(seed=11, n=4, max_tokens=12, stop_at="").write(TEXT)


def dialog(writer: Writer) -> Locator:
    writer.press("Alt+a")
    asked = writer.page.get_by_role("dialog", name="Ask the story")
    expect(asked.get_by_label("Your question")).to_be_focused()
    return asked


def usage(response: Response) -> dict[str, Any]:
    """What a streamed request has read."""
    events = [json.loads(line[6:]) for line in response.text().splitlines() if line.startswith("data: {")]
    found: dict[str, Any] = next(event["usage"] for event in events if event["event"] == "done")
    return found


def comments(page: Page) -> list[dict[str, Any]]:
    values: dict[str, Any] = page.evaluate("desk.story.stampsOf(null).values")
    return [value for key, value in values.items() if key.startswith("comment.") and value]


def test_a_question_costs_its_own_tokens_beyond_the_text_that_a_round_has_read(fixed: Writer, chat: Server) -> None:
    known = fixed.go().wait_for_end().page.evaluate("desk.round.requests.values().next().value.promptTokens")
    asked = dialog(fixed)
    for number, question in enumerate(("What does Mara know here?", "Who is blind, and since when?")):
        asked.get_by_label("Your question").fill(question)
        with fixed.page.expect_response("**/v1/srb/completions") as answer:
            asked.get_by_role("button", name="Ask", exact=True).click()
        expect(asked.get_by_role("heading", name=question)).to_be_visible()
        expect(asked.get_by_role("button", name="Stop")).to_have_count(0)
        sent = answer.value.request.post_data_json
        tail = sent["prompt"].removeprefix(TEXT)
        assert question in tail
        own = len(chat.post("/tokenize", {"content": tail, "parse_special": True}).json()["tokens"])
        used = usage(answer.value)
        assert used["prompt_tokens"] == pytest.approx(known + own, abs=1)
        computed = used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"]
        assert computed <= own + 1 if number == 0 else computed < own  # the template's words are known by then
        assert sent["n"] == 4


def test_answers_are_never_a_part_of_the_text_and_are_kept_as_comments_if_she_wants(fixed: Writer) -> None:
    page, before = fixed.page, len(fixed.story()["nodes"])
    asked = dialog(fixed)
    asked.get_by_label("Readers").select_option("2")
    asked.get_by_label("Your question").fill("Who is <b>blind</b>?")
    fixed.press("Control+Enter")
    expect(asked.get_by_role("heading", name="Who is <b>blind</b>?")).to_be_visible()
    keep = asked.get_by_role("button", name="Keep as a note").first
    expect(keep).to_be_visible()
    answer = asked.get_by_role("listitem").first.locator("p").first.inner_text()
    keep.click()
    expect(asked.get_by_role("button", name="Kept")).to_be_disabled()
    fixed.press("Escape")
    assert fixed.text == TEXT
    assert len(fixed.story()["nodes"]) == before
    (kept,) = comments(page)
    assert kept["quote"] == "She went on."
    assert " ".join(kept["text"].split()) == f"Who is <b>blind</b>? {' '.join(answer.split())}"
    page.evaluate("desk.manuscript.focus()")
    fixed.press("Control+z")
    assert comments(page) == []


def test_cards_are_checked_and_marked_with_the_line_that_they_contradict(fixed: Writer) -> None:
    """The verdicts are made up here: a fake model has none."""
    fixed.go().wait_for_end()
    verdicts = iter(["contradicts", "agrees", "contradicts", "agrees"])

    def answer(route: Any) -> None:
        if "json_schema" not in (sent := route.request.post_data_json):
            return route.continue_()
        assert "never seen the sea" in " ".join(sent["json_schema"]["properties"]["line"]["enum"])
        said = json.dumps({"line": "Mara had never seen the sea.", "part": next(verdicts)})
        events = [{"event": "stream", "index": index, "text": said} for index in range(3)]
        return route.fulfill(
            body="".join(f"data: {json.dumps(event)}\n\n" for event in events), content_type="text/event-stream"
        )

    fixed.page.route("**/v1/srb/completions", answer)
    fixed.choose_action("Check the cards against the story")
    asked = fixed.page.get_by_role("dialog", name="Ask the story")
    expect(asked.get_by_role("listitem")).to_have_count(2)
    expect(asked.get_by_role("listitem").first).to_contain_text("Card 1 “Mara had never seen the sea.”")
    expect(asked.get_by_role("listitem").first).to_contain_text("3 of 3 readers")
    asked.get_by_role("button", name="Keep as a note").first.click()
    asked.get_by_role("button", name="Show the line").first.click()
    assert fixed.page.evaluate("desk.selected") == "Mara had never seen the sea."
    expect(fixed.card(1).locator(".marks")).to_have_text("✎≠")
    expect(fixed.card(3).locator(".marks")).to_have_attribute("title", "May contradict: “Mara had never seen the sea.”")
    expect(fixed.card(2).locator(".marks")).to_have_text("")
    assert fixed.page.evaluate("desk.story.mark(desk.round.slots[0].node).note").startswith("May contradict")
    assert fixed.text == TEXT


def test_the_text_is_written_beside_the_answers_and_escape_closes_them_from_both(fixed: Writer) -> None:
    page, asked = fixed.page, dialog(fixed)
    fixed.write("Who is blind?").press("Control+Enter")
    expect(asked.get_by_role("button", name="Keep as a note").first).to_be_visible()
    expect(page.locator("dialog:modal")).to_have_count(0)
    asked.get_by_label("Your question").fill("And since when?")
    page.locator("srb-manuscript").click(position={"x": 200, "y": 40})
    fixed.press("Control+End").write(" Nobody came.")
    fixed.expect_text(f"{TEXT} Nobody came.")
    expect(asked.get_by_role("listitem").first).to_be_visible()
    fixed.press("Shift+F6")  # the panel is the last of the panes, and the text the first
    expect(asked).to_be_focused()
    fixed.press("F6", "Escape")  # in the text: nothing runs
    expect(asked).to_be_hidden()
    fixed.press("Alt+a")
    expect(asked.get_by_label("Your question")).to_have_value("And since when?")
    expect(asked.get_by_role("listitem").first).to_be_visible()
    fixed.press("Escape").write(" It was late.")
    fixed.expect_text(f"{TEXT} Nobody came. It was late.")


def test_a_model_without_a_template_is_told_of_in_plain_words(writer: Writer) -> None:
    writer.write("It rained.").press("Alt+a")
    asked = writer.page.get_by_role("dialog", name="Ask the story")
    expect(asked).to_contain_text("This model only writes on, and answers no questions")
    expect(asked.get_by_role("textbox")).to_have_count(0)


@in_each_look
def test_asking_has_no_barriers(make_page: MakePage, chat: Server, look: dict[str, object], troubles: Troubles) -> None:
    page = make_page(bypass_csp=True, **look)
    writer = Writer(page, chat.url).set(max_tokens=8, stop_at="", n=4).write(TEXT)
    asked = dialog(writer)
    assert violations(page) == []
    writer.write("Who?").press("Control+Enter")
    expect(asked.get_by_role("button", name="Keep as a note").first).to_be_visible()
    expect(asked.get_by_role("button", name="Stop")).to_have_count(0)
    writer.wait("document.querySelector('srb-ask dialog').getBoundingClientRect().bottom <= innerHeight")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
