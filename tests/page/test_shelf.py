"""The browser's IndexedDB as the shelf of stories: the contract that the shelf in memory keeps to as well."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.page.conftest import MakePage
from tests.page.parts_alone import open_harness


@pytest.fixture
def page(make_page: MakePage) -> Page:
    page = make_page()
    open_harness(page, "shelf")
    return page


def test_the_shelf_in_the_browser_keeps_its_contract(page: Page) -> None:
    promises = page.evaluate("promises")
    assert len(promises) >= 7
    broken = {promise: page.evaluate("(promise) => run(promise)", promise) for promise in promises}
    assert not any(broken.values()), broken


def test_values_are_there_when_the_page_is_opened_again(page: Page) -> None:
    page.evaluate("new IdbShelf('stories').change([['a', 'nodes', 'n1']], () => ({ text: 'Once' }))")
    page.reload()
    page.wait_for_function("() => window.ready === true")
    assert page.evaluate("new IdbShelf('stories').read('a')") == [[["a", "nodes", "n1"], {"text": "Once"}]]


def test_a_shelf_goes_on_after_its_database_was_deleted(page: Page) -> None:
    assert page.evaluate("deleteUnder('doomed')") == [[["a", "2"], 2]]
