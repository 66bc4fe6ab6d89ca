"""The clipboard: emphasis comes and goes as HTML, plain text is without signs, and a paste stands where it was made."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness
from tests.page.test_manuscript import text, transfer
from tests.processes import wait_for

pytestmark = pytest.mark.e2e

WITH_CLIPBOARD = "import('/page/parts/clipboard.js').then((module) => manuscript.extend(module.clipboard()))"


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "manuscript")
    page.evaluate(WITH_CLIPBOARD)
    return page


def copied(page: Page, event: str) -> dict[str, str]:
    forms: dict[str, str] = page.evaluate(
        """(type) => {
          const data = new DataTransfer();
          const target = manuscript.shadowRoot.querySelector(".cm-content");
          target.dispatchEvent(new ClipboardEvent(type, { bubbles: true, cancelable: true, clipboardData: data }));
          return Object.fromEntries([...data.types].map((each) => [each, data.getData(each)]));
        }""",
        event,
    )
    return forms


def test_pasted_html_keeps_its_emphasis_and_stands_before_what_is_typed_after_it(page: Page) -> None:
    page.keyboard.type("Then ")
    transfer(page, "paste", "It was dark.", "<meta charset='utf-8'><span>It was <i>dark</i>.</span>")
    page.keyboard.type(" After.")
    wait_for(lambda: text(page) == "Then It was *dark*. After.", "the paste came")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    wait_for(lambda: "dark" not in text(page), "the paste is undone")


def test_html_without_looks_is_pasted_as_its_plain_text(page: Page) -> None:
    transfer(page, "paste", "def f():\n  pass\n", "<pre><span>def f():</span><br>  pass</pre><script>alert(1)</script>")
    wait_for(lambda: text(page) == "def f():\n  pass\n", "the paste came")


def test_pasted_text_has_no_characters_that_no_text_has(page: Page) -> None:
    transfer(page, "paste", "a\u2028b\ufeffc\0d\r\ne", "")
    assert text(page) == "a\nbcd\ne"


def test_copied_text_is_plain_and_html_and_comes_back_to_the_letter(page: Page) -> None:
    written = "## One\n\nIt was _dark_.\n\n***\n\n**So.**"
    page.keyboard.insert_text(written)
    page.keyboard.press("Control+a")
    assert copied(page, "copy") == {
        "text/plain": "One\n\nIt was dark.\n\n***\n\nSo.",
        "text/html": "<h2>One</h2><p>It was <em>dark</em>.</p><hr><p><strong>So.</strong></p>",
        "text/x-srb-markdown": written,
    }
    page.keyboard.press("Control+x")  # the browser's own clipboard
    wait_for(lambda: text(page) == "", "the text is cut")
    page.keyboard.press("Control+v")
    wait_for(lambda: text(page) == written, "the text is there again, with its own signs")
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+Shift+v")
    wait_for(lambda: text(page) == "One\n\nIt was dark.\n\n***\n\nSo.", "its words alone")
