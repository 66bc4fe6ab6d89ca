"""Train and load the tokenizer: byte-level BPE with GPT-2's pre-tokenisation, which llama.cpp knows as ``gpt-2``.

Every byte is a token, so any text round-trips. The special tokens come first, so their ids are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 4096
BOS, EOS, PAD, IM_START, IM_END, FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE = range(8)
SPECIALS = (
    "<|begin|>",
    "<|end|>",
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
)


def train(texts: Iterable[str], path: Path) -> Tokenizer:
    """Train on texts and save to path."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE, tokenizer.get_vocab_size()
    tokenizer.save(str(path))
    return tokenizer


def load(path: Path) -> Tokenizer:
    """Load a tokenizer that ``train`` saved."""
    return Tokenizer.from_file(str(path))
