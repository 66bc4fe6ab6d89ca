"""A story as large as a book, in the srb-story form: rounds of eight branches, one of them taken, and a person's words.

Every twentieth round the person changes a word further up, so that the tree has splices of all kinds.
"""

from __future__ import annotations

import random
from typing import Any

WORDS = [
    "the",
    "a",
    "keeper",
    "light",
    "sea",
    "boat",
    "night",
    "went",
    "found",
    "said",
    "she",
    "they",
    "nobody",
    "quiet",
]
BRANCHES = 8
PARAGRAPH = 90  # words, over all nodes: an editor draws a paragraph as one
MADE = 1_795_300_000_000  # ms; nodes are a second apart


class LongStory:
    """A story that grows by rounds until it has so many words and nodes."""

    def __init__(self, words: int, nodes: int, seed: int = 1) -> None:
        rounds = nodes // (BRANCHES + 1)
        self._random = random.Random(seed)
        self._nodes: dict[str, dict[str, Any]] = {}
        self._runs: dict[str, dict[str, Any]] = {}
        self._length = 0  # of the manuscript
        self._said = 0  # words
        self._head = self._add({"text": "Once upon a time,", "by": "person"}, kept=0)
        each = words // rounds
        for number in range(rounds):
            self._round(number, model_words=each * 9 // 10, own_words=each - each * 9 // 10)

    def json(self) -> dict[str, Any]:
        """Return the file."""
        return {
            "format": "srb-story",
            "version": 1,
            "id": "longstory",
            "title": "A book",
            "head": {"node": self._head, "at": self._length},
            "changed": MADE + 1000 * len(self._nodes),
            "nodes": self._nodes,
            "runs": self._runs,
        }

    def _round(self, number: int, model_words: int, own_words: int) -> None:
        parent, keep, run = self._head, self._length, f"r{number}"
        made = MADE + 1000 * len(self._nodes)
        request = {"n": BRANCHES, "max_tokens": 128}
        self._runs[run] = {
            "node": parent,
            "at": keep,
            "made": made,
            "model": "a-model",
            "seeds": [],
            "request": request,
        }
        taken = self._random.randrange(BRANCHES)
        for slot in range(BRANCHES):
            length = model_words if slot == taken else self._random.randint(4, model_words // 3)
            branch = {
                "by": "model",
                "run": run,
                "index": slot,
                "slot": slot,
                "end": {"reason": "limit"},
                "logprob": -1.5,
            }
            node = self._add({"parent": parent, "keep": keep, "text": self._prose(length), **branch}, kept=keep)
            if slot == taken:
                self._head, kept_length = node, self._length
        self._length = kept_length
        if number % 20 == 19:
            self._change_a_word(self._length - self._random.randint(1000, 2000))
        else:
            fields = {"parent": self._head, "keep": self._length, "by": "person"}
            self._head = self._add({**fields, "text": self._prose(own_words)}, kept=self._length)

    def _change_a_word(self, at: int) -> None:
        length, word = self._length, " lighthouse"
        fields = {"parent": self._head, "keep": at, "tail": at + 5, "by": "person"}
        self._head = self._add({**fields, "text": word}, kept=at)
        self._length = length - 5 + len(word)

    def _add(self, node: dict[str, Any], kept: int) -> str:
        name = f"n{len(self._nodes)}"
        self._nodes[name] = {**node, "made": MADE + 1000 * len(self._nodes)}
        self._length = kept + len(node["text"])
        return name

    def _prose(self, words: int) -> str:
        said = []
        for _ in range(words):
            self._said += 1
            end = ".\n\n" if self._said % PARAGRAPH == 0 else ". " if self._said % 14 == 0 else " "
            said.append(self._random.choice(WORDS) + end)
        return " " + "".join(said).rstrip(" ")
