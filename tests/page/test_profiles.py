"""A profile that a test has used is for the next one as if it was new."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.page.conftest import Troubles
from tests.page.parts_alone import ORIGIN
from tests.page.profiles import DESKTOP, Profiles
from tests.servers import Ports

pytestmark = pytest.mark.e2e

KEEP = """async () => {
  for (const storage of [localStorage, sessionStorage]) storage.setItem("a", "1");
  document.cookie = "a=1";
  for (const [target, event] of [[window, "pagehide"], [document, "visibilitychange"]])
    target.addEventListener(event, () => sessionStorage.setItem("left", "1"));
  await new Promise((done, fail) => {
    const request = indexedDB.open("a");
    Object.assign(request, { onsuccess: done, onerror: fail });
  });
}"""
KEPT = """async () => [localStorage.length, sessionStorage.length, document.cookie, (await indexedDB.databases()).length]"""


def open_parts(profiles: Profiles, troubles: Troubles) -> tuple[Any, Page]:
    profile = profiles.take({})
    page = profile.open(troubles, DESKTOP)
    page.goto(f"{ORIGIN}/harness/branches.html")
    return profile, page


def test_nothing_that_a_page_has_kept_is_there_for_the_next_test(profile: Profiles, troubles: Troubles) -> None:
    first, page = open_parts(profile, troubles)
    page.evaluate(KEEP)
    assert page.evaluate(KEPT) == [1, 1, "a=1", 1]
    page.context.new_page()
    page.set_viewport_size({"width": 412, "height": 839})
    profile.give_back(first, troubles, is_spoilt=False)
    again, same = open_parts(profile, troubles)
    assert (again, same) == (first, page)
    assert page.evaluate(KEPT) == [0, 0, "", 0]
    assert page.context.pages == [page]
    assert page.evaluate("innerWidth") == DESKTOP["width"]
    profile.give_back(again, troubles, is_spoilt=False)


HOVERED = "[...document.querySelectorAll(':hover')].map((each) => each.localName).join()"


def test_the_pointer_is_where_it_is_in_a_new_window(profile: Profiles, troubles: Troubles) -> None:
    fresh, page = open_parts(profile, troubles)
    new = page.evaluate(HOVERED)
    page.mouse.move(200, 200)
    assert page.evaluate(HOVERED) != new
    profile.give_back(fresh, troubles, is_spoilt=False)
    again, page = open_parts(profile, troubles)
    assert page.evaluate(HOVERED) == new
    profile.give_back(again, troubles, is_spoilt=False)


@pytest.mark.parametrize(
    "act",
    [
        lambda page: page.once("request", lambda request: None),
        lambda page: page.route("**", lambda route: route.abort()),
        lambda page: page.add_init_script("window.left = 1"),
        lambda page: page.close(),
    ],
    ids=["once", "route", "script", "closed"],
)
def test_a_window_in_which_something_lasts_is_not_used_again(profile: Profiles, troubles: Troubles, act: Any) -> None:
    first, page = open_parts(profile, troubles)
    act(page)
    profile.give_back(first, troubles, is_spoilt=False)
    again, other = open_parts(profile, troubles)
    assert again is first
    assert other is not page
    profile.give_back(again, troubles, is_spoilt=False)


def test_a_windows_listeners_are_taken_away_with_their_test(profile: Profiles, troubles: Troubles) -> None:
    first, page = open_parts(profile, troubles)
    heard = list[str]()
    page.on("request", lambda request: heard.append(request.url))
    page.evaluate("fetch('/page/story.js').then(() => null)")
    assert heard
    profile.give_back(first, troubles, is_spoilt=False)
    before = list(heard)
    again, other = open_parts(profile, troubles)
    assert other is page
    assert heard == before
    profile.give_back(again, troubles, is_spoilt=False)


def test_a_server_has_the_port_of_one_that_has_ended_where_nobody_listens() -> None:
    ports = Ports()
    one, other = ports.take(), ports.take()
    assert one != other
    ports.give_back(one)
    with socket.create_server(("127.0.0.1", one)):
        assert ports.take() != one
    ports.give_back(one)
    assert ports.take() == one


def test_a_profile_that_was_changed_is_not_used_again(profile: Profiles, troubles: Troubles) -> None:
    first, page = open_parts(profile, troubles)
    page.context.set_offline(True)
    profile.give_back(first, troubles, is_spoilt=False)
    again, _ = open_parts(profile, troubles)
    assert again is not first
    profile.give_back(again, troubles, is_spoilt=False)


def test_troubles_of_a_page_are_its_own_tests(profile: Profiles, troubles: Troubles) -> None:
    first, page = open_parts(profile, troubles)
    profile.give_back(first, troubles, is_spoilt=False)
    later = Troubles()
    again, page = open_parts(profile, later)
    with page.expect_event("console"):
        page.evaluate("console.error('oh no')")
    troubles.check()
    with pytest.raises(AssertionError, match="oh no"):
        later.check()
    profile.give_back(again, later, is_spoilt=False)
