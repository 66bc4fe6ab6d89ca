"""The page in German: where the browser asks for it, until a person chooses another language."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer


@pytest.fixture
def page(make_page: MakePage) -> Page:
    return make_page(locale="de-DE", bypass_csp=True)  # axe brings styles of its own


def test_a_browser_that_asks_for_german_gets_the_page_in_german(writer: Writer) -> None:
    page = writer.page
    expect(page.locator("html")).to_have_attribute("lang", "de")
    header = page.locator("srb-header")
    expect(header.get_by_role("button", name="Weiterschreiben", exact=True)).to_be_visible()
    expect(header.get_by_role("button", name="Rückgängig", exact=True)).to_have_attribute(
        "title", "Rückgängig (Strg+Z)"
    )
    writer.write("Es war einmal").set(n=3).go()
    card = page.get_by_role("article", name="Variante 2", exact=True)
    expect(card.get_by_role("button", name="Übernehmen: Variante 2")).to_be_visible()
    expect(card.locator("[data-act='prune']")).to_have_attribute("aria-label", "Weglegen")
    pane = page.get_by_role("region", name="Varianten")
    expect(pane).to_contain_text("drei werden geschrieben")
    pane.get_by_role("button", name="Anhalten").click()
    assert violations(page) == []
    dialog = writer.open_dialog("goals")
    expect(dialog.get_by_role("heading", name="Ziele")).to_be_visible()
    assert violations(page) == []


def test_numbers_stand_as_they_do_in_german(writer: Writer) -> None:
    writer.page.evaluate("desk.manuscript.insert('Wort '.repeat(1234))")
    expect(writer.page.locator("srb-header .words")).to_have_text("1.234 Wörter")


def test_a_wrong_entry_is_told_in_german(writer: Writer) -> None:
    dialog = writer.open_dialog("formats")
    dialog.get_by_label("Sprache").fill("Deutsch oder so")
    dialog.get_by_label("Sprache").blur()
    expect(dialog.get_by_role("alert")).to_contain_text("„Deutsch oder so“ ist keine Sprache")


def test_a_chosen_language_goes_before_the_browsers_and_no_word_is_lost(writer: Writer) -> None:
    page = writer.page
    writer.write("Es war einmal ein Leuchtturm.")
    page.evaluate("desk.openDialog('settings', { section: 'page' })")
    with page.expect_event("load"):
        page.get_by_label("Sprache der Seite").select_option("English")
    writer.wait_until_ready()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.get_by_role("button", name="Continue", exact=True)).to_be_visible()
    writer.expect_text("Es war einmal ein Leuchtturm.")
    page.evaluate("desk.openDialog('settings', { section: 'page' })")
    with page.expect_event("load"):
        page.get_by_label("Language of the page").select_option("As the browser asks")
    writer.wait_until_ready()
    expect(page.locator("html")).to_have_attribute("lang", "de")
    writer.expect_text("Es war einmal ein Leuchtturm.")


def test_words_that_nothing_keeps_stay_on_the_page(writer: Writer) -> None:
    """A language is chosen where neither the server nor the browser keeps the story: the page is not loaded again."""
    page = writer.page
    writer.write("Es war einmal ein Leuchtturm.")
    page.evaluate("Object.defineProperty(desk.keeper, 'state', { value: 'failed' })")
    page.evaluate("desk.openDialog('settings', { section: 'page' })")
    page.get_by_label("Sprache der Seite").select_option("English")
    expect(page.get_by_text("Die Sprache wechselt, wenn die Seite neu geladen wird")).to_be_visible()
    writer.expect_text("Es war einmal ein Leuchtturm.")


def test_the_editors_panel_for_find_and_replace_is_german(writer: Writer) -> None:
    writer.write("Es war einmal").press("Control+f")
    panel = writer.page.locator("srb-manuscript .cm-search")
    panel.get_by_role("button", name="Ersetzen", exact=True).click()
    expect(panel.get_by_role("textbox", name="Ersetzen durch")).to_be_visible()
    expect(panel.get_by_role("button", name="Groß- und Kleinschreibung")).to_be_visible()
    expect(panel.get_by_role("button", name="Alle ersetzen")).to_be_visible()


def test_an_action_is_found_by_its_german_words_and_a_key_that_it_cannot_have_is_told(writer: Writer) -> None:
    writer.press("Control+k")
    dialog = writer.page.get_by_role("dialog", name="Alle Aktionen")
    writer.page.keyboard.type("neue geschichte")
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    dialog.get_by_role("button", name="Eigene Taste für „Neue Geschichte“").click()
    writer.press("Control+Shift+Enter")
    expect(dialog.get_by_role("status")).to_contain_text("Strg+Umschalt+Eingabe ist die Taste von „Am Ende")


def test_a_wrong_number_is_told_in_german(writer: Writer) -> None:
    writer.page.evaluate("desk.openDialog('settings', { section: 'branches' })")
    dialog = writer.page.get_by_role("dialog", name="Einstellungen dieser Geschichte")
    dialog.get_by_label("Länge", exact=True).fill("viel")
    expect(dialog.get_by_role("alert").filter(has_text="Länge")).to_have_text(
        "Länge: eine ganze Zahl von 1 bis 100000."
    )
