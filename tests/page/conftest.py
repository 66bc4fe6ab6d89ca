"""A browser for tests of the page: Debian's Chromium, driven by Playwright. Every page is watched while it is open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Frame,
    Page,
    expect,
    sync_playwright,
)

from tests.needs import chromium, need
from tests.page.writer import Writer, wait_for_event
from tests.processes import DEADLINE, wait_for
from tests.servers import Server

FAILED = pytest.StashKey[bool]()

expect.set_options(timeout=1000 * DEADLINE)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser that all tests of the page share; each page has its own profile in it."""
    path = chromium()
    need(path, "Debian's package chromium-headless-shell, or chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
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

    def watch(self, page: Page) -> None:
        page.on("dialog", self._note_dialog)
        page.on("pageerror", lambda error: self._found.append(f"error: {error}"))
        page.on("console", self._note_message)
        page.on("framenavigated", self._note_document)

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
DESKTOP: Any = {"viewport": {"width": 1440, "height": 900}}


@pytest.fixture(scope="package")
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """A profile for one test after the other, whose cache keeps the page's files as a writer's browser does."""
    with browser.new_context(**DESKTOP) as context:
        context.set_default_timeout(1000 * DEADLINE)
        yield context


@pytest.fixture
def make_page(browser: Browser, troubles: Troubles, request: pytest.FixtureRequest) -> Iterator[MakePage]:
    """Open pages in fresh profiles: `make_page(viewport={"width": 412, "height": 839}, has_touch=True)`."""
    request.getfixturevalue("make_server")  # ended after this one: no page is left without its server
    with ExitStack() as stack:

        def make(**options: Any) -> Page:
            context = browser.new_context(**{**DESKTOP, **options})
            stack.callback(context.close)
            context.set_default_timeout(1000 * DEADLINE)
            context.on("page", troubles.watch)
            page = context.new_page()
            stack.callback(_describe, page, request.node)
            return page

        yield make
        if troubles.missing and not request.node.stash.get(FAILED, True):
            for page in [page for context in browser.contexts for page in context.pages][:1]:
                _wait_for_the_last(troubles, page)


def _wait_for_the_last(troubles: Troubles, page: Page) -> None:
    """Wait, while a page is open, for expected troubles: the browser tells of them later than it acts."""
    wait_for_event(page, lambda: not troubles.missing, f"troubles come: {troubles.missing}")


@pytest.fixture
def page(profile: BrowserContext, troubles: Troubles, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page as on a desktop, in an empty profile. Who changes the profile itself, its clock say, takes `make_page()`."""
    request.getfixturevalue("make_server")  # ended after this one: no page is left without its server
    profile.on("page", troubles.watch)
    page = profile.new_page()
    yield page
    if troubles.missing and not request.node.stash.get(FAILED, True):
        for left in profile.pages[:1]:
            _wait_for_the_last(troubles, left)
    _describe(page, request.node)
    profile.remove_listener("page", troubles.watch)
    _empty(profile, troubles.opened)


def _empty(profile: BrowserContext, origins: set[str]) -> None:
    """Close a profile's pages and forget what they have kept, but for the cache."""
    blank = profile.new_page()
    for page in profile.pages:
        if page is not blank:
            page.close()
    devtools = profile.new_cdp_session(blank)
    for origin in origins:
        devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    profile.clear_cookies()
    blank.close()


@pytest.fixture(scope="package")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose branches grow by 25 words a second up to their limit. Many tests share it: kill no part of it."""
    folder = tmp_path_factory.mktemp("slow")
    with Server(
        folder, model="fake:25", ignore_eos="true", stories=folder / "stories.sqlite3", max_client_requests=64
    ) as server:
        yield server.start()


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
