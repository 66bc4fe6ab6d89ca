"""No sentence of a docstring, a page or a setting begins with What, Who or That: the noun that it is about comes first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from srb.config.settings import Settings
from tests.lint.test_manual import PAGES
from tests.processes import ROOT

PROSE = ("bench", "srb", "tools")
UNREAD = ("tools/storyteller/",)  # not plain yet
_IN_A_DOCSTRING = re.compile(r"(?:^|[.!?:][)\"'`]*\s+|\n\s*\n\s*)(What|Who|That)\b")
_IN_A_PAGE = re.compile(r"(?:^|[.!?:|]\W*\s)\W*((?:What|Who|That)\b.*)", re.MULTILINE)
_IN_A_SETTING = re.compile(r"(?:^|[.;:]\s+)(what|who|that)\b", re.IGNORECASE)
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
EXAMPLES = ["What is written.", "A file. Who reads it?", "A file.\n\nThat is all."]


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def test_no_sentence_of_a_docstring_begins_with_what_who_or_that() -> None:
    files = [path for folder in PROSE for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {path: path.relative_to(ROOT).as_posix() for path in files}
    read = [path for path in files if not names[path].startswith(UNREAD)]
    assert len(read) > 400
    found = [
        f"{names[path]}:{line}"
        for path in read
        for line, text in docstrings(path.read_text())
        if _IN_A_DOCSTRING.search(text)
    ]
    assert found == [], "begin the sentence with the noun that it is about"


def test_no_sentence_of_a_page_begins_with_what_who_or_that() -> None:
    pages = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
    found = [(page.name, text) for page in pages for text in _IN_A_PAGE.findall(_CODE.sub("", page.read_text()))]
    assert found == []


def test_no_setting_is_described_by_what_who_or_that() -> None:
    fields = Settings.model_fields.items()
    assert [name for name, field in fields if _IN_A_SETTING.search(field.description or "")] == []


@pytest.mark.parametrize("text", [*EXAMPLES, 'A "file." What?'])
def test_a_sentence_that_begins_with_what_who_or_that_is_found(text: str) -> None:
    plain = text.replace("What", "Text").replace("Who", "Text").replace("That", "Text")
    for rule in (_IN_A_DOCSTRING, _IN_A_PAGE) if text in EXAMPLES else (_IN_A_DOCSTRING,):
        assert rule.search(text)
        assert not rule.search(plain)


def test_a_description_that_begins_with_what_who_or_that_is_found() -> None:
    assert _IN_A_SETTING.search("Folder of files; what is in it is kept")
    assert not _IN_A_SETTING.search("Folder of files, and what is in it")


def test_docstrings_are_those_of_modules_classes_and_functions() -> None:
    source = (
        '"""A."""\nclass B:\n    """B."""\n    def c(self):\n        """C."""\nasync def d():\n    """D."""\n    "no"\n'
    )
    assert sorted(docstrings(source)) == [(1, "A."), (3, "B."), (5, "C."), (7, "D.")]
