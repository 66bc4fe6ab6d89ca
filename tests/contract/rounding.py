"""Rounding on the machine that computes: llama.cpp's results depend on the shape of a batch, a GPU's more than a CPU's."""

from __future__ import annotations

import llama_cpp as native
import pytest

from srb.engine.llama.params import has_gpu
from srb.engine.llama.rounding import has_own_products

FLOATS = {
    "F32": native.LLAMA_FTYPE_ALL_F32,
    "F16": native.LLAMA_FTYPE_MOSTLY_F16,
    "BF16": native.LLAMA_FTYPE_MOSTLY_BF16,
}  # types of weights that are not quantized
ROUNDING = 10.0 if has_gpu() else 1.0  # times a CPU's

needs_equal_texts = pytest.mark.skipif(
    has_gpu(), reason="on a GPU a text may differ with the size of its batches, where two tokens are as likely"
)
needs_own_products = pytest.mark.skipif(not has_own_products(), reason="no kernel of native/mul_mat.cpp")
