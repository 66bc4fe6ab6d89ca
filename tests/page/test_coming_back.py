"""A story that is opened again: after a reload, in another tab and in another browser; with its round still running."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.needs import long
from tests.page.conftest import MakePage, Troubles
from tests.page.wire import wire_to
from tests.page.writer import ENDLESS, START, Writer
from tests.processes import wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e


def saved_texts(server: Server, writer: Writer) -> list[str]:
    """The texts that models wrote in this story, as the server has them."""
    answer = server.get(f"/v1/srb/stories/{writer.story()['id']}")
    nodes = answer.json()["nodes"].values() if answer.status_code == 200 else []
    return [node["text"] for node in nodes if node["by"] == "model"]


def expect_saved(server: Server, writer: Writer, texts: list[str]) -> None:
    """Wait until the server has nodes that begin with these texts: branches are saved while they grow."""
    wait_for(
        lambda: all(any(saved.startswith(text) for saved in saved_texts(server, writer)) for text in texts),
        "the server has the texts",
    )


@pytest.mark.parametrize("where", ["reload", *long("other profile")])
def test_a_running_round_is_shown_again_and_goes_on(
    writer: Writer, slow: Server, make_page: MakePage, where: str
) -> None:
    first = writer.set(max_tokens=ENDLESS).write(START).go()
    texts = [slot["text"] for slot in writer.slots()]
    expect_saved(slow, writer, texts)
    story, round_id = writer.story()["id"], writer.page.evaluate("desk.round.id")
    if where == "reload":
        writer.reload()
    else:
        writer = Writer(make_page(), slow.url, is_new=False)
        writer.page.evaluate("(id) => desk.openStory(id)", story)
    writer.wait("desk.round?.id === argument", round_id)
    assert (writer.story()["id"], writer.text) == (story, START)
    again = [slot["text"] for slot in writer.slots()]
    assert all(now.startswith(text) for now, text in zip(again, texts, strict=True))
    writer.wait("desk.round.slots.every((slot, i) => slot.text.length > argument[i].length + 20)", again)
    assert writer.page.evaluate("desk.isRunning")
    whole = [slot["text"] for slot in writer.slots()]
    assert all(now.startswith(text) for now, text in zip(whole, again, strict=True))
    wait_for(lambda: all(text.strip() for text in writer.shown()), "the cards show the texts")
    writer.to_cards().press("Shift+Digit3").wait("!desk.isRunning")
    assert writer.text.startswith(START + texts[2])
    first.wait("!desk.isRunning")


def test_a_branch_that_was_pruned_stays_pruned_after_a_reload(writer: Writer, slow: Server) -> None:
    writer.set(max_tokens=ENDLESS).write(START).go().to_cards()
    writer.press("x").wait("desk.round.slots[0].state === 'pruned'")
    expect_saved(slow, writer, [slot["text"] for slot in writer.slots()])
    writer.page.evaluate("desk.flush()")
    writer.reload()
    writer.wait("desk.round?.slots.length === 8 && desk.round.slots[7].state === 'running'")
    assert [slot["state"] for slot in writer.slots()] == ["pruned"] + 7 * ["running"]


def test_after_a_reload_undo_goes_on_by_the_story_and_says_so(writer: Writer) -> None:
    writer.set(max_tokens=6, n=2).write(START).press("Control+Enter").wait_for_end().to_cards()
    writer.press("Shift+Digit1").to_text()
    taken = writer.text
    writer.write(" It was red.").wait_until_saved().reload()
    writer.press("Control+z").expect_text(taken)
    said = writer.page.get_by_role("status").filter(has_text="Undone as the story has it")
    expect(said).to_be_visible()
    writer.press("Control+z").expect_text(START)
    expect(writer.cards).to_have_count(2)
    writer.press("Control+Shift+z").expect_text(taken)
    writer.write(" New.").press("Control+z").expect_text(taken)
    writer.press("Control+z").expect_text(START)
    writer.page.get_by_role("button", name="Undo").click()
    writer.wait("desk.text === ''")
    writer.press("Control+z")
    expect(writer.page.get_by_text("This is where the text began.")).to_be_visible()


def test_the_place_in_the_middle_of_a_text_is_kept(writer: Writer) -> None:
    writer.write(START).go().press("Escape").wait_for_end().to_cards()
    writer.press("Control+ArrowRight", "Control+ArrowRight", "Shift+Digit4").wait(
        "desk.text.length > argument", len(START)
    )
    text = writer.text
    writer.wait_until_saved().reload()
    writer.expect_text(text)


def test_another_tabs_words_are_in_the_outline_and_not_in_the_text(make_page: MakePage, slow: Server) -> None:
    one = Writer(make_page(), slow.url).write("Once")
    one.page.evaluate("desk.flush()")
    two = Writer(one.page.context.new_page(), slow.url, is_new=False)
    two.page.evaluate("(id) => desk.openStory(id)", one.story()["id"])
    two.wait("desk.text === 'Once'").press("Control+End").write("; nobody saw it.")
    one.write(" it ran home.")
    one.page.get_by_role("button", name="Outline").click()
    one.page.get_by_role("treeitem").filter(has_text="nobody saw it").first.wait_for()
    one.expect_text("Once it ran home.")


def test_a_phone_whose_screen_goes_off_misses_no_word_of_its_round(
    make_page: MakePage, slow: Server, troubles: Troubles
) -> None:
    """The page stands still and its connections end; the branches go on, and the page reads them when it is looked at."""
    troubles.allow("net::ERR")
    with wire_to(slow.port) as wire:
        page = make_page(viewport={"width": 412, "height": 839}, has_touch=True, is_mobile=True)
        writer = Writer(page, wire.url).set(max_tokens=ENDLESS, stop_at="").write(START).go()
        before, asked = [slot["text"] for slot in writer.slots()], list[str]()
        page.on("request", lambda request: asked.append(f"{request.method} {request.url.removeprefix(wire.url)}"))
        cdp = page.context.new_cdp_session(page)
        cdp.send("Page.setWebLifecycleState", {"state": "frozen"})
        wire.cut()
        written = slow.metric("tokens_predicted_total")
        wait_for(
            lambda: slow.metric("tokens_predicted_total") > written + 8 * 40, "the branches go on without a reader"
        )
        assert slow.metric("branches_running") == 8
        wire.mend()
        cdp.send("Page.setWebLifecycleState", {"state": "active"})
        writer.wait("desk.round.slots.every((slot, i) => slot.text.length > argument[i].length + 150)", before)
        assert all(slot["text"].startswith(text) for slot, text in zip(writer.slots(), before, strict=True))
        assert any(each.startswith("GET /v1/srb/completions/") for each in asked), "the round is read again"
        assert page.evaluate("desk.round.slots.every((slot) => slot.state === 'running')")
        page.evaluate("desk.stop()")
        writer.wait("!desk.isRunning")
        wait_for(lambda: slow.metric("branches_running") == 0, "no branch runs any more")
        writer.wait_until_saved()


def test_what_was_undone_beyond_a_reload_is_done_again_in_its_order(writer: Writer) -> None:
    page = writer.set(n=2, max_tokens=8).write(START).go().wait_for_end().page
    writer.to_cards().press("Shift+Digit1").wait("desk.text !== argument", START)
    writer.to_text().wait_until_saved().reload()
    texts = [page.evaluate("desk.text")]
    writer.press("Control+End").write(" She counted lamps.")
    texts.append(page.evaluate("desk.text"))
    for _ in range(3):
        page.evaluate("desk.undo()")
    assert page.evaluate("desk.text") == ""
    for text in (START, *texts):
        page.evaluate("desk.redo()")
        assert page.evaluate("desk.text") == text
