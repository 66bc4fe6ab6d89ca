"""A story written at the page with a real model: what was typed is there at the end, whatever happened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.page.conftest import Troubles
from tests.page.evening import Evening
from tests.page.writer import Writer
from tests.processes import DEADLINE
from tests.real.conftest import need_model
from tests.servers import Server

# 409: a branch that was set aside had ended in the same moment
AWAY = "net::ERR|status of (404|409|50[234])|ERR_INTERNET_DISCONNECTED|Failed to fetch"
SHOTS = os.environ.get("EVENING_SHOTS", "")  # a folder to keep the screenshots in
REOPEN_EVERY = int(os.environ.get("EVENING_REOPEN_EVERY", "0"))  # rounds between two starts of the server; 0: none


class Restartable:
    """A server of SmolLM2 that is killed as by a loss of power, and started again with the same stories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def restart(self) -> None:
        self.server.kill()
        self.close()
        self._start(port=self.server.port)

    def close(self) -> None:
        self.server.__exit__(None, None, None)

    def _start(self, **settings: object) -> None:
        settings |= {"cache_disk": self.folder / "texts", "cache_disk_mib": 4096}
        self.server = Server(self.folder, model=need_model("smollm2"), n_ctx=8192, threads=1, **settings)
        self.server.start(wait=False).wait_ready(10 * DEADLINE)  # a machine that does much else reads a model slowly


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path)
    yield restartable
    restartable.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", [8, pytest.param(40, marks=pytest.mark.long)])
def test_what_was_typed_in_an_evening_is_in_the_text_or_told_of(
    page: Page, restartable: Restartable, troubles: Troubles, tmp_path: Path, rounds: int
) -> None:
    troubles.allow(AWAY)
    # The model may not end the text: where all branches end at once there is no card to take.
    writer = Writer(page, restartable.server.url).set(n=4, max_tokens=20, stop_at="", seed=5, ignore_eos=True)
    shots = Path(SHOTS or tmp_path / "shots")
    evening = Evening(writer, restartable.restart, shots, rounds, REOPEN_EVERY)
    evening.spend(rounds)
    (shots / "first-words.txt").write_text(" ".join(f"{seconds:.2f}" for seconds in evening.first_cards) + "\n")
    texts = evening.undo_all()
    assert set(evening.stages) <= set(texts)
