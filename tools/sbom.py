"""All parts of SRB where it is installed, in CycloneDX's form: `python -m tools.sbom SITE-PACKAGES >llama-srb.cdx.json`.

They are the distributions that lie there, the page's libraries and fonts (srb/page/vendor/versions.json), and llama.cpp with
its patches. The same parts make the same bytes at the time SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType, Patch, PatchClassification, Pedigree
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.llama_sources import pinned

ROOT = Path(__file__).parents[1]
PRODUCT = "llama-srb"


def component(kind: str, name: str, version: str, licence: str = "") -> Component:
    """Return a part; `kind` is that of its package URL."""
    space, _, short = name.rpartition("/")
    url = PackageURL(kind, space or None, short, version)
    licences = [LicenseFactory().make_from_string(licence)] if licence and "\n" not in licence else []
    as_what = ComponentType.APPLICATION if name == PRODUCT else ComponentType.LIBRARY
    return Component(name=name, version=version, purl=url, bom_ref=str(url), type=as_what, licenses=licences)


def packages(folder: Path) -> Iterator[Component]:
    """Yield the Python distributions of a folder."""
    for found in distributions(path=[str(folder)]):
        licence = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
        yield component("pypi", found.name.lower().replace("_", "-"), found.version, licence)


def vendored() -> Iterator[Component]:
    """Yield the libraries and fonts of the page, and llama.cpp with its patches."""
    files = json.loads((ROOT / "srb/page/vendor/versions.json").read_text()).values()
    for name, version, licence in sorted(
        {(e["name"], e["version"], e["licence"]) for f in files for e in f["packages"]}
    ):
        yield component("npm", name, version, licence)
    patches = [Patch(type=PatchClassification.UNOFFICIAL) for _ in (ROOT / "native/patches").glob("*.patch")]
    llama = component("pypi", "llama-cpp-python", pinned(), "MIT")
    llama.pedigree = Pedigree(patches=patches, notes="with llama.cpp; SRB's patches are in native/patches")
    yield llama


def bom(folder: Path) -> Bom:
    """Return the list of all parts, with SRB as what they are parts of."""
    parts = sorted([*packages(folder), *vendored()], key=lambda part: str(part.bom_ref))
    [product] = [part for part in parts if part.name == PRODUCT]
    made = Bom(components=[part for part in parts if part is not product])
    made.metadata.component = product
    made.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    made.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(str(part.bom_ref) for part in parts))
    made.dependencies = [
        Dependency(product.bom_ref, [Dependency(part.bom_ref) for part in parts if part is not product])
    ]
    return made


if __name__ == "__main__":
    print(JsonV1Dot6(bom(Path(sys.argv[1]))).output_as_string(indent=1))
