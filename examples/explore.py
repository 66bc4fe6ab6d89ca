"""The continuations that the model thinks likely, as a tree, with only Python's standard library.

    python examples/explore.py "Once upon a time, there was a" --depth 6

Each line is a branch: the probability of its text, and the text from where it leaves the line above it. Needs a running
server (`make serve`).
"""

from __future__ import annotations

import argparse
import json
import math
import urllib.request
from collections import defaultdict
from typing import Any


def explore(url: str, prompt: str, explore: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the branches of a request that explores; each fork has `from`, the branch and the token where it begins."""
    body = json.dumps({"prompt": prompt, "explore": explore, "stream": False, "logprobs": 0}).encode()
    request = urllib.request.Request(f"{url}/v1/srb/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        completions: list[dict[str, Any]] = json.load(response)["completions"]
    return completions


def show(branches: list[dict[str, Any]]) -> None:
    """Print each branch below its origin, the likeliest of several forks first."""
    forks: defaultdict[int, list[int]] = defaultdict(list)
    for branch in branches:
        if "from" in branch:
            forks[branch["from"]["branch"]].append(branch["index"])
    waiting = [0]
    while waiting:
        branch = branches[waiting.pop()]
        tokens = [entry["token"] for entry in branch.get("logprobs", [])]
        begins = branch["from"]["token"] if "from" in branch else 0
        shared = len("".join(tokens[:begins]))
        end = " (end)" if branch["reason"] == "eos" else ""
        print(f"{math.exp(branch['path_logprob']):7.1%} {' ' * shared}{branch['text'][shared:]!r}{end}")
        waiting += sorted(forks[branch["index"]], key=lambda index: branches[index]["path_logprob"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Show the likely continuations of a text as a tree.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time, there was a")
    parser.add_argument("--cutoff", type=float, default=0.2, help="least share of the likeliest token's probability")
    parser.add_argument("--branches", type=int, default=16, help="most branches (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=6, help="tokens of a branch (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()
    asked = {"cutoff": options.cutoff, "max_branches": options.branches, "depth": options.depth}
    show(explore(options.url, options.prompt, asked))


if __name__ == "__main__":
    main()
