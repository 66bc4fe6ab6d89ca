"""`python -m bench.prose`: how much the texts of sampling settings repeat themselves, and whether they stay plausible.

Each setting writes branches of 128 tokens after 24 openings, and stories of some 500 words. A branch loops if over 15 % of
its groups of 5 words have come before in it. `sentences` and `4-grams` are the shares of a story's sentences and groups of
4 words that have come before in it; distinct-2 is that of an opening's branches together. `bits` is what a character of each
opening's first branch costs under another model: far above the others' a text is noise, and far below it loops.

The values of DRY (0.8, 1.75, 2), XTC (0.1, 0.5), min-p and top-n-sigma are those that their authors recommend.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.healing import ask, score
from srb.bench.server import server
from srb.web.calls.ranking import WordSets
from tools.real_models import model_option

OPENINGS = [
    "The old man sat by the fire and",
    "When the lights went out, Clara",
    "My grandmother never spoke about the war, but",
    "The ship had been at sea for forty days when",
    "Nobody noticed the girl in the yellow coat until",
    "It was raining in Lisbon, and Tomas",
    '"You should not have come back," said the',
    "The last bus to the village left at six, so",
    "In the winter of that year the river froze, and",
    "She found the key under the third stone, where",
    "The detective looked at the empty chair and",
    "Every morning the baker opened his window and",
    "They had agreed to meet at the station, but",
    "The machine woke for the first time and",
    "On the day of the funeral my brother",
    "There was a door in the cellar that",
    "The captain folded the map and",
    "Ever since the accident, Martha",
    "The forest behind our house was",
    "He had written the letter seven times, and",
    "The queen's youngest daughter did not want",
    "At the edge of the desert stood a",
    "I was eleven when the circus",
    "The teacher closed the book and",
]
_STORIES = 4  # of each setting, after the first openings
_STORY_TOKENS = 700  # 500 words and more
_LOOP = 0.15

_PLAIN = {"top_k": 0, "top_p": 1}
_DRY = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 4096}
_ACROSS = {**_DRY, "dry_sequence_breakers": [":", "*"]}  # those by default include line breaks and quotation marks
_STEADY = {"temperature": 0.7, "min_p": 0.1}
_LIVELY = {"temperature": 1, "min_p": 0.05, **_PLAIN}
_WILD = {"temperature": 1.3, "min_p": 0.03, "xtc_probability": 0.3, **_PLAIN}
_HOT = {"temperature": 1.5, "min_p": 0.1, **_PLAIN}
_XTC = {"temperature": 1, "min_p": 0.02, "xtc_probability": 0.5, "xtc_threshold": 0.1, **_PLAIN}
SETTINGS: dict[str, dict[str, Any]] = {
    "the server's": {},
    "the server's, DRY across lines": _ACROSS,
    "temperature 0.7, min-p 0.1, DRY across lines": {**_STEADY, **_ACROSS},
    "temperature 1, min-p 0.05, DRY across lines": {**_LIVELY, **_ACROSS},
    "temperature 1.3, min-p 0.03, XTC 0.3, DRY across lines": {**_WILD, **_ACROSS},
    "the server's, DRY": _DRY,
    "temperature 0.7, min-p 0.1, DRY": {**_STEADY, **_DRY},
    "temperature 1, min-p 0.05, DRY": {**_LIVELY, **_DRY},
    "temperature 1.3, min-p 0.03, XTC 0.3, DRY": {**_WILD, **_DRY},
    "the server's, DRY in 64 tokens": {**_DRY, "dry_penalty_last_n": 64},
    "the server's, repeat penalty 1.1": {"repeat_penalty": 1.1, "repeat_last_n": 64},
    "temperature 1, min-p 0.05": _LIVELY,
    "temperature 1.5, min-p 0.1": _HOT,
    "temperature 1.5, min-p 0.1, DRY": {**_HOT, **_DRY},
    "temperature 1, top-n-sigma 1": {"temperature": 1, "min_p": 0, "top_n_sigma": 1, **_PLAIN},
    "temperature 1, min-p 0.02, XTC 0.5": _XTC,
    "temperature 1, min-p 0.02, XTC 0.5, DRY": {**_XTC, **_DRY},
}


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text.casefold())


def sentences_of(text: str) -> list[str]:
    """Return the sentences of three words and more, without marks and in lower case."""
    found = (words_of(each) for each in re.split(r"[.!?…]+[\"”’')\]]*\s+|\n+", text))
    return [" ".join(words) for words in found if len(words) > 2]


def repeated(things: Sequence[Any]) -> float:
    """Return the share of things that have come before."""
    return (len(things) - len(set(things))) / len(things) if things else 0.0


def groups(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def loops(text: str) -> bool:
    return repeated(groups(words_of(text), 5)) > _LOOP


def written(url: str, openings: Sequence[str], n: int, tokens: int, sampling: dict[str, Any]) -> list[list[str]]:
    """Return the texts of n branches after each opening, all of one request."""
    body = {"model": "any", "prompt": openings, "n": n, "max_tokens": tokens, "seed": 1, **sampling}
    choices = ask(url, "/v1/completions", body)["choices"]
    texts = [each["text"] for each in sorted(choices, key=lambda choice: choice["index"])]
    return [texts[start : start + n] for start in range(0, len(texts), n)]


def bits(url: str, openings: Iterable[str], texts: Iterable[str]) -> float:
    """Return the mean cost of a character behind the openings."""
    whole = [(opening + text, len(opening)) for opening, text in zip(openings, texts, strict=True)]
    return -statistics.fmean(score(url, whole)) / math.log(2)


def measure(url: str, other: str, sampling: dict[str, Any], openings: Sequence[str], n: int) -> dict[str, Any]:
    branches = written(url, openings, n, 128, sampling)
    each = [text for texts in branches for text in texts]
    told = written(url, openings[:_STORIES], 1, _STORY_TOKENS, {**sampling, "ignore_eos": True})
    stories = [text for [text] in told]
    return {
        "loops": statistics.fmean(map(loops, each)),
        "distinct_2": statistics.fmean(WordSets(texts).distinct_2 for texts in branches),
        "sentences": statistics.fmean(repeated(sentences_of(story)) for story in stories),
        "4-grams": statistics.fmean(repeated(groups(words_of(story), 4)) for story in stories),
        "bits": bits(other, openings, [texts[0] for texts in branches]),
        "branches": branches,
        "stories": stories,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.prose", description=__doc__)
    parser.add_argument("--model", type=model_option, required=True, help="smollm2, gemma3 or a GGUF file")
    parser.add_argument("--other", type=model_option, required=True, help="the model that judges the texts")
    parser.add_argument("--openings", type=int, default=len(OPENINGS), help="number of openings (default: %(default)s)")
    parser.add_argument("--n", type=int, default=2, help="branches of each (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=SETTINGS, help="measure this setting; may be given again")
    parser.add_argument("--texts", type=Path, help="a file for all texts, as JSON by setting")
    options = parser.parse_args()
    openings, kept = OPENINGS[: options.openings], dict[str, Any]()
    environ = {**os.environ, "SRB_N_CTX": os.environ.get("SRB_N_CTX", "24576")}
    with (
        server({**environ, "SRB_MODEL": str(options.model.absolute())}) as url,
        server({**environ, "SRB_MODEL": str(options.other.absolute())}) as other,
    ):
        print("| sampling | branches that loop | distinct-2 | sentences | 4-grams | bits |\n|---|---|---|---|---|---|")
        for name in options.only or SETTINGS:
            found = kept[name] = measure(url, other, SETTINGS[name], openings, options.n)
            shares = [f"{found[share]:.1%}" for share in ("loops", "sentences", "4-grams")]
            print(f"| {name} | {shares[0]} | {found['distinct_2']:.2f} | {shares[1]} | {shares[2]} | {found['bits']:.2f} |",
                  flush=True)  # fmt: skip
            if options.texts:
                options.texts.write_text(json.dumps(kept, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
