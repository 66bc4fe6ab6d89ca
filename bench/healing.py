"""`python -m bench.healing`: how likely what is written is, after prompts that end at a word, with a space or within a word.

The measure is the log-probability per character of the joined text, prompt and continuation, behind the words that all
kinds of prompts have in common; the model scores each text by `echo`. Without token healing a space or half a word costs a
lot; with it they should cost nothing beside prompts that end at a word (`space`) or with the whole next word (`cut`).

`--times` measures the first token of prompts that the server knows instead, healed and not, in turns; their ratio should be
at most 1.3. Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from srb.bench.client import BenchFailed, post
from srb.bench.server import server
from tools.real_models import model_option

# The beginning of a sentence, the next word, and how many of its letters a prompt within the word has.
STEMS = [
    ("The old man sat by the", " fireplace", 6),
    ("She opened the door and saw her", " grandmother", 6),
    ("In the morning the ship left the", " harbour", 4),
    ("He put the letter back into its", " envelope", 5),
    ("The children ran down to the", " river", 3),
    ("After the storm the whole village was", " covered", 4),
    ("My father always said that a man should", " remember", 5),
    ("The king looked at the map for a long", " time", 2),
    ("There was a strange noise in the", " kitchen", 4),
    ("She had never been so", " frightened", 6),
    ("At the end of the street stood a", " church", 3),
    ("The train arrived two hours", " late", 2),
    ("Nobody in the town had ever", " seen", 2),
    ("He walked slowly across the", " bridge", 3),
    ("The doctor closed his bag and", " sighed", 3),
    ("It was the coldest winter that anyone could", " remember", 4),
    ("They sat at the table and waited for the", " soup", 2),
    ("The captain gave the order to", " return", 3),
    ("A light was burning in the", " window", 3),
    ("She took the photograph from the", " drawer", 4),
    ("The dog lay in front of the", " door", 2),
    ("On the other side of the mountain there was a", " valley", 4),
    ("He could not understand why she had", " left", 2),
    ("The teacher wrote a number on the", " blackboard", 5),
    ("We stayed in a small hotel near the", " station", 4),
    ("The old woman counted her", " money", 3),
    ("In the garden behind the house grew a", " cherry", 4),
    ("When the music stopped, everyone looked", " around", 3),
    ("The farmer said that it would rain before", " evening", 4),
    ("Her hands were shaking as she held the", " knife", 3),
]
KINDS = {"word": False, "space": False, "whole": False, "cut": False, "space, healed": True, "cut, healed": True}
_AT_ONCE = 64  # texts that are scored by one request


@dataclass(frozen=True)
class Scored:
    """The log-probabilities per character of the joined texts of one kind of prompt."""

    kind: str
    scores: list[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)


def prompt_of(kind: str, stem: tuple[str, str, int]) -> str:
    beginning, word, letters = stem
    ends = {"word": "", "space": " ", "whole": word, "cut": word[: 1 + letters]}
    return beginning + ends[kind.partition(",")[0]]


def ask(url: str, path: str, body: dict[str, Any]) -> Any:
    with post(url, path, orjson.dumps({**body, "stream": False})) as sock:
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise BenchFailed(rest.decode("utf-8", "replace")[:500])
    return orjson.loads(rest[rest.index(b"{") : rest.rindex(b"}") + 1])


def written(url: str, kind: str, stem: tuple[str, str, int], n: int, tokens: int) -> list[str]:
    """Return the joined texts of n branches."""
    prompt = prompt_of(kind, stem)
    body = {"prompt": prompt, "n": n, "max_tokens": tokens, "seed": 1, "token_healing": KINDS[kind]}
    answer = ask(url, "/v1/srb/completions", body)
    return [prompt + each["text"] for each in answer["completions"] if "\N{REPLACEMENT CHARACTER}" not in each["text"]]


def score(url: str, texts: list[tuple[str, int]]) -> Iterator[float]:
    """Yield the log-probability per character of each text behind its first characters, of which there are so many."""
    for first in range(0, len(texts), _AT_ONCE):
        some = texts[first : first + _AT_ONCE]
        body = {"prompt": [text for text, _ in some], "echo": True, "logprobs": 0, "max_tokens": 0, "model": "any"}
        choices = ask(url, "/v1/completions", body)["choices"]
        for choice, (text, start) in zip(choices, some, strict=True):
            found = choice["logprobs"]
            behind = [
                logprob
                for logprob, offset in zip(found["token_logprobs"], found["text_offset"], strict=True)
                if offset >= start
            ]
            yield sum(behind) / max(1, len(text) - start)


def measure(url: str, kind: str, stems: list[tuple[str, str, int]], n: int, tokens: int) -> Scored:
    texts = [(text, len(stem[0])) for stem in stems for text in written(url, kind, stem, n, tokens)]
    return Scored(kind, list(score(url, [each for each in texts if len(each[0]) > each[1]])))


def first_token(url: str, prompt: str, n: int, is_healed: bool) -> float:
    """Return the milliseconds from a request to the first text of its branches."""
    body = {"prompt": prompt, "n": n, "max_tokens": 4, "ignore_eos": True, "token_healing": is_healed}
    began = time.perf_counter()
    received = bytearray()
    with post(url, "/v1/srb/completions", orjson.dumps(body)) as sock:
        while b'"event":"stream"' not in received:
            if not (chunk := sock.recv(65536)):
                raise BenchFailed(received.decode("utf-8", "replace")[:500])
            received += chunk
        seconds = time.perf_counter() - began
        while sock.recv(65536):
            pass  # the next request finds the server idle
    return 1000 * seconds


def time_first_tokens(url: str, stems: list[tuple[str, str, int]], n: int, rounds: int = 3) -> None:
    """Print the median first token of known prompts, short ones and the same behind a page of text."""
    page = " ".join(f"{beginning}{word}." for beginning, word, _ in STEMS) + "\n\n"
    print(f"{'prompt ends':<16} {'n':>3} {'plain, ms':>10} {'healed, ms':>11} {'ratio':>6}")
    for kind in ("word", "space", "cut"):
        for before in ("", page):
            for branches in (1, n):
                plain, healed = [], []
                for stem in stems:
                    prompt = before + prompt_of(kind, stem)
                    first_token(url, prompt, branches, is_healed=False)  # now it is known
                    for _ in range(rounds):
                        plain.append(first_token(url, prompt, branches, is_healed=False))
                        healed.append(first_token(url, prompt, branches, is_healed=True))
                times = statistics.median(plain), statistics.median(healed)
                title = kind + (", a page" if before else "")
                print(
                    f"{title:<16} {branches:>3} {times[0]:>10.1f} {times[1]:>11.1f} {times[1] / times[0]:>6.2f}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.healing", description=__doc__)
    parser.add_argument("--model", type=model_option, required=True, help="smollm2, gemma3 or a GGUF file")
    parser.add_argument("--prompts", type=int, default=len(STEMS), help="number of prompts (default: %(default)s)")
    parser.add_argument("--n", type=int, default=32, help="branches of each (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=24, help="of each branch (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of prompts (default: all)")
    parser.add_argument("--times", action="store_true", help="measure the first token instead")
    options = parser.parse_args()
    with server({**os.environ, "SRB_MODEL": str(options.model.absolute())}) as url:
        if options.times:
            return time_first_tokens(url, STEMS[: options.prompts], options.n)
        print(f"{'prompt ends':<16} {'log p per character':>20} {'beside':>8}")
        means: dict[str, float] = {}
        for kind in options.kinds:
            means[kind] = measure(url, kind, STEMS[: options.prompts], options.n, options.tokens).mean
            beside = means.get("word" if kind.startswith(("word", "space")) else "whole", math.nan)
            print(f"{kind:<16} {means[kind]:>20.3f} {means[kind] - beside:>8.3f}", flush=True)
    print("\n" + orjson.dumps(means).decode())


if __name__ == "__main__":
    main()
