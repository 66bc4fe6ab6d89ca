"""A browser for tests of the page: Debian's Chromium, driven by Playwright. Every page is watched while it is open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    Frame,
    Page,
    expect,
    sync_playwright,
)

from tests.needs import chromium, need
from tests.page.parts_alone import HOST, serve_parts
from tests.page.profiles import DESKTOP, Profile, Profiles
from tests.page.writer import Writer, wait_for_event
from tests.processes import DEADLINE, wait_for
from tests.servers import MakeServer, Ports, Server

FAILED = pytest.StashKey[bool]()

expect.set_options(timeout=1000 * DEADLINE)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser that all tests of the page share. Pages of a site share a process, which the next one finds there."""
    path = chromium()
    need(path, "Debian's package chromium-headless-shell, or chromium")
    with serve_parts() as port, sync_playwright() as playwright:
        parts = f"--host-resolver-rules=MAP {HOST} 127.0.0.1:{port}"
        browser = playwright.chromium.launch(executable_path=path, args=["--process-per-site", parts])
        yield browser
        browser.close()


class Troubles:
    """Troubles of the watched pages: errors, and errors in the console, also breaches of the policy.

    A test that provokes one says so: `troubles.expect("status of 401")`. The policy allows no request to elsewhere, so it is
    told in the console: to hear of each request from the browser would take a tenth of a page's loading.
    """

    def __init__(self) -> None:
        self._found: list[str] = []
        self._expected: list[str] = []
        self._allowed: list[str] = []
        self.opened: set[str] = set()  # origins of the documents
        self._is_over = False
        self._handlers: dict[str, Callable[[Any], None]] = {
            "dialog": self._note_dialog,
            "pageerror": self._note_error,
            "console": self._note_message,
            "framenavigated": self._note_document,
        }

    def watch(self, page: Page) -> None:
        for event, note in self._handlers.items():
            page.on(event, note)  # type: ignore[call-overload]

    def leave(self, page: Page) -> None:
        """Watch a page no longer."""
        for event, note in self._handlers.items():
            page.remove_listener(event, note)

    def expect(self, pattern: str) -> None:
        """Allow troubles in whose text `pattern` is found; one at least must come."""
        self._expected.append(pattern)

    def allow(self, pattern: str) -> None:
        """Allow troubles in whose text `pattern` is found; there may be none."""
        self._allowed.append(pattern)

    def end(self) -> None:
        """The test is over: rounds that are stopped from now on may have ended in the same moment."""
        self._is_over = True

    @property
    def missing(self) -> list[str]:
        """The expected troubles that have not come."""
        return [pattern for pattern in self._expected if not any(re.search(pattern, each) for each in self._found)]

    def check(self) -> None:
        allowed = self._expected + self._allowed
        wrong = [each for each in self._found if not any(re.search(pattern, each) for pattern in allowed)]
        assert not wrong, "\n".join(wrong)
        assert not self.missing, f"expected, but not found: {self.missing}"

    def _note_message(self, message: ConsoleMessage) -> None:
        if self._is_over and "status of 404" in message.text and "/v1/srb/completions/" in message.location["url"]:
            return
        if message.type in ("error", "warning"):
            self._found.append(f"console: {message.text} ({message.location['url']})")

    def _note_error(self, error: Error) -> None:
        self._found.append(f"error: {error}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self._found.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_document(self, frame: Frame) -> None:
        if frame.parent_frame is None and frame.url.startswith("http"):
            self.opened.add(_origin(frame.url))


def _origin(url: str) -> str:
    return "://".join(urlsplit(url)[:2])


@pytest.fixture
def troubles() -> Iterator[Troubles]:
    """The troubles of the test's pages; there must be none but the expected ones."""
    troubles = Troubles()
    yield troubles
    troubles.check()


MakePage = Callable[..., Page]


@pytest.fixture(scope="package")
def profile(browser: Browser) -> Profiles:
    """Profiles for one test after the other, whose caches keep the page's files as a writer's browser does."""
    return Profiles(browser)


@pytest.fixture
def make_page(profile: Profiles, troubles: Troubles, request: pytest.FixtureRequest) -> Iterator[MakePage]:
    """Open pages in empty profiles: `make_page(viewport={"width": 412, "height": 839}, has_touch=True)`.

    No later test has the profile of a page that is `alone`: of one whose clock is changed, say.
    """
    request.getfixturevalue("make_server")  # ended after this one: no page is left without its server
    opened: list[tuple[Profile, Page, bool]] = []

    def make(*, alone: bool = False, **options: Any) -> Page:
        size = options.pop("viewport", DESKTOP)  # for which a window needs no profile of its own
        taken = profile.take(options)
        page = taken.open(troubles, size)
        opened.append((taken, page, alone))
        return page

    yield make
    has_failed = request.node.stash.get(FAILED, True)
    for left in [left for taken, *_ in opened for left in taken.context.pages][:1]:
        if troubles.missing and not has_failed:
            _wait_for_the_last(troubles, left)
    for _, page, _ in opened:
        _describe(page, request.node)
    for taken, _, alone in opened:
        profile.give_back(taken, troubles, is_spoilt=alone or has_failed)


def _wait_for_the_last(troubles: Troubles, page: Page) -> None:
    """Wait, while a page is open, for expected troubles: the browser tells of them later than it acts."""
    wait_for_event(page, lambda: not troubles.missing, f"troubles come: {troubles.missing}")


@pytest.fixture
def page(make_page: MakePage) -> Page:
    """A page as on a desktop, in an empty profile."""
    return make_page()


@pytest.fixture(scope="package")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose branches grow by 25 words a second up to their limit. Many tests share it: kill no part of it."""
    folder = tmp_path_factory.mktemp("slow")
    with Server(
        folder, model="fake:25", ignore_eos="true", stories=folder / "stories.sqlite3", max_client_requests=64
    ) as server:
        yield server.start()


@pytest.fixture(scope="package")
def ports() -> Ports:
    """Ports of ended servers, for the next ones."""
    return Ports()


def _served(stack: ExitStack, ports: Ports, folder: Path, **settings: Any) -> Server:
    """Return a server that is not started yet; it ends with the stack, and its port is another one's then."""
    if "port" not in settings:
        settings["port"] = ports.take()
        stack.callback(ports.give_back, settings["port"])
    return stack.enter_context(Server(folder, **settings))


@pytest.fixture
def make_server(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[MakeServer]:
    """Make servers with settings of the test's own; they are ended after the test."""
    with ExitStack() as stack:
        yield lambda **options: _served(stack, ports, tmp_path_factory.mktemp("srb"), **options)


@pytest.fixture(scope="module")
def server_with(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[MakeServer]:
    """Servers with settings of their own, one for all tests of a file that ask for the same. Kill no part of one."""
    servers: dict[tuple[tuple[str, Any], ...], Server] = {}
    with ExitStack() as stack:

        def with_(**settings: Any) -> Server:
            key = tuple(sorted(settings.items()))
            if key not in servers:
                servers[key] = _served(stack, ports, tmp_path_factory.mktemp("srb"), **settings).start()
            return servers[key]

        yield with_


@pytest.fixture
def writer(page: Page, slow: Server, troubles: Troubles) -> Iterator[Writer]:
    """A writer with a new story, whose branches grow for as long as a test looks at them, and then stop."""
    writer = Writer(page, slow.url).set(max_tokens=400, stop_at="")
    yield writer
    troubles.end()
    for open_page in page.context.pages:
        open_page.evaluate("globalThis.desk?.stop()")
    wait_for(lambda: slow.metric("branches_running") == 0, "no branch runs any more")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def _describe(page: Page, item: pytest.Item) -> None:
    """Print what a screen reader would find on the page of a test that has failed."""
    if item.stash.get(FAILED, False) and not page.is_closed():
        try:
            print(f"---- {page.url}\n{page.locator('body').aria_snapshot(timeout=5000)}")
        except Error as error:
            print(f"---- {page.url}: {error}")
