"""Models that see or hear, for the contract's tests: which projector is beside which model, and what mtmd makes of both."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.media import LlamaEncoder
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Logits, StateStore, TextStore
from srb.wire.commands import BranchSpec, Generate, StateAction
from srb.wire.events import Delta, PromptDone
from tests.media import b64, bmp, png, wav
from tests.models.random_gguf import TINY, WRITERS, Shape, write_glm4, write_hunyuan_vl
from tests.models.random_projectors import (
    SLICE_MARKS,
    THUMBNAIL_MARKS,
    TILE_MARKS,
    write_aligned_projector,
    write_gemma4_projector,
    write_glm4v_projector,
    write_hearing_projector,
    write_hunyuanvl_projector,
    write_internvl_projector,
    write_kimi_projector,
    write_lfm2_projector,
    write_llama4_projector,
    write_llava_projector,
    write_merging_projector,
    write_omni_projector,
    write_paddle_projector,
    write_pixtral_projector,
    write_projector,
    write_qwen3_omni_projector,
    write_slicing_projector,
    write_stacking_projector,
    write_tiling_projector,
    write_voxtral_projector,
    write_windowed_projector,
)

PICTURES = (png(40, 30, seed=1), png(64, 64, seed=2), png(30, 70, seed=3), bmp(5, 5))
BOTH = (PICTURES[0], PICTURES[1], wav(0.7), PICTURES[3])
SOUNDS = (wav(0.7), wav(1.3, pitch=300.0), wav(8.5, pitch=700.0), wav(0.1))
N_CTX = 1024


@dataclass(frozen=True)
class Kind:
    """A model, its projector, and four files that it reads."""

    write_model: Callable[[Path, Shape], Path]
    write_projector: Callable[[Path, Shape], Path]
    shape: Shape = TINY
    files: tuple[bytes, ...] = PICTURES
    n_ctx: int = N_CTX
    n_ubatch: int = 32
    is_marked: bool = True  # whether a token of text follows each file


KINDS = {
    "llama": Kind(WRITERS["llama"], write_projector, files=BOTH),
    "gemma3": Kind(WRITERS["gemma3"], write_projector, files=BOTH),
    "lfm2": Kind(WRITERS["lfm2"], write_projector, files=BOTH),
    "qwen2vl": Kind(WRITERS["qwen2vl"], write_merging_projector),
    "qwen3vl": Kind(WRITERS["qwen3vl"], write_stacking_projector),
    "qwen35": Kind(WRITERS["qwen35"], write_merging_projector),
    "hunyuan_vl": Kind(write_hunyuan_vl, write_hunyuanvl_projector),
    "deepseek4v": Kind(WRITERS["llama"], write_aligned_projector, is_marked=False),
    "idefics3": Kind(WRITERS["llama"], write_tiling_projector, replace(TINY, control=TILE_MARKS)),
}
# Those whose encoder or marks alone are others than those above.
LIKE_KINDS = {
    "glm4v": Kind(write_glm4, write_glm4v_projector),
    "qwen2.5vl": Kind(WRITERS["qwen2vl"], write_windowed_projector, files=(*PICTURES[:3], png(130, 40, seed=4))),
    "minicpmv": Kind(WRITERS["llama"], write_slicing_projector, replace(TINY, dim=128, control=SLICE_MARKS)),
    "llama4": Kind(WRITERS["llama"], write_llama4_projector),
    "qwen2.5o": Kind(WRITERS["qwen2vl"], write_omni_projector, files=BOTH, n_ctx=2048),
    "qwen3-omni": Kind(WRITERS["qwen2vl"], write_qwen3_omni_projector, files=BOTH),
    "qwen3a": Kind(WRITERS["qwen2vl"], write_hearing_projector, files=SOUNDS),
    "qwen3a, states": Kind(WRITERS["qwen35"], write_hearing_projector, files=SOUNDS),
}

# Those whose encoder is another, and what they put beside files, in ways that some of the above have, too.
ENCODERS = {
    "llava": Kind(WRITERS["llama"], write_llava_projector, is_marked=False),
    "pixtral": Kind(WRITERS["llama"], write_pixtral_projector),
    "internvl": Kind(WRITERS["llama"], write_internvl_projector),
    "gemma4v": Kind(WRITERS["gemma3"], write_gemma4_projector, n_ubatch=256),
    "lfm2-vl": Kind(
        WRITERS["llama"],
        write_lfm2_projector,
        replace(TINY, context=4096, control=THUMBNAIL_MARKS),
        files=(*PICTURES[:2], png(800, 1000, seed=5), PICTURES[3]),
        n_ctx=4096,
    ),
    "kimivl": Kind(WRITERS["llama"], write_kimi_projector),
    "paddleocr": Kind(WRITERS["qwen2vl"], write_paddle_projector),
    "voxtral": Kind(WRITERS["llama"], write_voxtral_projector, files=SOUNDS, is_marked=False),
}

# Strings, and −1 − the place of a file.
Prompt = tuple[str | int, ...]
PROMPTS: list[Prompt] = [
    ("the old king saw", -1, " and said"),
    ("the old sea", -3, " then"),
    (-2, " and", -4, " was", -3, " the girl"),
    ("a boat, a door", -1, -1),
]


class Reader:
    """An engine that answers prompts with media greedily."""

    def __init__(
        self,
        model: LlamaModel,
        files: Sequence[bytes],
        states: StateStore | None = None,
        texts: TextStore | None = None,
        **options: Any,
    ) -> None:
        self.files = tuple(map(b64, files))
        options = {"cache_cells": 10**6, "cache_bytes": 10**8} | options
        asked = EngineOptions(max_queue=100, **options)
        self.engine = Engine(model, asked, clock=iter(range(10**6)).__next__, states=states, texts=texts)
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


def reference(model: LlamaModel, projector: Path, files: Sequence[bytes], prompt: Prompt) -> tuple[Logits, list[int]]:
    """Return the logits after a prompt as mtmd's own helpers compute them, and the likeliest eight tokens after it.

    The BOS stands in the text, as where a chat template writes it: mtmd would not count it before aligned pictures.
    """
    import llama_cpp.mtmd_cpp as mtmd

    given = [files[-1 - part] for part in prompt if isinstance(part, int)]
    text = "".join(part if isinstance(part, str) else "<__media__>" for part in ("<s>", *prompt)).encode()
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads = model.n_ctx, 256, 256, 1
    params.type_k = params.type_v = 0  # f32
    params.flash_attn_type, params.rope_scaling_type, params.swa_full = 0, lib.LLAMA_ROPE_SCALING_TYPE_NONE, True
    context = lib.llama_init_from_model(model._model, params)
    encoder = LlamaEncoder(projector, model._model, on_gpu=False)
    buffers = [(ctypes.c_uint8 * len(data)).from_buffer_copy(data) for data in given]
    bitmaps = [mtmd.mtmd_helper_bitmap_init_from_buf(encoder._context, each, len(each), False) for each in buffers]
    chunks = mtmd.mtmd_input_chunks_init()
    asked = mtmd.mtmd_input_text(text, len(text), False, True)
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
