"""A person who writes at the page: what is typed, pressed and seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from playwright.sync_api import Locator, Page, expect

from tests.processes import DEADLINE, wait_for

START = "Once upon a time,"
ENDLESS = 4000  # tokens: the branches of `slow` would go on for 160 seconds, longer than any test waits


def expect_loaded(page: Page) -> None:
    """Expect that the page has loaded all of its dialogs: a server that ends now leaves no file missing."""
    expect(page.locator("srb-task dialog")).to_be_attached()


T = TypeVar("T")


def wait_for_event(page: Page, what: Callable[[], T], why: str) -> T:
    """Wait for a value that a handler of the page's events sets: Playwright calls handlers during its own calls only."""
    return wait_for(lambda: (page.wait_for_timeout(0), what())[1], why)


PICTURED = {0x2400 + code: code for code in range(32) if chr(code) not in "\n\t"}


# A new story looks as the one before it, which may be another test's on the same server.
NEW_STORY = """async () => {
  await desk.newStory();
  if (desk.settings.writes_first) desk.setSetting("writes_first", false);
}"""


class Writer:
    """A page with the desk, and what a person does there. Opening it waits until it is loaded and has the focus.

    A server keeps stories, and a page opens the one that was changed last, so `is_new` begins another one. The first
    question for an API key is answered by `key`.
    """

    def __init__(
        self, page: Page, url: str, *, is_new: bool = True, key: str | None = None, is_whole: bool = True
    ) -> None:
        self.page = page
        self.is_whole = is_whole  # wait also for the dialogs, which are loaded later
        page.goto(url)
        if key is not None:
            self.give_key(key)
        self.wait_until_ready()
        if is_new:
            page.evaluate(NEW_STORY)

    def wait_until_ready(self) -> None:
        expect(self.page.locator("srb-manuscript")).to_be_focused()
        if self.is_whole:
            expect_loaded(self.page)
            self.page.evaluate("document.fonts.ready.then(() => null)")  # before anything is measured

    def reload(self) -> None:
        self.page.reload()
        self.wait_until_ready()

    # What is done

    def write(self, text: str) -> Writer:
        self.page.keyboard.type(text)
        return self

    def press(self, *keys: str) -> Writer:
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def go(self) -> Writer:
        """Ask for a round and wait until every card has text, or has ended: its first token may be the last one."""
        self.press("Control+Enter")
        self.wait("desk.round?.slots.length && desk.round.slots.every((slot) => slot.text || slot.end)")
        return self.wait("document.querySelector('srb-branches').board.round === desk.round")  # its cards are drawn

    def ask(self) -> Writer:
        """Ask for a round and wait until its cards are there."""
        self.press("Control+Enter")
        return self.wait("desk.round?.slots.length === desk.settings.n")

    def wait_for_end(self) -> Writer:
        """Wait until every branch has ended."""
        return self.wait("desk.round?.slots.length && desk.round.slots.every((slot) => slot.end) && !desk.isRunning")

    def wait_until_saved(self) -> Writer:
        return self.wait("desk.saved.state === 'saved' || desk.saved.state === 'browser'")

    def to_cards(self) -> Writer:
        """Go to the branches' pane by its key."""
        self.press("F6")
        return self.wait("document.querySelector('srb-branches').contains(document.activeElement)")

    def to_text(self) -> Writer:
        """Go from the branches to the manuscript by a key."""
        self.press("i")
        return self.wait("document.activeElement.localName === 'srb-manuscript'")

    def open_dialog(self, name: str) -> Locator:
        """Open one of the desk's dialogs, as its button does: stories, settings, formats, help, map, task."""
        self.page.evaluate("(name) => desk.openDialog(name, { node: desk.head.node })", name)
        dialog = self.page.locator(f"srb-{name} dialog:is([open], :popover-open)")
        expect(dialog).to_be_visible()
        return dialog

    def choose_action(self, words: str) -> Writer:
        """Do the action that words name, by the list of all actions."""
        self.press("Control+k")
        field = self.page.get_by_role("searchbox", name="Find an action")
        expect(field).to_be_focused()
        self.write(words).press("Enter")
        expect(field).to_be_hidden()
        return self

    def give_key(self, key: str) -> None:
        dialog = self.page.get_by_role("dialog", name="API key")
        dialog.get_by_label("Key", exact=True).fill(key)
        dialog.get_by_role("button", name="Go on").click()
        expect(dialog).to_be_hidden()

    def set(self, **settings: Any) -> Writer:
        for name, value in settings.items():
            self.page.evaluate("([name, value]) => desk.setSetting(name, value)", [name, value])
        return self

    def wait(self, condition: str, argument: Any = None, deadline: float = DEADLINE) -> Writer:
        """Wait for a condition of JavaScript to become true, for `deadline` seconds at most."""
        self.page.wait_for_function(f"(argument) => {condition}", arg=argument, polling=20, timeout=1000 * deadline)
        return self

    # What is seen

    @property
    def text(self) -> str:
        """The manuscript, with control characters in place of the pictures that the editor shows for them."""
        return self.shown_text.translate(PICTURED)

    @property
    def shown_text(self) -> str:
        """The manuscript as it is shown, without the card that stands in it while somebody points at that."""
        lines: list[str] = self.page.locator("srb-manuscript .cm-line").evaluate_all(
            """(lines) => lines.map((line) => {
                const ghost = line.querySelector(".ghost");
                if (ghost === null) return line.innerText;
                const at = line.innerText.lastIndexOf(ghost.innerText); // it may repeat what stands before it
                return (line.innerText.slice(0, at) + line.innerText.slice(at + ghost.innerText.length)).trimEnd();
            })"""
        )
        return "\n".join(lines)

    @property
    def cards(self) -> Locator:
        return self.page.locator("srb-branches article.card")

    def card(self, number: int) -> Locator:
        """The card that a person counts as `number`."""
        return self.page.get_by_role("article", name=f"Branch {number}", exact=True)

    def expect_text(self, text: str) -> None:
        """Wait until the manuscript shows exactly this text."""
        wait_for(lambda: self.text == text, f"the manuscript is\n{text!r}, it is\n{self.text!r}")

    def shown(self) -> list[str]:
        """The texts of all cards as they are shown."""
        texts: list[str] = self.page.evaluate(
            "[...document.querySelectorAll('srb-branches article.card .text')].map((each) => each.textContent)"
        )
        return texts

    def slots(self) -> list[dict[str, Any]]:
        """What the desk knows of its cards: state, text, end."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "(desk.round?.slots ?? []).map(({number, state, text, end, node}) => ({number, state, text, end, node}))"
        )
        return found

    def story(self) -> dict[str, Any]:
        """The story in the form of its export."""
        story: dict[str, Any] = self.page.evaluate("desk.story.toJSON()")
        return story

    def texts(self) -> dict[str, str]:
        """The whole text of each node that a model has written, from the story's beginning to the node's end."""
        found: dict[str, str] = self.page.evaluate(
            """Object.fromEntries(Object.entries(desk.story.toJSON().nodes)
                .filter(([, node]) => node.by === "model").map(([id]) => [id, desk.story.text(id)]))"""
        )
        return found

    def model_texts(self) -> list[str]:
        """What models have written in this story, by node."""
        return [node["text"] for node in self.story()["nodes"].values() if node["by"] == "model"]
