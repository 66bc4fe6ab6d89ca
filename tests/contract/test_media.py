"""Pictures and sounds in prompts of real models: a random projector beside tiny random GGUFs, and real files."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
import pytest

from srb.engine.engine import Engine
from srb.engine.llama.media import LlamaEncoder
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Logits
from srb.errors import InvalidRequest, ModelLoadFailed, NotSupported
from srb.protocol import BranchSpec, Delta, Generate, PromptDone, SamplingParams
from srb.settings import Settings
from tests.media import b64, bmp, png, wav
from tools.random_gguf import TINY, write_projector

mtmd = pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

FILES = [png(40, 30, seed=1), png(64, 64, seed=2), wav(0.7), bmp(5, 5)]
EXACT = {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off", "rope_scaling": "none"}


@pytest.fixture(scope="session")
def projector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_projector(tmp_path_factory.mktemp("projector") / "mmproj.gguf", TINY)


@pytest.fixture(params=["llama", "gemma3", "lfm2"])
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(arch: str, load: Callable[..., LlamaModel], projector: Path) -> LlamaModel:
    return load(arch, mmproj=str(projector), n_ctx=1024, n_ubatch=32)


class Reader:
    """An engine that answers prompts with media greedily."""

    def __init__(self, model: LlamaModel, **options: Any) -> None:
        options = {"cache_cells": 10**6, "cache_bytes": 10**8} | options
        self.engine = Engine(model, max_queue=100, clock=iter(range(10**6)).__next__, **options)
        self.cached = -1
        self.logits: Logits | None = None

    def read(self, *prompt: str | int, n: int = 1, count: int = 8) -> list[list[int]]:
        """Return the tokens of each branch; note how many of the prompt's were known, and the logits after it."""
        sampling = SamplingParams(temperature=0 if n == 1 else 1, ignore_eos=True)
        specs = tuple(BranchSpec(seed, count, sampling=sampling) for seed in range(n))
        command = Generate("r", prompt, specs, media=tuple(map(b64, FILES)))
        request = self.engine.prepare(command)
        prefix = request.prefix
        self.num_prompt = len(prefix.tokens)
        self.engine.submit(request)
        tokens: list[list[int]] = [[] for _ in specs]
        while self.engine.has_work:
            for event in self.engine.step():
                if isinstance(event, PromptDone):
                    self.cached, self.logits = event.cached_tokens, prefix.logits
                elif isinstance(event, Delta):
                    tokens[event.index] += event.tokens
            self.engine.check_invariants()
        return tokens

    @property
    def encoded(self) -> int:
        return self.engine._preparer.media.encoded_total


def reference(model: LlamaModel, projector: Path, text: str, files: list[bytes]) -> Logits:
    """Return the logits after a prompt as mtmd's own helpers compute them, in a context of their own."""
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads = 1024, 256, 256, 1
    params.type_k = params.type_v = 0  # f32
    params.flash_attn_type, params.rope_scaling_type, params.swa_full = 0, lib.LLAMA_ROPE_SCALING_TYPE_NONE, True
    context = lib.llama_init_from_model(model._model, params)
    encoder = LlamaEncoder(projector, model._model, on_gpu=False)
    buffers = [(ctypes.c_uint8 * len(data)).from_buffer_copy(data) for data in files]
    bitmaps = [mtmd.mtmd_helper_bitmap_init_from_buf(encoder._context, each, len(each), False) for each in buffers]
    chunks, given = mtmd.mtmd_input_chunks_init(), text.encode()
    asked = mtmd.mtmd_input_text(given, len(given), True, True)
    array = (ctypes.c_void_p * len(bitmaps))(*bitmaps)
    assert mtmd.mtmd_tokenize(encoder._context, chunks, ctypes.byref(asked), array, len(bitmaps)) == 0
    end = ctypes.c_int32()
    done = mtmd.mtmd_helper_eval_chunks(encoder._context, context, chunks, 0, 0, 256, True, ctypes.byref(end))
    assert done == 0
    logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (model.n_vocab,)).copy()
    for bitmap in bitmaps:
        mtmd.mtmd_bitmap_free(bitmap)
    mtmd.mtmd_input_chunks_free(chunks)
    encoder.close()
    lib.llama_free(context)
    return logits


PROMPTS: list[tuple[str | int, ...]] = [
    ("the old king saw", -1, " and said"),
    ("the old sea", -3, " then"),
    (-2, " and", -4, " was", -3, " the girl"),
    ("a boat, a door", -1),
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_has_the_logits_that_mtmds_own_helpers_compute(
    model: LlamaModel, projector: Path, prompt: tuple[str | int, ...]
) -> None:
    reader = Reader(model)
    reader.read(*prompt, count=1)
    text = "".join(part if isinstance(part, str) else "<__media__>" for part in prompt)
    expected = reference(model, projector, text, [FILES[-1 - part] for part in prompt if isinstance(part, int)])
    assert reader.logits is not None
    np.testing.assert_allclose(reader.logits, expected, atol=2e-3 * np.abs(expected).max())


def test_eight_branches_and_eight_requests_encode_a_picture_once(model: LlamaModel) -> None:
    reader = Reader(model)
    reader.read("the old king saw", -1, " and said", n=8)
    for _ in range(8):
        reader.read("the old king saw", -1, " and said")
    assert reader.encoded == 1
    assert reader.cached == reader.num_prompt


def test_the_next_turn_computes_only_what_is_new(model: LlamaModel) -> None:
    reader = Reader(model)
    [told] = reader.read("the old king saw", -1, " and said")
    before = reader.num_prompt
    [next_told] = reader.read("the old king saw", -1, " and said", *told, 300, 301, 302)
    assert reader.cached >= before
    assert reader.encoded == 1
    model.clear()
    [cold] = Reader(model).read("the old king saw", -1, " and said", *told, 300, 301, 302)
    assert next_told == cold


def test_a_picture_that_was_parked_is_restored_and_not_computed_again(model: LlamaModel) -> None:
    reader = Reader(model, cache_cells=0)
    [told] = reader.read("the old king saw", -1, " and said")
    reader.read("a girl", -2, " then")
    assert reader.engine.stats()["nodes_parked_total"] > 0
    assert reader.read("the old king saw", -1, " and said") == [told]
    assert reader.cached == reader.num_prompt


def test_pieces_of_media_are_not_kept(model: LlamaModel) -> None:
    """Each picture has tokens of its own, and a server sees many."""
    reader = Reader(model)
    reader.read("See ", -1, " and ", -2, " there.")
    assert model.piece(-123456) == model.piece(-123456, special=True) == b""
    assert all(token >= 0 for token in model._pieces)


def test_texts_about_other_pictures_are_others(model: LlamaModel) -> None:
    reader = Reader(model)
    texts = [reader.read("the old king saw", -1 - which, " and said", count=12)[0] for which in range(4)]
    assert len(set(map(tuple, texts))) == 4
    assert reader.encoded == 4


def test_a_damaged_picture_is_refused_with_the_field(load: Callable[..., LlamaModel], projector: Path) -> None:
    engine = Engine(load("llama", mmproj=str(projector)), max_queue=9, clock=iter(range(10**6)).__next__)
    jpeg = b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x10\x00\x10\x01\x01\x11\x00" + bytes(200)
    with pytest.raises(InvalidRequest, match="'prompt': is damaged"):
        engine.prepare(Generate("r", (-1,), (BranchSpec(0, 1),), media=(b64(jpeg),)))
    with pytest.raises(InvalidRequest, match="'prompt': should be a picture"):
        engine.prepare(Generate("r", (-1,), (BranchSpec(0, 1),), media=(b64(b"text"),)))


def test_a_model_without_a_projector_names_the_flag(load: Callable[..., LlamaModel]) -> None:
    engine = Engine(load("llama"), max_queue=9, clock=iter(range(10**6)).__next__)
    with pytest.raises(NotSupported, match="--mmproj"):
        engine.prepare(Generate("r", (-1,), (BranchSpec(0, 1),), media=(b64(FILES[0]),)))


def test_a_file_that_is_no_projector_of_the_model_is_refused_in_one_line(
    gguf: Callable[[str], Path], tmp_path: Path
) -> None:
    from dataclasses import replace

    other = write_projector(tmp_path / "other.gguf", replace(TINY, dim=128))
    for path in (other, gguf("llama"), tmp_path / "missing.gguf"):
        with pytest.raises(ModelLoadFailed, match="mmproj: ") as error:
            LlamaModel.load(Settings(model=str(gguf("llama")), mmproj=str(path), n_ctx=128, threads=1))
        assert "\n" not in str(error.value)


def test_a_build_without_mtmd_says_how_to_get_it(
    gguf: Callable[[str], Path], projector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp.mtmd_cpp", None)
    monkeypatch.delattr(lib, "mtmd_cpp", raising=False)
    with pytest.raises(ModelLoadFailed, match=r"mmproj: .* without mtmd, .* -DLLAVA_BUILD=ON"):
        LlamaModel.load(Settings(model=str(gguf("llama")), mmproj=str(projector), n_ctx=128, threads=1))
