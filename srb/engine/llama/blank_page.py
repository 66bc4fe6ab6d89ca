"""The beginning of an empty text: the token BOS, or the beginning of a reply where BOS belongs to chats.

The BOS of a model with ChatML is often `<|im_start|>`. In its training a role came next, never a text: from this token
alone SmolLM2 writes "-the-world-is-a". From `<|im_start|>assistant` and a line break it begins sentences.
"""

from __future__ import annotations

import llama_cpp as lib

from srb.engine.llama.strings import string_of


def reply_before_empty(template: str, bos: str, adds_bos: bool) -> str:
    """Return the text with which a reply begins, if an empty text begins as one; else "": it begins with BOS.

    `template` is the model's chat template; `bos` is the text of its BOS, and `adds_bos` whether texts begin with it, as
    then they did in the training, too. Of a template that llama.cpp does not know by itself the beginning is not known.
    """
    if adds_bos or not bos or bos not in template:
        return ""
    message = (lib.llama_chat_message * 1)(lib.llama_chat_message(b"user", b""))
    without, whole = (
        string_of(lib.llama_chat_apply_template, template.encode(), message, 1, begins_reply)
        for begins_reply in (False, True)
    )
    return whole.removeprefix(without)
