"""The page's modules and styles, found by following the document's links and the modules' imports."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

_LINKS = re.compile(r"""<(?:link|script)\b[^>]*?\b(?:href|src)=["']?([^"'\s>]+)""")
_IMPORTS = re.compile(r"""(?:^\s*(?:import|export)\b[^;'"]*?\bfrom\s*|^\s*import\s*)["'](\.[^"']+)["']""", re.MULTILINE)
_LATER = re.compile(r"""\bimport\(\s*["'](\.[^"']+)["']""")
_FILES = re.compile(r"""\bnew URL\(\s*["']([^"':]*[^"':/])["'],\s*import\.meta\.url""")


def module_graph(document: str, fetch: Callable[[str], bytes], *, later: bool = True) -> dict[str, bytes]:
    """Return the content of every file that the document at this URL leads to, by URL; `fetch` raises where there is none.

    Without `later`, only what is loaded at once. The libraries are bundles, which import nothing.
    """
    forms = (_IMPORTS, _LATER, _FILES) if later else (_IMPORTS,)
    found: dict[str, bytes] = {}
    waiting = [urljoin(document, link) for link in _LINKS.findall(fetch(document).decode())]
    while waiting:
        url = waiting.pop()
        if url not in found:
            found[url] = fetch(url)
            if url.endswith(".js") and "/vendor/" not in urlsplit(url).path:
                source = found[url].decode()
                waiting += [urljoin(url, target) for form in forms for target in form.findall(source)]
    return found
