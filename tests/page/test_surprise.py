"""Words that the model did not expect are tinted in the manuscript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.page.accessibility import in_each_look, violations
from tests.page.conftest import MakePage
from tests.page.writer import Writer
from tests.servers import Server

pytestmark = pytest.mark.e2e

TINTED = re.compile("surprise-[2-5]")
START = "Once upon a time, there was a keeper.\n\nHe had a ☃ and said nothing."


def test_words_are_tinted_while_it_is_on_and_what_is_typed_is_read_again(writer: Writer) -> None:
    page = writer.write(START).page
    tints = page.locator("srb-manuscript [class*=surprise-]")
    with page.expect_response("**/v1/srb/surprise") as response:
        writer.press("Alt+s")
    assert response.value.request.post_data_json["texts"] == [START]
    expect(tints.first).to_have_class(TINTED)
    expect(tints.first).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    expect(page.get_by_text("The stronger a word’s colour, the less the model expected it.")).to_be_visible()
    with page.expect_response("**/v1/srb/surprise") as response:
        writer.write(" Xylophones!")
    assert response.value.request.post_data_json["texts"] == [START + " Xylophones!"]
    expect(page.locator("srb-manuscript [class*=surprise-]", has_text="Xylophones")).to_have_count(1)
    assert "nothing. Xylophones!" in writer.text
    writer.press("Alt+s")
    expect(tints).to_have_count(0)


@in_each_look
def test_tinted_words_can_be_read(make_page: MakePage, slow: Server, look: dict[str, object]) -> None:
    page = make_page(bypass_csp=True, **look)
    Writer(page, slow.url).write(START).press("Alt+s")
    expect(page.locator("srb-manuscript [class*=surprise-]").first).to_be_visible()
    assert violations(page) == []
