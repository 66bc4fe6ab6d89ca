"""REUSE.toml: each licence that it names has its text in LICENSES/, and nothing of somebody else's is under ours."""

from __future__ import annotations

import json
import re
import tomllib

from tests.processes import ROOT
from tools.native_wheel import _OF_LIBGOMP

ANNOTATIONS = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]


def names(expression: str) -> set[str]:
    return set(re.split(r" AND ", expression))


def test_each_licence_that_is_named_has_its_text() -> None:
    named = set().union(*(names(each["SPDX-License-Identifier"]) for each in ANNOTATIONS))
    texts = {path.name for path in (ROOT / "LICENSES").iterdir()}
    assert texts == {f"{name}.txt" for name in named} | set(_OF_LIBGOMP)


def test_the_libraries_and_fonts_of_the_page_are_under_their_own_licences() -> None:
    rows = {
        each["path"]: names(each["SPDX-License-Identifier"]) for each in ANNOTATIONS if isinstance(each["path"], str)
    }
    ours = rows["srb/page/vendor/*.js"] | rows["srb/page/vendor/*.woff2"]
    files = json.loads((ROOT / "srb/page/vendor/versions.json").read_text()).values()
    assert {package["licence"] for file in files for package in file["packages"]} == ours
