"""The desk in a browser: continue, type, and read how much the page did meanwhile."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, Request, sync_playwright

WATCH = Path(__file__).with_name("watch.js")
TEXTS = "article .text"  # of branches; the same names are in watch.js
RUNNING = "article[aria-busy=true]"
STARTED = "() => document.activeElement?.localName === 'srb-manuscript'"  # a bare expression would need eval
DEADLINE = 120_000  # ms
POLL = 200  # ms between two questions whether a round has ended, so that asking costs little
KEY_FLOOR = 16.0  # ms: shorter times from a key to its paint are not told apart
SHOT = {"width": 1440, "height": 900}


@dataclass(frozen=True)
class Span:
    """Work of the page in some seconds: shares of the main thread's time, counts, and milliseconds."""

    seconds: float
    cpu: float  # the main thread's share of one core
    busy: float  # share of the time in which the main thread had a task: on a loaded machine it also waits for a core
    script: float  # share in scripts
    layouts: int
    frames: int
    frame_ms: float  # median
    worst_frame_ms: float
    writes: int  # mutations in cards
    writes_per_frame: float  # of a card, in frames that wrote to it
    most_writes: int  # of a card in a frame
    hidden_writes: int  # to cards out of view
    key_ms: float | None  # median from a key to its paint
    elements: int
    heap_mb: float


class Desk:
    """The page of one server, in a profile of its own."""

    def __init__(self, page: Page, url: str) -> None:
        """Open the page and wait until a text can be written."""
        self.saves: list[int] = []  # bytes of each post of a story
        self._page = page
        page.set_default_timeout(DEADLINE)
        page.add_init_script(path=WATCH)
        page.on("request", self._note_request)
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable")
        page.goto(url)
        self._manuscript = page.get_by_role("textbox", name="Manuscript")
        page.wait_for_function(STARTED)

    def evaluate(self, script: str, argument: object = None) -> Any:
        """Return what a function of JavaScript returns."""
        return self._page.evaluate(script, argument)

    def wait(self, condition: str) -> None:
        """Wait until a function of JavaScript returns something true."""
        self._page.wait_for_function(condition)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the main thread since the page was opened."""
        return self._metrics()["ThreadTime"]

    def set(self, **settings: object) -> None:
        """Set settings of the story."""
        for name, value in settings.items():
            self._page.evaluate("([name, value]) => desk.setSetting(name, value)", [name, value])

    def write(self, text: str, pause_ms: int = 0) -> None:
        """Type a text at the caret, key by key."""
        self._manuscript.focus()
        self._page.keyboard.type(text, delay=pause_ms)

    def go_on(self) -> None:
        """Press Ctrl+Enter, and wait until the new round's cards are there."""
        self._manuscript.focus()
        before = self._page.evaluate("desk.round?.id")
        self._page.keyboard.press("Control+Enter")
        self._page.wait_for_function("(before) => desk.round && desk.round.id !== before", arg=before)

    def wait_for_words(self, count: int) -> None:
        """Wait until that many cards have text."""
        has_words = (
            "([texts, n]) => [...document.querySelectorAll(texts)].filter((each) => each.textContent).length >= n"
        )
        self._page.wait_for_function(has_words, arg=[TEXTS, count])

    def wait_for_end(self) -> None:
        """Wait until no branch runs; the stream of a round that lingers stays open."""
        has_ended = "(running) => !document.querySelector(running)"
        self._page.wait_for_function(has_ended, arg=RUNNING, polling=POLL)

    @contextlib.contextmanager
    def span(self) -> Iterator[list[Span]]:
        """Yield a list that has the work of the block's time when it is left."""
        self._page.evaluate("readWatch()")
        before, began, spans = self._metrics(), time.perf_counter(), list[Span]()
        yield spans
        seconds, after = time.perf_counter() - began, self._metrics()
        watched = self._page.evaluate("readWatch()")
        passed = {name: after[name] - before[name] for name in after}
        frames = watched["frames"] or [0.0]
        keys = watched["slowKeys"] + [KEY_FLOOR] * (watched["keys"] - len(watched["slowKeys"]))
        self._cdp.send("HeapProfiler.collectGarbage")
        spans.append(
            Span(
                seconds=seconds,
                cpu=passed["ThreadTime"] / seconds,
                busy=passed["TaskDuration"] / seconds,
                script=passed["ScriptDuration"] / seconds,
                layouts=int(passed["LayoutCount"]),
                frames=len(watched["frames"]),
                frame_ms=statistics.median(frames),
                worst_frame_ms=max(frames),
                writes=watched["writes"],
                writes_per_frame=watched["writes"] / max(watched["batches"], 1),
                most_writes=watched["most"],
                hidden_writes=watched["hidden"],
                key_ms=statistics.median(keys) if keys else None,
                elements=watched["elements"],
                heap_mb=self._metrics()["JSHeapUsedSize"] / 1e6,
            )
        )

    def _metrics(self) -> dict[str, float]:
        found = self._cdp.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def _note_request(self, request: Request) -> None:
        if request.method == "POST" and "/stories/" in request.url:
            self.saves.append(len(request.post_data_buffer or b""))


OpenDesk = Callable[[str], contextlib.AbstractContextManager[Desk]]


def chromium() -> str:
    """The browser's path; leave with a message if there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if path is None:
        raise SystemExit("the benchmark of the page needs Debian's package chromium, or chromium-headless-shell")
    return path


@contextlib.contextmanager
def desks() -> Iterator[OpenDesk]:
    """Run Chromium, and yield a function that opens a server's desk in a fresh profile: `with open_desk(url) as desk`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())

        @contextlib.contextmanager
        def open_desk(url: str) -> Iterator[Desk]:
            context = browser.new_context(viewport=SHOT)  # type: ignore[arg-type]
            yield Desk(context.new_page(), url)
            context.close()

        yield open_desk
        browser.close()
