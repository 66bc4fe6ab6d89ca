"""GGUF files with random weights and real shapes: tiny models for tests, larger ones for benchmarks.

Weights do not affect speed, and tests need a model's architecture, not its quality. `python -m tests.models.random_gguf OUT`
writes the 110M-parameter llama of `make bench`; `--shape 1b` one for GPUs, with 128,256 tokens in its vocabulary, and
`--shape 1b-q4_k_m` the same in Q4_K_M; `--shape chained` one of 110M that writes texts in which tokens come again
(`tests.models.chained_texts`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize

from tests.models.chained_texts import chained_texts


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; `window` applies to sliding attention, `state` to recurrent models."""

    dim: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 128
    vocab: int = 512
    context: int = 512
    window: int = 32
    state: int = 8
    q8: bool = False
    q4_k_m: bool = False  # matrices as llama.cpp's Q4_K_M has them
    seed: int = 0
    split: int = 0  # tensors of one file; 0: all in one
    control: tuple[str, ...] = ()  # the last tokens of the vocabulary
    defined: tuple[str, ...] = ()  # those before them, which the user has defined
    loud: int = 0  # layers after so many change little; 0: none. A model of the same seed with so many layers is a twin
    is_chained: bool = False  # writes the texts of `tests.models.chained_texts`: no layer changes much


TINY = Shape()
BENCH_110M = Shape(dim=768, layers=12, heads=12, kv_heads=12, ffn=2048, vocab=32000, context=16384, q8=True)
# Of the same size and speed, and with texts that come again.
BENCH_CHAINED = replace(BENCH_110M, is_chained=True)
BENCH_1B = Shape(dim=2048, layers=16, heads=32, kv_heads=8, ffn=8192, vocab=128256, context=16384, q8=True)
BENCH_1B_Q4_K_M = replace(BENCH_1B, q8=False, q4_k_m=True)
# A model of 280 million parameters whose first layer alone, a model of 25 million, writes nearly the same.
BENCH_TWINS = Shape(dim=1024, layers=16, heads=16, kv_heads=16, ffn=4096, vocab=8192, context=8192, q8=True, loud=1)
# One of 300 million parameters that writes known texts, whose head has 30 million.
BENCH_HEADS = replace(BENCH_TWINS, loud=0, is_chained=True, state=64)
_QUIET = 0.03  # what the outputs of the layers after the loud ones are multiplied by
_EXPERTS = 4  # of a layer that has experts; half of them compute each token
_SURE = 16.0  # how much larger than all others the logits of tokens are that may follow in a chained text
SHAPES = {"110m": BENCH_110M, "1b": BENCH_1B, "1b-q4_k_m": BENCH_1B_Q4_K_M, "chained": BENCH_CHAINED}

_WORDS = (
    " the",
    " a",
    " old",
    " sea",
    " and",
    " was",
    " said",
    " then",
    " king",
    " girl",
    " boat",
    " door",
    ",",
    ".",
    "\n",
)


def _mark(number: int) -> str:
    """Return a punctuation mark for every 28th word above 1,000, about as often as in real vocabularies of 128,000."""
    return ':"*'[number // 28 % 3] if number > 1000 and number % 28 == 0 else ""


class _Writer:
    """A GGUFWriter for tensors of noise, all from one random generator."""

    def __init__(self, path: Path, arch: str, shape: Shape) -> None:
        self.gguf = gguf.GGUFWriter(path, arch, split_max_tensors=shape.split)
        self.arch = arch
        self.shape = shape
        self._random = np.random.default_rng(shape.seed)
        self.gguf.add_name(f"random-{arch}")
        self.gguf.add_license("cc0-1.0")
        self.gguf.add_context_length(shape.context)
        self.gguf.add_embedding_length(shape.dim)
        self.gguf.add_block_count(shape.layers)
        self.gguf.add_vocab_size(shape.vocab)
        self._add_tokenizer()

    def matrix(self, name: str, *dims: int, scale: float = 0.0) -> np.ndarray:
        """Add a weight of `dims` (numpy order: rows first), by default scaled to keep activations near one; return it."""
        scale = scale or dims[-1] ** -0.5
        if self.shape.q4_k_m:
            bits, kind = self._random_bits(dims, scale, self._is_q6_k(name))
            self.gguf.add_tensor(name + ".weight", bits, raw_dtype=kind)
            return bits
        noise = self._random.standard_normal(dims, dtype=np.float32) * scale
        self.add(name, noise)
        return noise

    def _is_q6_k(self, name: str) -> bool:
        """Whether a matrix is one of those to which llama.cpp's Q4_K_M gives six bits."""
        if not name.endswith(("attn_v", "ffn_down")):
            return name == "output"
        layer, eighth = int(name.split(".")[1]), self.shape.layers // 8
        return layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2

    def _random_bits(
        self, dims: tuple[int, ...], scale: float, is_q6_k: bool
    ) -> tuple[np.ndarray, gguf.GGMLQuantizationType]:
        """Return blocks of 256 numbers of random bits, whose scales are all the same, and their type."""
        kind = gguf.GGMLQuantizationType.Q6_K if is_q6_k else gguf.GGMLQuantizationType.Q4_K
        block, size = gguf.GGML_QUANT_SIZES[kind]
        bits = self._random.integers(0, 256, (*dims[:-1], dims[-1] // block, size), np.uint8)
        if is_q6_k:  # (0 … 63 less 32) times 4, whose deviation is 74
            bits[..., 192:208] = 4
            bits[..., 208:] = np.array([scale / 74], np.float16).view(np.uint8)
        else:  # (0 … 15 less 7.5) times 32, whose deviation is 147.5
            bits[..., :4] = np.array([scale / 147.5, 7.5 * scale / 147.5], np.float16).view(np.uint8)
            bits[..., 4:16] = [0xA0] * 8 + [0] * 4
        return bits.reshape(*dims[:-1], -1), kind

    def add(self, name: str, values: np.ndarray) -> None:
        """Add a weight."""
        if self.shape.q8 and values.shape[-1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            self.gguf.add_tensor(name + ".weight", quantize(values, kind), raw_dtype=kind)
        else:
            self.gguf.add_tensor(name + ".weight", values)

    def vector(self, name: str, values: np.ndarray, suffix: str = ".weight") -> None:
        self.gguf.add_tensor(name + suffix, values.astype(np.float32))

    def noise(self, name: str, *dims: int, suffix: str = ".weight") -> None:
        """Add small values that are not multiplied with activations: biases and sinks."""
        self.vector(name, 0.3 * self._random.standard_normal(dims, dtype=np.float32), suffix)

    def ones(self, name: str, size: int) -> None:
        self.vector(name, np.ones(size))

    def layer_norm(self, name: str) -> None:
        self.ones(name, self.shape.dim)
        self.vector(name, np.zeros(self.shape.dim), ".bias")

    def close(self) -> None:
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()

    def _add_tokenizer(self) -> None:
        """Add a vocabulary like sentencepiece's: three control tokens, 256 bytes, letters, a few words, and fillers."""
        types = gguf.TokenType
        entries = [("<unk>", 0.0, types.UNKNOWN), ("<s>", 0.0, types.CONTROL), ("</s>", 0.0, types.CONTROL)]
        entries += [(f"<0x{byte:02X}>", 0.0, types.BYTE) for byte in range(256)]
        letters = [chr(code) for code in range(33, 127)] + ["▁"]
        words = [*letters, *(word.replace(" ", "▁") for word in _WORDS)]
        fillers = (f"▁w{number}{_mark(number)}" for number in range(self.shape.vocab))
        seen = {text for text, _, _ in entries}
        for text in (*words, *fillers):
            if len(entries) == self.shape.vocab - len(self.shape.defined) - len(self.shape.control):
                break
            if text not in seen:
                seen.add(text)
                entries.append((text, -float(len(entries)), types.NORMAL))
        entries += [(text, 0.0, types.USER_DEFINED) for text in self.shape.defined]
        entries += [(text, 0.0, types.CONTROL) for text in self.shape.control]
        self.gguf.add_tokenizer_model("llama")
        self.gguf.add_token_list([text for text, _, _ in entries])
        self.gguf.add_token_scores([score for _, score, _ in entries])
        self.gguf.add_token_types([kind for _, _, kind in entries])
        self.gguf.add_unk_token_id(0)
        self.gguf.add_bos_token_id(1)
        self.gguf.add_eos_token_id(2)
        self.gguf.add_add_bos_token(True)


def write_llama(path: Path, shape: Shape = TINY) -> Path:
    """Write a llama: attention in every layer."""
    out = _Writer(path, "llama", shape)
    _add_attention_keys(out)
    out.gguf.add_rope_dimension_count(shape.dim // shape.heads)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        gain = _QUIET if shape.is_chained or 0 < shape.loud <= layer else 1.0
        _add_attention(out, f"blk.{layer}.", head_dim=shape.dim // shape.heads, gain=gain)
        _add_feed_forward(out, f"blk.{layer}.", gain=gain)
    out.close()
    return path


def write_qwen2vl(path: Path, shape: Shape = TINY) -> Path:
    """Write a qwen2vl: attention with M-RoPE, whose positions have three sections, in every layer."""
    out = _Writer(path, "qwen2vl", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out)
    _add_sections(out, head_dim)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        _add_attention(out, f"blk.{layer}.", head_dim)
        _add_feed_forward(out, f"blk.{layer}.")
    out.close()
    return path


def write_qwen3vl(path: Path, shape: Shape = TINY) -> Path:
    """Write a qwen3vl: M-RoPE with interleaved sections, and pictures that also enter the first layer (DeepStack)."""
    out = _Writer(path, "qwen3vl", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out)
    _add_sections(out, head_dim)
    out.gguf.add_uint32("qwen3vl.n_deepstack_layers", 1)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        _add_head_norms(out, prefix)
        _add_feed_forward(out, prefix)
    out.close()
    return path


def write_qwen35(path: Path, shape: Shape = TINY, wrong: float | None = None) -> Path:
    """Write a qwen35, a hybrid: a gated delta net with states, and attention with M-RoPE in every second layer.

    With `wrong` it has a head that drafts (MTP), which knows what follows each token in a chained model, but for that
    share of the vocabulary.
    """
    head = shape.layers if wrong is not None else -1
    out = _Writer(path, "qwen35", replace(shape, layers=shape.layers + (wrong is not None)))
    _add_delta_net_keys(out)
    if wrong is not None:
        out.gguf.add_nextn_predict_layers(1)
    _add_sections(out, shape.dim // shape.heads)
    embeddings, gain = _add_vocabulary(out), _QUIET if shape.is_chained else 1.0
    for layer in range(out.shape.layers):
        prefix = f"blk.{layer}."
        if layer % 2 or layer == head:
            _add_gated_attention(out, prefix, gain=gain)
        else:
            _add_delta_net(out, prefix, ("ssm_beta", "ssm_alpha"), gain=gain)
        _add_feed_forward(out, prefix, norm="post_attention_norm", gain=gain)
    if wrong is not None:
        _add_next_token(out, f"blk.{head}.", embeddings, wrong)
    out.close()
    return path


def write_qwen3next(path: Path, shape: Shape = TINY) -> Path:
    """Write a qwen3next, a hybrid: a gated delta net with states, attention in every second layer, and experts."""
    out = _Writer(path, "qwen3next", shape)
    _add_delta_net_keys(out)
    out.gguf.add_rope_dimension_count(shape.dim // shape.heads // 2)
    _add_expert_keys(out, shared=True)
    _add_vocabulary(out, scale=2.0)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        if layer % 2:
            _add_gated_attention(out, prefix)
        else:
            _add_delta_net(out, prefix, ("ssm_ba",))
        _add_experts(out, prefix, norm="post_attention_norm")
        _add_shared_expert(out, prefix)
        out.matrix(prefix + "ffn_gate_inp_shexp", shape.dim)
    out.close()
    return path


def write_glm4(path: Path, shape: Shape = TINY, has_sections: bool = True) -> Path:
    """Write a glm4: norms before and after each part of a layer; with `has_sections` M-RoPE in half of each head."""
    out = _Writer(path, "glm4", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out)
    if has_sections:
        _add_sections(out, head_dim // 2)
    else:
        out.gguf.add_rope_dimension_count(head_dim // 2)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        for name in ("ffn_norm", "post_attention_norm", "post_ffw_norm"):
            out.ones(prefix + name, shape.dim)
        out.matrix(prefix + "ffn_up", 2 * shape.ffn, shape.dim)
        out.matrix(prefix + "ffn_down", shape.dim, shape.ffn)
    out.close()
    return path


def write_hunyuan_vl(path: Path, shape: Shape = TINY) -> Path:
    """Write a hunyuan_vl: M-RoPE with four sections, of which the last tells the pictures of a prompt apart."""
    out = _Writer(path, "hunyuan_vl", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out)
    out.gguf.add_rope_dimension_count(head_dim)
    out.gguf.add_rope_dimension_sections([head_dim // 8] * 4)
    out.gguf.add_rope_freq_base(10.0)  # low, so that the last section turns far enough to be seen
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        _add_head_norms(out, prefix)
        _add_feed_forward(out, prefix)
    out.close()
    return path


def write_gemma2(path: Path, shape: Shape = TINY) -> Path:
    """Write a gemma2: every second layer attends within a sliding window."""
    out = _Writer(path, "gemma2", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_sliding_window(shape.window)
    out.gguf.add_attn_logit_softcapping(50.0)
    out.gguf.add_final_logit_softcapping(30.0)
    out.matrix("token_embd", shape.vocab, shape.dim, scale=0.05)
    out.ones("output_norm", shape.dim)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        _add_feed_forward(out, prefix)
        out.ones(prefix + "post_attention_norm", shape.dim)
        out.ones(prefix + "post_ffw_norm", shape.dim)
    out.close()
    return path


def write_gemma3(path: Path, shape: Shape = TINY) -> Path:
    """Write a gemma3: of six layers five attend within a sliding window, and the sixth to everything."""
    shape = replace(shape, layers=max(shape.layers, 6))
    out = _Writer(path, "gemma3", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_sliding_window(shape.window)
    out.matrix("token_embd", shape.vocab, shape.dim, scale=shape.dim**-0.5)
    out.ones("output_norm", shape.dim)
    out.matrix("output", shape.vocab, shape.dim, scale=2 * shape.dim**-0.5)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        _add_feed_forward(out, prefix)
        _add_head_norms(out, prefix)
        out.ones(prefix + "post_attention_norm", shape.dim)
        # llama.cpp rounds GELU to f16, which six whole layers would make a difference between equal texts.
        out.vector(prefix + "post_ffw_norm", np.full(shape.dim, 0.1))
    out.close()
    return path


def write_gemma4(path: Path, shape: Shape = TINY) -> Path:
    """Write a gemma4: every second layer attends within a window, with smaller heads; the last two have no KV of their own.

    Layers without windows have fewer heads of keys, which are their values, too. Each layer has its own embeddings.
    """
    shape = replace(shape, layers=6)
    out = _Writer(path, "gemma4", shape)
    small, large, per_layer = shape.dim // shape.heads, 2 * shape.dim // shape.heads, 16
    is_windowed = [layer % 2 == 0 for layer in range(shape.layers)]
    kv_heads = [shape.kv_heads if windowed else shape.kv_heads // 2 for windowed in is_windowed]
    _add_attention_keys(out, kv_heads)
    _add_window_keys(out, small, large, is_windowed)
    out.gguf.add_shared_kv_layers(2)
    out.gguf.add_embedding_length_per_layer_input(per_layer)
    out.gguf.add_final_logit_softcapping(30.0)
    out.matrix("token_embd", shape.vocab, shape.dim, scale=shape.dim**-0.5)
    out.matrix("per_layer_token_embd", shape.vocab, per_layer * shape.layers, scale=per_layer**-0.5)
    out.matrix("per_layer_model_proj", per_layer * shape.layers, shape.dim)
    out.ones("per_layer_proj_norm", per_layer)
    out.vector("rope_freqs", np.ones(large // 2))
    out.ones("output_norm", shape.dim)
    out.matrix("output", shape.vocab, shape.dim, scale=2 * shape.dim**-0.5)
    for layer, windowed in enumerate(is_windowed):
        prefix, head_dim = f"blk.{layer}.", small if windowed else large
        out.ones(prefix + "attn_norm", shape.dim)
        out.matrix(prefix + "attn_q", shape.heads * head_dim, shape.dim)
        out.vector(prefix + "attn_q_norm", np.full(head_dim, head_dim**-0.5))  # there is no scale of the scores
        if layer < shape.layers - 2:
            for name in ("attn_k", "attn_v") if windowed else ("attn_k",):
                out.matrix(prefix + name, kv_heads[layer] * head_dim, shape.dim)
            out.ones(prefix + "attn_k_norm", head_dim)
        out.matrix(prefix + "attn_output", shape.dim, shape.heads * head_dim)
        out.ones(prefix + "post_attention_norm", shape.dim)
        _add_feed_forward(out, prefix)
        out.vector(prefix + "post_ffw_norm", np.full(shape.dim, 0.1))  # see gemma3
        out.matrix(prefix + "inp_gate", per_layer, shape.dim)
        out.matrix(prefix + "proj", shape.dim, per_layer)
        out.vector(prefix + "post_norm", np.full(shape.dim, 0.1))
    out.close()
    return path


def write_gemma4_assistant(path: Path, shape: Shape = TINY) -> Path:
    """Write an assistant for `write_gemma4`'s model of this shape: two layers, which attend to keys of the model."""
    dim, out = shape.dim // 2, _Writer(path, "gemma4-assistant", replace(shape, layers=2, dim=shape.dim // 2))
    small, large = shape.dim // shape.heads, 2 * shape.dim // shape.heads
    _add_attention_keys(out, [shape.kv_heads, shape.kv_heads // 2])
    out.gguf.add_embedding_length_out(shape.dim)
    out.gguf.add_nextn_predict_layers(2)
    _add_window_keys(out, small, large, [True, False])
    out.matrix("token_embd", shape.vocab, dim, scale=dim**-0.5)
    out.ones("output_norm", dim)
    out.vector("rope_freqs", np.ones(large // 2))
    out.matrix("nextn.pre_projection", dim, 2 * shape.dim)
    out.matrix("nextn.post_projection", shape.dim, dim)
    for layer, head_dim in enumerate((small, large)):
        prefix = f"blk.{layer}."
        for name in ("attn_norm", "post_attention_norm", "post_ffw_norm"):
            out.ones(prefix + name, dim)
        out.matrix(prefix + "attn_q", shape.heads * head_dim, dim)
        out.vector(prefix + "attn_q_norm", np.full(head_dim, head_dim**-0.5))
        out.matrix(prefix + "attn_output", dim, shape.heads * head_dim)
        out.ones(prefix + "layer_output_scale", 1)
        _add_feed_forward(out, prefix)
    out.close()
    return path


def _add_window_keys(out: _Writer, small: int, large: int, is_windowed: list[bool]) -> None:
    """Add what Gemma 4's heads have in layers with a window, which are small, and in those without one."""
    for length, of_window in ((large, ""), (small, "_swa")):
        for key in ("key_length", "value_length", "rope_dimension_count"):
            getattr(out.gguf, f"add_{key}{of_window}")(length)
    out.gguf.add_sliding_window(out.shape.window)
    out.gguf.add_sliding_window_pattern(is_windowed)


def write_gpt_oss(path: Path, shape: Shape = TINY) -> Path:
    """Write a gpt-oss: every second layer attends within a window, each head to a sink, too; experts with biases."""
    out = _Writer(path, "gpt-oss", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_sliding_window(shape.window)
    _add_expert_keys(out)
    _add_vocabulary(out, scale=2.0)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        out.noise(prefix + "attn_sinks", shape.heads)
        for name, size in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)):
            out.noise(f"{prefix}attn_{name}", size * head_dim, suffix=".bias")
        out.noise(prefix + "attn_output", shape.dim, suffix=".bias")
        _add_experts(out, prefix, norm="post_attention_norm")
        out.noise(prefix + "ffn_gate_inp", _EXPERTS, suffix=".bias")
        for name, size in (("gate", shape.ffn), ("up", shape.ffn), ("down", shape.dim)):
            out.noise(f"{prefix}ffn_{name}_exps", _EXPERTS, size, suffix=".bias")
    out.close()
    return path


def write_llama4(path: Path, shape: Shape = TINY) -> Path:
    """Write a llama4: of four layers three attend within their text's chunk of 8,192 tokens, and one to everything."""
    shape = replace(shape, layers=4)
    out = _Writer(path, "llama4", shape)
    _add_attention_keys(out)
    out.gguf.add_rope_dimension_count(shape.dim // shape.heads)
    out.gguf.add_interleave_moe_layer_step(2)
    _add_expert_keys(out)
    _add_vocabulary(out, scale=2.0)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, shape.dim // shape.heads)
        if layer % 2:
            _add_experts(out, prefix)
            _add_shared_expert(out, prefix)
        else:
            _add_feed_forward(out, prefix)
    out.close()
    return path


def write_mamba(path: Path, shape: Shape = TINY) -> Path:
    """Write a mamba: no attention, one state for each sequence."""
    out = _Writer(path, "mamba", shape)
    inner, rank, kernel = 2 * shape.dim, max(1, shape.dim // 16), 4
    out.gguf.add_feed_forward_length(0)
    out.gguf.add_head_count(0)
    out.gguf.add_layer_norm_rms_eps(1e-5)
    out.gguf.add_ssm_conv_kernel(kernel)
    out.gguf.add_ssm_inner_size(inner)
    out.gguf.add_ssm_state_size(shape.state)
    out.gguf.add_ssm_time_step_rank(rank)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        out.ones(prefix + "attn_norm", shape.dim)
        out.matrix(prefix + "ssm_in", 2 * inner, shape.dim)
        out.matrix(prefix + "ssm_conv1d", inner, kernel)
        out.vector(prefix + "ssm_conv1d", np.zeros(inner), ".bias")
        out.matrix(prefix + "ssm_x", rank + 2 * shape.state, inner)
        out.matrix(prefix + "ssm_dt", inner, rank)
        out.vector(prefix + "ssm_dt", np.full(inner, -2.0), ".bias")
        out.vector(prefix + "ssm_a", -np.tile(np.arange(1.0, shape.state + 1), (inner, 1)), "")
        out.vector(prefix + "ssm_d", np.ones(inner), "")
        out.matrix(prefix + "ssm_out", shape.dim, inner)
    out.close()
    return path


def write_mamba2(path: Path, shape: Shape = TINY) -> Path:
    """Write a mamba2: no attention, a state for each head of each sequence."""
    out = _Writer(path, "mamba2", shape)
    out.gguf.add_feed_forward_length(0)
    out.gguf.add_head_count(0)
    out.gguf.add_layer_norm_rms_eps(1e-5)
    _add_mamba2_keys(out)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        out.ones(f"blk.{layer}.attn_norm", shape.dim)
        _add_mamba2(out, f"blk.{layer}.")
    out.close()
    return path


def write_rwkv7(path: Path, shape: Shape = TINY) -> Path:
    """Write an rwkv7: no attention; a state for each head of each sequence, and its last token's activations."""
    out = _Writer(path, "rwkv7", shape)
    rank, dim = 8, shape.dim
    out.gguf.add_feed_forward_length(shape.ffn)
    out.gguf.add_head_count(0)
    out.gguf.add_layer_norm_eps(1e-5)
    out.gguf.add_token_shift_count(2)
    out.gguf.add_wkv_head_size(64)  # ggml computes no other right
    for kind in ("decay", "iclr", "value_residual_mix", "gate"):
        getattr(out.gguf, f"add_{kind}_lora_rank")(rank)
    _add_vocabulary(out, scale=2.0)
    out.vector("output_norm", np.zeros(dim), ".bias")
    out.layer_norm("token_embd_norm")
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        mix = prefix + "time_mix_"
        for name in ("attn_norm", "attn_norm_2", "time_mix_ln"):
            out.layer_norm(prefix + name)
        for kind in "wavg":
            if kind != "g":
                out.noise(f"{mix}{kind}0", dim)
            out.matrix(f"{mix}{kind}1", rank, dim)
            out.matrix(f"{mix}{kind}2", dim, rank)
        out.vector(mix + "lerp_fused", np.full((6, 1, 1, dim), 0.5))
        for name in ("k_k", "k_a", "r_k"):
            out.noise(mix + name, dim)
        for name in ("key", "value", "receptance", "output"):
            out.matrix(mix + name, dim, dim)
        out.vector(prefix + "channel_mix_lerp_k", np.full((1, 1, dim), 0.5))
        out.matrix(prefix + "channel_mix_key", shape.ffn, dim)
        out.matrix(prefix + "channel_mix_value", dim, shape.ffn)
    out.close()
    return path


def write_falcon_h1(path: Path, shape: Shape = TINY) -> Path:
    """Write a falcon-h1, a hybrid: attention and a mamba2 beside each other in every layer."""
    out = _Writer(path, "falcon-h1", shape)
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out, has_lengths=True)
    _add_mamba2_keys(out)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        _add_attention(out, prefix, head_dim)
        _add_mamba2(out, prefix)
        _add_feed_forward(out, prefix, norm_suffix="")
    out.close()
    return path


def write_granite_hybrid(path: Path, shape: Shape = TINY) -> Path:
    """Write a Granite 4, a hybrid: a mamba2, attention without positions in every second layer, and experts."""
    out = _Writer(path, "granitehybrid", shape)
    attends = [layer % 2 == 1 for layer in range(shape.layers)]
    _add_attention_keys(out, [shape.kv_heads if attention else 0 for attention in attends])
    out.gguf.add_rope_scaling_finetuned(False)
    out.gguf.add_embedding_scale(1.0)
    out.gguf.add_residual_scale(0.5)
    out.gguf.add_attention_scale(0.1)
    out.gguf.add_logit_scale(1.0)
    _add_mamba2_keys(out)
    _add_expert_keys(out, shared=True)
    _add_vocabulary(out)
    for layer, attention in enumerate(attends):
        prefix = f"blk.{layer}."
        if attention:
            _add_attention(out, prefix, shape.dim // shape.heads)
        else:
            out.ones(prefix + "attn_norm", shape.dim)
            _add_mamba2(out, prefix)
        _add_experts(out, prefix)
        _add_shared_expert(out, prefix)
    out.close()
    return path


def write_lfm2(path: Path, shape: Shape = TINY, has_windows: bool = False) -> Path:
    """Write an lfm2, a hybrid: short convolutions with a state of their own, and attention in every second layer.

    With `has_windows` that attention is within a sliding window.
    """
    out = _Writer(path, "lfm2", shape)
    head_dim, kernel = shape.dim // shape.heads, 3
    attends = [layer % 2 == 1 for layer in range(shape.layers)]
    _add_attention_keys(out, [shape.kv_heads if attention else 0 for attention in attends])
    if has_windows:
        out.gguf.add_sliding_window(shape.window)
    out.gguf.add_shortconv_l_cache(kernel)
    out.matrix("token_embd", shape.vocab, shape.dim, scale=1.0)
    out.ones("token_embd_norm", shape.dim)
    out.matrix("output", shape.vocab, shape.dim, scale=3 * shape.dim**-0.5)
    for layer, attention in enumerate(attends):
        prefix = f"blk.{layer}."
        if attention:
            _add_attention(out, prefix, head_dim)
            _add_head_norms(out, prefix)
        else:
            out.ones(prefix + "attn_norm", shape.dim)
            out.matrix(prefix + "shortconv.conv", shape.dim, kernel)
            out.matrix(prefix + "shortconv.in_proj", 3 * shape.dim, shape.dim)
            out.matrix(prefix + "shortconv.out_proj", shape.dim, shape.dim)
        _add_feed_forward(out, prefix)
    out.close()
    return path


def write_deepseek2(path: Path, shape: Shape = TINY) -> Path:
    """Write a deepseek2: latent attention, whose KV has one head of keys, and no values beside them."""
    out = _Writer(path, "deepseek2", shape)
    rotated = plain = shape.dim // shape.heads // 2  # places of a head with a position, and without
    head_dim, latent = rotated + plain, shape.dim // 2
    out.gguf.add_feed_forward_length(shape.ffn)
    out.gguf.add_leading_dense_block_count(shape.layers)
    out.gguf.add_expert_feed_forward_length(shape.ffn)
    out.gguf.add_expert_shared_count(0)
    out.gguf.add_head_count(shape.heads)
    out.gguf.add_head_count_kv(1)
    out.gguf.add_layer_norm_rms_eps(1e-5)
    out.gguf.add_rope_dimension_count(rotated)
    out.gguf.add_q_lora_rank(latent)
    out.gguf.add_kv_lora_rank(latent)
    out.gguf.add_key_length(latent + rotated)
    out.gguf.add_value_length(latent)
    out.gguf.add_key_length_mla(head_dim)
    out.gguf.add_value_length_mla(head_dim)
    _add_vocabulary(out)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        out.ones(prefix + "attn_norm", shape.dim)
        out.matrix(prefix + "attn_q_a", latent, shape.dim)
        out.ones(prefix + "attn_q_a_norm", latent)
        out.matrix(prefix + "attn_q_b", shape.heads * head_dim, latent)
        out.matrix(prefix + "attn_kv_a_mqa", latent + rotated, shape.dim)
        out.ones(prefix + "attn_kv_a_norm", latent)
        out.matrix(prefix + "attn_k_b", shape.heads, latent, plain)
        out.matrix(prefix + "attn_v_b", shape.heads, head_dim, latent)
        out.matrix(prefix + "attn_output", shape.dim, shape.heads * head_dim)
        _add_feed_forward(out, prefix)
    out.close()
    return path


def write_glm4_moe(path: Path, shape: Shape = TINY, wrong: float = 0.0) -> Path:
    """Write a glm4moe with a head that drafts (MTP): experts are in the head's layer alone.

    The head of a chained model knows what follows each token, but for a share `wrong` of the vocabulary.
    """
    head = shape.layers
    out = _Writer(path, "glm4moe", replace(shape, layers=head + 1))
    _add_attention_keys(out)
    out.gguf.add_rope_dimension_count(shape.dim // shape.heads)
    out.gguf.add_leading_dense_block_count(head)
    out.gguf.add_nextn_predict_layers(1)
    out.gguf.add_expert_count(2)
    out.gguf.add_expert_used_count(1)
    out.gguf.add_expert_shared_count(1)
    out.gguf.add_expert_feed_forward_length(shape.ffn // 4)
    embeddings = _add_vocabulary(out)
    gain = _QUIET if shape.is_chained else 1.0
    for layer in range(head + 1):
        _add_attention(out, f"blk.{layer}.", shape.dim // shape.heads, gain=gain)
        out.ones(f"blk.{layer}.post_attention_norm", shape.dim)
        if layer < head:
            _add_gate_up_down(out, f"blk.{layer}.", gain=gain)
    prefix, out.shape = f"blk.{head}.", replace(out.shape, ffn=shape.ffn // 4)
    out.matrix(prefix + "ffn_gate_inp", 2, shape.dim)
    out.vector(prefix + "exp_probs_b", np.zeros(2), ".bias")
    _add_gate_up_down(out, prefix, "_exps", 2, gain=gain)
    _add_gate_up_down(out, prefix, "_shexp", gain=gain)
    _add_next_token(out, prefix, embeddings, wrong)
    out.close()
    return path


def _add_next_token(out: _Writer, prefix: str, embeddings: np.ndarray, wrong: float) -> None:
    """Add what a head (MTP) has beside a layer; of a chained model it knows all tokens but for a share `wrong`."""
    shape = out.shape
    for name in ("nextn.enorm", "nextn.hnorm"):
        out.ones(prefix + name, shape.dim)
    if shape.is_chained:  # it looks at the token alone, as the last matrix does
        out.add(prefix + "nextn.eh_proj", np.eye(shape.dim, 2 * shape.dim, dtype=np.float32))
        out.add(prefix + "nextn.embed_tokens", _mistaken(embeddings, wrong, shape))
    else:
        out.matrix(prefix + "nextn.eh_proj", shape.dim, 2 * shape.dim)


def write_step35(path: Path, shape: Shape = TINY) -> Path:
    """Write a step35 without experts, with a head that drafts (MTP): every second layer, and the head, has a window."""
    head = shape.layers
    out = _Writer(path, "step35", replace(shape, layers=head + 1))
    head_dim = shape.dim // shape.heads
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_rope_dimension_count(head_dim)
    out.gguf.add_expert_feed_forward_length(shape.ffn)
    out.gguf.add_sliding_window(shape.window)
    out.gguf.add_sliding_window_pattern([layer % 2 == head % 2 for layer in range(head + 1)])
    out.gguf.add_nextn_predict_layers(1)
    _add_vocabulary(out)
    for layer in range(head + 1):
        _add_attention(out, f"blk.{layer}.", head_dim)
        _add_head_norms(out, f"blk.{layer}.")
        _add_feed_forward(out, f"blk.{layer}.")
    for name in ("nextn.enorm", "nextn.hnorm"):
        out.ones(f"blk.{head}.{name}", shape.dim)
    out.matrix(f"blk.{head}.nextn.eh_proj", shape.dim, 2 * shape.dim)
    out.close()
    return path


def write_eagle3(path: Path, shape: Shape = TINY, wrong: float = 0.0) -> Path:
    """Write an EAGLE-3 head for a llama of this shape: one layer, which sees tokens and what three layers are given.

    With a chained model it knows what follows each token, but for a share `wrong` of the vocabulary.
    """
    out = _Writer(path, "eagle3", replace(shape, layers=1))
    kv_heads = shape.heads if shape.is_chained else shape.kv_heads
    head_dim, both = shape.dim // shape.heads, 2 * shape.dim
    out.shape = replace(out.shape, kv_heads=kv_heads)
    _add_attention_keys(out)
    out.gguf.add_rope_dimension_count(head_dim)
    out.gguf.add_array("eagle3.target_layers", [0, shape.layers // 2, shape.layers - 1])
    out.gguf.add_uint32("eagle3.target_hidden_size", shape.dim)
    out.gguf.add_bool("eagle3.norm_before_residual", True)
    gain = _QUIET if shape.is_chained else 1.0
    out.matrix("fc", shape.dim, 3 * shape.dim, scale=gain * (3 * shape.dim) ** -0.5)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm"):
        out.ones(name, shape.dim)
    if shape.is_chained:  # each token attends to itself, and gives its embedding
        itself = np.eye(shape.dim, both, dtype=np.float32)
        for name, scale in (("attn_q", 2.0), ("attn_k", 2.0), ("attn_v", 1.0)):
            out.add(f"blk.0.{name}", scale * itself)
        out.add(
            "blk.0.attn_output", 8 * np.eye(shape.dim, dtype=np.float32)
        )  # beside a state with numbers of about one
        out.add("token_embd", _mistaken(_embeddings(shape), wrong, shape))
    else:
        out.matrix("blk.0.attn_q", shape.dim, both)
        out.matrix("blk.0.attn_k", kv_heads * head_dim, both)
        out.matrix("blk.0.attn_v", kv_heads * head_dim, both)
        out.matrix("blk.0.attn_output", shape.dim, shape.dim)
    _add_gate_up_down(out, "blk.0.", gain=gain)
    out.close()
    return path


def write_dflash(path: Path, shape: Shape = TINY, layers: int = 2) -> Path:
    """Write a DFlash drafter for a llama of this shape, of so many `layers`, with blocks of 8 tokens."""
    out = _Writer(path, "dflash", replace(shape, layers=layers))
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_rope_dimension_count(shape.dim // shape.heads)
    out.gguf.add_array("dflash.target_layers", [0, shape.layers - 1])
    out.gguf.add_uint32("dflash.block_size", 8)
    out.gguf.add_mask_token_id(shape.vocab - 1)
    out.matrix("fc", shape.dim, 2 * shape.dim)
    for name in ("enc.output_norm", "output_norm"):
        out.ones(name, shape.dim)
    for layer in range(layers):
        _add_attention(out, f"blk.{layer}.", shape.dim // shape.heads)
        _add_head_norms(out, f"blk.{layer}.")
        _add_feed_forward(out, f"blk.{layer}.")
    out.close()
    return path


def write_bert(path: Path, shape: Shape = TINY, ranks: bool = False) -> Path:
    """Write a bert: an encoder for embeddings, which cannot generate; with `ranks` a head that scores pairs of texts."""
    out = _Writer(path, "bert", shape)
    out.gguf.add_feed_forward_length(shape.ffn)
    out.gguf.add_head_count(shape.heads)
    out.gguf.add_layer_norm_eps(1e-5)
    out.gguf.add_causal_attention(False)
    out.gguf.add_token_type_count(2)
    out.gguf.add_pooling_type(gguf.PoolingType.RANK if ranks else gguf.PoolingType.CLS)
    out.matrix("token_embd", shape.vocab, shape.dim, scale=1.0)
    out.matrix("token_types", 2, shape.dim, scale=0.1)
    out.matrix("position_embd", shape.context, shape.dim, scale=0.3)
    out.layer_norm("token_embd_norm")
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            out.matrix(prefix + name, shape.dim, shape.dim)
        out.layer_norm(prefix + "attn_output_norm")
        out.matrix(prefix + "ffn_up", shape.ffn, shape.dim)
        out.matrix(prefix + "ffn_down", shape.dim, shape.ffn)
        out.layer_norm(prefix + "layer_output_norm")
    if ranks:
        out.matrix("cls", shape.dim, shape.dim)
        out.vector("cls", np.zeros(shape.dim), ".bias")
        out.matrix("cls.output", 1, shape.dim)
        out.vector("cls.output", np.zeros(1), ".bias")
    out.close()
    return path


def write_lora(path: Path, shape: Shape = TINY, rank: int = 4, seed: int = 0, task_name: str = "") -> Path:
    """Write a LoRA adapter for `write_llama`'s model, strong enough to change every text."""
    out, random = gguf.GGUFWriter(path, "llama"), np.random.default_rng(seed)
    out.add_type(gguf.GGUFType.ADAPTER)
    out.add_string(gguf.Keys.Adapter.TYPE, "lora")
    out.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(rank))
    out.add_string("adapter.lora.task_name", task_name)
    for layer in range(shape.layers):
        for name in ("attn_q", "attn_output"):
            tensor = f"blk.{layer}.{name}.weight"
            out.add_tensor(tensor + ".lora_a", random.standard_normal((rank, shape.dim), dtype=np.float32))
            out.add_tensor(tensor + ".lora_b", random.standard_normal((shape.dim, rank), dtype=np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


WRITERS: dict[str, Callable[[Path, Shape], Path]] = {
    "llama": write_llama,
    "qwen2vl": write_qwen2vl,
    "qwen3vl": write_qwen3vl,
    "gemma2": write_gemma2,
    "gemma3": write_gemma3,
    "gemma4": write_gemma4,
    "gpt-oss": write_gpt_oss,
    "llama4": write_llama4,
    "mamba": write_mamba,
    "mamba2": write_mamba2,
    "rwkv7": write_rwkv7,
    "falcon-h1": write_falcon_h1,
    "granite-hybrid": write_granite_hybrid,
    "lfm2": write_lfm2,
    "lfm2, windows": partial(write_lfm2, has_windows=True),
    "qwen35": write_qwen35,
    "qwen3next": write_qwen3next,
    "deepseek2": write_deepseek2,
    "glm4moe": write_glm4_moe,
    "step35": write_step35,
}


def _add_vocabulary(out: _Writer, scale: float = 3.0) -> np.ndarray:
    """Add the matrices between tokens and the layers, and return the first; logits are about as far apart as `scale`."""
    embeddings = out.matrix("token_embd", out.shape.vocab, out.shape.dim, scale=1.0)
    out.ones("output_norm", out.shape.dim)
    if out.shape.is_chained:
        out.add("output", _chained(embeddings))
    else:
        out.matrix("output", out.shape.vocab, out.shape.dim, scale=scale * out.shape.dim**-0.5)
    return embeddings


def _chained(embeddings: np.ndarray) -> np.ndarray:
    """Return for each token a row that the embeddings of those before it in a chained text are like, and no others."""
    vocab, dim = embeddings.shape
    rows = np.zeros_like(embeddings)
    for successors in chained_texts(vocab).values():
        for token, following in successors.items():
            rows[following] += embeddings[token]
    return rows * np.float32(_SURE / dim)


def _embeddings(shape: Shape) -> np.ndarray:
    """Return the embeddings of the model of this shape, which are its first numbers."""
    return np.random.default_rng(shape.seed).standard_normal((shape.vocab, shape.dim), dtype=np.float32)


def _mistaken(embeddings: np.ndarray, wrong: float, shape: Shape) -> np.ndarray:
    """Return the embeddings of a head that takes a share of a chained text's tokens for others, and is as sure of them."""
    texts, random = chained_texts(shape.vocab).values(), np.random.default_rng(shape.seed)
    surely = [token for successors in texts for token, following in successors.items() if len(following) == 1]
    known, taken = embeddings.copy(), np.flatnonzero(random.random(shape.vocab) < wrong)
    known[taken] = embeddings[random.choice(surely, len(taken))]
    return known


def _add_mamba2_keys(out: _Writer) -> None:
    out.gguf.add_ssm_conv_kernel(4)
    out.gguf.add_ssm_inner_size(2 * out.shape.dim)
    out.gguf.add_ssm_state_size(out.shape.state)
    out.gguf.add_ssm_time_step_rank(out.shape.heads)
    out.gguf.add_ssm_group_count(1)


def _add_mamba2(out: _Writer, prefix: str) -> None:
    shape, inner = out.shape, 2 * out.shape.dim
    mixed = inner + 2 * shape.state
    out.matrix(prefix + "ssm_in", inner + mixed + shape.heads, shape.dim)
    out.matrix(prefix + "ssm_conv1d", mixed, 4)
    out.vector(prefix + "ssm_conv1d", np.zeros(mixed), ".bias")
    out.vector(prefix + "ssm_dt", np.full(shape.heads, -2.0), ".bias")
    out.vector(prefix + "ssm_a", -np.arange(1.0, shape.heads + 1)[:, None], "")
    out.vector(prefix + "ssm_d", np.ones((shape.heads, 1)), "")
    out.vector(prefix + "ssm_norm", np.ones((1, inner)))
    out.matrix(prefix + "ssm_out", shape.dim, inner)


def _add_delta_net_keys(out: _Writer) -> None:
    """Add the keys of a gated delta net and of attention in every second layer."""
    shape, size = out.shape, 2 * out.shape.state
    _add_attention_keys(out, has_lengths=True)
    out.gguf.add_uint32(f"{out.arch}.full_attention_interval", 2)
    out.gguf.add_ssm_conv_kernel(4)
    out.gguf.add_ssm_inner_size(shape.kv_heads * size)
    out.gguf.add_ssm_state_size(size)
    out.gguf.add_ssm_time_step_rank(shape.kv_heads)
    out.gguf.add_ssm_group_count(shape.kv_heads)


def _add_delta_net(out: _Writer, prefix: str, gates: tuple[str, ...], gain: float = 1.0) -> None:
    """Add a gated delta net, whose two gates for each head are in as many matrices as `gates` names."""
    shape, heads, size = out.shape, out.shape.kv_heads, 2 * out.shape.state
    inner, mixed = heads * size, 3 * heads * size
    out.ones(prefix + "attn_norm", shape.dim)
    out.matrix(prefix + "attn_qkv", mixed, shape.dim)
    out.matrix(prefix + "attn_gate", inner, shape.dim)
    out.matrix(prefix + "ssm_conv1d", mixed, 4)
    out.vector(prefix + "ssm_dt", np.full(heads, -2.0), ".bias")
    out.vector(prefix + "ssm_a", -np.arange(1.0, heads + 1), "")
    for name in gates:
        out.matrix(prefix + name, 2 * heads // len(gates), shape.dim)
    out.ones(prefix + "ssm_norm", size)
    out.matrix(prefix + "ssm_out", shape.dim, inner, scale=gain * inner**-0.5)


def _add_gated_attention(out: _Writer, prefix: str, gain: float = 1.0) -> None:
    """Add the attention of Qwen's hybrids."""
    head_dim = out.shape.dim // out.shape.heads
    _add_attention(out, prefix, head_dim, gated=True, gain=gain)
    _add_head_norms(out, prefix)


def _add_expert_keys(out: _Writer, shared: bool = False) -> None:
    out.gguf.add_expert_count(_EXPERTS)
    out.gguf.add_expert_used_count(_EXPERTS // 2)
    out.gguf.add_expert_feed_forward_length(out.shape.ffn)
    if shared:
        out.gguf.add_expert_shared_feed_forward_length(out.shape.ffn)


def _add_experts(out: _Writer, prefix: str, norm: str = "ffn_norm") -> None:
    out.ones(prefix + norm, out.shape.dim)
    out.matrix(prefix + "ffn_gate_inp", _EXPERTS, out.shape.dim)
    _add_gate_up_down(out, prefix, "_exps", _EXPERTS)


def _add_shared_expert(out: _Writer, prefix: str) -> None:
    _add_gate_up_down(out, prefix, "_shexp")


def _add_attention_keys(out: _Writer, kv_heads: list[int] | None = None, has_lengths: bool = False) -> None:
    """Add the keys of attention, with `kv_heads` of each layer if they differ, and the length of heads if it is a key."""
    out.gguf.add_feed_forward_length(out.shape.ffn)
    out.gguf.add_head_count(out.shape.heads)
    out.gguf.add_head_count_kv(kv_heads or out.shape.kv_heads)
    out.gguf.add_layer_norm_rms_eps(1e-5)
    if has_lengths:
        out.gguf.add_key_length(out.shape.dim // out.shape.heads)
        out.gguf.add_value_length(out.shape.dim // out.shape.heads)


def _add_sections(out: _Writer, head_dim: int) -> None:
    third = head_dim // 6
    out.gguf.add_rope_dimension_count(head_dim)
    out.gguf.add_rope_dimension_sections([head_dim // 2 - 2 * third, third, third, 0])


def _add_attention(out: _Writer, prefix: str, head_dim: int, gated: bool = False, gain: float = 1.0) -> None:
    shape = out.shape
    out.ones(prefix + "attn_norm", shape.dim)
    out.matrix(prefix + "attn_q", (2 if gated else 1) * shape.heads * head_dim, shape.dim)
    out.matrix(prefix + "attn_k", shape.kv_heads * head_dim, shape.dim)
    out.matrix(prefix + "attn_v", shape.kv_heads * head_dim, shape.dim)
    out.matrix(prefix + "attn_output", shape.dim, shape.heads * head_dim, scale=gain * (shape.heads * head_dim) ** -0.5)


def _add_head_norms(out: _Writer, prefix: str) -> None:
    """Add the norms of each head's queries and keys."""
    for name in ("attn_q_norm", "attn_k_norm"):
        out.ones(prefix + name, out.shape.dim // out.shape.heads)


def _add_feed_forward(
    out: _Writer, prefix: str, norm_suffix: str = ".weight", norm: str = "ffn_norm", gain: float = 1.0
) -> None:
    out.vector(prefix + norm, np.ones(out.shape.dim), norm_suffix)
    _add_gate_up_down(out, prefix, gain=gain)


def _add_gate_up_down(out: _Writer, prefix: str, suffix: str = "", *experts: int, gain: float = 1.0) -> None:
    """Add the three matrices of a feed-forward network, or of as many `experts`."""
    ffn, dim = out.shape.ffn, out.shape.dim
    out.matrix(f"{prefix}ffn_gate{suffix}", *experts, ffn, dim)
    out.matrix(f"{prefix}ffn_up{suffix}", *experts, ffn, dim)
    out.matrix(f"{prefix}ffn_down{suffix}", *experts, dim, ffn, scale=gain * ffn**-0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a random-weight llama for benchmarks.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="110m", help="number of parameters (default: %(default)s)")
    parser.add_argument("--vocab", type=int, default=0, help="tokens in the vocabulary; 0: as the shape has them")
    options = parser.parse_args()
    path, shape = options.out, SHAPES[options.shape]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_llama(path, replace(shape, vocab=options.vocab or shape.vocab))
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
