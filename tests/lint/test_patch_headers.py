"""native/patches: each says where it belongs and when it goes, and srb knows them all."""

from __future__ import annotations

import re

from srb.files.native_facts import PATCHES
from tests.processes import ROOT

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
