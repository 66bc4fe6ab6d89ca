"""Write a checkpoint as a GGUF file: Q8_0 matrices, F32 norms, the tokenizer and the chat template in its metadata."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from torch import Tensor

from tools.storyteller import tokenizer as tok
from tools.storyteller.network import Shape
from tools.storyteller.train import load_network

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DESCRIPTION = "A small teller of short stories, trained from nothing on stories that a grammar of our own writes."


def llama_order(weight: Tensor, heads: int) -> Tensor:
    """Reorder the rows of q or k from pairs (i, i + half) to the neighbouring pairs that llama.cpp turns."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def _add_metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name("storyteller")
    writer.add_description(DESCRIPTION)
    writer.add_license("MIT")
    writer.add_languages(["en"])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_vocab_size(shape.vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _add_tokenizer(writer: gguf.GGUFWriter, path: Path) -> None:
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if token in tok.SPECIALS else gguf.TokenType.NORMAL for token in tokens]
    )
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tok.BOS)
    writer.add_eos_token_id(tok.EOS)
    writer.add_pad_token_id(tok.PAD)
    writer.add_eot_token_id(tok.IM_END)
    writer.add_uint32("tokenizer.ggml.fim_pre_token_id", tok.FIM_PREFIX)
    writer.add_uint32("tokenizer.ggml.fim_suf_token_id", tok.FIM_SUFFIX)
    writer.add_uint32("tokenizer.ggml.fim_mid_token_id", tok.FIM_MIDDLE)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def export(checkpoint: Path, tokenizer: Path, out: Path) -> int:
    """Write the GGUF and return its size in bytes."""
    network, _ = load_network(checkpoint)
    shape = network.shape
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "llama")
    _add_metadata(writer, shape)
    _add_tokenizer(writer, tokenizer)
    for name, weight in network.state_dict().items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            weight = llama_order(weight, shape.heads if "attn_q" in name else shape.kv_heads)
        data = weight.float().numpy()
        if data.ndim == 1:
            writer.add_tensor(name, np.ascontiguousarray(data, dtype=np.float32))
        else:
            quantized = gguf.quants.quantize(np.ascontiguousarray(data), gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(out)
    return out.stat().st_size
