"""Make the picture of the page for the documentation: `python -m tools.page.screenshot [docs/desk.png]`.

It starts a server with SmolLM2, the default model, writes a story in two rounds, and shows the third one while it grows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.needs import chromium as find_chromium
from tests.servers import Server
from tools.real_models import model_file

ROOT = Path(__file__).parents[2]
MODEL = "smollm2"
ROUNDS = (  # what is typed, and which card is taken
    ("The lighthouse had been dark for eleven years when Mara came back to the island with a suitcase and a key.", 2),
    (" The door", 5),
    (" Upstairs, somebody", None),
)
SETTINGS = {
    "seed": 38, "max_tokens": 90, "stop_at": "sentence", "stop_after": 2, "temperature": 1, "dry_multiplier": 0.8,
}  # fmt: skip
SIZE = {"width": 1280, "height": 800}
LARGEST = 300_000  # bytes
ENDED = "() => desk.round?.slots.length === 8 && desk.round.slots.every((slot) => slot.end)"
SOME_ENDED = "() => desk.round?.slots.length === 8 && desk.round.slots.filter((slot) => slot.end).length >= 2"


def write(page: Page) -> None:
    """Write a story until eight branches of its third round have grown, of which some have ended."""
    page.wait_for_function("() => document.activeElement?.localName === 'srb-manuscript'")
    for name, value in SETTINGS.items():
        page.evaluate("([name, value]) => desk.setSetting(name, value)", [name, value])
    for typed, taken in ROUNDS:
        page.keyboard.type(typed)
        if taken is None:
            page.evaluate("desk.setSetting('stop_after', 3)")
        page.keyboard.press("Control+Enter")
        page.wait_for_function(SOME_ENDED if taken is None else ENDED, polling=20)
        if taken is not None:
            page.evaluate("(number) => void desk.take(number - 1, {go: false})", taken)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "desk.png"
    chromium = find_chromium()
    if chromium is None:
        sys.exit("needs Debian's package chromium-headless-shell, or chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        with Server(
            Path(folder), model=model_file(MODEL), alias=MODEL, stories=Path(folder) / "stories.sqlite3"
        ) as server:
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
