"""The chat templates with which llama.cpp is tested, fetched for our tests: `make dev`, or `python -m tools.chat_templates`.

`CHAT_TEMPLATES` names another folder than build/chat-templates. The templates come from llama-cpp-python's source
distribution, by pip, and belong to the models' makers, so they are not kept here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("CHAT_TEMPLATES") or ROOT / "build" / "chat-templates")
INSIDE = "/vendor/llama.cpp/models/templates/"


def fetch(folder: Path) -> int:
    """Write the templates of the pinned version into a folder; return their number."""
    [pinned] = re.findall(r"llama-cpp-python==\S+", (ROOT / "setup.cfg").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        options = ["--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", temporary]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, pinned], check=True)
        [archive] = Path(temporary).glob("*.tar.gz")
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as files:
            found = [each for each in files if INSIDE in each.name and each.name.endswith(".jinja") and each.isfile()]
            for each in found:
                content = files.extractfile(each)
                assert content is not None
                (folder / Path(each.name).name).write_bytes(content.read())
    return len(found)


if __name__ == "__main__":
    print(f"{fetch(FOLDER)} templates in {FOLDER}")
