"""A server whose branches all grow by a word at a fixed pace, without an engine: `python -m bench.page.paced PORT`.

A browser that reads it has the load of a fast model, and the cores are the browser's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator

import gevent
from gevent.pywsgi import WSGIServer

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, PromptDone
from tests.scripted import Script, ScriptedClient

_WORDS = ["the", "keeper", "of", "a", "light", "went", "down", "to", "the", "sea", "and", "found", "nobody", "there"]


def paced(rate: float) -> Script:
    """Return a script whose branches get `rate` words a second, up to the request's max_tokens."""

    def play(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        lengths = [max(branch.max_tokens, 0) for branch in command.branches]
        yield [Accepted(request_id, 5)]
        yield [PromptDone(request_id, 5, 0, 1.0)]
        began = time.monotonic()
        for step in range(max(lengths)):
            gevent.sleep(max(0.0, began + step / rate - time.monotonic()))
            yield list(_step(request_id, lengths, step))
        seconds = time.monotonic() - began
        yield [Done(request_id, 5, 0, sum(lengths), 1.0, 1000 * seconds)]

    return play


def _step(request_id: str, lengths: list[int], step: int) -> Iterator[Event]:
    for index, length in enumerate(lengths):
        if step < length:
            word = _WORDS[(step + 3 * index) % len(_WORDS)]
            end = "\n\n" if step % 60 == 59 else "." if step % 12 == 11 else ""  # sentences and paragraphs, as in prose
            yield Delta(request_id, index, f" {word}{end}", [step])
            if step == length - 1:
                yield BranchEnded(request_id, index, "limit", length)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page.paced", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float, default=50, help="words a second of each branch")
    options = parser.parse_args()
    settings = Settings.load()
    app = create_app(settings, ScriptedClient(settings, paced(options.rate)))
    WSGIServer(("127.0.0.1", options.port), app, log=None).serve_forever()


if __name__ == "__main__":
    main()
