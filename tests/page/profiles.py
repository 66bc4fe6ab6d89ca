"""Profiles of a browser, which tests use one after the other: each is as if it was new, but for the page's files.

The first load of the desk in a new profile takes 2.4 seconds of a processor, one in a new window 1.4, and one in a window
that had it before 0.7: there files are in memory, and modules are compiled. So a window stays, with a blank document between
two tests. It is closed if a test has left something in it that outlasts a document.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from playwright.sync_api import Browser, BrowserContext, CDPSession, Error, Page, ViewportSize

from tests.processes import DEADLINE

Options = dict[str, Any]

DESKTOP: ViewportSize = {"width": 1440, "height": 900}

AT_REST = 4  # profiles that are kept for later tests: each has a process of its own, of 100 MB

# What is done by these outlasts a document. A page's listeners are taken away again.
LASTING = {
    Page: (
        "once",
        "route",
        "add_init_script",
        "expose_binding",
        "expose_function",
        "emulate_media",
        "set_extra_http_headers",
    ),
    BrowserContext: ("route", "add_init_script", "grant_permissions", "set_offline"),
}

# The desk writes into the window's own storage when it is left; these listeners come after its own.
FORGET = """() => {
  for (const [target, event] of [[window, "pagehide"], [document, "visibilitychange"]])
    target.addEventListener(event, () => sessionStorage.clear());
}"""


class Watch(Protocol):
    """What wants to know of a page's events while a test has it."""

    opened: set[str]  # origins of the documents

    def watch(self, page: Page) -> None: ...
    def leave(self, page: Page) -> None: ...


class Profile:
    """One profile, with a page that stays open."""

    def __init__(self, browser: Browser, options: Options) -> None:
        self.name = _name(options)
        self.context = browser.new_context(viewport=DESKTOP, **options)
        self.context.set_default_timeout(1000 * DEADLINE)
        self._new_devtools = self.context.new_cdp_session
        self._devtools: list[CDPSession] = []  # what a test did by them goes with them
        self.context.new_cdp_session = self._note_devtools  # type: ignore[method-assign]
        self._page: Page | None = None
        self._changed: set[Page | BrowserContext] = set()
        self._heard: list[tuple[str, Any]] = []  # listeners of a test at the page
        self._note_changes(self.context)

    def open(self, watch: Watch, size: ViewportSize) -> Page:
        """Return a page of this size with a blank document, in a profile that is empty."""
        if self._page is None:
            self._page = self.context.new_page()
            self._note_changes(self._page)
            self._note_listeners(self._page)
        if self._page.viewport_size != size:
            self._page.set_viewport_size(size)
        watch.watch(self._page)
        self.context.on("page", watch.watch)
        self._changed.clear()
        self._heard.clear()
        return self._page

    def empty(self, watch: Watch) -> None:
        """Forget what was opened and kept, but for the page's files. The server of the page may have ended."""
        assert self._page is not None
        self.context.remove_listener("page", watch.watch)
        for devtools in self._devtools:
            with suppress(Error):  # its page was closed
                devtools.detach()
        self._devtools.clear()
        if self._page.is_closed():
            blank = self.context.new_page()
        else:
            blank = self._page
            watch.leave(blank)
            for event, listener in self._heard:
                with suppress(KeyError):  # the test has done so
                    blank.remove_listener(event, listener)
            blank.evaluate(FORGET)
            blank.goto("about:blank")
            blank.mouse.move(0, 0)  # where it is in a new window
        for page in self.context.pages:
            if page is not blank:
                page.close()
        devtools = self._new_devtools(blank)
        for origin in watch.opened:
            devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        devtools.detach()
        self.context.clear_cookies()
        if blank is not self._page or blank in self._changed or len(watch.opened) > 1:  # it has storages of all of them
            self._page = None
            blank.close()

    @property
    def can_be_used_again(self) -> bool:
        return self.context not in self._changed

    def _note_devtools(self, page: Page) -> CDPSession:
        self._devtools.append(self._new_devtools(page))
        return self._devtools[-1]

    def _note_listeners(self, page: Page) -> None:
        add = page.on

        def on(event: Any, listener: Any) -> None:
            self._heard.append((event, listener))
            add(event, listener)

        page.on = on  # type: ignore[method-assign,assignment]

    def _note_changes(self, target: Page | BrowserContext) -> None:
        def noting(method: Callable[..., Any]) -> Callable[..., Any]:
            def change(*given: Any, **options: Any) -> Any:
                self._changed.add(target)
                return method(*given, **options)

            return change

        for name in LASTING[type(target)]:
            setattr(target, name, noting(getattr(target, name)))


class Profiles:
    """The profiles of a browser. Those that no test has rest, the one that was used last at the end."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._resting: list[Profile] = []

    def take(self, options: Options) -> Profile:
        """Return an empty profile for these options of `new_context`, which nobody else has: the one that was used last."""
        for profile in reversed(self._resting):
            if profile.name == _name(options):
                self._resting.remove(profile)
                return profile
        return Profile(self._browser, options)

    def give_back(self, profile: Profile, watch: Watch, *, is_spoilt: bool) -> None:
        """Empty a profile for the next test, or close it."""
        if is_spoilt or not profile.can_be_used_again:
            profile.context.close()
            return
        try:
            profile.empty(watch)
        except Error:  # a page has crashed
            profile.context.close()
            return
        self._resting.append(profile)
        while len(self._resting) > AT_REST:
            self._resting.pop(0).context.close()


def _name(options: Options) -> str:
    return json.dumps(options, sort_keys=True)
