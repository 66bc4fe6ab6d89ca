"""A story that is opened: its text is computed before its first round, also after everything was killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Troubles
from tests.page.writer import Writer
from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

TEXT = "The keeper of the lighthouse on the northern cliff wrote every evening into his book. " * 40


def warmed(server: Server) -> float:
    """Tokens of prompts that were computed or found."""
    return server.metric("prompt_tokens_total") + server.metric("prompt_tokens_cached_total")


def test_after_everything_was_killed_a_story_that_is_opened_is_read_before_its_first_round(
    make_server: MakeServer, page: Page, troubles: Troubles, tmp_path: Path
) -> None:
    kept = {"cache_disk": tmp_path / "texts", "cache_disk_mib": 100, "stories": tmp_path / "stories.sqlite3"}
    server = make_server(model="fake:0", n_ctx=8192, **kept).start()
    writer = Writer(page, server.url).set(n=2, max_tokens=20)
    page.evaluate("(text) => desk.manuscript.insert(text)", TEXT)
    writer.go().wait_for_end().wait_until_saved()
    wait_for(lambda: server.metric("stored_tokens_written_total") > 500, "the text is on the disk")
    troubles.allow("ERR_")  # of the server that is away
    server.kill()
    server.start()
    writer.reload()
    wait_for(lambda: server.metric("stored_tokens_read_total") > 500, "the text is read")
    assert server.metric("tokens_predicted_total") == 0
    assert writer.page.evaluate("desk.story.runs.size") == 1
    computed, found = server.metric("prompt_tokens_total"), server.metric("prompt_tokens_cached_total")
    writer.press("Escape").go().wait_for_end()
    assert server.metric("prompt_tokens_cached_total") - found > 500
    assert server.metric("prompt_tokens_total") - computed < 64  # what a card wrote, and half a word
    expect(page.locator("srb-header .warming")).to_have_count(0)


def test_the_header_tells_of_a_text_that_takes_long_until_a_round_begins(make_server: MakeServer, page: Page) -> None:
    server = make_server(model="fake:2", n_ctx=8192).start()  # two steps a second
    writer = Writer(page, server.url).set(n=2, max_tokens=3)
    page.evaluate("(text) => desk.manuscript.insert(text)", TEXT)
    writer.wait_until_saved()
    assert warmed(server) == 0  # nobody has opened it
    writer.reload()
    told = page.locator("srb-header .warming")
    expect(told).to_have_text(re.compile(r"^reading … \d+ %$"))
    before = told.inner_text()
    wait_for(lambda: told.inner_text() != before, "the percentage grows")
    assert not page.evaluate("desk.isRunning")
    writer.press("Control+Enter")
    expect(told).to_have_count(0)
    wait_for(lambda: server.metric("requests_processing") <= 1, "the round alone is computed")
