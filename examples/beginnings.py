"""Distinct beginnings: no two branches begin with the same token, and a ranking tells the likeliest of them.

python examples/beginnings.py "The old king" --n 6
"""

from __future__ import annotations

import argparse

from srb_stream import events


def main() -> None:
    parser = argparse.ArgumentParser(description="Continue a prompt with branches that begin differently.")
    parser.add_argument("prompt", nargs="?", default="The old king")
    parser.add_argument("--n", type=int, default=6, help="number of branches (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    body = {"prompt": options.prompt, "n": options.n, "max_tokens": 20, "distinct_first": True, "rank": True}
    texts = [""] * options.n
    for event in events(options.url, body):
        if event["event"] == "stream":
            texts[event["index"]] += event["text"]
        elif event["event"] == "done":
            for index in event["ranking"]:
                print(f"--- branch {index}\n{options.prompt}{texts[index]}")
        elif event["event"] == "error":
            raise SystemExit(f"error from the server: {event['message']}")


if __name__ == "__main__":
    main()
