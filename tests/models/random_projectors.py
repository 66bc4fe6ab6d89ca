"""Projectors with random weights for the models of `random_gguf`: encoders of pictures and sounds, tiny as the models.

Each has the tensors and keys that llama.cpp's mtmd asks of its kind, and a token for few pixels.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from tests.models.random_gguf import TINY, Shape

# Tokens that a model has among its control tokens if its projector puts them between tiles.
TILE_MARKS = ("\n\n", "<fake_token_around_image>", "<global-img>")
THUMBNAIL_MARKS = ("<|img_thumbnail|>",)
SLICE_MARKS = ("<image>", "</image>", "<slice>", "</slice>")


class _Projector:
    """A GGUFWriter of encoders of pictures (`v`) and sounds (`a`), by default of 16 inputs, one layer and two heads."""

    patch, mels = 4, 80

    def __init__(self, path: Path, shape: Shape, seed: int, *kinds: str, width: int = 16, layers: int = 1) -> None:
        self.dim, self.ffn = width, 2 * width
        self.gguf = gguf.GGUFWriter(path, "clip")
        self._random = np.random.default_rng(seed)
        self.gguf.add_type(gguf.GGUFType.MMPROJ)
        self.gguf.add_bool("clip.use_gelu", True)
        for kind in kinds:
            self.gguf.add_bool(f"clip.has_{kind}_encoder", True)
            values = {
                "embedding_length": self.dim,
                "feed_forward_length": self.ffn,
                "block_count": layers,
                "projection_dim": shape.dim,
                "attention.head_count": max(2, width // 64),
            }
            for name, value in values.items():
                self.gguf.add_uint32(f"clip.{kind}.{name}", value)
            self.gguf.add_float32(f"clip.{kind}.attention.layer_norm_epsilon", 1e-6)
            self._add_layers(kind[0], layers)
        if "vision" in kinds:
            self.gguf.add_uint32("clip.vision.patch_size", self.patch)
            self.gguf.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
            self.gguf.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
        if "audio" in kinds:
            self.gguf.add_uint32("clip.audio.num_mel_bins", self.mels)

    def matrix(self, name: str, *dims: int) -> None:
        noise = self._random.standard_normal(dims, dtype=np.float32) * np.float32(dims[-1] ** -0.5)
        self.gguf.add_tensor(name, noise)

    def ones(self, name: str, size: int) -> None:
        self.gguf.add_tensor(name, np.ones(size, np.float32))

    def zeros(self, name: str, *dims: int) -> None:
        self.gguf.add_tensor(name, np.zeros(dims, np.float32))

    def linear(self, name: str, *dims: int) -> None:
        """Add a weight of `dims` (numpy order: outputs first) and a bias of zeros."""
        self.matrix(f"{name}.weight", *dims)
        self.zeros(f"{name}.bias", dims[0])

    def norm(self, name: str, size: int) -> None:
        self.ones(f"{name}.weight", size)
        self.zeros(f"{name}.bias", size)

    def add_patches(self, frames: int = 1) -> None:
        """Add the convolution of patches; one for each of two `frames` that a token may join."""
        for frame in range(frames):
            self.matrix("v.patch_embd.weight" + (f".{frame}" if frame else ""), self.dim, 3, self.patch, self.patch)

    def add_positions(self, image: int) -> None:
        """Add the patches' bias and positions, of pictures or tiles of `image` × `image` pixels."""
        self.gguf.add_uint32("clip.vision.image_size", image)
        self.zeros("v.patch_embd.bias", self.dim)
        self.matrix("v.position_embd.weight", (image // self.patch) ** 2, self.dim)

    def add_merger(self, outputs: int) -> None:
        """Add Qwen-VL's layers between the encoder and the model: four patches become a token."""
        self.linear("mm.0", self.ffn, 4 * self.dim)
        self.linear("mm.2", outputs, self.ffn)

    def add_whisper(self) -> None:
        """Add what Whisper's encoder of sounds has before its layers: 1,500 positions in 30 seconds."""
        self.matrix("a.position_embd.weight", 1500, self.dim)
        for place, inputs in ((1, self.mels), (2, self.dim)):
            self.matrix(f"a.conv1d.{place}.weight", self.dim, inputs, 3)
            self.zeros(f"a.conv1d.{place}.bias", self.dim, 1)

    def close(self) -> None:
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()

    def _add_layers(self, kind: str, layers: int) -> None:
        dim, ffn = self.dim, self.ffn
        for layer in range(layers):
            prefix = f"{kind}.blk.{layer}."
            for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
                self.matrix(f"{prefix}{name}.weight", dim, dim)
                if name != "attn_k" or kind == "v":
                    self.zeros(f"{prefix}{name}.bias", dim)
            self.norm(f"{prefix}ln1", dim)
            self.norm(f"{prefix}ln2", dim)
            self.linear(f"{prefix}ffn_up", ffn, dim)
            self.linear(f"{prefix}ffn_down", dim, ffn)
        self.norm(f"{kind}.post_ln", dim)


class _CoarseProjector(_Projector):
    """One whose tiles are so large that patches of few pixels would be too many."""

    patch = 16


def write_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a model's projector: gemma 3's of 16 tokens a picture, ultravox' of 30 for 30 seconds of sound."""
    out = _Projector(path, shape, seed, "vision", "audio")
    dim, ffn, stack = out.dim, out.ffn, 50
    out.gguf.add_string("clip.vision.projector_type", "gemma3")
    out.gguf.add_string("clip.audio.projector_type", "ultravox")
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.gguf.add_uint32("clip.audio.projector.stack_factor", stack)
    out.add_patches()
    out.add_positions(image=32)
    out.matrix("mm.input_projection.weight", dim, shape.dim)
    out.ones("mm.soft_emb_norm.weight", dim)
    out.add_whisper()
    out.ones("mm.a.norm_pre.weight", stack * dim)
    out.matrix("mm.a.mlp.1.weight", 2 * ffn, stack * dim)
    out.ones("mm.a.norm_mid.weight", ffn)
    out.matrix("mm.a.mlp.2.weight", shape.dim, ffn)
    out.close()
    return path


def write_merging_projector(path: Path, shape: Shape = TINY, seed: int = 0, width: int = 16, layers: int = 1) -> Path:
    """Write a Qwen2-VL's projector: a token for each 8 × 8 pixels, 8 of them at least."""
    out = _Projector(path, shape, seed, "vision", width=width, layers=layers)
    out.gguf.add_string("clip.vision.projector_type", "qwen2vl_merger")
    out.gguf.add_uint32("clip.vision.image_size", 64)
    out.add_patches(frames=2)
    out.add_merger(shape.dim)
    out.close()
    return path


def write_windowed_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Qwen2.5-VL's projector: as Qwen2-VL's, and the first of two layers attends within 112 × 112 pixels."""
    out = _Projector(path, shape, seed, "vision", layers=2)
    out.gguf.add_string("clip.vision.projector_type", "qwen2.5vl_merger")
    _add_windows(out)
    out.add_merger(shape.dim)
    out.close()
    return path


def write_omni_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Qwen2.5-Omni's projector: Qwen2.5-VL's pictures, and sounds of 750 tokens for 30 seconds."""
    out = _Projector(path, shape, seed, "vision", "audio", layers=2)
    out.gguf.add_string("clip.projector_type", "qwen2.5o")
    _add_windows(out)
    out.add_merger(shape.dim)
    out.add_whisper()
    out.linear("mm.a.fc", shape.dim, out.dim)
    out.close()
    return path


def write_hearing_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Qwen3-ASR's projector: sounds alone, 13 tokens a second, in chunks of 8 seconds."""
    out = _Projector(path, shape, seed, "audio")
    _add_hearing(out, shape)
    out.close()
    return path


def write_stacking_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Qwen3-VL's projector: as Qwen2-VL's, with a vector for the model's first layer beside each."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "qwen3vl_merger")
    _add_joined(out)
    out.norm("v.deepstack.0.norm", 4 * out.dim)
    out.linear("v.deepstack.0.fc1", out.ffn, 4 * out.dim)
    out.linear("v.deepstack.0.fc2", shape.dim, out.ffn)
    out.add_merger(shape.dim)
    out.close()
    return path


def write_glm4v_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a GLM-4V's projector: a token for each 8 × 8 pixels, 8 of them at least."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "glm4v")
    out.add_patches(frames=2)
    out.add_positions(image=64)
    out.linear("mm.patch_merger", out.ffn, out.dim, 2, 2)
    out.matrix("mm.model.fc.weight", out.ffn, out.ffn)
    out.norm("mm.post_norm", out.ffn)
    out.matrix("mm.up.weight", 2 * out.ffn, out.ffn)
    out.matrix("mm.gate.weight", 2 * out.ffn, out.ffn)
    out.matrix("mm.down.weight", shape.dim, 2 * out.ffn)
    out.close()
    return path


def write_hunyuanvl_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a HunyuanVL's projector: a token for each 8 × 8 pixels, one for each row's end, one at each end."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "hunyuanvl")
    out.gguf.add_uint32("clip.vision.image_min_pixels", 8 * 64)
    out.gguf.add_uint32("clip.vision.image_max_pixels", 128 * 64)
    out.add_patches()
    out.add_positions(image=64)
    out.ones("mm.pre_norm.weight", out.dim)
    out.linear("mm.0", 2 * out.dim, out.dim, 2, 2)
    out.linear("mm.2", out.ffn, 2 * out.dim, 1, 1)
    out.matrix("v.image_newline", out.ffn)
    out.linear("mm.model.fc", shape.dim, out.ffn)
    out.matrix("mm.image_begin", shape.dim)
    out.matrix("mm.image_end", shape.dim)
    out.ones("mm.post_norm.weight", shape.dim)
    out.close()
    return path


def write_tiling_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write an Idefics3's projector: tiles of 16 × 16 pixels, four tokens each, with tokens of text between them.

    The model has TILE_MARKS among its control tokens.
    """
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "idefics3")
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.gguf.add_uint32("clip.vision.preproc_image_size", 32)
    out.add_patches()
    out.add_positions(image=16)
    out.matrix("mm.model.fc.weight", shape.dim, 4 * out.dim)
    out.close()
    return path


def write_slicing_projector(path: Path, shape: Shape, seed: int = 0) -> Path:
    """Write a MiniCPM-V 2.6's projector: an overview and up to 9 slices, four tokens each, with marks around them.

    The model has 128 inputs, or a multiple, and SLICE_MARKS among its control tokens.
    """
    out, queries, side = _Projector(path, shape, seed, "vision"), 4, 70
    out.gguf.add_string("clip.vision.projector_type", "resampler")
    out.gguf.add_int32("clip.minicpmv_version", 3)
    out.gguf.add_uint32("clip.minicpmv_query_num", queries)
    out.gguf.add_uint32("clip.vision.image_size", 16)
    out.add_patches()
    out.zeros("v.patch_embd.bias", out.dim)
    out.matrix("v.position_embd.weight", side * side, out.dim)
    out.zeros("resampler.pos_embed_k", side * side, shape.dim)
    out.matrix("resampler.query", queries, shape.dim)
    out.matrix("resampler.kv.weight", shape.dim, out.dim)
    out.matrix("resampler.proj.weight", shape.dim, shape.dim)
    for name in ("q", "k", "v", "out"):
        out.linear(f"resampler.attn.{name}", shape.dim, shape.dim)
    for name in ("q", "kv", "post"):
        out.norm(f"resampler.ln_{name}", shape.dim)
    out.close()
    return path


def write_llama4_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Llama 4's projector: up to 3 × 3 tiles of 16 × 16 pixels and an overview, four tokens each."""
    out, image = _Projector(path, shape, seed, "vision"), 16
    out.gguf.add_string("clip.vision.projector_type", "llama4")
    out.gguf.add_uint32("clip.vision.image_size", image)
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.matrix("v.patch_embd.weight", out.dim, 3 * out.patch**2)
    out.matrix("v.class_embd", out.dim)
    out.matrix("v.position_embd.weight", (image // out.patch) ** 2 + 1, out.dim)
    out.norm("v.pre_ln", out.dim)
    out.matrix("mm.model.mlp.1.weight", out.ffn, 4 * out.dim)
    out.matrix("mm.model.mlp.2.weight", out.ffn, out.ffn)
    out.matrix("mm.model.fc.weight", shape.dim, out.ffn)
    out.close()
    return path


def write_aligned_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a DeepSeek V4's projector: a token for each 16 × 16 pixels, in pairs of rows with ends, after a fill."""
    out, merge = _Projector(path, shape, seed, "vision"), 4
    out.gguf.add_string("clip.vision.projector_type", "deepseek4v")
    out.gguf.add_uint32("clip.vision.image_size", 64)
    out.gguf.add_uint32("clip.vision.image_min_pixels", 64)
    out.gguf.add_uint32("clip.vision.projector.scale_factor", merge)
    out.add_patches()
    out.matrix("v.blk.0.ffn_gate.weight", out.ffn, out.dim)
    out.linear("mm.1", out.ffn, merge**2 * out.dim)
    out.linear("mm.2", shape.dim, out.ffn)
    out.matrix("v.image_newline", shape.dim)
    for mark in ("start", "end", "pad"):
        out.matrix(f"v.token_embd.img_{mark}", shape.dim)
    out.close()
    return path


def write_qwen3_omni_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Qwen3-Omni's projector: Qwen3-VL's pictures, for the model's first layer alone, and Qwen3-ASR's sounds."""
    out = _Projector(path, shape, seed, "vision", "audio")
    out.gguf.add_string("clip.vision.projector_type", "qwen3vl_merger")
    _add_joined(out)
    out.add_merger(shape.dim)
    _add_hearing(out, shape)
    out.close()
    return path


def write_llava_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a LLaVA 1.5's projector: 64 tokens a picture, of 32 × 32 pixels."""
    out, image = _Projector(path, shape, seed, "vision", layers=2), 32
    out.gguf.add_string("clip.vision.projector_type", "mlp")
    out.gguf.add_uint32("clip.vision.image_size", image)
    out.add_patches()
    out.matrix("v.class_embd", out.dim)
    out.matrix("v.position_embd.weight", (image // out.patch) ** 2 + 1, out.dim)
    out.norm("v.pre_ln", out.dim)
    out.linear("mm.0", out.ffn, out.dim)
    out.linear("mm.2", shape.dim, out.ffn)
    out.close()
    return path


def write_pixtral_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write the projector of a Mistral Small 3.1: a token for each 8 × 8 pixels, and one between two rows."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "pixtral")
    out.gguf.add_uint32("clip.vision.image_size", 64)
    out.gguf.add_uint32("clip.vision.spatial_merge_size", 2)
    out.add_patches()
    out.ones("mm.input_norm.weight", out.dim)
    out.matrix("mm.patch_merger.weight", out.dim, 4 * out.dim)
    out.matrix("mm.1.weight", out.ffn, out.dim)
    out.matrix("mm.2.weight", shape.dim, out.ffn)
    out.matrix("v.token_embd.img_break", shape.dim)
    out.close()
    return path


def write_internvl_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write an InternVL's projector: up to 12 tiles of 16 × 16 pixels and an overview, four tokens each."""
    out, image = _Projector(path, shape, seed, "vision"), 16
    out.gguf.add_string("clip.vision.projector_type", "internvl")
    out.gguf.add_uint32("clip.vision.image_size", image)
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.add_patches()
    out.matrix("v.class_embd", out.dim)
    out.matrix("v.position_embd.weight", (image // out.patch) ** 2 + 1, out.dim)
    out.norm("mm.model.mlp.0", 4 * out.dim)
    out.linear("mm.model.mlp.1", out.ffn, 4 * out.dim)
    out.linear("mm.model.mlp.3", shape.dim, out.ffn)
    out.close()
    return path


def write_gemma4_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Gemma 4's projector: a token for each 8 × 8 pixels, 70 of them at least, which see each other."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "gemma4v")
    out.gguf.add_uint32("clip.vision.image_size", 64)
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.add_patches()
    out.matrix("v.position_embd.weight", 2, 256, out.dim)
    out.matrix("mm.input_projection.weight", shape.dim, out.dim)
    out.close()
    return path


def write_lfm2_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write an LFM2-VL's projector: a token for each 32 × 32 pixels, 64 of them at least; large pictures in tiles.

    The model has THUMBNAIL_MARKS among its control tokens.
    """
    out = _CoarseProjector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", "lfm2")
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    out.add_patches()
    out.add_positions(image=256)
    out.linear("mm.1", out.ffn, 4 * out.dim)
    out.linear("mm.2", shape.dim, out.ffn)
    out.close()
    return path


def write_kimi_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Kimi-VL's projector: a token for each 8 × 8 pixels, 8 of them at least."""
    return _write_merged(path, shape, seed, "kimivl")


def write_paddle_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a PaddleOCR-VL's projector: as Kimi-VL's, for a model with M-RoPE."""
    return _write_merged(path, shape, seed, "paddleocr", image_min_pixels=8 * 64, image_max_pixels=128 * 64)


def write_voxtral_projector(path: Path, shape: Shape = TINY, seed: int = 0) -> Path:
    """Write a Voxtral's projector: 30 tokens for 30 seconds of sound, after a mark of their beginning."""
    out, stack = _Projector(path, shape, seed, "audio"), 50
    out.gguf.add_string("clip.audio.projector_type", "voxtral")
    out.gguf.add_uint32("clip.audio.projector.stack_factor", stack)
    out.add_whisper()
    out.matrix("mm.a.mlp.1.weight", out.ffn, stack * out.dim)
    out.matrix("mm.a.mlp.2.weight", shape.dim, out.ffn)
    out.close()
    return path


def _write_merged(path: Path, shape: Shape, seed: int, kind: str, **keys: int) -> Path:
    """Write a projector that joins 2 × 2 patches after a norm."""
    out = _Projector(path, shape, seed, "vision")
    out.gguf.add_string("clip.vision.projector_type", kind)
    out.gguf.add_uint32("clip.vision.projector.scale_factor", 2)
    for name, value in keys.items():
        out.gguf.add_uint32(f"clip.vision.{name}", value)
    out.add_patches()
    out.add_positions(image=64)
    out.norm("mm.input_norm", out.dim)
    out.linear("mm.1", out.ffn, 4 * out.dim)
    out.linear("mm.2", shape.dim, out.ffn)
    out.close()
    return path


def _add_joined(out: _Projector) -> None:
    """Add Qwen3-VL's encoder up to its layers, whose queries, keys and values are one matrix."""
    out.add_patches(frames=2)
    out.add_positions(image=64)
    out.linear("v.blk.0.attn_qkv", 3 * out.dim, out.dim)


def _add_hearing(out: _Projector, shape: Shape) -> None:
    channels, inputs = 4, 1
    out.gguf.add_string("clip.audio.projector_type", "qwen3a")
    for place in (1, 2, 3):  # each halves both sides of 100 frames × 80 mels
        out.linear(f"a.conv2d.{place}", channels, inputs, 3, 3)
        inputs = channels
    out.matrix("a.conv_out.weight", out.dim, channels * out.mels // 8)
    out.matrix("a.position_embd.weight", 13, out.dim)
    out.linear("mm.a.mlp.1", out.ffn, out.dim)
    out.linear("mm.a.mlp.2", shape.dim, out.ffn)


def _add_windows(out: _Projector) -> None:
    out.gguf.add_uint32("clip.vision.n_wa_pattern", 2)
    out.gguf.add_uint32("clip.vision.image_size", 64)
    out.add_patches(frames=2)
