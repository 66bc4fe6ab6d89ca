"""Expand story templates against a frame: choices, slots, pronouns, first mentions, capitals and articles.

A template is plain text with ``{a|b}`` (one of), ``[slot]`` (from the frame), ``¶`` (a paragraph break) and an optional
head ``<1>``, ``<3>``, ``<-world,world>``, ``<+world>`` or ``<~plot,plot>`` that limits where it may be used.
``[^slot]`` capitalises.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Slot = str | Callable[[], str]

_CHOICE = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"\[(\^?)([A-Za-z_0-9 ]+)\]")
_HEAD = re.compile(r"^<([^>]*)>\s*")

PRONOUNS = {
    "she": ("she", "her", "her", "hers", "herself"),
    "he": ("he", "him", "his", "his", "himself"),
    "it": ("it", "it", "its", "its", "itself"),
    "I": ("I", "me", "my", "mine", "myself"),
}


@dataclass(slots=True)
class Person:
    """Someone in the story; ``known`` says whether the reader has met them."""

    name: str
    gender: str
    role: str = ""
    short: str = ""
    first: str = ""
    known: bool = False

    def mention(self, rng: random.Random) -> str:
        """Return what to call this person here: an introduction the first time, a name or a short form after."""
        if self.gender == "I":
            return "I"
        if not self.known:
            self.known = True
            return self.first or self.name
        if self.short and (not self.name or rng.random() < 0.12):
            return f"the {self.short}"
        return self.name or f"the {self.short}"


@dataclass(slots=True)
class Frame:
    """The facts of one story: its slots, its world and who tells it (1 or 3)."""

    rng: random.Random
    world: str
    person: int
    plot: str = ""
    slots: dict[str, Slot] = field(default_factory=dict)

    def pick(self, templates: list[str]) -> str:
        """Choose one template that is allowed in this frame and return it without its head."""
        allowed = [text for text in templates if self._allows(text)]
        return _HEAD.sub("", self.rng.choice(allowed))

    def _allows(self, template: str) -> bool:
        head = _HEAD.match(template)
        if not head:
            return True
        tag = head.group(1)
        if tag in "13":
            return int(tag) == self.person
        names = tag[1:].split(",")
        if tag[0] == "~":
            return self.plot in names
        return (self.world in names) == (tag[0] == "+")

    def expand(self, template: str) -> str:
        """Resolve choices (innermost first), then slots from left to right so that first mentions come first."""
        text = template
        while match := _CHOICE.search(text):
            text = text[: match.start()] + self.rng.choice(match.group(1).split("|")) + text[match.end() :]
        return _SLOT.sub(self._slot, text)

    def _slot(self, match: re.Match[str]) -> str:
        value = self.slots[match.group(2)]
        text = value() if callable(value) else self.expand(value)
        return text[:1].upper() + text[1:] if match.group(1) else text


_SILENT_H = ("hour", "honest")
_HARD = ("one", "once", "use", "uni", "eu")


def _article(match: re.Match[str]) -> str:
    letter, word = match.group(1), match.group(2).lower()
    vowel = word.startswith(_SILENT_H) or (word[0] in "aeiou" and not word.startswith(_HARD))
    return f"{letter}n {match.group(2)}" if vowel else f"{letter} {match.group(2)}"


def polish(text: str) -> str:
    """Repair what joining templates leaves behind: spaces, doubled stops, a/an and sentence capitals."""
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ([,.;:?!])", r"\1", text)
    text = re.sub(r'\.,"', ',"', text)
    text = re.sub(r'([?!])[,.]"', r'\1"', text)
    text = re.sub(r'([?!.])"\.', r'\1"', text)
    text = re.sub(r"([?!])\.", r"\1", text)
    text = re.sub(r"(?<!\.)\.\.(?!\.)", ".", text)
    text = re.sub(r",\.", ".", text)
    text = re.sub(r"\b([Aa]) ([A-Za-z]+)", _article, text)
    text = re.sub(r'(\w)" (?=[a-z])', r'\1," ', text)
    text = re.sub(r'(\w)"(?=\s*(?:¶|$))', r'\1."', text)
    text = re.sub(r"(?:\s*¶)+\s*", "\n\n", text).strip()
    # A sentence starts at a paragraph's start, after a stop, and after a quotation that a full stop closed.
    text = re.sub(r'((?:^|\n\n|[.?!] |\." )"?)([a-z])', lambda m: m.group(1) + m.group(2).upper(), text)
    return text


def load_groups(name: str) -> dict[str, list[str]]:
    """Read a content file: ``== group`` heads, one template per line, ``#`` comments."""
    groups: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if line.startswith("=="):
            lines = groups.setdefault(line[2:].strip(), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return groups


def load_fields(name: str) -> dict[str, dict[str, list[str]]]:
    """Read a content file whose lines are fields: ``field: item; item``."""
    fields: dict[str, dict[str, list[str]]] = {}
    for group, lines in load_groups(name).items():
        pairs = (line.partition(":") for line in lines)
        fields[group] = {key: [item.strip() for item in items.split(";")] for key, _, items in pairs}
    return fields


@dataclass(frozen=True, slots=True)
class Beat:
    """One step of a plot: interchangeable ways to tell it, and whether it may be left out."""

    lines: tuple[str, ...]
    optional: bool


def load_plots(name: str = "plots.txt") -> dict[str, list[Beat]]:
    """Read the plots: each group's lines split into beats at ``--`` and ``--?``."""
    plots: dict[str, list[Beat]] = {}
    for plot, lines in load_groups(name).items():
        beats: list[tuple[bool, list[str]]] = []
        for line in lines:
            if line.startswith("--"):
                beats.append((line.startswith("--?"), []))
            else:
                beats[-1][1].append(line)
        plots[plot] = [Beat(tuple(texts), optional) for optional, texts in beats]
    return plots
