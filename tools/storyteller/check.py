"""Check an exported model through llama-cpp-python: same tokens, same logits, same greedy text as in training.

llama-cpp-python is the product's dependency, not this tool's; where it is missing the check says so and passes over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tools.storyteller import tokenizer as tok
from tools.storyteller.corpus import document
from tools.storyteller.train import load_network

ODD_TEXTS = (
    "",
    " ",
    "  two  spaces and three   ",
    "a\nb\n\nc\n\n\nd \n e",
    "\t\ttabs\r\nand returns\r",
    "Ünïcödé – “quotes” … naïve café",
    "Однажды жил-был старый кот.",
    "昔々あるところに 🐉🏰👩‍👩‍👧 وكان هناك",
    "I'll don't we've they're it's o'clock 'quoted'",
    "12345 3.14 $5 50% a_b-c/d\\e@f#g",
    "Once upon a time,",
    "zero\u200bwidth\ufeffmarks \U0001f1eb\U0001f1f7",
)
PROMPTS = (
    "Once upon a time,",
    "The old lighthouse keeper",
    '"Wait," said Mara,',
    "In the year",
    "My grandmother",
    "The rain had not stopped",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What the check found."""

    texts: int
    token_mismatches: int
    roundtrip_failures: int
    worst_logit_gap: float
    top_token_agreement: float
    greedy_matches: int
    greedy_prompts: int

    @property
    def passed(self) -> bool:
        same_text = self.token_mismatches == 0 and self.roundtrip_failures == 0
        return same_text and self.top_token_agreement > 0.97


def sample_texts(seed: int, count: int) -> list[str]:
    """Return texts to tokenize: corpus pieces, random cuts of them and odd strings."""
    rng = random.Random(f"check {seed}")
    texts = list(ODD_TEXTS)
    while len(texts) < count:
        piece = max((p for p in document(rng) if isinstance(p, str)), key=len)
        cut = rng.randint(0, len(piece))
        texts += [piece, piece[:cut], piece[cut:]]
        texts.append(
            "".join(
                chr(rng.choice((rng.randint(32, 126), rng.randint(160, 0x2FFF), rng.randint(0x1F300, 0x1F6FF))))
                for _ in range(20)
            )
        )
    return texts[:count]


def check(gguf_path: Path, checkpoint: Path, tokenizer_path: Path, seed: int = 1, texts: int = 3000) -> Report | None:
    """Compare the exported model with the network and tokenizer it came from; None without llama-cpp-python."""
    try:
        from llama_cpp import Llama
    except ImportError:
        print("llama-cpp-python is not installed: nothing checked")
        return None
    tokenizer = tok.load(tokenizer_path)
    network, _ = load_network(checkpoint)
    llama = Llama(str(gguf_path), n_ctx=1024, n_threads=2, logits_all=True, verbose=False)

    mismatches = failures = 0
    for text in sample_texts(seed, texts):
        ours = tokenizer.encode(text, add_special_tokens=False).ids
        theirs = llama.tokenize(text.encode(), add_bos=False, special=False)
        mismatches += ours != theirs
        failures += llama.detokenize(theirs) != text.encode()

    rng = random.Random(f"logits {seed}")
    gaps, agreements = [], []
    for _ in range(8):
        story = max((p for p in document(rng) if isinstance(p, str)), key=len)
        ids = [tok.BOS, *tokenizer.encode(story, add_special_tokens=False).ids][:400]
        with torch.no_grad():
            expected = torch.log_softmax(network(torch.tensor([ids]))[0], dim=-1).numpy()
        llama.reset()
        llama.eval(ids)
        raw = torch.from_numpy(np.array(llama.scores[: len(ids)]))
        found = torch.log_softmax(raw, dim=-1).numpy()
        likely = expected > np.log(1e-3)
        gaps.append(float(np.abs(expected - found)[likely].max()))
        agreements.append(float((expected.argmax(-1) == found.argmax(-1)).mean()))

    matches = 0
    for prompt in PROMPTS:
        ids = [tok.BOS, *tokenizer.encode(prompt, add_special_tokens=False).ids]
        start = len(ids)
        for _ in range(24):
            with torch.no_grad():
                ids.append(int(network(torch.tensor([ids]))[0, -1].argmax()))
        ours = tokenizer.decode(ids[start:])
        llama.reset()
        theirs = llama.create_completion(prompt, max_tokens=24, temperature=0.0)["choices"][0]["text"]
        matches += ours.split("<|end|>")[0] == theirs
    return Report(texts, mismatches, failures, max(gaps), float(np.mean(agreements)), matches, len(PROMPTS))
