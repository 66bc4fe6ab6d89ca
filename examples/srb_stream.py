"""The srb dialect with only Python's standard library: prints each branch with its seed when the branch ends.

    python examples/srb_stream.py "Once upon a time," --n 4

To get a branch again, alone, give the same prompt with `--n 1 --seed` and the seed of the branch.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Iterator
from typing import Any


def events(url: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Post a completion and yield its events as they arrive."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/v1/srb/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        for line in response:
            if line.startswith(b"data: "):  # other lines are empty, or keep-alive comments
                yield json.loads(line.removeprefix(b"data: "))


def main() -> None:
    parser = argparse.ArgumentParser(description="Stream the branches of one prompt.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time,")
    parser.add_argument("--n", type=int, default=4, help="number of branches (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="seed of the first branch; the others count up from it")
    parser.add_argument("--tokens", type=int, default=60, help="most tokens of a branch (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    body = {"prompt": options.prompt, "n": options.n, "seed": options.seed, "max_tokens": options.tokens}
    seeds: list[int] = []
    texts: dict[int, str] = {}
    for event in events(options.url, body):
        match event["event"]:
            case "start":
                seeds = event["seeds"]
            case "stream":
                texts[event["index"]] = texts.get(event["index"], "") + event["text"]
            case "stop":
                index = event["index"]
                print(f"--- seed {seeds[index]}, {event['length']} tokens, ended by {event['reason']}")
                print(options.prompt + texts.get(index, ""))
            case "error":
                raise SystemExit(f"error from the server: {event['message']}")


if __name__ == "__main__":
    main()
