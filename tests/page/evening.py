"""An evening at the desk: a story of many rounds, written as a novelist writes, who changes her mind and whose server dies.

What was typed is numbered ("She counted 117 lamps."), so that each sentence can be found again, in the person's own words of
the manuscript or in the story. `Evening.hold` is the invariant: no act of the desk takes one of them out of the text
without a notice, and the story has it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.page.writer import Writer

BEGINNING = "The keeper of the light at Skarholm had not slept for three nights."
THINGS = ["lamps", "gulls", "steps", "boats", "stones", "windows"]
NUMBERED = re.compile(rf"\b\d{{3}} (?:{'|'.join(THINGS)})\b")
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

# The words of persons in the manuscript: pieces that another one does not part are one.
OWN = """() => {
  const { story, head, text } = desk;
  return story.pieces(head.node, head.at).map(({ from, to, by }) => by === "person" ? text.slice(from, to) : "\\0").join("");
}"""
LISTEN = """() => {
  globalThis.said = [];
  desk.addEventListener("notice", ({ detail }) => said.push(detail.text));
}"""


class Evening:
    """A story that is being written, and what was typed in it."""

    def __init__(
        self, writer: Writer, restart: Callable[[], None], shots: Path, seed: int, reopen_every: int = 0
    ) -> None:
        """Write with `seed`; after so many rounds, unless they are 0, the server is started again before the next one."""
        self.writer = writer
        self.page: Page = writer.page
        self.random = random.Random(seed)
        self.shots = shots
        self.typed: set[str] = set()  # and not taken out again by the person
        self.stages: list[str] = []  # texts that an undo has to lead through
        self.rounds = 0
        self.first_cards: list[float] = []  # seconds from the key to the first words, each after a start of the server
        self._reopen_every = reopen_every
        self._restart = restart
        self._count = 100
        self.page.evaluate(LISTEN)
        self.write(BEGINNING)

    # What is seen

    def own(self) -> set[str]:
        """The numbered words of a person that the manuscript has."""
        return set(NUMBERED.findall(self.page.evaluate(OWN)))

    @property
    def text(self) -> str:
        text: str = self.page.evaluate("desk.text")
        return text

    def expect(self, text: str) -> None:
        """Wait until this is the text, of which the editor draws only what is in view."""
        self.writer.wait("desk.text === argument && desk.manuscript.text === argument", text)

    def hold(self, what: str) -> None:
        """Expect that the manuscript shows the desk's text, and has what was typed, or that a notice named its loss."""
        self.writer.wait("desk.manuscript.text === desk.text")
        lost = self.typed - self.own()
        if not lost:
            return
        nodes = "\n".join(node["text"] for node in self.writer.story()["nodes"].values())
        said = [text for text in self.page.evaluate("said") if "not in this text" in text]
        assert said, f"{what} took {lost} out of the text and said nothing"
        assert all(words in nodes for words in lost), f"{what} lost {lost}"
        self.typed -= lost  # she knows

    def shoot(self, what: str) -> None:
        self.page.screenshot(path=self.shots / f"{self.rounds:02}-{what}.png")

    # What is a person's own

    def write(self, text: str) -> None:
        self.writer.write(text)
        self.typed = self.own() | self.typed

    def sentence(self) -> str:
        """Return a sentence that stands behind another one."""
        self._count += 1
        return f" She counted {self._count} {self.random.choice(THINGS)}."

    @contextmanager
    def by_herself(self) -> Iterator[None]:
        """What goes by a key of her own is meant to go, and what comes back is there again."""
        before = self.own()
        yield
        after = self.own()
        self.typed = (self.typed - (before - after)) | after

    def to_text(self) -> None:
        self.page.locator("srb-manuscript").evaluate("(manuscript) => manuscript.focus()")

    def write_at_the_end(self) -> None:
        self.to_text()
        self.writer.press("Control+End")
        sentence = self.sentence()
        self.write(sentence.lstrip() if self.text[-1:].isspace() else sentence)

    def write_in_an_earlier_sentence(self) -> None:
        """Put a sentence behind one of the first half."""
        self.to_text()
        ends = [match.end() for match in re.finditer(r"\w[.!?](?=\s)", self.text)] or [len(BEGINNING)]
        at = self.random.choice(ends[: len(ends) // 2 + 1])
        self.page.evaluate("(at) => desk.manuscript.select(at)", at)
        self.write(self.sentence())

    def take_a_word_out(self) -> None:
        self.to_text()
        self.writer.press("Control+End")
        with self.by_herself():
            self.writer.press("Control+Backspace")

    def undo_and_redo(self) -> None:
        """Go some steps back and as many forward: the text is the same."""
        self.to_text()
        text, steps = self.text, self.random.randint(2, 5)
        with self.by_herself():
            self.writer.press(*steps * ["Control+z"])
            self.writer.wait("desk.manuscript.text === desk.text")
            self.writer.press(*steps * ["Control+Shift+z"])
        self.expect(text)

    # What happens while cards grow

    def reload(self) -> None:
        texts = [slot["text"] for slot in self.writer.slots()]
        self.writer.wait_until_saved().reload()
        self.page.evaluate(LISTEN)
        self.writer.wait("desk.round?.slots.length === argument", len(texts))
        self.stages.clear()

    def lose_the_server(self) -> None:
        """Kill it in the middle of a round, write on, and start it again."""
        self._restart()
        self.write_at_the_end()
        self.writer.wait_until_saved().wait("desk.server.state === 'ready'")

    def lose_the_network(self) -> None:
        self.page.context.set_offline(True)
        self.write_at_the_end()
        self.writer.wait("desk.saved.state === 'outbox'")
        self.page.context.set_offline(False)
        self.writer.wait("desk.server.state === 'ready' && desk.saved.state === 'saved'")

    def write_in_another_window(self) -> None:
        """Write a sentence in a second window, and join it to the text."""
        self.writer.wait_until_saved()
        page = self.page.context.new_page()
        other = Writer(page, self.page.url, is_new=False)
        page.evaluate("(id) => desk.story.id === id || desk.openStory(id)", self.page.evaluate("desk.story.id"))
        other.wait("desk.text === argument", self.text)
        page.locator("srb-manuscript").evaluate("(manuscript) => manuscript.focus()")
        sentence = self.sentence()
        other.press("Control+End").write(sentence).wait_until_saved()
        page.close()
        elsewhere = self.page.get_by_role("status").filter(has_text="goes on in another window")
        expect(elsewhere).to_be_visible()
        elsewhere.get_by_role("button", name="Join").click()
        self.writer.wait("desk.text.includes(argument)", sentence.strip())
        self.typed |= self.own()

    def wait(self) -> None:
        """Only read."""

    # What is done with cards

    def card(self) -> int:
        """Return the number of a card that has text, as a person counts."""
        slots = self.writer.slots()
        return 1 + self.random.choice([at for at, slot in enumerate(slots) if slot["text"].strip()])

    def focus(self, number: int) -> Locator:
        card = self.page.locator(f"srb-branches article[aria-label='Branch {number}']")
        card.focus()
        return card

    def took(self, text: str) -> None:
        self.writer.wait("desk.text !== argument", text)
        self.stages.append(self.text)

    def take(self) -> None:
        text, number = self.text, self.card()
        self.focus(number)
        self.writer.press(f"Shift+Digit{number}")
        self.took(text)

    def take_a_part(self) -> None:
        text, number = self.text, self.card()
        self.focus(number)
        self.writer.press(*3 * ["Control+ArrowRight"], f"Shift+Digit{number}")
        self.took(text)

    def prune_and_try_others(self) -> None:
        self.focus(self.card())
        self.writer.press("x").wait("desk.round.slots.some(({state}) => state === 'pruned')").press("r")
        # A card keeps the pruned text until its next branch begins: taken then, it might be empty when the key arrives.
        self.writer.wait("desk.round.slots.every(({state, text, end}) => state !== 'pruned' && (text || end))")
        self.take()

    def vary(self) -> None:
        count = len(self.writer.slots())
        self.focus(self.card())
        self.writer.press(*2 * ["Control+ArrowRight"], "v")
        self.writer.wait("desk.round.slots.length > argument", count).wait_for_end()
        self.take()

    def extend(self) -> None:
        self.writer.wait_for_end()
        self.focus(self.card())
        self.writer.press("e").wait_for_end()
        self.take()

    def take_another_word(self) -> None:
        """Choose a word in a card that the model might have said instead, and take what goes on from it."""
        count = len(self.writer.slots())
        self.writer.wait_for_end()
        self.focus(self.card())
        self.writer.press("Control+ArrowRight", "t")
        expect(self.page.locator("srb-alternatives dialog li").nth(1)).to_be_visible()
        self.shoot("alternatives")
        self.writer.press("2").wait("desk.round.slots.length > argument", count).wait_for_end()
        self.take()

    def look_at_another_version(self) -> None:
        """Open a branch that was not taken, by the outline, and come back."""
        self.take()
        text = self.text
        self.page.get_by_role("button", name="Outline").click()
        rows = self.page.get_by_role("treeitem")
        self.page.get_by_role("tree").focus()
        self.writer.press("Home")
        self.shoot("outline")
        other = rows.filter(has=self.page.get_by_role("button", name="Open", exact=True))
        if other.count():
            other.first.get_by_role("button", name="Open", exact=True).click()
            self.writer.wait("desk.before !== null")
            self.hold("opening a branch")
            self.page.get_by_role("button", name="Back to where I was").first.click()
            self.expect(text)
            self.typed |= self.own()
        self.page.get_by_role("button", name="Outline").click()

    def take_on_a_phone(self) -> None:
        text = self.text
        self.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        self.writer.wait_for_end()
        self.focus(self.card())
        self.shoot("phone")
        self.page.get_by_role("group", name="This card").get_by_role("button", name="Take", exact=True).click()
        self.took(text)
        self.writer.press("Escape")
        self.page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]

    # The evening

    def meanwhiles(self) -> list[Callable[[], None]]:
        return [
            *(self.write_in_an_earlier_sentence, self.write_at_the_end, self.reload, self.wait),
            *(self.lose_the_network, self.write_in_another_window, self.lose_the_server),
        ]

    def ends(self) -> list[Callable[[], None]]:
        return [
            *(self.take, self.take_a_part, self.prune_and_try_others, self.vary, self.extend),
            *(self.take_another_word, self.look_at_another_version, self.take_on_a_phone),
        ]

    def spend(self, rounds: int) -> None:
        """Write so many rounds; in each something happens while cards grow. Everything happens before it happens again."""
        meanwhiles, ends = iter(self._dealt(self.meanwhiles)), iter(self._dealt(self.ends))
        for _ in range(rounds):
            self.rounds += 1
            meanwhile, end = next(meanwhiles), next(ends)
            self.to_text()
            self.writer.go()
            meanwhile()
            self.hold(meanwhile.__name__)
            self.writer.wait("desk.round.slots.some(({text}) => text.trim())")
            end()
            self.hold(end.__name__)
            self.shoot(f"{meanwhile.__name__}-{end.__name__}")
            self.random.choice([self.undo_and_redo, self.take_a_word_out, self.write_at_the_end])()
            self.hold("her own hand")
            if self._reopen_every and self.rounds % self._reopen_every == 0:
                self.reopen()
                self.hold("the next day")

    def reopen(self) -> None:
        """Let the server die between two rounds, and note how long the first words take that the next one writes."""
        self.writer.wait_until_saved()
        self._restart()
        self.writer.wait("desk.server.state === 'ready'")
        self.to_text()
        began = time.monotonic()
        self.writer.ask().wait("desk.round.slots.some(({text}) => text.trim())")
        self.first_cards.append(time.monotonic() - began)
        self.take()

    def _dealt(self, acts: Callable[[], list[Callable[[], None]]]) -> Iterator[Callable[[], None]]:
        while True:
            dealt = acts()
            self.random.shuffle(dealt)
            yield from dealt

    def undo_all(self) -> list[str]:
        """Undo to the beginning, and do all again; return the texts on the way back."""
        self.to_text()
        text = self.text
        texts = [text]
        while self.page.evaluate("desk.manuscript.undo()"):
            texts.append(self.text)
        while self.page.evaluate("desk.manuscript.redo()"):
            pass
        self.expect(text)
        return texts
