"""The page's libraries and fonts: each file is the one that its table says, within the budget, and can be made again."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from tests.needs import need
from tests.processes import DEADLINE, ROOT

TOOLS = ROOT / "tools" / "page"
PACKAGES = ROOT / "build" / "page"  # of `make page`
VENDOR = ROOT / "srb" / "page" / "vendor"
VERSIONS = json.loads((VENDOR / "versions.json").read_text())
IMPORT_ONLY = {"html.js", "xml.js"}  # read when a file is imported
BUDGETS = {
    True: (75_000, 225_000),
    False: (105_000, 310_000),
}  # bytes of those and of the others, with gzip and without
FONT_BUDGET = 125_000  # of which a page loads the faces that its text has
FREE = ("MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "OFL-1.1")


def test_each_library_has_the_checksum_of_the_table() -> None:
    shipped = [path for path in VENDOR.iterdir() if path.suffix in (".js", ".woff2")]
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in shipped}
    assert files == {name: entry["sha256"] for name, entry in VERSIONS.items()}


def test_each_package_has_a_version_and_a_free_licence_whose_text_is_there() -> None:
    texts = (VENDOR / "LICENSES").read_text()
    for entry in VERSIONS.values():
        assert entry["packages"]
        for package in entry["packages"]:
            assert package["licence"] in FREE
            assert f"\n{package['name']}\n=" in f"\n{texts}"


def test_the_versions_are_those_that_npm_is_asked_for() -> None:
    asked = json.loads((TOOLS / "package.json").read_text())["dependencies"]
    locked = json.loads((TOOLS / "package-lock.json").read_text())["packages"]
    bundled = {each["name"]: each["version"] for entry in VERSIONS.values() for each in entry["packages"]}
    assert asked.keys() - {"lit"} <= bundled.keys()  # lit's own file only joins its packages
    for name, version in bundled.items():
        assert locked[f"node_modules/{name}"]["version"] == version
        assert asked.get(name, version) == version


def test_the_libraries_are_within_their_budget() -> None:
    for is_of_imports, (packed, raw) in BUDGETS.items():
        files = [path.read_bytes() for path in VENDOR.glob("*.js") if (path.name in IMPORT_ONLY) == is_of_imports]
        assert sum(len(gzip.compress(content, 9)) for content in files) <= packed
        assert sum(map(len, files)) <= raw


def test_the_fonts_are_within_their_budget() -> None:
    assert 0 < sum(path.stat().st_size for path in VENDOR.glob("*.woff2")) <= FONT_BUDGET


def test_the_lock_names_no_registry_and_has_a_checksum_of_every_package() -> None:
    for name, package in json.loads((TOOLS / "package-lock.json").read_text())["packages"].items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")


def test_the_libraries_can_be_made_again_byte_for_byte(tmp_path: Path) -> None:
    need(shutil.which("node") and (PACKAGES / ".installed").exists(), "the packages that `make page` fetches")
    command = ["node", TOOLS / "build.mjs", PACKAGES, tmp_path]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made.keys() == {path.name for path in VENDOR.iterdir()}
    assert [name for name, content in made.items() if content != (VENDOR / name).read_bytes()] == []
