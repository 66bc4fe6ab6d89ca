"""Differences between llama-server and SRB: the same requests to both, and every key, type, status and text that differs.

    python -m bench.differential URL_A URL_B

A is a llama-server and B an SRB, with the same model and the same options. Sums must not depend on what else is computed:
give both a model whose weights are F32 (`llama-quantize --allow-requantize MODEL COPY F32` makes one; the sums of SRB's
kernel for quantized weights are others) and `-np 4 -kvu -fa off -ctk f32 -ctv f32 -t 1`, the same `-c`, `--metrics`
and a folder as `--slot-save-path`, without `--props`. With a projector (`--mmproj`) pictures are compared, too;
llama-server then needs `LLAMA_MEDIA_MARKER=<__media__>` in its environment, or it takes no mark but a random one.

Each difference is a line below its request, with "told" before it if docs/compatibility.md tells it. The exit status is 1 if
there are others, and 2 without an answer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TextIO

import requests

from bench.differential.answers import ask
from bench.differential.cases import Case, cases
from bench.differential.differences import differences
from bench.differential.told import TOLD, Told

PATIENCE_SECONDS = 60.0  # for a server that ended at a request and is started again


def compare(url_a: str, url_b: str, chosen: Sequence[Case], told: Sequence[Told], out: TextIO) -> tuple[int, int]:
    """Send cases to both servers, print what differs; return how many differences are told, and how many are not.

    Raise requests.RequestException if a server does not come back after a request that it did not answer.
    """
    counts = {True: 0, False: 0}
    for case in chosen:
        lines = []
        answers = []
        for name, url in (("A", url_a), ("B", url_b)):
            try:
                answers.append(ask(url, case))
            except requests.RequestException as error:
                lines.append((False, f"{name} gave no answer: {type(error).__name__}"))
                _wait_for(url)
        if len(answers) == 2:
            for each in differences(*answers):
                is_told = any(one.tells(case.name, each) for one in told)
                lines.append((is_told, f"{each.place}: {each.what}"))
        if lines:
            print(case.name, file=out)
        for is_told, line in lines:
            counts[is_told] += 1
            print(f"  {'told' if is_told else '    '}  {line}", file=out)
    return counts[True], counts[False]


def _wait_for(url: str) -> None:
    """Wait until a server is ready again; raise requests.RequestException if it is not after a minute."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            requests.get(url + "/health", timeout=10).raise_for_status()
            return
        except requests.RequestException:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def context_of(url: str) -> int:
    """Return how many tokens a request to a server may have."""
    response = requests.get(url + "/props", timeout=10)
    response.raise_for_status()
    return int(response.json()["default_generation_settings"]["n_ctx"])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.differential",
        description="Send the same requests to llama-server and to SRB, and print the differences of their answers.",
    )
    parser.add_argument("url_a", metavar="URL_A", help="a llama-server, like http://127.0.0.1:8081")
    parser.add_argument("url_b", metavar="URL_B", help="an SRB with the same model and the same options")
    parser.add_argument("--only", default="", metavar="TEXT", help="send only requests whose name contains this text")
    options = parser.parse_args(words)
    url_a, url_b = options.url_a.rstrip("/"), options.url_b.rstrip("/")
    try:
        every = cases(max(context_of(url_a), context_of(url_b)))
        chosen = [case for case in every if options.only in case.name]
        told, untold = compare(url_a, url_b, chosen, TOLD, sys.stdout)
    except requests.RequestException as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 2
    print(f"{len(chosen)} requests: {told} differences told, {untold} not told")
    return 1 if untold else 0


if __name__ == "__main__":
    sys.exit(main())
