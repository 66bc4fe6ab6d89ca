"""Settings and help on their own: each change applies at once, wrong input is told what is right, everything has a label."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.needs import long
from tests.page.accessibility import violations
from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness

SECTIONS = ["branches", "words", "model", "page"]
SIZES = [(1440, 900), (412, 839)]


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "dialogs")
    return page


def open_settings(page: Page, section: str) -> Locator:
    page.evaluate("(section) => desk.openDialog('settings', { section })", section)
    dialog = page.get_by_role("dialog", name="Settings of this story")
    expect(dialog).to_be_visible()
    return dialog


def setting(page: Page, name: str) -> Any:
    return page.evaluate("(name) => desk.settings[name]", name)


def test_a_number_applies_as_it_is_typed_and_the_slider_follows(page: Page) -> None:
    dialog = open_settings(page, "words")
    dialog.get_by_label("Temperature", exact=True).fill("1,25")
    assert setting(page, "temperature") == 1.25
    expect(dialog.get_by_label("Temperature, as a slider", exact=True)).to_have_value("1.25")
    dialog.get_by_label("Temperature, as a slider", exact=True).press("ArrowRight")
    assert setting(page, "temperature") == 1.3
    dialog.get_by_label("Temperature", exact=True).press("ArrowDown")
    assert setting(page, "temperature") == 1.25
    dialog.get_by_label("Temperature", exact=True).fill("")
    assert setting(page, "temperature") is None


def test_wrong_input_says_what_is_right_and_changes_nothing(page: Page) -> None:
    dialog = open_settings(page, "branches")
    field = dialog.get_by_role("textbox", name="Branches")
    field.fill("65")
    expect(dialog.get_by_role("alert").filter(has_text="Branches: a whole number from 1 to 64.")).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")
    field.blur()
    expect(field).to_have_value("65")
    assert setting(page, "n") == 8
    field.fill("12")
    expect(field).to_have_attribute("aria-invalid", "false")
    assert setting(page, "n") == 12


def test_a_decimal_point_stays_while_it_is_typed(page: Page) -> None:
    dialog = open_settings(page, "words")
    dialog.get_by_label("Min-p", exact=True).press_sequentially("0.1")
    expect(dialog.get_by_label("Min-p", exact=True)).to_have_value("0.1")
    assert setting(page, "min_p") == 0.1


def test_presets_set_every_sampling_value_and_can_be_made(page: Page) -> None:
    dialog = open_settings(page, "words")
    dialog.get_by_label("Temperature", exact=True).fill("2")
    dialog.get_by_role("button", name="Steady").click()
    assert (setting(page, "temperature"), setting(page, "top_p")) == (0.7, None)
    expect(dialog.get_by_role("button", name="Steady")).to_have_attribute("aria-pressed", "true")
    dialog.get_by_label("Temperature", exact=True).fill("0.75")
    expect(dialog.get_by_role("button", name="Steady")).to_have_attribute("aria-pressed", "false")
    dialog.get_by_role("button", name="Keep", exact=True).click()
    expect(dialog.get_by_text("Give the preset a name.")).to_be_visible()
    dialog.get_by_label("Keep these values as").fill("<b>Mine</b>")
    dialog.get_by_label("Keep these values as").press("Enter")
    page.reload()
    page.wait_for_function("() => window.ready === true")
    dialog = open_settings(page, "words")
    dialog.get_by_role("button", name="<b>Mine</b>", exact=True).click()
    assert (setting(page, "temperature"), setting(page, "min_p")) == (0.75, 0.1)
    dialog.get_by_role("button", name="Going on").click()
    assert (setting(page, "min_tokens"), setting(page, "temperature")) == (60, None)
    dialog.get_by_role("button", name="The server's").click()
    assert (setting(page, "min_tokens"), setting(page, "temperature"), setting(page, "min_p")) == (None, None, None)
    dialog.get_by_role("button", name="Remove the preset <b>Mine</b>").click()
    expect(dialog.get_by_role("button", name="<b>Mine</b>", exact=True)).to_have_count(0)


def test_a_ladder_gives_each_branch_a_value(page: Page) -> None:
    dialog = open_settings(page, "branches")
    dialog.get_by_label("A ladder").check()
    dialog.get_by_role("textbox", name="From").fill("0.4")
    dialog.get_by_role("textbox", name="To").fill("1.1")
    assert setting(page, "ladder") == {"name": "temperature", "from": 0.4, "to": 1.1}
    expect(dialog.get_by_text("Branches 1 to 8: 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1")).to_be_visible()
    dialog.get_by_label("Ladder of").select_option("Min-p")
    assert setting(page, "ladder")["name"] == "min_p"
    dialog.get_by_label("A ladder").uncheck()
    assert setting(page, "ladder") is None


def test_a_ladder_of_a_mood_is_offered_where_the_server_has_one(page: Page) -> None:
    dialog = open_settings(page, "branches")
    dialog.get_by_label("A ladder").check()
    moods = dialog.get_by_label("Ladder of").get_by_role("option").filter(has_text="mood")
    expect(moods).to_have_count(0)
    page.evaluate(
        "desk.server = { ...desk.server, control_vectors: ['dread'] }; desk.dispatchEvent(new CustomEvent('server'))"
    )
    expect(moods).to_have_text(["the mood dread"])
    dialog.get_by_label("Ladder of").select_option("the mood dread")
    assert setting(page, "ladder") == {"name": "mood dread", "from": -1, "to": 1}
    expect(dialog.get_by_text("Branches 1 to 8: -1, -0.714, -0.429, -0.143, 0.143, 0.429, 0.714, 1")).to_be_visible()


def test_stop_at_and_the_number_of_ends(page: Page) -> None:
    dialog = open_settings(page, "branches")
    dialog.get_by_label("Stop at").select_option("the end of a sentence")
    dialog.get_by_label("How many of them").fill("3")
    assert (setting(page, "stop_at"), setting(page, "stop_after")) == ("sentence", 3)
    dialog.get_by_label("Stop at").select_option("nowhere: only their length ends them")
    assert setting(page, "stop_at") == ""
    expect(dialog.get_by_label("How many of them")).to_have_count(0)


def test_banned_words_are_lines_and_too_many_are_refused(page: Page) -> None:
    dialog = open_settings(page, "words")
    field = dialog.get_by_label("Banned words and phrases")
    field.fill("suddenly\n\n a testament to\nsuddenly\n")
    assert setting(page, "banned_strings") == ["suddenly", " a testament to"]
    field.fill("\n".join(f"word {i}" for i in range(1025)))
    expect(dialog.get_by_text("At most 1024 words and phrases can be banned; these are 1025.")).to_be_visible()
    for wrong in ("/a(/", "/a(?=b)/", "/a*/"):
        field.fill(f"king\n{wrong}")
        expect(dialog.get_by_text(f"“{wrong}” is no regular expression that the server takes.")).to_be_visible()
    assert len(setting(page, "banned_strings")) == 2
    dialog.get_by_label("Words and phrases that come seldom").fill("gaze*\n/eyes? gl\\w+/")
    assert setting(page, "seldom_strings") == ["gaze*", "/eyes? gl\\w+/"]


def test_chat_has_its_prompts_and_needs_a_template(page: Page) -> None:
    dialog = open_settings(page, "model")
    dialog.get_by_label("Chat").check()
    dialog.get_by_label("System prompt").fill("You write plain prose.")
    dialog.get_by_label("Instruction").fill("Go on.")
    assert [setting(page, name) for name in ("mode", "system", "instruction")] == [
        "chat",
        "You write plain prose.",
        "Go on.",
    ]
    dialog.get_by_label("Base text").check()
    page.evaluate(
        "desk.server = { ...desk.server, chat_template: false }; desk.dispatchEvent(new CustomEvent('server'))"
    )
    expect(dialog.get_by_label("Chat")).to_be_disabled()
    expect(dialog.get_by_text("This model has no chat template.")).to_be_visible()


def test_look_and_keys(page: Page) -> None:
    dialog = open_settings(page, "page")
    dialog.get_by_label("Dark").check()
    dialog.get_by_label("Typewriter").check()
    dialog.get_by_role("textbox", name="Size").fill("22")
    dialog.get_by_role("textbox", name="Measure").fill("50")
    dialog.get_by_label("Who wrote what").check()
    dialog.get_by_label("Single keys").uncheck()
    names = ["theme", "font", "size", "measure", "authors", "single_keys"]
    assert [setting(page, name) for name in names] == ["dark", "mono", 22, 50, True, False]


def test_the_dialog_is_used_by_keys_alone_and_gives_the_focus_back(page: Page) -> None:
    page.get_by_role("button", name="Settings").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Branches", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Choice of words")).to_have_attribute("aria-current", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Settings")).to_be_focused()


def test_help_opens_and_closes(page: Page) -> None:
    page.evaluate("desk.openDialog('help')")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Take this branch and continue")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", *long("dark")])
@pytest.mark.parametrize(("width", "height"), [SIZES[0], *long(*SIZES[1:])])
def test_axe_finds_nothing_wrong(make_page: MakePage, scheme: str, width: int, height: int) -> None:
    page = make_page(bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": height})
    open_harness(page, "dialogs")
    page.evaluate("desk.setSetting('mode', 'chat')")
    page.evaluate("desk.setSetting('ladder', { name: 'temperature', from: 0.4, to: 1.2 })")
    page.evaluate("localStorage['srb.presets'] = JSON.stringify([['Mine', { temperature: 1 }]])")
    for section in SECTIONS:
        dialog = open_settings(page, section)
        for summary in dialog.locator("summary").all():
            summary.click()
        if section == "words":
            dialog.get_by_label("Temperature", exact=True).fill("hot")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.keyboard.press("Escape")
    page.evaluate("desk.openDialog('help')")
    assert violations(page) == []
