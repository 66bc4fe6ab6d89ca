"""WCAG 2.2, levels A and AA, as far as axe can check it."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


# Of all elements, those in shadow trees too. An animation without an end is no motion that one can wait for.
STANDS_STILL = """() => {
    const roots = [document];
    for (const root of roots)
        for (const each of root.querySelectorAll("*")) if (each.shadowRoot) roots.push(each.shadowRoot);
    const moving = (each) => each.playState === "running" && each.effect.getComputedTiming().endTime !== Infinity;
    return !roots.some((root) => root.getAnimations().some(moving));
}"""


def violations(page: Page) -> list[str]:
    """Return each violation as a line: the rule, its meaning, and the elements, when nothing moves any more."""
    page.wait_for_function(STANDS_STILL)  # text that fades in has less contrast
    found = Axe().run(page, options={"runOnly": LEVELS}).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {', '.join(str(node['target']) for node in each['nodes'])}" for each in found
    ]
