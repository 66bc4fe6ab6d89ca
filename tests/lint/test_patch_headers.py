"""native/patches: each says where it belongs and when it goes, and srb knows them all."""

from __future__ import annotations

import hashlib
import re

from srb.files.native_facts import PATCHES
from srb.version import NATIVE
from tests.processes import ROOT
from tools.llama_sources import pinned

# What each version of llama-srb-native was made of: a version that is published is never another one.
MADE_OF = {"0.3.36.1": "bc923816ff8ba61ed689bc9bd0a1c65c074258e89ab34b63647529debc459876"}
FILES = sorted((ROOT / "native" / "patches").glob("*.patch"))


def test_the_patches_that_srb_knows_are_those_of_the_folder_in_their_order() -> None:
    assert tuple(path.stem.partition("-")[2] for path in FILES) == PATCHES
    assert len({path.stem.partition("-")[0] for path in FILES}) == len(FILES)


def lacks(patch: str) -> list[str]:
    """Return the rules that the text of a patch breaks."""
    header, _, diff = patch.partition("\n---\n")
    rules = {
        "a subject and a text": re.match(r"Subject: \[PATCH\] [A-Z].{10,100}\n\n\S", header),
        "Upstream": re.search(
            r"^Upstream: (?:https://github\.com/ggml-org/\S+|not (?:reported|proposed))", header, re.MULTILINE
        ),
        "Drop when": re.search(r"^Drop when: \S+ ", header, re.MULTILINE),
        "a diff after ---": diff.startswith("diff --git a/"),
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]


def test_a_patch_says_what_it_does_where_it_belongs_and_when_it_goes() -> None:
    assert {path.stem: found for path in FILES if (found := lacks(path.read_text()))} == {}


def test_a_patch_that_says_less_is_found() -> None:
    whole = FILES[0].read_text()
    assert lacks(whole.replace("Upstream:", "From:")) == ["Upstream"]
    assert lacks(whole.replace("Drop when:", "Goes when:")) == ["Drop when"]
    assert lacks(whole.replace("\n---\n", "\n")) == ["a diff after ---"]
    assert lacks(whole.replace("Subject: ", "")) == ["a subject and a text"]


def test_the_version_of_llama_srb_native_is_that_of_these_files_and_of_the_pinned_binding() -> None:
    whole = hashlib.sha256()
    for path in sorted((ROOT / "native").rglob("*")):
        if path.is_file() and path.suffix != ".md":
            whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    assert NATIVE.rpartition(".")[0] == pinned()
    assert MADE_OF.get(NATIVE) == whole.hexdigest(), (
        "native/ has changed: note this here, and if the last version is published, raise NATIVE in srb/version.py first"
    )
