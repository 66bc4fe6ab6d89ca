"""The patches of llama.cpp: what a build lacks without them is told."""

from __future__ import annotations

from srb.files.native_facts import PATCHES, has_faulty_amx, patches_of, without_patches

ALL = f"CPU : AVX2 = 1 | AMX_INT8 = 1 | SRB_PATCHES = {','.join(PATCHES)} | "


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
