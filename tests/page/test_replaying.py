"""An evening's rounds, asked again from the page's export: every text is the same to the letter, also of another server."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page

from srb.stories.replay import Replayed, read_requests, replay
from srb.stories.replay import Server as Asked
from tests.page.conftest import Troubles
from tests.page.writer import Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

ROUNDS = 100
BEGINNING = "Once upon a time there was a little girl who had a red boat.\n\nShe"
ENDED = "desk.round?.slots.length && desk.round.slots.every((slot) => slot.end) && !desk.isRunning"
LORE = {"name": "Boat", "keys": ["boat"], "text": "The boat is old, and has a hole that nobody finds.", "order": 100}
LORE |= {"always": False, "off": False, "cased": False, "others": [], "rule": "any"}


class Evening:
    """A story that is written with everything that changes what the model reads."""

    def __init__(self, writer: Writer, seed: int) -> None:
        self.writer, self.page, self.random = writer, writer.page, random.Random(seed)
        writer.set(max_tokens=8, stop_at="")
        self.page.evaluate("(text) => desk.manuscript.insert(text)", BEGINNING)

    def act(self) -> None:
        """Change what the next round reads or how it is asked."""
        evaluate, chance = self.page.evaluate, self.random
        match chance.randrange(8):
            case 0:
                evaluate(
                    "(text) => desk.setMemory(text)", f"The year is {chance.randrange(1700, 1800)}. Nobody has a name."
                )
            case 1:
                evaluate("([key, entry]) => desk.setMeta(key, entry)", [f"lore.e{chance.randrange(4)}", LORE])
            case 2:
                evaluate(
                    "(text) => desk.manuscript.insert(text)", f" Then it was {chance.randrange(24)} o'clock.\n\nShe"
                )
            case 3:
                at = chance.randrange(len(evaluate("desk.text")))
                evaluate("(at) => { desk.manuscript.select(at); desk.manuscript.insert(' very') }", at)
            case 4:
                evaluate("(text) => desk.setNote({ text, depth: 1 })", f"Sad, part {chance.randrange(3)}.")
            case 5:
                self.writer.set(distinct_first=chance.random() < 0.5, temperature=chance.choice([None, 0.6, 1.2]))
            case 6:
                ladder = {"name": "temperature", "from": 0.5, "to": 1.5}
                self.writer.set(ladder=ladder if chance.random() < 0.5 else None)
            case _:
                pass

    def write(self) -> None:
        """Ask for a round, and do something with its cards."""
        n = self.random.randint(1, 8)
        told = [f"a {self.random.choice(['dog', 'storm', 'song'])} comes"] * n if self.random.random() < 0.3 else None
        self.page.evaluate(
            "([n, directions]) => void desk.go({ n, isAtEnd: true, ...(directions && { directions }) })", [n, told]
        )
        self.writer.wait("desk.round?.n === argument && desk.round.slots.every(({ text, end }) => text || end)", n)
        self.writer.wait(ENDED)
        number = self.random.randrange(n)
        match self.random.randrange(6):
            case 0:
                self.page.evaluate("(number) => void desk.vary(number, 3, 2)", number)
            case 1:
                self.page.evaluate("(number) => void desk.extend(number)", number)
            case 2:
                self.page.evaluate("void desk.more(2)")
            case _:
                pass
        self.writer.wait("!desk.round.slots.some(({ pending }) => pending)").wait(ENDED)
        self.page.evaluate("(number) => desk.take(number, { go: false })", number)


def exported(writer: Writer, path: Path) -> bytes:
    dialog = writer.wait_until_saved().open_dialog("formats")
    with writer.page.expect_download() as download:
        dialog.get_by_role("button", name="Rounds, to be asked again", exact=True).click()
    download.value.save_as(path)
    return path.read_bytes()


def again(server: Server, data: bytes) -> Replayed:
    with closing(Asked(server.url)) as asked:
        *_, found = replay(asked, read_requests(data))
    return found


def test_every_text_of_a_hundred_rounds_is_the_same_when_it_is_asked_again(
    page: Page, make_server: MakeServer, tmp_path: Path, troubles: Troubles
) -> None:
    troubles.allow("status of 404.*/branches/")  # a card that a person ends may have ended in the same moment
    settings = {"model": "storyteller", "n_ctx": 4096}
    evening = Evening(Writer(page, make_server(**settings).start().url), seed=3)
    for _ in range(ROUNDS):
        evening.act()
        evening.write()
    data = exported(evening.writer, tmp_path / "evening.rounds.jsonl")
    story = page.evaluate("JSON.stringify(desk.story)")
    kept = [len(json.dumps(run["asked"])) for run in json.loads(story)["runs"].values()]
    assert len(kept) >= ROUNDS
    assert sum(kept) / len(kept) < 1000
    found = again(make_server(**settings).start(), data)
    assert (found.unkept, found.differences) == (0, [])
    assert found.requests == len(kept)
    assert found.texts > 2 * ROUNDS


def test_a_text_that_somebody_has_changed_is_found(page: Page, storyteller: Server, tmp_path: Path) -> None:
    writer = Writer(page, storyteller.url).set(n=2, max_tokens=6, stop_at="").write(BEGINNING.split("\n")[0])
    writer.go().wait_for_end()
    data = exported(writer, tmp_path / "two.rounds.jsonl")
    line = json.loads(data)
    line["branches"][1]["text"] = line["branches"][1]["text"][:4] + "X"
    found = again(storyteller, json.dumps(line).encode())
    assert [(each.index, each.at) for each in found.differences] == [(1, 4)]
