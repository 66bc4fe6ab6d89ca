"""The files that the page loads before a word can be written: no dialog's, and no more bytes than are agreed."""

from __future__ import annotations

import gzip
from urllib.parse import urlsplit

from srb.web.page_files import DOCUMENT, FOLDER, served
from tests.page.module_graph import module_graph

MOST = 60_000  # bytes as they are sent, each file compressed; without the libraries
MOST_OF_LIBRARIES = 105_000
BY_SCRIPT = ["parts/manuscript.css"]  # a style that the manuscript itself adds
FOR_LATER = {  # files and folders of what is needed from the first Ctrl+Enter on, and of the dialogs
    *("branches", "card", "outline", "status", "dialogs", "file_drops", "layout"),
    *("rounds", "round", "live", "gestures", "context", "past_rounds"),
    *("prompt", "request", "compare", "cuts", "sampling", "read"),
    *("markdown", "emphasis", "prose_markdown", "chapters", "print"),
    *(
        "formats",
        "help",
        "map",
        "models",
        "settings",
        "stories",
        "note",
        "alternatives",
        "presets",
        "zip",
    ),
}


def fetch(url: str) -> bytes:
    path = urlsplit(url).path.removeprefix("/page/")
    return served(FOLDER / (DOCUMENT if path == "/" else path))


def start() -> dict[str, bytes]:
    files = module_graph("http://desk/", fetch, later=False)
    files |= {url: fetch(url) for url in ["http://desk/", *(f"http://desk/page/{name}" for name in BY_SCRIPT)]}
    return {urlsplit(url).path.removeprefix("/page/"): content for url, content in files.items()}


def sent(files: dict[str, bytes], *, libraries: bool) -> int:
    return sum(
        len(gzip.compress(content)) for name, content in files.items() if name.startswith("vendor/") is libraries
    )


def test_only_what_a_first_word_needs_is_loaded_before_it_can_be_written() -> None:
    files = start()
    assert {"main.js", "desk.js", "keep.js", "parts/manuscript.js", "vendor/codemirror.js"} <= files.keys()
    parts = {name: {*name.rpartition(".")[0].split("/")} for name in files}
    assert [name for name, words in parts.items() if words & FOR_LATER] == []


def test_the_page_is_no_larger_than_agreed_when_it_starts() -> None:
    files = start()
    assert sent(files, libraries=False) <= MOST
    assert sent(files, libraries=True) <= MOST_OF_LIBRARIES
