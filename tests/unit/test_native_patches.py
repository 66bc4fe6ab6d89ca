"""native/patches: each says where it belongs and when it goes, and what a build lacks without it is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srb.files.native_facts import PATCHES, has_faulty_amx, patches_of, without_patches

NATIVE = Path(__file__).parents[2] / "native"
FILES = sorted((NATIVE / "patches").glob("*.patch"))
ALL = f"CPU : AVX2 = 1 | AMX_INT8 = 1 | SRB_PATCHES = {','.join(PATCHES)} | "


def test_the_patches_that_srb_knows_are_those_of_the_folder_in_their_order() -> None:
    assert tuple(path.stem.partition("-")[2] for path in FILES) == PATCHES
    assert len({path.stem.partition("-")[0] for path in FILES}) == len(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_patch_says_what_it_does_where_it_belongs_and_when_it_goes(path: Path) -> None:
    header, separator, diff = path.read_text().partition("\n---\n")
    assert separator
    assert re.match(r"Subject: \[PATCH\] [A-Z].{10,100}\n\n\S", header)
    assert re.search(r"^Upstream: (?:https://github\.com/ggml-org/\S+|not (?:reported|proposed))", header, re.MULTILINE)
    assert re.search(r"^Drop when: \S+ ", header, re.MULTILINE)
    assert diff.startswith("diff --git a/")


def test_what_a_build_lacks_is_one_sentence() -> None:
    assert patches_of(ALL) == set(PATCHES)
    assert without_patches(ALL) == ""
    assert without_patches(ALL.replace("cells-in-order,", "")).startswith(
        "llama.cpp was built without cells-in-order of SRB's patches: "
    )
    plain = "CPU : AVX2 = 1 | AMX_INT8 = 1 | "
    assert patches_of(plain) == set()
    assert without_patches(plain).startswith("llama.cpp was built without SRB's patches (native/patches): ")
    assert without_patches(plain).endswith("its kernels for AMX are faulty, and not used")
    assert "AMX" not in without_patches("CPU : AVX2 = 1 | ")


def test_kernels_for_amx_are_faulty_where_ours_do_not_take_their_place() -> None:
    assert not has_faulty_amx(ALL)
    assert not has_faulty_amx(ALL.replace("cells-in-order,", ""))
    assert has_faulty_amx(ALL.replace("mul-mat,", ""))
    assert not has_faulty_amx(ALL.replace("mul-mat,", "").replace("AMX_INT8 = 1", "AMX_INT8 = 0"))
