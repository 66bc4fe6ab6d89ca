"""WCAG 2.2, levels A and AA, as far as axe can check it."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PRACTICES = ["best-practice"]  # beyond the levels; of whole pages, since parts alone have no landmarks around them
PHONE: dict[str, Any] = {"viewport": {"width": 412, "height": 839}, "has_touch": True, "is_mobile": True}
# Options of a page. By day each part is looked at in one look, at night in all of them.
EACH_LOOK = [
    pytest.param({}, id="light"),
    pytest.param({"color_scheme": "dark"}, id="dark", marks=pytest.mark.long),
    pytest.param(PHONE, id="phone", marks=pytest.mark.long),
]
in_each_look = pytest.mark.parametrize("look", EACH_LOOK)


# Of all elements, those in shadow trees too. An animation without an end is no motion that one can wait for.
STANDS_STILL = """() => {
    const roots = [document];
    for (const root of roots)
        for (const each of root.querySelectorAll("*")) if (each.shadowRoot) roots.push(each.shadowRoot);
    const moving = (each) => each.playState === "running" && each.effect.getComputedTiming().endTime !== Infinity;
    return !roots.some((root) => root.getAnimations().some(moving));
}"""


# Only what is wrong: all that is right is a megabyte of JSON.
FIND = """async ([levels, exclude]) => {
    const { violations } = await axe.run({ exclude }, { runOnly: levels, resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ target }) => `${target}`).join(", ")}`);
}"""


def violations(page: Page, levels: list[str] = LEVELS, exclude: str | None = None) -> list[str]:
    """Return each violation as a line: the rule, its meaning, and the elements, when nothing moves any more.

    `exclude` is the selector of what is not looked at.
    """
    page.wait_for_function(STANDS_STILL)  # text that fades in has less contrast
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(FIND, [levels, [exclude] if exclude else []])
    return found
