"""Packages beside SRB, installed for a test: a module and the metadata of its entry points, in a folder of sys.path."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.processes import ROOT

EXAMPLE = ROOT / "examples" / "package"


def install(
    folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], module: str, version: str = "1.0"
) -> None:
    """Write what pip would: the module `name`, with - as _, of this text, and its entry points by group."""
    (folder / f"{name.replace('-', '_')}.py").write_text(module)
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {at}\n" for key, at in points.items()) for group, points in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def install_example(folder: Path) -> None:
    """Install examples/package."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    module = (EXAMPLE / f"{project['name'].replace('-', '_')}.py").read_text()
    install(folder, project["name"], project["entry-points"], module, project["version"])
