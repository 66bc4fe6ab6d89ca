"""Packages beside SRB, installed for a test: a module and the metadata of its entry points, in a folder of sys.path."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.processes import ROOT

EXAMPLE, CLIENTS = ROOT / "examples" / "package", ROOT / "examples" / "clients"


def install(
    folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], module: str = "", version: str = "1.0"
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


def install_example(folder: Path, example: Path = EXAMPLE) -> None:
    """Install a package of examples/."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    install(folder, project["name"], project["entry-points"], version=project["version"])
    for module in example.glob("*.py"):
        (folder / module.name).write_text(module.read_text())
