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
from srb.engine.process.state_folder import StateFolder
from srb.engine.tokens import tokens_of
from srb.errors import InvalidRequest, ModelLoadFailed, NotSupported
from srb.protocol import BranchSpec, Delta, Generate, PromptDone, SamplingParams, StateAction
from srb.settings import Settings
from tests.contract.conftest import TILES
from tests.media import b64, bmp, png, wav
from tests.processes import wait_for
from tools.random_gguf import TINY, write_merging_projector, write_projector, write_tiling_projector

mtmd = pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

FILES = [png(40, 30, seed=1), png(64, 64, seed=2), wav(0.7), bmp(5, 5)]
PICTURES = [*FILES[:2], png(30, 70, seed=3), *FILES[3:]]
PROJECTORS = {"qwen2vl": write_merging_projector, "qwen35": write_merging_projector, TILES: write_tiling_projector}
EXACT = {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off", "rope_scaling": "none"}


@pytest.fixture(params=["llama", "gemma3", "lfm2", *PROJECTORS])
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def projector(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A projector of the architecture, of pictures and sounds if the test names none."""
    arch = request.getfixturevalue("arch") if "arch" in request.fixturenames else ""
    return PROJECTORS.get(arch, write_projector)(tmp_path / "mmproj.gguf", TINY)


def files_of(model: LlamaModel) -> list[bytes]:
    assert model.encoder is not None
    return FILES if model.encoder.hears else PICTURES


@pytest.fixture
def model(arch: str, load: Callable[..., LlamaModel], projector: Path) -> LlamaModel:
    return load(arch, mmproj=str(projector), n_ctx=1024, n_ubatch=32)


class Reader:
    """An engine that answers prompts with media greedily."""

    def __init__(self, model: LlamaModel, **options: Any) -> None:
        self.files = tuple(map(b64, files_of(model)))
        options = {"cache_cells": 10**6, "cache_bytes": 10**8} | options
        self.engine = Engine(model, max_queue=100, clock=iter(range(10**6)).__next__, **options)
        self.cached = -1
        self.logits: Logits | None = None

    def read(self, *prompt: str | int, n: int = 1, count: int = 8, state: str = "") -> list[list[int]]:
        """Return the tokens of each branch; note how many of the prompt's were known, and the logits after it."""
        sampling = SamplingParams(temperature=0, ignore_eos=True)
        specs = tuple(BranchSpec(seed, count, sampling=sampling) for seed in range(n))
        command = Generate("r", prompt, specs, media=self.files, state=state)
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

    def act(self, action: str) -> int:
        """Save or restore the text of slot 0; return the number of its tokens."""
        job = self.engine.prepare(StateAction("s", action, "a", 0))
        [reply] = self.engine.submit(job)
        return int(reply.value["tokens"])

    @property
    def encoded(self) -> int:
        return self.engine._preparer.media.encoded_total


def reference(model: LlamaModel, projector: Path, prompt: tuple[str | int, ...]) -> tuple[Logits, list[int]]:
    """Return the logits after a prompt as mtmd's own helpers compute them, and the likeliest eight tokens after it."""
    files = [files_of(model)[-1 - part] for part in prompt if isinstance(part, int)]
    text = "".join(part if isinstance(part, str) else "<__media__>" for part in prompt)
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
    told: list[int] = []
    batch = lib.llama_batch_init(1, 0, 1)
    while len(told) < 8:
        scores = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (model.n_vocab,)).copy()
        scores[model.eog_token_list] = -np.inf
        told.append(int(scores.argmax()))
        batch.n_tokens, batch.token[0], batch.pos[0] = 1, told[-1], end.value + len(told) - 1
        batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = 1, 0, 1
        assert lib.llama_decode(context, batch) == 0
    lib.llama_batch_free(batch)
    for bitmap in bitmaps:
        mtmd.mtmd_bitmap_free(bitmap)
    mtmd.mtmd_input_chunks_free(chunks)
    encoder.close()
    lib.llama_free(context)
    return logits, told


PROMPTS: list[tuple[str | int, ...]] = [
    ("the old king saw", -1, " and said"),
    ("the old sea", -3, " then"),
    (-2, " and", -4, " was", -3, " the girl"),
    ("a boat, a door", -1),
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_has_the_logits_and_the_text_that_mtmds_own_helpers_compute(
    model: LlamaModel, projector: Path, prompt: tuple[str | int, ...]
) -> None:
    reader = Reader(model)
    told = reader.read(*prompt, n=3)
    expected, expected_told = reference(model, projector, prompt)
    assert reader.logits is not None
    np.testing.assert_allclose(reader.logits, expected, atol=2e-3 * np.abs(expected).max())
    assert told == [expected_told] * 3


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


def test_a_fork_within_a_branch_about_a_picture_goes_on_as_if_it_were_alone(model: LlamaModel) -> None:
    reader = Reader(model)
    [told] = reader.read("the old king saw", -1, " and", -2, " said", count=40)
    text = ("the old king saw", -1, " and", -2, " said", *told[:30], 300, 301)
    forked = reader.read(*text, n=2)
    assert reader.cached > reader.num_prompt - 32
    model.clear()
    assert forked == Reader(model).read(*text) * 2


def test_a_long_text_about_a_picture_is_parked_in_parts_and_goes_on_anywhere(model: LlamaModel) -> None:
    for end in (100, 298):
        model.clear()
        reader = Reader(model, cache_cells=0)
        [told] = reader.read("the old king saw", -1, " and said", count=300)
        assert reader.engine.stats()["nodes_parked_total"] > 1
        text = ("the old king saw", -1, " and said", *told[:end], 300)
        found = reader.read(*text)
        assert reader.cached > 0
        model.clear()
        assert found == Reader(model).read(*text)


def test_a_state_that_ends_with_a_picture_is_stored_with_it(
    model: LlamaModel, arch: str, load: Callable[..., LlamaModel], projector: Path, tmp_path: Path
) -> None:
    prompt = ("the old king saw", -1, " then", -2)
    told = Reader(model, states=StateFolder(tmp_path / "states", "m")).read(*prompt, state="a")
    folder = StateFolder(tmp_path / "states", "m")
    wait_for(lambda: folder.load("a"), "the state is stored")
    other = Reader(load(arch, mmproj=str(projector), n_ctx=1024, n_ubatch=32), states=folder)
    assert other.read(*prompt, state="a") == told
    assert other.cached == other.num_prompt
    more = other.read(*prompt, " and")
    model.clear()
    assert more == Reader(model).read(*prompt, " and")


def test_the_text_of_a_slot_that_ends_with_a_picture_is_saved_with_it(model: LlamaModel) -> None:
    """Nothing follows the picture or the sound, which has no mark of its end: no token is computed after it."""
    reader = Reader(model)
    reader.read("the old king saw", -3, count=0)
    count = reader.num_prompt
    assert reader.act("save") == count
    reader.read("another text")
    assert reader.act("restore") == count


def test_tokens_are_counted_without_encoding(model: LlamaModel) -> None:
    for place, data in enumerate(files_of(model)):
        reader, tokens = Reader(model), tokens_of(())
        count = reader.engine._preparer.media.count(data, "prompt")
        assert reader.encoded == 0
        reader.engine._preparer.media.append_to(tokens, data, "prompt")
        assert (place, count) == (place, len(tokens))


def test_pieces_of_media_are_not_kept(model: LlamaModel) -> None:
    """Each picture has tokens of its own, and a server sees many."""
    reader = Reader(model)
    reader.read("See ", -1, " and ", -2, " there.")
    assert model.piece(-123456) == model.piece(-123456, special=True) == b""
    assert all(token >= 0 for token in model._pieces)


def test_texts_about_other_pictures_are_others(model: LlamaModel) -> None:
    reader = Reader(model)
    seen: list[Logits] = []
    for which in range(4):
        reader.read("the old king saw", -1 - which, " and said")
        assert reader.logits is not None
        assert all(np.abs(reader.logits - other).max() > 0.01 * np.abs(other).max() for other in seen)
        seen.append(reader.logits)
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
