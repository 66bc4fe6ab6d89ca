"""Control vectors that are made of texts: each layer's part of what the texts differ in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama.vector_files import Directions, read_vector
from srb.engine.llama.vector_maker import Layers, Making, make
from srb.errors import ModelLoadFailed, SRBError
from srb.files.gguf import check_model_file
from tests.models.random_gguf import TINY, WRITERS

SAD, GAY = ["the old king lost", "the grey fox never kept a letter"], ["a young girl found the river", "the boat"]


@pytest.mark.parametrize("arch", ["llama", "gemma3", "mamba2", "lfm2"])
def test_a_vector_is_what_each_layer_adds_to_the_difference_of_the_texts(arch: str, tmp_path: Path) -> None:
    model = str(WRITERS[arch](tmp_path / "model.gguf", replace(TINY, layers=4)))

    def made(positive: list[str], negative: list[str]) -> Directions:
        make(Making(model, str(tmp_path / "made.gguf"), positive, negative, n_gpu_layers=0))
        return read_vector(tmp_path / "made.gguf")

    found = made(SAD, GAY)
    assert list(found) in ([1, 2], [1, 2, 3, 4])  # Gemma 3 has six layers here
    assert all(each.shape == (TINY.dim,) and np.isfinite(each).all() and each.any() for each in found.values())
    layers = Layers(Settings(model=model, n_ctx=256, n_batch=256, n_seq_max=2, n_gpu_layers=0))
    sad, gay = layers.means(SAD), layers.means(GAY)
    for layer in found:
        total = sum(found[below] for below in range(1, layer + 1))
        assert np.allclose(total, sad[layer] - gay[layer], atol=1e-5)
    one, two = (layers.means([text]) for text in SAD)
    assert np.allclose(sad[1], (one[1] + two[1]) / 2, atol=1e-6)  # each text has the same weight
    swapped = made(GAY, SAD)
    assert all(np.allclose(found[layer], -swapped[layer], atol=1e-6) for layer in found)
    with pytest.raises(ModelLoadFailed, match="a control vector, which needs a model"):
        check_model_file(Settings(model=str(tmp_path / "made.gguf")))


def test_a_text_of_no_word_and_a_file_of_no_model_are_refused(gguf: Callable[[str], Path], tmp_path: Path) -> None:
    for model, texts, words in [(gguf("llama"), [""], "too short"), (tmp_path / "none.gguf", SAD, "cannot read")]:
        with pytest.raises(SRBError, match=words):
            make(Making(str(model), str(tmp_path / "made.gguf"), texts, GAY, n_gpu_layers=0))
    assert not (tmp_path / "made.gguf").exists()
