"""Rounding on the machine that computes: llama.cpp's results depend on the shape of a batch, a GPU's more than a CPU's."""

from __future__ import annotations

import pytest

from srb.engine.llama.devices import system_info
from srb.engine.llama.params import has_gpu
from srb.native_facts import features_of, patches_of

ROUNDING = 10.0 if has_gpu() else 1.0  # times a CPU's

needs_equal_texts = pytest.mark.skipif(
    has_gpu(), reason="on a GPU a text may differ with the size of its batches, where two tokens are as likely"
)


def _has_own_products() -> bool:
    """Whether native/mul_mat.cpp multiplies quantized weights, each product the same in every batch."""
    features = features_of(system_info())
    has_instructions = features.get("AVX2") == features.get("FMA") == features.get("F16C") == "1"
    return "mul-mat" in patches_of(system_info()) and has_instructions


needs_own_products = pytest.mark.skipif(not _has_own_products(), reason="native/mul_mat.cpp is for x86-64 with AVX2")
