"""The context meter and its table: what of a story the model reads, in tokens, and what is left out."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.page.writer import START, Writer
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e


@pytest.fixture
def narrow(server_with: MakeServer) -> Server:
    """A server whose model has a context of 600 tokens."""
    return server_with(model="fake:", n_ctx=600)


def rows(page: Page) -> dict[str, tuple[int, str]]:
    """Open the side panel's table, and return tokens, and what is left out, by the part."""
    page.get_by_role("button", name="Memory and note").click()
    page.locator("summary", has_text="What the model reads").click()
    found: list[list[str]] = page.locator(".sent :is(tbody, tfoot) tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    parts = [(*part.split("\n"), "") for part, _ in found]
    return {name.strip(): (number(tokens), cut) for (name, cut, *_), (_, tokens) in zip(parts, found, strict=True)}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_a_story_that_fits_is_sent_as_a_whole(page: Page, narrow: Server) -> None:
    writer = Writer(page, narrow.url).set(n=2, max_tokens=50).write(START)
    found = rows(writer.page)
    assert list(found) == ["Story", "Room for the branches", "Together, of 600"]
    assert found["Room for the branches"] == (100, "")
    assert found["Together, of 600"][0] == found["Story"][0] + 100
    expect(page.locator("srb-header .cut")).to_have_count(0)


def test_what_does_not_fit_is_told_in_the_header_and_by_its_part(page: Page, narrow: Server) -> None:
    Writer(page, narrow.url).set(n=2, max_tokens=50).write(START)
    page.keyboard.insert_text(" She kept the light and never looked at the sea." * 60)
    page.evaluate("desk.setMemory('Dora is old. '.repeat(200)); desk.setNote({ text: 'Sad.', depth: 1 })")
    expect(page.locator("srb-header .cut")).to_have_text(["beginning cut", "memory cut"])
    found = rows(page)
    assert list(found) == ["Memory", "Story", "Author's note", "Room for the branches", "Together, of 600"]
    assert found["Story"][1].endswith("characters at the beginning are left out")
    assert found["Memory"][1].endswith("characters at the end are left out")
    assert found["Author's note"][1] == ""
    assert found["Together, of 600"][0] <= 600
    expect(page.locator("srb-side-panel .foot > .cut")).to_contain_text("Not all of it fits")
    left_out = number(found["Story"][1].split()[0])
    assert left_out == page.evaluate("desk.context.cut")
