"""WCAG 2.2, levels A and AA, as far as axe can check it."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """Return each violation as a line: the rule, its meaning, and the elements."""
    found = Axe().run(page, options={"runOnly": LEVELS}).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {', '.join(str(node['target']) for node in each['nodes'])}" for each in found
    ]
