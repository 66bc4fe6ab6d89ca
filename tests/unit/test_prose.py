"""The measures of bench/prose.py, with values counted by hand."""

from __future__ import annotations

import re
from pathlib import Path

from bench.prose import SETTINGS, groups, loops, repeated, sentences_of, words_of

PRESETS = Path(__file__).parents[2] / "srb/page/sampling.js"


def test_words_and_sentences_are_alike_whatever_their_marks() -> None:
    assert words_of("“Don't,” she SAID — twice…") == ["don't", "she", "said", "twice"]
    text = 'He went home. "He went HOME!" It rained.\nHe went home'
    assert sentences_of(text) == ["he went home"] * 3  # those of three words and more
    assert repeated(sentences_of("He went home. It rained all day. He went home!")) == 1 / 3


def test_what_has_come_before_is_counted_once_for_each_time() -> None:
    assert repeated(list("abcabca")) == 4 / 7
    assert repeated([]) == 0
    assert groups(["a", "b", "c"], 2) == [("a", "b"), ("b", "c")]
    assert groups(["a"], 2) == []


def test_a_text_loops_if_more_than_a_seventh_of_it_comes_again() -> None:
    fresh = [f"word{number}" for number in range(24)]
    assert not loops(" ".join(fresh))
    assert not loops(" ".join(fresh + fresh[:7]))  # 3 of 27 groups of five
    assert loops(" ".join(fresh + fresh[:9]))  # 5 of 29


def test_the_page_presets_are_among_what_is_measured() -> None:
    source = PRESETS.read_text()
    for preset in ("temperature: 0.7, min_p: 0.1", "temperature: 1, min_p: 0.05"):
        assert preset in source
        name = preset.replace(":", "").replace("_", "-")
        assert f"{name}, DRY across lines" in SETTINGS
    [wild] = re.findall(r"wild: \{(.*?)\}", source, re.DOTALL)
    measured = SETTINGS["temperature 1.3, min-p 0.03, XTC 0.3, DRY across lines"]
    given = dict(re.findall(r"(\w+): ([\d.]+)", wild))
    assert {name: float(value) for name, value in given.items()}.items() <= measured.items()
    assert {"dry_multiplier": 0.8, "dry_penalty_last_n": 4096}.items() <= SETTINGS[
        "the server's, DRY across lines"
    ].items()
