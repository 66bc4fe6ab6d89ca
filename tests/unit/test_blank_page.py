"""An empty text begins with the BOS, or as a reply where the BOS is a mark of chats."""

from __future__ import annotations

import pytest

from srb.engine.llama.blank_page import reply_before_empty
from srb.web.chat.template import CHATML, NAMED_TEMPLATES


@pytest.mark.parametrize(
    ("template", "bos", "reply"),
    [
        (CHATML, "<|im_start|>", "<|im_start|>assistant\n"),
        (NAMED_TEMPLATES["phi4"], "<|im_start|>", "<|im_start|>assistant<|im_sep|>"),
        (CHATML, "<|endoftext|>", ""),  # as of Qwen: it stands between texts
        ("", "<|endoftext|>", ""),
        (CHATML, "", ""),
        ("{{ messages }} of a kind of its own: <s>", "<s>", ""),
    ],
)
def test_an_empty_text_begins_as_a_reply_only_where_the_bos_is_a_mark_of_chats(
    template: str, bos: str, reply: str
) -> None:
    assert reply_before_empty(template, bos, adds_bos=False) == reply


def test_an_empty_text_begins_with_the_bos_where_all_texts_do() -> None:
    assert reply_before_empty(CHATML, "<|im_start|>", adds_bos=True) == ""
