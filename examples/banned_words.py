"""Banned words: strings that no branch may contain, whatever the model prefers.

    python examples/banned_words.py "The old king" " there was" " a girl"

A branch that completes one is taken back to the token that begins it and goes on another way; nothing of it is shown.
"""

from __future__ import annotations

import argparse

from srb_stream import events


def main() -> None:
    parser = argparse.ArgumentParser(description="Continue a prompt without some strings.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time,")
    parser.add_argument("banned", nargs="*", default=[" there was", " king"])
    parser.add_argument("--n", type=int, default=4, help="number of branches (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    body = {"prompt": options.prompt, "n": options.n, "max_tokens": 40, "banned_strings": options.banned}
    texts = [""] * options.n
    for event in events(options.url, body):
        if event["event"] == "stream":
            texts[event["index"]] += event["text"]
        elif event["event"] == "stop":
            index = event["index"]
            print(f"--- taken back {event.get('rewinds', 0)} times\n{options.prompt}{texts[index]}")
        elif event["event"] == "error":
            raise SystemExit(f"error from the server: {event['message']}")


if __name__ == "__main__":
    main()
