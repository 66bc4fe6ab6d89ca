"""64 branches of 100 words a second: what the page may do for them, in counts. Times are measured by `make bench-page`."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.page.desk import Desk
from tests.needs import long
from tests.page.writer import START
from tests.processes import PYTHON
from tests.servers import Server, free_port

pytestmark = pytest.mark.e2e

THREE_FRAMES = """() => new Promise((done) => {
    const wait = (frames) => requestAnimationFrame(() => (frames > 1 ? wait(frames - 1) : done()));
    wait(3);
})"""


WRITTEN = "(tokens) => desk.round.slots.every((slot) => slot.length >= tokens)"


@pytest.mark.parametrize("tokens", [800, *long(2000)])
def test_64_streams_cost_one_write_per_visible_card_and_frame_and_hidden_ones_none(
    page: Page, tmp_path: Path, tokens: int
) -> None:
    port = free_port()
    command = (PYTHON, "-m", "bench.page.paced", port, "--rate", 100)
    with Server(tmp_path, command=command, port=port, stories=tmp_path / "stories.sqlite3", max_n=64) as server:
        desk = Desk(page, server.start().url)
        desk.set(n=64, max_tokens=tokens, stop_at="")
        desk.write(START)
        desk.go_on()
        desk.wait("() => desk.round.slots.every((slot) => slot.length >= 20)")
        desk.evaluate(THREE_FRAMES)  # each card says that its branch is written: a write of its own
        with desk.span() as spans:
            page.wait_for_function(WRITTEN, arg=tokens // 2, timeout=300_000)
        [running] = spans
        with desk.span() as spans:
            page.wait_for_function(WRITTEN, arg=tokens, timeout=300_000)
        [ended] = spans
        page.close()  # before its server: it saves the story
    assert running.writes > 100
    assert running.most_writes == 1
    assert running.hidden_writes <= 64, "a card that those above it push out of view is written once more at most"
    assert max(running.elements, ended.elements) < 5000
    assert ended.heap_mb < 60
