"""`python -m bench.different`: how much the branches of one prompt differ in what happens, and at what price.

Each row writes 8 branches of 100 tokens after each opening, with each seed. *Vendi* is how many really different ones there
are of 8: the exponential of the entropy of the eigenvalues of K/8, where K has the cosines of their embeddings by
all-MiniLM-L6-v2 (Friedman and Dieng 2022, https://arxiv.org/abs/2210.02410). *Surprise* judges without a second model: the
bits of a byte of each branch behind the seven others, by the model itself. *first* is the share of different first tokens,
*log p* the mean log-probability of a token under the model without sampling. Times are of whole rounds, each row's beside
the first row's for the same opening and seed, in turns; *computed* are a round's tokens, with those that were not chosen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.healing import ask, score
from bench.prose import OPENINGS, loops
from srb.bench.server import server
from tools.real_models import model_option

N = 8
TOKENS = 100
_PLAIN = {"temperature": 1, "min_p": 0.05, "top_k": 0, "top_p": 1, "dry_multiplier": 0.8, "dry_penalty_last_n": 4096}
_BEST = {"best_of": 4 * N}
_SHOWN = ("surprise", "first", "logprob")
ROWS: dict[str, dict[str, Any]] = {
    "independent": {},
    "distinct_words": {"distinct_words": True},
    "sibling_penalty 2": {"sibling_penalty": 2},
    "temperature 1.4": {"temperature": 1.4},
    "arithmetic": {"sampling": "arithmetic"},
    "best_of 32, likely": {**_BEST, "select": "likely"},
    "best_of 32, diverse": {**_BEST, "select": "diverse"},
    "best_of 32, meaning": {**_BEST, "select": "meaning"},
    "directions": {"directions": True},
}
# The page's own deck, by kind. A round of the page is dealt one of each kind, and so are these.
DECK: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "srb/page/decks/en.json").read_text())


def prompts_of(url: str, opening: str, is_chat: bool) -> dict[str, Any]:
    """Return the fields of a body that goes on with an opening: as a text, or as what a chat model is asked."""
    if not is_chat:
        return {"prompt": opening}
    said = {"role": "user", "content": f"Continue this story: {opening}"}
    found = ask(url, "/apply-template", {"messages": [said], "directions": [""]})
    return {"prompt": found["prompt"], "direction_place": found["direction_place"]}


def round_of(url: str, asked: dict[str, Any], row: dict[str, Any], seed: int, deck: Sequence[str]) -> dict[str, Any]:
    """Return the texts, log-probabilities, seconds and computed tokens of a round."""
    body = {
        **_PLAIN,
        **asked,
        "n": N,
        "max_tokens": TOKENS,
        "seed": seed,
        "rank": True,
        "return_tokens": True,
        **row,
    }
    if body.pop("directions", False):
        body["directions"] = list(deck)
    else:
        body.pop("direction_place", None)
    began = time.perf_counter()
    answer = ask(url, "/v1/srb/completions", body)
    seconds = time.perf_counter() - began
    done, timings = answer["completions"], answer["timings"]
    return {
        "texts": [each["text"] for each in done],
        "logprob": statistics.fmean(each["logprob"] for each in done if "logprob" in each),
        "seconds": seconds,
        "computed": timings["prompt_n"] + timings["predicted_n"],
        "first": len({each["tokens"][0] for each in done if each["tokens"]}) / N,
        "by": answer.get("chosen_by", ""),
    }


def embeddings(url: str, model: str, texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the embedding of each text as a row of length 1."""
    found = ask(url, "/v1/embeddings", {"model": model, "input": [text.strip() or "." for text in texts]})["data"]
    rows = np.array([each["embedding"] for each in found])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def vendi(rows: np.ndarray[Any, Any]) -> float:
    """Return how many really different ones there are of some rows of length 1: from 1 to their number."""
    values = np.linalg.eigvalsh(rows @ rows.T / len(rows))
    values = values[values > 1e-12]
    return float(np.exp(-(values * np.log(values)).sum()))


def surprise(url: str, opening: str, texts: Sequence[str]) -> float:
    """Return the mean bits of a byte of each text behind the opening and the other texts."""
    whole = []
    for place, text in enumerate(texts):
        others = "\n\n".join(f"{opening}{other}" for other in (*texts[:place], *texts[place + 1 :]))
        before = f"{others}\n\n{opening}"
        whole.append((before + text, len(before)))
    return -statistics.fmean(score(url, whole)) / math.log(2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.different", description=__doc__)
    parser.add_argument("--model", type=model_option, required=True, help="smollm2, gemma3 or a GGUF file")
    parser.add_argument("--minilm", type=model_option, default="minilm", help="the embedding model's file")
    parser.add_argument("--chat", action="store_true", help="ask a chat model for the stories, by its template")
    parser.add_argument("--openings", type=int, default=len(OPENINGS), help="number of openings (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=ROWS, help="measure this row; may be given again")
    parser.add_argument("--surprise", action="store_true", help="also measure it by the model's own surprise")
    parser.add_argument("--texts", type=Path, help="a file for all texts, as JSON by row")
    options = parser.parse_args()
    names = ["independent", *(name for name in options.only or ROWS if name != "independent")]
    models = [
        {"name": "writer", "alias": "any", "model": str(options.model.absolute()), "n_ctx": 16384, "n_seq_max": 40},
        {"name": "minilm", "model": str(options.minilm.absolute()), "embedding": True, "n_ctx": 512, "n_batch": 2048},
    ]
    found: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in names}
    with server({**os.environ, "SRB_MODELS": json.dumps(models), "SRB_MAX_ENGINES": "2"}) as url:
        embeddings(url, "minilm", ["a text, so that the model is loaded"])
        for number, opening in enumerate(OPENINGS[: options.openings]):
            asked = prompts_of(url, opening, options.chat)
            known = {"prompt": asked["prompt"], "n": 1, "max_tokens": 1}  # as the text of a page is, round after round
            ask(url, "/v1/srb/completions", known)
            for seed in range(options.seeds):
                pick = random.Random(f"{number} {seed}")
                deck = [pick.choice(moves) for moves in DECK.values()]
                plain = 1.0
                for name in names:
                    told = round_of(url, asked, ROWS[name], 1000 * seed + 1, deck)
                    plain = told["seconds"] if name == "independent" else plain
                    told["vendi"] = vendi(embeddings(url, "minilm", told["texts"]))
                    told["time"] = told["seconds"] / plain
                    told["loops"] = statistics.fmean(map(loops, told["texts"]))
                    told["surprise"] = surprise(url, opening, told["texts"]) if options.surprise else math.nan
                    for key, value in told.items():
                        found[name][key].append(value)
            if options.texts:
                options.texts.write_text(json.dumps(found, ensure_ascii=False, indent=1))
    print("| row | Vendi of 8 | ± | surprise | first | log p | loops | time | computed |\n" + "|---" * 9 + "|")
    for name, row in found.items():
        count, mean = len(row["vendi"]), {key: statistics.fmean(row[key]) for key in row if key not in ("texts", "by")}
        error = statistics.stdev(row["vendi"]) / math.sqrt(count) if count > 1 else math.nan
        numbers = [f"{each:.2f}" for each in (mean["vendi"], error, *(mean[key] for key in _SHOWN))]
        print("|", " | ".join([name, *numbers, f"{mean['loops']:.1%}", f"{statistics.median(row['time']):.2f}",
                               f"{mean['computed']:.0f}"]), "|", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
