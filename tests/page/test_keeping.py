"""The keeping of stories against a real server, which is killed, shared by tabs and machines, or keeps no stories."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.disks import remount
from tests.needs import long
from tests.page.conftest import MakePage, Troubles
from tests.page.writer import START, Writer
from tests.postgresql import PostgreSQL
from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

UNREACHABLE = "net::ERR_"  # by which call of the system Chromium sees it depends on the moment

SAVED = "desk.saved.state === 'saved' && !desk.story.changed"


@pytest.fixture
def shared(server_with: MakeServer) -> Server:
    """A server with stories that the tests of this file share."""
    return server_with(model="fake:25", max_client_requests=64)


@pytest.fixture
def fragile(make_server: MakeServer, tmp_path: Path, troubles: Troubles) -> Server:
    """A server of the test's own, which it may kill."""
    troubles.allow("status of 503")  # it listens again before its engine is ready
    return make_server(model="fake:25", stories=tmp_path / "stories.sqlite3").start()


def stored(server: Server, page: Page) -> dict[str, Any]:
    """Return the open story as the server has it."""
    answer = server.get(f"/v1/srb/stories/{page.evaluate('desk.story.id')}")
    assert answer.status_code == 200, answer.text
    story: dict[str, Any] = answer.json()
    return story


def written(server: Server, page: Page) -> str:
    """Return what a person has typed in the open story, one word after the other, as the server has it."""
    return "".join(node["text"] for node in stored(server, page)["nodes"].values())


@pytest.mark.smoke
def test_words_are_on_the_server_when_the_page_says_saved(page: Page, shared: Server) -> None:
    writer = Writer(page, shared.url).write(START).wait(SAVED)
    story = stored(shared, page)
    assert [node["text"] for node in story["nodes"].values()] == [START]
    assert story["meta"]["title"]["value"] == START
    assert story["meta"]["words"]["value"] == 4
    expect(page.locator("srb-header .saved")).to_contain_text("saved")
    writer.write(" there lived").wait(SAVED)
    assert written(shared, page) == START + " there lived"


@pytest.mark.smoke
def test_a_reload_and_another_machine_show_text_place_and_branches(make_page: MakePage, shared: Server) -> None:
    writer = Writer(make_page(), shared.url).set(max_tokens=400, stop_at="").write(START).go()
    seen = writer.page.evaluate("desk.round.slots.map(({ text }) => text)")
    writer.wait("desk.round.slots.every((slot) => slot.node)").press("Escape").wait(SAVED)
    story = writer.page.evaluate("desk.story.id")
    writer.reload()
    elsewhere = Writer(make_page(), shared.url)
    elsewhere.page.evaluate("(id) => desk.openStory(id)", story)
    elsewhere.wait("desk.story.id === argument", story)
    for each in (writer, elsewhere):
        each.expect_text(START)
        kept = each.model_texts()
        assert all(any(text.startswith(part) for text in kept) for part in seen)
        expect(each.cards).to_have_count(8)


def test_the_first_words_of_a_story_are_there_after_a_reload_right_behind_them(writer: Writer) -> None:
    for words in ("Once", "Twice"):
        writer.page.evaluate("desk.newStory()")
        writer.write(words).reload()
        writer.expect_text(words)


@pytest.mark.smoke
def test_a_killed_server_loses_nothing_that_was_written_meanwhile(
    page: Page, fragile: Server, troubles: Troubles
) -> None:
    troubles.expect(UNREACHABLE)
    writer = Writer(page, fragile.url).write(START).wait(SAVED)
    fragile.kill()
    writer.write(" there lived a keeper").wait("desk.saved.state === 'outbox'")
    expect(page.locator("srb-banner .kept")).to_contain_text("kept in this browser")
    fragile.start()
    writer.wait(SAVED)
    assert written(fragile, page) == START + " there lived a keeper"
    writer.reload()
    writer.expect_text(START + " there lived a keeper")


def test_a_page_that_was_closed_while_the_server_was_dead_sends_its_words_later(
    page: Page, fragile: Server, troubles: Troubles
) -> None:
    troubles.expect(UNREACHABLE)
    writer = Writer(page, fragile.url).write(START).wait(SAVED)
    fragile.kill()
    writer.write(" there lived a keeper").wait("desk.saved.state === 'outbox'")
    kept = "desk.keeper.outbox.read(desk.story.id)"  # the last words come there within a second
    wait_for(lambda: "a keeper" in str(page.evaluate(kept)), "the browser has all words")
    context = page.context
    page.close()
    fragile.start()
    again = Writer(context.new_page(), fragile.url, is_new=False)
    again.expect_text(START + " there lived a keeper")
    again.wait(SAVED)
    assert written(fragile, again.page) == START + " there lived a keeper"
    wait_for(lambda: again.page.evaluate("desk.keeper.outbox.list()") == [], "the outbox is empty")


@pytest.mark.parametrize("times", [2, *long(6)])
def test_killed_at_any_moment_the_server_has_all_that_was_shown_as_saved(
    page: Page, fragile: Server, troubles: Troubles, times: int
) -> None:
    troubles.expect(UNREACHABLE)
    writer = Writer(page, fragile.url)
    text = ""
    for time in range(times):
        writer.write(f"word{time} ").wait(SAVED)
        shown_as_saved = text = text + f"word{time} "
        assert page.evaluate("desk.text") == shown_as_saved
        if time % 2:  # killed while it saves, else before it is asked to
            with page.expect_request(lambda each: each.method == "POST" and "/v1/srb/stories/" in each.url):
                writer.write(f"more{time} ")
        else:
            writer.write(f"more{time} ").wait("desk.saved.state !== 'saved' || desk.story.changed")
        fragile.kill()
        writer.write(f"rest{time} ").wait("desk.saved.state === 'outbox'")
        text += f"more{time} rest{time} "
        fragile.start()
        assert written(fragile, page).startswith(shown_as_saved)
        writer.wait("(desk.keeper.wake(), true)").wait(SAVED)
    assert written(fragile, page) == writer.text == text


@pytest.mark.parametrize("profiles", [1, 2], ids=["two tabs", "two machines"])
def test_two_who_write_in_one_story_lose_nothing(make_page: MakePage, shared: Server, profiles: int) -> None:
    first = make_page()
    one = Writer(first, shared.url).write(START).wait(SAVED)
    second = first.context.new_page() if profiles == 1 else make_page()
    other = Writer(second, shared.url)
    other.page.evaluate("(id) => desk.openStory(id)", first.evaluate("desk.story.id"))
    other.wait("desk.text === argument", START)
    for turn in range(4):
        one.write(f" one{turn}")
        other.write(f" other{turn}")
    mine = START + "".join(f" one{turn}" for turn in range(4))
    theirs = START + "".join(f" other{turn}" for turn in range(4))
    for each, own in ((one, mine), (other, theirs)):
        each.wait(
            "argument.every((text) => [...desk.story.nodes.keys()].some((id) => desk.story.text(id) === text))",
            [mine, theirs],
        )
        each.expect_text(own)
        each.wait(SAVED)


def test_without_stories_the_browser_keeps_them_and_says_so(
    make_server: MakeServer, make_page: MakePage, troubles: Troubles
) -> None:
    troubles.expect("status of 404.*/v1/srb/stories")
    server = make_server(model="fake:", stories="").start()
    page = make_page()
    writer = Writer(page, server.url).write(START).wait("desk.saved.state === 'browser' && !desk.story.changed")
    writer.wait("desk.keeper.at > 0")
    writer.reload()
    writer.expect_text(START)
    page.evaluate("desk.openDialog('stories')")
    expect(page.get_by_role("dialog")).to_contain_text("they are in this browser only")
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_contain_text(START)
    other = Writer(make_page(), server.url, is_new=False)
    assert other.page.evaluate("desk.text") == ""


def test_stories_that_the_server_cannot_read_are_told_of_and_words_are_kept(
    make_server: MakeServer, tmp_path: Path, page: Page, troubles: Troubles
) -> None:
    troubles.expect("status of 503")
    file = tmp_path / "stories.sqlite3"
    file.write_text("no database, but somebody's letters\n" * 100)
    server = make_server(model="fake:", stories=file).start()
    writer = Writer(page, server.url).write(START).wait("desk.saved.state === 'outbox'")
    banner = page.locator("srb-banner .kept")
    expect(banner).to_contain_text("stories.sqlite3")
    expect(banner).to_contain_text("kept in this browser")
    writer.go()
    file.unlink()
    writer.wait("(desk.keeper.wake(), true)").wait("desk.saved.state === 'saved'")
    assert written(server, page).startswith(START)


def test_a_full_disk_is_told_of_and_words_are_kept_until_there_is_room(
    make_server: MakeServer, tmp_path: Path, page: Page, troubles: Troubles
) -> None:
    troubles.expect("status of 507")
    server = make_server(model="fake:", stories=tmp_path / "stories.sqlite3")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))  # the server inherits it
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer = Writer(page, server.url).write(START).wait(SAVED)
    book = (" the old king found the garden near the river" * 20 + "\n") * 900
    file = {"name": "book.txt", "mimeType": "text/plain", "buffer": book.encode()}
    writer.open_dialog("formats").get_by_label("Choose files").set_input_files(file)  # type: ignore[arg-type]
    writer.wait("desk.saved.state === 'outbox'")
    banner = page.locator("srb-banner .kept")
    expect(banner).to_contain_text("There is no room to save")
    expect(banner).to_contain_text("kept in this browser")
    writer.go()
    writer.press("Escape")
    for pid in server.workers:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    writer.wait("(desk.keeper.wake(), true)").wait(SAVED)
    expect(banner).to_have_count(0)
    texts = [node["text"] for node in stored(server, page)["nodes"].values() if node["by"] != "model"]
    assert "".join(texts) == book


def test_a_database_that_goes_away_is_told_of_and_words_are_kept_until_it_is_back(
    make_server: MakeServer, postgresql: PostgreSQL, page: Page, troubles: Troubles
) -> None:
    troubles.allow("status of 503")
    postgresql.make("keeping")
    server = make_server(model="fake:", stories=postgresql.far_address("keeping")).start()
    writer = Writer(page, server.url).write(START).wait(SAVED)
    postgresql.kill()
    try:
        writer.write(" Nobody saw it.").wait("desk.saved.state === 'outbox'")
        banner = page.locator("srb-banner .kept")
        expect(banner).to_contain_text("does not answer: Connection refused")
        expect(banner).to_contain_text("kept in this browser")
        writer.go()
    finally:
        postgresql.start()
    writer.wait(SAVED)
    expect(banner).to_have_count(0)
    assert written(server, page).startswith(f"{START} Nobody saw it.")


def test_a_folder_that_cannot_be_written_is_told_of_and_words_are_kept(
    make_server: MakeServer, small_disk: Path, page: Page, troubles: Troubles
) -> None:
    troubles.expect("status of 503")
    troubles.allow(UNREACHABLE)
    file = small_disk / "stories.sqlite3"
    first = make_server(model="fake:", stories=file).start()
    Writer(page, first.url).write(START).wait(SAVED)
    first.stop()
    remount(small_disk, "ro")
    server = make_server(model="fake:", stories=file, port=first.port).start()
    writer = Writer(page, server.url, is_new=False)
    writer.expect_text(START)
    writer.write(" there lived").wait("desk.saved.state === 'read_only'")
    expect(page.locator("srb-header .saved")).to_have_text("not saved: the server cannot write")
    expect(page.locator("srb-banner .kept")).to_contain_text("kept in this browser")
    writer.go()
    remount(small_disk, "rw")
    writer.wait("(desk.keeper.wake(), true)").wait("desk.saved.state === 'saved'")
    texts = [node["text"] for node in stored(server, page)["nodes"].values() if node["by"] != "model"]
    assert any(text.endswith(" there lived") for text in texts)  # in the node that was begun, or in one of its own


@pytest.mark.smoke
def test_a_story_is_renamed_binned_and_restored_on_the_server(page: Page, shared: Server) -> None:
    Writer(page, shared.url).write("A story to throw away").wait(SAVED)
    id_ = page.evaluate("desk.story.id")
    page.evaluate("desk.newStory()")
    page.evaluate("desk.openDialog('stories')")
    page.get_by_role("button", name="Rename “A story to throw away”").click()
    page.keyboard.type("Thrown away")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Rename “Thrown away”")).to_be_visible()
    page.get_by_role("button", name="Put “Thrown away” into the bin").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Undo")).to_be_visible()
    binned = shared.get("/v1/srb/stories?deleted=1").json()["stories"]
    assert [(story["id"], story["title"]) for story in binned] == [(id_, "Thrown away")]
    page.get_by_role("button", name="Bin", exact=True).click()
    page.get_by_role("button", name="Restore “Thrown away”").click()
    expect(page.get_by_text("The bin is empty.")).to_be_visible()
    assert id_ in [story["id"] for story in shared.get("/v1/srb/stories").json()["stories"]]


def test_the_sample_shows_a_tree_with_rounds(page: Page, shared: Server) -> None:
    writer = Writer(page, shared.url)
    page.evaluate("desk.openDialog('stories')")
    page.get_by_role("button", name="Open a sample", exact=True).click()
    writer.wait("desk.title === 'The last ferry'").wait(SAVED)
    assert writer.text.startswith("The last ferry to Inish Carrow")
    expect(writer.cards).to_have_count(3)
    assert len(stored(shared, page)["nodes"]) >= 20
