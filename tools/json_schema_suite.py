"""The JSON Schema Test Suite, fetched for our tests: `make dev`, or `python -m tools.json_schema_suite`.

`JSON_SCHEMA_SUITE` names another folder than build/json-schema-suite. The suite (MIT licence) comes from the source
distribution of jsonschema, by pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(os.environ.get("JSON_SCHEMA_SUITE") or Path(__file__).parents[1] / "build" / "json-schema-suite")
PINNED = "jsonschema==4.26.0 --hash=sha256:0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
DRAFTS = ("draft7", "draft2020-12")


def fetch(folder: Path) -> int:
    """Write the suite's files of `DRAFTS`, optional features left out, into a folder for each; return their number."""
    with tempfile.TemporaryDirectory() as temporary:
        wanted = Path(temporary, "wanted.txt")
        wanted.write_text(PINNED)
        options = ["--quiet", "--no-deps", "--no-binary", "jsonschema", "--require-hashes", "--dest", temporary]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "--requirement", str(wanted)], check=True)
        [archive] = Path(temporary).glob("*.tar.gz")
        count = 0
        with tarfile.open(archive) as files:
            for each in files:
                *_, tests, draft, name = ("", "", *Path(each.name).parts)
                if not (tests == "tests" and draft in DRAFTS and name.endswith(".json") and each.isfile()):
                    continue
                content = files.extractfile(each)
                assert content is not None
                (folder / draft).mkdir(parents=True, exist_ok=True)
                (folder / draft / name).write_bytes(content.read())
                count += 1
    return count


if __name__ == "__main__":
    print(f"{fetch(FOLDER)} files in {FOLDER}")
