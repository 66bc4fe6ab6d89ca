"""An afternoon of somebody who writes a novel, by what is to be seen and by the list of actions.

She plans a chapter, writes two beats, gives somebody a scar from here on, asks what is known of him, bans a phrase that
comes too often, and takes her choices with her.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.page.writer import Writer
from tests.servers import MakeServer

pytestmark = pytest.mark.e2e

CHAPTER = "## The Ferry\n\nTom waited for a moment. Then he rowed. " + "For a moment the lake was still. " * 12


def bodies(page: Page) -> list[dict[str, Any]]:
    """The bodies of all requests for branches from now on."""
    found: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/v1/srb/completions") and request.method == "POST":
            found.append(request.post_data_json)

    page.on("request", note)
    return found


def test_six_tasks_of_a_novelist(page: Page, server_with: MakeServer) -> None:
    server = server_with(model="fake:200", chat_template="chatml", n_ctx=4096)
    writer = Writer(page, server.url).set(seed=11, n=3, max_tokens=10, stop_at="", ignore_eos=True)
    writer.write(CHAPTER.replace("\n\n", "\n"))
    sent = bodies(page)

    writer.choose_action("Chapters")
    plan = page.locator("srb-plan")
    plan.get_by_label("What happens in “The Ferry”").fill("Tom loses the oar.")
    for beat in ("the fog comes", "he hears a bell"):
        plan.get_by_label("Another beat").fill(beat)
        page.keyboard.press("Enter")
    expect(plan.locator(".beats li")).to_have_count(2)

    for number, beat in ((1, "the fog comes"), (2, "he hears a bell")):
        plan.get_by_role("button", name="Write the next beat").click()
        writer.wait_for_end()
        assert sent[-1]["directions"] == [beat] * 3
        assert "[In this chapter: Tom loses the oar.]" in sent[-1]["prompt"]
        writer.to_cards().press("Digit1")
        plan.get_by_role("button", name="tick it").click()
        expect(plan.get_by_label(f"Beat {number} is written")).to_be_checked()
        writer.wait_for_end()

    book = page.locator("srb-lorebook")
    book.get_by_role("button", name="Add an entry").click()
    book.get_by_label("Name").fill("Tom")
    book.get_by_label("Keywords", exact=True).fill("Tom")
    book.get_by_label("Text").fill("Tom is whole.")
    book.get_by_role("button", name="Another text from here on").click()
    page.keyboard.type(" Since the ferry he has a scar.")
    page.keyboard.press("Tab")

    writer.press("Alt+a")
    asked = page.get_by_role("dialog", name="Ask the story")
    asked.get_by_label("Your question").fill("What does Tom know here?")
    asked.get_by_role("button", name="Ask", exact=True).click()
    expect(asked.get_by_role("button", name="Keep as a note").first).to_be_visible()
    assert "scar" in sent[-1]["prompt"]
    assert sent[-1]["prompt"].count("What does Tom know here?") == 1
    writer.press("Escape")

    writer.choose_action("Words that come too often")
    often = page.get_by_role("dialog", name="Words that come too often")
    often.get_by_role("button", name="Never: for a moment", exact=True).click()
    writer.press("Escape")
    writer.press("Control+Enter").wait_for_end()
    assert sent[-1]["banned_patterns"] == [{"pattern": r"\bfor\s+a\s+moment\b"}]

    writer.wait_until_saved()
    writer.choose_action("Import and export")
    files = page.get_by_role("dialog", name="Import and export")
    with page.expect_download() as download:
        files.get_by_role("button", name="Choices, in pairs", exact=True).click()
    pairs = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert len(pairs) == 4  # of each beat's round one card was taken, and two were passed over
