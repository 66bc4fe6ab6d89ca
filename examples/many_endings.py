"""Eight endings for one beginning, with OpenAI's client: shows their progress, then prints all endings.

    python examples/many_endings.py "The lighthouse keeper had one rule:"

Needs `pip install openai` and a running server (`make serve`).
"""

from __future__ import annotations

import argparse
import sys
import textwrap

import openai


def main() -> None:
    parser = argparse.ArgumentParser(description="Write several endings for one beginning.")
    parser.add_argument("beginning", nargs="?", default="Once upon a time,")
    parser.add_argument("-n", type=int, default=8, help="number of endings (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=60, help="maximum tokens of an ending (default: %(default)s)")
    parser.add_argument("--url", default="http://localhost:9090", help="address of the server (default: %(default)s)")
    options = parser.parse_args()

    endings = [""] * options.n
    with openai.OpenAI(base_url=f"{options.url}/v1", api_key="not needed") as client:
        stream = client.completions.create(
            model="any",  # any name: the server has one model
            prompt=options.beginning,
            n=options.n,
            max_tokens=options.tokens,
            stream=True,
        )
        for chunk in stream:
            for choice in chunk.choices:
                endings[choice.index] += choice.text
            show_progress(endings)

    print()
    for number, ending in enumerate(endings, 1):
        print(textwrap.indent(textwrap.fill(options.beginning + ending, 76), "   ").replace("   ", f"{number}. ", 1))
        print()


def show_progress(endings: list[str]) -> None:
    """Show the current length of each ending on one line of the terminal."""
    if sys.stderr.isatty():
        lengths = "  ".join(f"{len(ending):4}" for ending in endings)
        print(f"\r{lengths} characters ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
