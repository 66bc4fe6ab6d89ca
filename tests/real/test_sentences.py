"""Branches that end at a sentence, a line or a paragraph, in what real models write in five languages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.servers import Server

pytestmark = pytest.mark.timeout(600)  # seconds of a test, for a machine that does much else

MARK = r"[.!?…]+[\"'”’“»)*\]]*(?:\s»)?"
PROMPTS = [
    "The old man sat by the fire and",
    'She opened the door. "Who',
    "Le vieil homme regardait la mer et",
    "Der alte Mann saß am Feuer und",
    "El viejo miraba el mar y",
    "Старик сидел у огня и",
]
LISTS = ["Steps to bake bread:\n\n1.", "Ingredients:\n\n- 2 cups of flour\n-"]


def write(server: Server, prompt: str, boundary: str) -> list[str]:
    """Return the texts of the branches that end at a boundary."""
    body = {
        "prompt": prompt,
        "n": 6,
        "seed": 3,
        "max_tokens": 64,
        "stop_at": boundary,
        "temperature": 0.7,
        "stream": False,
    }
    said: list[dict[str, Any]] = server.post("/v1/srb/completions", body).json()["completions"]
    return [each["text"] for each in said if each["reason"] == "boundary"]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_branch_ends_behind_its_first_sentence(model: Server, prompt: str) -> None:
    ended = write(model, prompt, "sentence")
    assert len(ended) >= 2
    assert any(re.search(MARK + "$", text) for text in ended)  # others: before an empty line
    second = r"\w{4,}" + MARK + r"\s+(?!I\b)[A-ZÀ-ÝА-Я¿¡]"  # where one would begin
    assert not [text for text in ended if re.search(second, text)]


@pytest.mark.parametrize("prompt", LISTS)
def test_an_entry_of_a_list_is_a_sentence_of_its_own(model: Server, prompt: str) -> None:
    ended = write(model, prompt, "sentence")
    assert len(ended) >= 2
    assert not [text for text in ended if re.search(r"[^,;:\s]\s*\n\s*(?:[-*]|[0-9]+\.)\s", text)]


def test_stop_at_paragraph_and_line_end_where_a_line_does(smollm2: Server) -> None:
    for boundary in ("line", "paragraph"):
        body = {"prompt": "He left.\n\nShe stayed.\n\nThey", "n": 8, "seed": 3, "max_tokens": 64, "stream": False}
        said = smollm2.post("/v1/srb/completions", body | {"stop_at": boundary}).json()["completions"]
        ended = [each["text"] for each in said if each["reason"] == "boundary"]
        assert len(ended) > 4
        assert all("\n" not in text.rstrip("\n") or boundary == "paragraph" for text in ended)
        assert all("\n\n" not in text.rstrip("\n") for text in ended)
