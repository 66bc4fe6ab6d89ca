"""Links and imports that lead from the page's document to its files, in every form that a module may have."""

from __future__ import annotations

import pytest

from tests.page.module_graph import module_graph

DOCUMENT = (
    '<link rel="stylesheet" href="page/page.css"><script type="module" src="page/main.js"></script><a href="health">'
)


def graph(main: str) -> set[str]:
    files = {"http://x/": DOCUMENT, "http://x/page/main.js": main, "http://x/page/page.css": ""}
    files |= {f"http://x/page/{name}": "" for name in ("a.js", "parts/b.js")}
    files["http://x/page/vendor/lit.js"] = 'import("./nowhere.js")'
    found = module_graph("http://x/", lambda url: files[url].encode())
    return {url.removeprefix("http://x/page/") for url in found}


@pytest.mark.parametrize(
    "main",
    [
        'import { a } from "./a.js";',
        'import "./a.js";',
        "import * as a from './a.js';",
        'import {\n  a,\n  b,\n} from "./a.js";',
        'export { a } from "./a.js";',
        'export * from "./a.js";',
        'async function later() {\n  const { a } = await import("./a.js");\n}',
        'const worker = new URL("./a.js", import.meta.url);',
        'style.href = new URL("a.js", import.meta.url).href;',
    ],
)
def test_each_form_of_an_import_is_followed(main: str) -> None:
    assert graph(main) == {"main.js", "page.css", "a.js"}


def test_the_libraries_are_not_searched() -> None:
    assert graph('import { html } from "./vendor/lit.js";') == {"main.js", "page.css", "vendor/lit.js"}


def test_an_import_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(KeyError):
        graph('import "./nowhere.js";')
