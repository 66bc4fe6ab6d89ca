"""tools/sbom.py lists what is installed, what the page has of others, and llama.cpp, the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import ROOT
from tools.llama_sources import pinned

pytest.importorskip("cyclonedx")

from cyclonedx.output.json import JsonV1Dot6

from tools.sbom import bom


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with two distributions."""
    for name, version, licence in (("llama_srb", "0.1.0", "MIT"), ("Gunicorn", "27.0.1", "MIT")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: {licence}\n"
        (info / "METADATA").write_text(text)
    return tmp_path


def test_all_parts_are_listed_below_srb(site: Path) -> None:
    found = json.loads(JsonV1Dot6(bom(site)).output_as_string())
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/llama-srb@0.1.0"
    urls = {part["purl"] for part in found["components"]}
    assert {"pkg:pypi/gunicorn@27.0.1", f"pkg:pypi/llama-cpp-python@{pinned()}"} <= urls
    files = json.loads((ROOT / "srb/page/vendor/versions.json").read_text()).values()
    vendored = {package["version"] for file in files for package in file["packages"] if package["name"] == "lit"}
    assert {f"pkg:npm/lit@{version}" for version in vendored} <= urls


def test_the_same_parts_make_the_same_list(site: Path) -> None:
    assert JsonV1Dot6(bom(site)).output_as_string() == JsonV1Dot6(bom(site)).output_as_string()
