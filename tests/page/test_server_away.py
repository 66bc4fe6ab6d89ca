"""A server that dies in the middle of a round: the page says so, keeps all texts, and goes on when it is back."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Troubles
from tests.page.writer import ENDLESS, START, Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

GONE = "The server cannot be reached."
RESTARTING = "The engine stopped and is being started again. Your text is kept."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stories.sqlite3"


@pytest.fixture
def server(make_server: MakeServer, file: Path) -> Server:
    """A server that is killed by its test."""
    return make_server(model="fake:25", ignore_eos="true", stories=file).start()


@pytest.fixture
def writer(server: Server, page: Page, troubles: Troubles) -> Writer:
    """A writer with a round that runs."""
    troubles.allow("net::ERR|status of 50[234]")
    writer = Writer(page, server.url).set(max_tokens=ENDLESS, stop_at="").write(START).go()
    return writer.wait_until_saved()


def texts(server: Server, writer: Writer) -> list[str]:
    """The texts of the story's nodes as the server has them."""
    story = server.get(f"/v1/srb/stories/{writer.story()['id']}").json()
    return sorted(node["text"] for node in story["nodes"].values())


def own_texts(writer: Writer) -> list[str]:
    return sorted(node["text"] for node in writer.story()["nodes"].values())


@pytest.mark.smoke
def test_a_server_killed_in_a_round_is_told_of_and_no_text_is_lost(
    writer: Writer, server: Server, make_server: MakeServer, file: Path
) -> None:
    page = writer.page
    before = [slot["text"] for slot in writer.slots()]
    server.kill()
    expect(page.get_by_role("alert").filter(has_text=GONE).first).to_be_visible()
    writer.wait_for_end()
    kept = [slot["text"] for slot in writer.slots()]
    assert all(now.startswith(text) for now, text in zip(kept, before, strict=True))
    expect(writer.card(1)).to_have_accessible_description(
        "The connection was lost: The connection to the server was lost. Key 1 takes it."
    )
    writer.write(" he said")
    expect(page.locator("srb-header .saved")).to_have_text("kept in this browser until the server is back")
    writer.to_cards().press("Shift+Digit2")
    writer.wait("desk.text.startsWith(argument)", START + " he said").wait(
        "desk.text.includes(argument)", kept[1].strip()
    )

    page.get_by_role("button", name="Close this message").click()
    expect(page.locator("srb-banner .server")).to_contain_text(GONE)
    page.evaluate("async () => { await desk.watch.asking; desk.watch.stop(); }")  # it would find the server by itself
    again = make_server(model="fake:25", ignore_eos="true", stories=file, port=server.port).start()
    page.locator("srb-banner .server").get_by_role("button", name="Try again").click()
    expect(page.locator("srb-banner .server")).to_have_count(0)
    writer.wait_until_saved()
    assert texts(again, writer) == own_texts(writer)
    assert " he said" in texts(again, writer)
    writer.press("Control+Enter").wait("desk.round.slots.every((slot) => slot.state === 'running')")


def test_the_round_itself_can_be_tried_again(
    writer: Writer, server: Server, make_server: MakeServer, file: Path
) -> None:
    server.kill()
    writer.wait_for_end()
    failed = writer.page.evaluate("desk.round.id")
    make_server(model="fake:25", ignore_eos="true", stories=file, port=server.port).start()
    writer.page.locator("srb-banner .error").get_by_role("button", name="Try again").click()
    writer.wait("desk.round.id !== argument && desk.round.slots.every((slot) => slot.text)", failed)
    writer.expect_text(START)


def test_an_engine_killed_in_a_round_is_told_of_and_the_round_is_filled_again(writer: Writer, server: Server) -> None:
    page = writer.page
    banner = page.locator("srb-banner .server")
    before, round_id = [slot["text"] for slot in writer.slots()], page.evaluate("desk.round.id")
    supervisor, engine = server.supervisor, server.engine
    os.kill(supervisor, signal.SIGSTOP)  # the next engine takes long to load
    try:
        os.kill(engine, signal.SIGKILL)
        expect(page.get_by_role("alert").filter(has_text=RESTARTING)).to_be_visible()
        writer.wait_for_end()
        kept = [slot["text"] for slot in writer.slots()]
        assert all(now.startswith(text) for now, text in zip(kept, before, strict=True))
        expect(writer.card(1)).to_have_accessible_description(re.compile(r"engine was restarted.* Key 1 takes it\.$"))
        writer.write(" he said").wait("desk.saved.state === 'saved' && !desk.story.changed")
        assert " he said" in texts(server, writer)
        assert texts(server, writer) == own_texts(writer)
        expect(banner).to_have_text(RESTARTING)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    expect(banner).to_have_count(0)
    assert server.engine != engine
    assert {slot["state"] for slot in writer.slots()} == {"failed"}
    writer.to_cards().press("r").wait("desk.round.slots.every((slot) => slot.state === 'running')")
    assert page.evaluate("desk.round.id") == round_id
    assert set(kept) <= set(writer.model_texts())
    writer.wait_until_saved()
