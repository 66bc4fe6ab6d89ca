"""All actions of the page in one list: found, done, and given keys of one's own."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e


def open_palette(writer: Writer) -> Locator:
    writer.press("Control+k")
    dialog = writer.page.get_by_role("dialog", name="All actions")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    return dialog


def give_key(writer: Writer, action: str, key: str) -> Locator:
    """Press a key for an action; return the dialog, which stays open."""
    dialog = open_palette(writer)
    dialog.get_by_role("button", name=f"Key of one’s own for “{action}”").click()
    expect(dialog.get_by_role("status")).to_contain_text("Press the keys")
    writer.press(key)
    return dialog


def test_an_action_is_found_by_its_words_and_done_by_enter(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write(START)
    dialog = open_palette(writer)
    writer.write("story map").press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("application", name="Map of the story")).to_be_focused()
    assert page.evaluate("desk.text") == START


def test_arrows_move_through_the_actions_and_escape_leads_back_to_the_text(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write(START)
    dialog = open_palette(writer)
    writer.press("ArrowDown", "ArrowDown")
    expect(dialog.get_by_role("button", name="Continue at the text’s end Ctrl+Shift+Enter")).to_be_focused()
    writer.press("ArrowUp", "ArrowUp")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    writer.press("Escape").write(" there")
    writer.expect_text(f"{START} there")


def test_nothing_found_is_said(page: Page, server: Server) -> None:
    dialog = open_palette(Writer(page, server.url))
    page.keyboard.type("qqq")
    expect(dialog.get_by_role("status")).to_have_text("No action has these words.")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()


def test_a_key_of_ones_own_acts_from_the_text_also_after_a_reload(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).set(n=2, max_tokens=8).write(START).go().wait_for_end()
    taken = writer.slots()[1]["text"]
    dialog = give_key(writer, "Take branch 2, and go on from there", "Alt+2")
    expect(dialog.get_by_role("button", name="Take branch 2, and go on from there Alt+2")).to_be_visible()
    writer.press("Escape").wait_until_saved().reload()
    writer.wait("desk.round?.slots.length === 2").press("Alt+2")
    writer.wait("desk.text.startsWith(argument)", START + taken)


def test_a_conflict_is_told_and_changes_nothing(page: Page, server: Server) -> None:
    writer = Writer(page, server.url)
    dialog = give_key(writer, "Settings", "Control+s")
    expect(dialog.get_by_role("status")).to_have_text("Ctrl+S is the key of “Say whether everything is saved”.")
    for key, name in (("x", "X"), ("Control+c", "Ctrl+C")):
        writer.press(key)
        expect(dialog.get_by_role("status")).to_contain_text(f"{name} belongs to the text.")
    assert page.evaluate("localStorage.getItem('srb.keys')") is None
    writer.press("Control+Alt+s")
    expect(dialog.get_by_role("button", name="Settings Ctrl+Alt+S")).to_be_visible()
    dialog.get_by_role("button", name="Key of one’s own for “New story”").click()
    writer.press("Control+Alt+s")
    expect(dialog.get_by_role("status")).to_have_text("Ctrl+Alt+S is the key of “Settings”.")


def test_a_key_is_taken_away_by_backspace(page: Page, server: Server) -> None:
    writer = Writer(page, server.url).write(START)
    give_key(writer, "Settings", "F8").get_by_role("button", name="Key of one’s own for “Settings”").click()
    writer.press("Backspace", "Escape", "F8")
    expect(page.locator("srb-settings dialog")).to_be_hidden()
    assert page.evaluate("localStorage.getItem('srb.keys')") == "{}"


def test_a_key_that_was_given_to_an_action_that_is_no_more_leads_to_what_took_its_place(
    page: Page, server: Server
) -> None:
    writer = Writer(page, server.url).write(START)
    page.evaluate('localStorage.setItem(\'srb.keys\', \'{"plan": "F8", "chapters": "F9", "settings": "F7"}\')')
    for key in ("F8", "F9"):
        writer.press(key)
        expect(page.get_by_role("heading", name="Chapters")).to_be_visible()
        writer.press("Escape", "Alt+m", "Alt+m")
        expect(page.get_by_role("heading", name="Chapters")).to_be_hidden()
    dialog = give_key(writer, "Settings", "F8")
    expect(dialog.get_by_role("status")).to_contain_text("F8 is the key of “Chapters: ")
    writer.press("F10", "Escape").press("Control+k")
    assert page.evaluate("localStorage.getItem('srb.keys')") == '{"plan":"F8","chapters":"F9","settings":"F10"}'


def test_what_another_program_has_kept_in_their_place_is_no_key(page: Page, server: Server) -> None:
    writer = Writer(page, server.url)
    for kept in ("null", "[", '{"settings": 5}', '"F8"'):
        page.evaluate("(kept) => localStorage.setItem('srb.keys', kept)", kept)
        writer.press("F8")
        open_palette(writer)
        writer.press("Escape")
