"""A ladder of temperatures: one prompt, one branch for each temperature, computed together.

python examples/ladder.py "Once upon a time," 0.2 0.6 1.0 1.4
"""

from __future__ import annotations

import argparse

from srb_stream import events


def main() -> None:
    parser = argparse.ArgumentParser(description="Continue a prompt with a branch for each temperature.")
    parser.add_argument("prompt", nargs="?", default="Once upon a time,")
    parser.add_argument("temperatures", nargs="*", type=float, default=[0.2, 0.6, 1.0, 1.4])
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    branches = [{"temperature": temperature} for temperature in options.temperatures]
    body = {"prompt": options.prompt, "branches": branches, "stop_at": "sentence", "max_tokens": 60}
    texts = [""] * len(branches)
    for event in events(options.url, body):
        if event["event"] == "stream":
            texts[event["index"]] += event["text"]
        elif event["event"] == "error":
            raise SystemExit(f"error from the server: {event['message']}")
    for temperature, text in zip(options.temperatures, texts, strict=True):
        print(f"--- temperature {temperature}\n{options.prompt}{text}")


if __name__ == "__main__":
    main()
