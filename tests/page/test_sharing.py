"""A story that is shared: its owner names people in a dialog, and who may only read it loses no word and is told so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage, Troubles
from tests.page.paused import pause
from tests.page.writer import START, Writer
from tests.processes import DEADLINE
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

MESSAGE = "alice lets you read this story, and does not get what you change: it stays in this browser."


KEYS = {"alice": "alices-key", "bob": "bobs-key", "": "first-key"}


@pytest.fixture(scope="module")
def people(server_with: MakeServer, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with two people, and a key without a name."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("".join(f"{name}:{key}\n".lstrip(":") for name, key in KEYS.items()))
    return server_with(model="fake:25", ignore_eos="true", api_key_file=file)


@pytest.fixture
def shared(people: Server, troubles: Troubles) -> Iterator[Server]:
    """That server, on which nobody has a story yet."""
    troubles.allow("status of 401")
    yield people
    for key in KEYS.values():
        own = {"Authorization": f"Bearer {key}"}
        for story in people.get("/v1/srb/stories", headers=own).json()["stories"]:
            requests.delete(f"{people.url}/v1/srb/stories/{story['id']}", headers=own, timeout=DEADLINE)


@pytest.fixture
def alice(shared: Server, make_page: MakePage) -> Writer:
    writer = Writer(make_page(), shared.url, key="alices-key").set(n=2, max_tokens=20, stop_at="")
    return writer.write(START).wait_until_saved()


def give(writer: Writer, name: str, access: str) -> None:
    """Share the open story with a name, by the dialog."""
    dialog = writer.open_dialog("share")
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("What the name may do").select_option(access)
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(row(dialog, name)).to_be_visible()
    writer.press("Escape")
    expect(dialog).to_be_hidden()


def row(dialog: Locator, name: str) -> Locator:
    return dialog.get_by_role("list", name="Shared with").get_by_role("listitem").filter(has_text=name)


def reader_of(alice: Writer, shared: Server, page: Page) -> Writer:
    """Bob at a page of his own, with the story of Alice open."""
    bob = Writer(page, shared.url, key="bobs-key")
    dialog = bob.open_dialog("stories")
    dialog.get_by_role("button", name=START).first.click()
    expect(dialog).to_be_hidden()
    bob.expect_text(alice.text)
    return bob


def banner(writer: Writer) -> Locator:
    return writer.page.locator("srb-banner .kept")


def test_an_owner_shares_by_the_keyboard_alone_and_takes_it_away(alice: Writer, shared: Server) -> None:
    page = alice.page
    alice.press("Control+k").write("share this")
    alice.press("Enter")
    dialog = page.get_by_role("dialog", name="Share")
    expect(dialog).to_contain_text("You share it with nobody.")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    alice.write("bob").press("Tab", "ArrowDown", "Tab", "Enter")
    expect(row(dialog, "bob").get_by_role("combobox", name="What bob may do")).to_have_value("write")
    expect(dialog.get_by_role("status")).to_have_text("bob may read and write it now.")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    row(dialog, "bob").get_by_role("combobox").select_option("read")
    expect(dialog.get_by_role("status")).to_have_text("bob may read it now.")
    alice.press("Escape")
    expect(dialog).to_be_hidden()
    assert list_of(shared, "bobs-key") == [("alice", "read")]
    alice.open_dialog("stories").get_by_role("button", name=f"Share “{START}”").click()
    row(dialog, "bob").get_by_role("button", name="Share it with bob no longer").press("Enter")
    expect(dialog).to_contain_text("You share it with nobody.")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    assert list_of(shared, "bobs-key") == []


def list_of(server: Server, key: str) -> list[tuple[str, str]]:
    answer = server.get("/v1/srb/stories", headers={"Authorization": f"Bearer {key}"}).json()
    return [(each.get("owner", ""), each.get("access", "")) for each in answer["stories"]]


FAULTS = {
    "bop": "This server has no key with the name “bop”.",
    "alice": "That is your own name.",
    " ": "Write the name of a key.",
    "<b>é": "This server has no key with the name “<b>é”.",
}


def test_a_name_that_cannot_be_shared_with_is_said_beside_the_field(alice: Writer, troubles: Troubles) -> None:
    troubles.allow("status of 400")
    dialog = alice.open_dialog("share")
    field = dialog.get_by_label("Name", exact=True)
    for name, fault in FAULTS.items():
        field.fill(name)
        alice.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text(fault)
        expect(field).to_have_accessible_description(fault)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(field).to_have_value(name)


def test_who_may_only_read_is_told_so_and_keeps_every_word(
    alice: Writer, shared: Server, make_page: MakePage, troubles: Troubles
) -> None:
    give(alice, "bob", "read")
    bob = reader_of(alice, shared, make_page())
    expect(banner(bob)).to_contain_text(MESSAGE)
    expect(bob.page.locator("srb-header .saved")).to_have_text("to read only")
    bob.press("Control+End").write(" said Bob").press("Control+s")
    expect(bob.page.locator("srb-banner .info")).to_contain_text(MESSAGE)
    bob.reload()
    bob.expect_text(START + " said Bob")
    alice.write(" said Alice").wait_until_saved()
    expect(bob.page.get_by_role("status").filter(has_text="in another window: 2 words")).to_be_visible()
    bob.wait("desk.title.endsWith('said Alice')")  # it follows her words within ten seconds
    banner(bob).get_by_role("button", name="Make a copy of my own").click()
    expect(banner(bob)).to_have_count(0)
    bob.expect_text(START + " said Bob")
    bob.wait("desk.saved.state === 'saved'").write(" again").wait_until_saved().reload()
    bob.expect_text(START + " said Bob again")
    theirs = f"{START} said Alice"
    assert [title(bob, "alice’s, to read"), title(bob, "open now")] == [theirs, f"{theirs}, copied"]
    assert alice.text == START + " said Alice"


def title(writer: Writer, facts: str) -> str:
    """The title of the story in the list that has these facts."""
    dialog = writer.open_dialog("stories")
    found = dialog.locator("li").filter(has_text=facts)
    name = found.locator(".name").inner_text()
    expect(found.get_by_role("button", name="into the bin")).to_have_count(0 if "read" in facts else 1)
    writer.press("Escape")
    expect(dialog).to_be_hidden()
    return name


def test_who_may_write_by_now_sends_what_was_kept_and_who_may_not_any_more_goes_on_in_a_copy(
    alice: Writer, shared: Server, make_page: MakePage, troubles: Troubles
) -> None:
    troubles.allow("status of 40[34]")
    give(alice, "bob", "read")
    bob = reader_of(alice, shared, make_page())
    bob.press("Control+End").write(" said Bob")
    expect(bob.page.locator("srb-header .saved")).to_have_text("to read only")
    give(alice, "bob", "write")
    expect(banner(bob)).to_have_count(0)
    bob.wait("desk.saved.state === 'saved'")
    expect(alice.page.get_by_role("status").filter(has_text="bob has written 2 words more.")).to_be_visible()
    dialog = bob.open_dialog("share")
    expect(dialog).to_contain_text("This story is alice’s, and you may read and write. Only its owner shares it.")
    bob.press("Escape")
    give(alice, "bob", "read")
    expect(banner(bob)).to_contain_text(MESSAGE)
    dialog = alice.open_dialog("share")
    row(dialog, "bob").get_by_role("button").click()
    expect(
        bob.page.get_by_text("alice does not share this story with you any more. You go on in a copy")
    ).to_be_visible()
    bob.press("Control+End").write(". Again.").wait_until_saved()
    bob.reload()
    bob.expect_text(START + " said Bob. Again.")
    assert list_of(shared, "bobs-key") == [("", "")]


def test_words_that_were_typed_before_the_page_knew_of_the_right_stay(
    alice: Writer, shared: Server, make_page: MakePage, troubles: Troubles
) -> None:
    """The right changes between two questions of the page, so the server refuses a post."""
    troubles.allow("status of 403")
    give(alice, "bob", "write")
    bob = reader_of(alice, shared, make_page())
    go_on = pause(bob.page, "*/v1/srb/stories/*since=*", lambda request: request.fulfill(204))
    give(alice, "bob", "read")
    bob.press("Control+End").write(" said Bob")
    expect(banner(bob)).to_contain_text("This story is alice's, and you may only read it.")
    go_on()
    expect(banner(bob)).to_contain_text(MESSAGE)
    bob.reload()
    bob.expect_text(START + " said Bob")


def test_where_the_page_has_no_name_nothing_of_sharing_is_shown(
    shared: Server, make_page: MakePage, slow: Server
) -> None:
    for page, url, key in ((make_page(), shared.url, "first-key"), (make_page(), slow.url, None)):
        writer = Writer(page, url, key=key).write("A diary of mine.").wait_until_saved()
        dialog = writer.open_dialog("stories")
        expect(dialog.get_by_role("button", name="Rename “A diary of mine.”").first).to_be_visible()
        expect(dialog.get_by_role("button", name="Share")).to_have_count(0)
        writer.press("Escape", "Control+k")
        palette = page.get_by_role("dialog", name="All actions")
        expect(palette.get_by_role("button", name="Settings").first).to_be_visible()
        expect(palette.get_by_role("button", name="Share this story")).to_have_count(0)
        writer.press("Escape")
        page.get_by_role("button", name="More", exact=True).click()
        expect(page.get_by_role("button", name="Chapters", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Share", exact=True)).to_have_count(0)


@in_each_look
def test_sharing_has_no_barriers(
    shared: Server, make_page: MakePage, troubles: Troubles, look: dict[str, object]
) -> None:
    troubles.allow("status of 400")
    page = make_page(bypass_csp=True, **look)
    alice = Writer(page, shared.url, key="alices-key").write(START).wait_until_saved()
    dialog = alice.open_dialog("share")
    expect(dialog).to_contain_text("You share it with nobody.")
    assert violations(page) == []
    dialog.get_by_label("Name", exact=True).fill("bob")
    alice.press("Enter")
    expect(row(dialog, "bob")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("a name that nobody has")
    alice.press("Enter")
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    alice.press("Escape")
    other = make_page(bypass_csp=True, **look)
    bob = reader_of(alice, shared, other)
    expect(banner(bob)).to_contain_text(MESSAGE)
    assert violations(other) == []
