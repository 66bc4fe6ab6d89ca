"""The network: llama's architecture (RMSNorm, rotary positions, grouped attention, SwiGLU, tied embeddings) in torch.

Rotary positions turn the pairs (i, i + half) of each head, which is fast here. llama.cpp's llama graph turns
neighbouring pairs (2i, 2i + 1), so the export reorders the rows of q and k.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """The network's sizes; every matrix row is a multiple of 32 long, as Q8_0 asks."""

    vocab: int = 4096
    dim: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 640
    context: int = 2048
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


def rotary_table(shape: Shape) -> Tensor:
    """Return cos and sin for each position and pair: (2, context, head_dim / 2)."""
    frequencies = shape.rope_base ** (-torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    angles = torch.outer(torch.arange(shape.context).float(), frequencies)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn each pair (i, i + half) of x (batch, heads, time, head_dim) by its position's angle."""
    cos, sin = table[0], table[1]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1).to(x.dtype)


class Block(nn.Module):
    """One layer: attention, then the gated feed-forward, each on a normed residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv = shape.kv_heads * shape.head_dim
        self.attn_norm = nn.RMSNorm(shape.dim, eps=shape.norm_eps)
        self.attn_q = nn.Linear(shape.dim, shape.dim, bias=False)
        self.attn_k = nn.Linear(shape.dim, kv, bias=False)
        self.attn_v = nn.Linear(shape.dim, kv, bias=False)
        self.attn_output = nn.Linear(shape.dim, shape.dim, bias=False)
        self.ffn_norm = nn.RMSNorm(shape.dim, eps=shape.norm_eps)
        self.ffn_gate = nn.Linear(shape.dim, shape.ffn, bias=False)
        self.ffn_up = nn.Linear(shape.dim, shape.ffn, bias=False)
        self.ffn_down = nn.Linear(shape.ffn, shape.dim, bias=False)

    def forward(self, x: Tensor, table: Tensor, mask: Tensor | None) -> Tensor:
        batch, time, dim = x.shape
        h, head_dim = self.attn_norm(x), self.shape.head_dim
        q = self.attn_q(h).view(batch, time, -1, head_dim).transpose(1, 2)
        k = self.attn_k(h).view(batch, time, -1, head_dim).transpose(1, 2)
        v = self.attn_v(h).view(batch, time, -1, head_dim).transpose(1, 2)
        groups = self.shape.heads // self.shape.kv_heads
        q, k = rotate(q, table), rotate(k, table).repeat_interleave(groups, dim=1)
        out = functional.scaled_dot_product_attention(
            q, k, v.repeat_interleave(groups, dim=1), attn_mask=mask, is_causal=mask is None
        )
        x = x + self.attn_output(out.transpose(1, 2).reshape(batch, time, dim))
        h = self.ffn_norm(x)
        return x + self.ffn_down(functional.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Network(nn.Module):
    """Token ids (batch, time) in, logits (batch, time, vocab) out."""

    rotary: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.dim)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.dim, eps=shape.norm_eps)
        self.register_buffer("rotary", rotary_table(shape), persistent=False)
        nn.init.normal_(self.token_embd.weight, std=0.02)
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and not name.startswith("token_embd"):
                residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (0.3 if residual else 0.7))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits; mask (batch, 1, time, time) is True where attention may look, by default at all before."""
        x = self.token_embd(ids)
        table = self.rotary[:, : ids.shape[1]]
        for block in self.blk:
            x = block(x, table, mask)
        return functional.linear(self.output_norm(x), self.token_embd.weight)
