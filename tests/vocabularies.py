"""Small vocabularies of each kind that llama.cpp knows, as GGUF files without weights, and models that only tokenize."""

from __future__ import annotations

from pathlib import Path

import gguf
import llama_cpp as lib
from gguf import TokenType

from srb.engine.cuts import BYTE_LETTERS
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.matcher import Vocabulary
from srb.engine.llama.devices import begin
from srb.engine.llama.model import LlamaModel

WORDS = ("the", "old", "king", "said", "of", "a", "small", "boat", "café", "земля", "naïve", "x", "y", "half", "end")
SPECIAL = ["<|user|>", "<|end|>", "note"]  # the last ends with a letter
Entry = tuple[str, TokenType]


def load(path: Path) -> LlamaModel:
    """Return a model that has a vocabulary and nothing else."""
    begin()
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = LlamaModel.__new__(LlamaModel)
    model._model = lib.llama_model_load_from_file(str(path).encode(), params)
    assert model._model, f"llama.cpp does not load {path}"
    model._vocab = lib.llama_model_get_vocab(model._model)
    model.bos_id = lib.llama_vocab_bos(model._vocab)
    model.n_vocab = lib.llama_vocab_n_tokens(model._vocab)
    model._pieces = {}
    model._media = None
    model.grammars = Grammars(Vocabulary(model))
    return model


def write_spm(path: Path, prefixes: bool = True) -> Path:
    """Write words, their beginnings, runs of spaces, and tokens with a space within; `prefixes` adds a first space."""
    entries = _begin([("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)])
    entries += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
    entries += [(chr(code), TokenType.NORMAL) for code in range(33, 127)] + [
        ("▁" * size, TokenType.NORMAL) for size in (1, 2, 4)
    ]
    entries += [(piece, TokenType.NORMAL) for word in WORDS for piece in _beginnings("▁" + word) + _beginnings(word)]
    entries += [("f▁t", TokenType.NORMAL), ("f▁the", TokenType.NORMAL), ("好，", TokenType.NORMAL)]
    entries += [(letter, TokenType.NORMAL) for letter in "，。了好"]
    return _write(path, "llama", entries, {"tokenizer.ggml.add_space_prefix": prefixes})


def write_bpe(path: Path, pre: str) -> Path:
    """Write the bytes and merges of words, and one merge across a space, for llama.cpp's pre-tokenizer `pre`."""
    entries = _begin([("<s>", TokenType.CONTROL)])
    entries += [(letter, TokenType.NORMAL) for letter in BYTE_LETTERS]
    merges = []
    for word in [*WORDS, "half the", "\n\n", "  ", "好，", "了", "。"]:
        for text in (word, " " + word):
            letters = "".join(BYTE_LETTERS[byte] for byte in text.encode())
            merges += [(letters[:size], letters[size]) for size in range(1, len(letters))]
    merges = list(dict.fromkeys(merges))
    entries += [(left + right, TokenType.NORMAL) for left, right in merges]
    return _write(path, "gpt2", entries, {"tokenizer.ggml.pre": pre}, [f"{left} {right}" for left, right in merges])


def write_signs(path: Path, signs: str) -> Path:
    """Write signs that are a token each, and the bytes of others."""
    letters = ["".join(BYTE_LETTERS[byte] for byte in sign.encode()) for sign in signs]
    entries = [("</s>", TokenType.CONTROL), *((text, TokenType.NORMAL) for text in (*BYTE_LETTERS, *letters))]
    return _write(path, "gpt2", entries, {"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.eos_token_id": 0}, ["a b"])


def write_ugm(path: Path) -> Path:
    entries = [("<pad>", TokenType.CONTROL), ("</s>", TokenType.CONTROL), ("<unk>", TokenType.UNKNOWN)]
    entries += [(piece, TokenType.NORMAL) for word in WORDS for piece in _beginnings("▁" + word)]
    return _write(path, "t5", entries, {})


def write_wpm(path: Path) -> Path:
    entries = [(text, TokenType.CONTROL) for text in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    entries += [("▁" + word, TokenType.NORMAL) for word in WORDS]
    return _write(path, "bert", entries, {"tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.seperator_token_id": 3})


def _begin(control: list[Entry]) -> list[Entry]:
    return [*control, *((text, TokenType.USER_DEFINED) for text in SPECIAL)]


def _beginnings(word: str) -> list[str]:
    return [word[:size] for size in range(1, len(word) + 1)]


def _write(
    path: Path, kind: str, entries: list[Entry], keys: dict[str, str | bool | int], merges: list[str] | None = None
) -> Path:
    entries = list(dict(reversed(entries)).items())[::-1]  # each text once: its first entry
    out = gguf.GGUFWriter(path, "llama")
    out.add_tokenizer_model(kind)
    out.add_token_list([text for text, _ in entries])
    out.add_token_types([each for _, each in entries])
    out.add_token_scores([-float(place) for place in range(len(entries))])
    if merges is not None:
        out.add_token_merges(merges)
    for name, value in keys.items():
        if isinstance(value, bool):
            out.add_bool(name, value)
        elif isinstance(value, int):
            out.add_uint32(name, value)
        else:
            out.add_string(name, value)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path
