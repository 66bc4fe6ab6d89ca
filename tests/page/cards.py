"""The branches' pane alone, with a desk that a test scripts (tests/page/harness/cards_desk.js)."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.page.parts_alone import open_harness

TEXTS = [" one little lamp. It burned", " one little boat, far out", " two gulls"]


class Pane:
    """The pane on a page. Cards are counted as a person counts them, from 1 on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        open_harness(page, "branches")

    def tell(self, script: str, argument: Any = None) -> Any:
        """Run a line of the test's script on the page, where `desk` and `branches` are."""
        return self.page.evaluate(f"(given) => {{ {script} }}", argument)

    def begin(self, *texts: str, count: int | None = None) -> None:
        """Begin a round whose branches run, the first of them with these texts."""
        self.tell("desk.begin(given)", count or len(texts))
        if texts:
            self.write(*texts)
            expect(self.text(1)).not_to_be_empty()

    def write(self, *texts: str) -> None:
        self.tell("desk.write(given)", list(texts))

    def card(self, number: int) -> Locator:
        return self.page.locator(f'.card[aria-label="Branch {number}"]')

    def text(self, number: int) -> Locator:
        return self.card(number).locator(".text")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def calls(self, name: str) -> list[list[Any]]:
        """Return the arguments of each call of an action."""
        return [call[1:] for call in self.tell("return desk.calls") if call[0] == name]

    def highlighted(self, name: str) -> list[str]:
        """Return the texts under a highlight, in the order of the document."""
        found: list[str] = self.tell(
            """const texts = [];
            for (const { startContainer, startOffset, endContainer, endOffset } of CSS.highlights.get(given)) {
              const range = document.createRange();
              range.setStart(startContainer, startOffset);
              range.setEnd(endContainer, endOffset);
              texts.push([range.getBoundingClientRect().top, range.getBoundingClientRect().left, range.toString()]);
            }
            return texts.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((each) => each[2]);""",
            name,
        )
        return found

    def word(self, number: int, word: str) -> tuple[float, float]:
        """Return the middle of a word in a card, as a point of the window."""
        x, y = self.text(number).evaluate(
            """(text, word) => {
              const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
              while (walker.nextNode()) {
                const at = walker.currentNode.data.indexOf(word);
                if (at < 0) continue;
                const range = document.createRange();
                range.setStart(walker.currentNode, at);
                range.setEnd(walker.currentNode, at + word.length);
                const { left, top, width, height } = range.getBoundingClientRect();
                return [left + width / 2, top + height / 2];
              }
              throw new Error(`no word ${word}`);
            }""",
            word,
        )
        return x, y
