"""Make the picture of the page for the documentation: `python -m tools.page.screenshot [docs/desk.png]`.

It starts a server with the bundled model, writes a story in two rounds, and shows the third one while it grows.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.servers import Server

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "srb" / "models" / "storyteller.gguf"
ROUNDS = (  # what is typed, and which card is taken
    ("Once upon a time, there lived a keeper of a light", 2),
    ("One night a boat came", 5),
    ("The keeper", None),
)
SEED = 38
SIZE = {"width": 1280, "height": 800}
LARGEST = 300_000  # bytes
ENDED = "() => desk.round?.slots.length === 8 && desk.round.slots.every((slot) => slot.end)"
SOME_ENDED = "() => desk.round?.slots.length === 8 && desk.round.slots.filter((slot) => slot.end).length >= 2"


def write(page: Page) -> None:
    """Write a story until eight branches of its third round have grown, of which some have ended."""
    page.wait_for_function("() => document.activeElement?.localName === 'srb-manuscript'")
    for name, value in {"seed": SEED, "max_tokens": 90, "stop_at": "paragraph"}.items():
        page.evaluate("([name, value]) => desk.setSetting(name, value)", [name, value])
    for typed, taken in ROUNDS:
        page.keyboard.type(typed)
        if taken is None:
            page.evaluate("desk.setSetting('stop_after', 2)")
        page.keyboard.press("Control+Enter")
        page.wait_for_function(SOME_ENDED if taken is None else ENDED, polling=20)
        if taken is not None:
            page.evaluate("(number) => void desk.take(number - 1, {go: false})", taken)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "desk.png"
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs Debian's package chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        with Server(Path(folder), model=MODEL, stories=Path(folder) / "stories.sqlite3") as server:
            page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type]
            page.goto(server.start().url)
            write(page)
            page.screenshot(path=target)
        browser.close()
    size = target.stat().st_size
    print(f"{target}: {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"larger than {LARGEST:,} bytes")


if __name__ == "__main__":
    main()
