"""Texts of a model or of an imported file are shown as written, whatever is in them, and the page stays usable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.page.scripted import answer_rounds, start, stop, text
from tests.page.writer import START, Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script><a href='javascript:alert(3)'>&lt;b&gt;</a>"
SIGNS = {
    "direction": "left \u202etfel\u202c and \u2066isolated\u2069 \u200f\u200bhidden\ufeffmark",
    "terminal": "\x1b[31mred\x1b[0m \x07\x00\x08 bell",
}


def answered(page: Page, server: Server, words: str) -> Writer:
    """Return a writer whose only card has these words."""
    answer_rounds(page, start(1), text(0, words), stop(0, "eos"), {"event": "done", "count": 1})
    writer = Writer(page, server.url).set(n=1, stop_at="").write(START)
    return writer.press("Control+Enter").wait_for_end().to_cards()


@pytest.mark.smoke
def test_markup_of_a_model_is_shown_as_written_wherever_it_goes(page: Page, slow: Server) -> None:
    writer = answered(page, slow, MARKUP)
    assert writer.shown() == [MARKUP]
    writer.press("Space")
    expect(page.locator("srb-manuscript .ghost")).to_have_text(MARKUP)
    writer.press("Escape", "Shift+Digit1").expect_text(START + MARKUP)
    page.get_by_role("button", name="Outline").click()
    expect(page.get_by_role("treeitem").last).to_contain_text(MARKUP[:60])
    for dialog in ("stories", "formats", "task", "settings", "reading"):
        writer.open_dialog(dialog)
        writer.press("Escape")
    page.evaluate("desk.openDialog('map', {})")
    expect(page.get_by_role("region", name="Map")).to_be_visible()
    assert page.locator("img, a[href^=javascript]").count() == 0


@pytest.mark.parametrize("signs", SIGNS.values(), ids=SIGNS.keys())
def test_signs_that_are_not_seen_are_shown_and_kept(page: Page, slow: Server, signs: str) -> None:
    writer = answered(page, slow, " " + signs)
    [shown] = writer.shown()
    assert not any(sign in shown for sign in "\u202e\u2066\u200f\x1b\x07\x00")
    writer.press("Shift+Digit1").wait("desk.text === argument", START + " " + signs.rstrip())
    assert not any(sign in writer.shown_text for sign in "\u202e\u2066\x1b\x07\x00")
    writer.wait_until_saved().reload()
    writer.wait("desk.text === argument", START + " " + signs.rstrip())


def test_a_hundred_thousand_characters_without_a_space_leave_the_page_usable(page: Page, slow: Server) -> None:
    word = "ab" * 50_000
    writer = answered(page, slow, word)
    writer.press("Shift+Digit1").wait("desk.text === argument", START + word)
    writer.to_text().press("Control+End").write(" The end.")
    writer.wait("desk.text === argument", START + word + " The end.")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    while (
        text := page.evaluate("desk.text")
    ) != START + word:  # letters half a second apart are undone one after the other
        assert text.startswith(START + word)
        writer.press("Control+z").wait("desk.text !== argument", text)


def test_markup_of_an_imported_file_is_shown_as_written(page: Page, slow: Server, tmp_path: Path) -> None:
    nodes = {
        "n1": {"text": MARKUP, "by": "import", "made": 1},
        "n2": {"text": f" two {MARKUP}", "by": "model", "made": 2, "parent": "n1", "keep": len(MARKUP)},
        "n3": {"text": " three", "by": "model", "made": 3, "parent": "n1", "keep": len(MARKUP)},
    }
    marks = {"n2": {"name": MARKUP, "note": MARKUP, "star": True, "changed": 1}}
    story = {
        "format": "srb-story", "version": 1, "id": "evil", "title": MARKUP, "head": {"node": "n2", "at": len(MARKUP) + 9},
        "nodes": nodes, "runs": {}, "marks": marks, "memory": MARKUP,
    }  # fmt: skip
    file = tmp_path / "evil.json"
    file.write_text(json.dumps(story))
    writer = Writer(page, slow.url)
    writer.open_dialog("formats").get_by_label("Choose files").set_input_files(file)
    writer.expect_text((MARKUP + f" two {MARKUP}")[: len(MARKUP) + 9])
    expect(page.locator("srb-header .title")).to_contain_text(MARKUP)
    page.get_by_role("button", name="Outline").click()
    expect(page.get_by_role("treeitem").filter(has_text=f"{MARKUP} two")).to_be_visible()
    for dialog in ("stories", "formats", "task", "settings", "reading"):
        writer.open_dialog(dialog)
        writer.press("Escape")
    page.evaluate("desk.openDialog('map', {})")
    expect(page.get_by_role("region", name="Map")).to_be_visible()
    assert page.locator("img, a[href^=javascript]").count() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"n1": {"parent": "n2", "keep": 0}, "n2": {"parent": "n1", "keep": 0}},
        {"n2": {"parent": "n1", "keep": 99}},
        {"__proto__": {"text": "x", "by": "nobody"}},
    ],
    ids=["circle", "beyond the text", "prototype"],
)
def test_a_damaged_story_is_refused_by_a_sentence_and_changes_nothing(
    page: Page, slow: Server, tmp_path: Path, change: dict[str, dict[str, object]]
) -> None:
    nodes = {name: {"text": name, "by": "person", "made": 1} | change.get(name, {}) for name in {"n1", "n2", *change}}
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps({"format": "srb-story", "version": 1, "id": "damaged", "nodes": nodes}))
    writer = Writer(page, slow.url).write("Mine.")
    before = writer.story()
    dialog = writer.open_dialog("formats")
    dialog.get_by_label("Choose files").set_input_files(file)
    expect(dialog.get_by_role("alert")).to_have_text(re.compile(r"^\S+ .*\.$"))
    assert writer.story()["nodes"] == before["nodes"]
    assert page.evaluate("({}).text") is None
