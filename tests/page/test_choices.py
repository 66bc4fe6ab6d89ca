"""The choices of a story that was written at the page: what was taken of a round, beside what was passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator

from tests.page.writer import Writer

pytestmark = pytest.mark.e2e


def export(dialog: Locator, format_: str) -> list[dict[str, Any]]:
    with dialog.page.expect_download() as download:
        dialog.get_by_role("button", name=format_, exact=True).click()
    return [json.loads(line) for line in download.value.path().read_text().splitlines()]


def test_a_round_of_which_a_card_was_taken_is_pairs_and_labels_with_their_seeds(writer: Writer) -> None:
    writer.write("Once upon a time,").set(n=3, max_tokens=5, seed=7, ignore_eos=True).go().wait_for_end()
    texts = writer.page.evaluate("desk.round.slots.map((slot) => slot.text)")
    writer.to_cards().press("Shift+Digit2").wait("desk.text.length > 17").wait_until_saved()
    dialog = writer.open_dialog("formats")
    pairs = export(dialog, "Choices, in pairs")
    assert [(row["prompt"], row["chosen"], row["rejected"]) for row in pairs] == [
        ("Once upon a time,", texts[1], texts[0]),
        ("Once upon a time,", texts[1], texts[2]),
    ]
    assert [(row["chosen_seed"], row["rejected_seed"]) for row in pairs] == [(8, 7), (8, 9)]
    assert json.loads(pairs[0]["parameters"])["n"] == 3
    labels = export(dialog, "Choices, one by one")
    assert [(row["completion"], row["label"]) for row in labels] == list(zip(texts, [False, True, False], strict=True))
