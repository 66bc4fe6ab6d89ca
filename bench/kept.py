"""`python -m bench.kept`: what is found again of texts after kills, and when one server hands its stories to another.

`kills`: four writers go on with their stories while the engine, and every other time all processes, are killed at random
moments. A server that nobody kills then answers the same requests: each token has to be the same. *found* is the share of
the tokens a writer's story had, before a kill, that are not computed again after it.

`handed`: a server writes some stories and is told to end; another one with the same folder, which has run all the time, is
asked for their next turns, with the story's name as `session`. *computed* are prompt tokens, without those that are new.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import orjson

from bench.long import fresh, words
from bench.warm import kill
from srb.bench.client import TIMEOUT_SECONDS
from srb.bench.server import server
from tools.real_models import model_option

WRITERS = 4
FIRST, NEW, WRITTEN = 600, 8, 24  # tokens of a story's beginning, of a person in each turn, and of each branch
LONGEST = 4000  # tokens, before a writer begins another story
_ALIVE = (0.5, 4.0)  # seconds from the first answer after a kill to the next kill
_RETRY_SECONDS = 0.1
_OVER = (503, 502)  # statuses of a request whose engine has ended


@dataclass
class Turn:
    """A request and its answer."""

    body: dict[str, Any]
    answer: list[list[int]] = field(default_factory=list)  # tokens of each branch
    cached: int = 0
    seconds: float = 0.0

    def ask(self, url: str) -> None:
        began = time.perf_counter()
        asked = urllib.request.Request(f"{url}/v1/srb/completions", orjson.dumps({**self.body, "stream": False}))
        with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as answer:
            found = orjson.loads(answer.read())
        self.seconds = time.perf_counter() - began
        self.answer = [each["tokens"] for each in found["completions"]]
        self.cached = found["timings"]["cache_n"]


def turn_of(story: list[int], name: str, seed: int, n: int = 2) -> Turn:
    sampled = {"seed": seed, "temperature": 1.0, "max_tokens": WRITTEN, "ignore_eos": True}
    return Turn({"prompt": list(story), "n": n, "session": name, "return_tokens": True, **sampled})


@dataclass
class Writer:
    """A writer, who asks again when a server ends in the middle, and goes on with what it answered."""

    number: int
    turns: list[Turn] = field(default_factory=list)
    found: list[tuple[int, int]] = field(default_factory=list)  # tokens found after a kill, and those that were known
    errors: list[str] = field(default_factory=list)
    kills: int = 0  # of the last turn

    def write(self, now: Callable[[], tuple[str, int]], is_over: threading.Event) -> None:
        """Write until it is over; `now` tells the server's URL and the number of kills before it."""
        name, story, known = self._begin()
        while not is_over.is_set():
            turn = turn_of(story, name, len(self.turns))
            url, kills = now()
            try:
                turn.ask(url)
            except (OSError, HTTPException, ValueError) as error:  # ValueError: an answer that was cut short
                if isinstance(error, urllib.error.HTTPError) and error.code not in _OVER:
                    self.errors.append(f"{error.code}: {error.read()[:300]!r}")
                time.sleep(_RETRY_SECONDS)
                continue
            if now()[1] == kills and kills > self.kills and known:
                self.found.append((min(turn.cached, known), known))
            self.kills = kills
            self.turns.append(turn)
            known = len(story) + len(turn.answer[0]) - 1  # the last token was drawn, and is not computed yet
            story += turn.answer[0] + words(fresh(), NEW)[1:]
            if len(story) > LONGEST:
                name, story, known = self._begin()

    def _begin(self) -> tuple[str, list[int], int]:
        return f"story {self.number} {len(self.turns)}", words(fresh(), FIRST), 0


def kills(environ: dict[str, str], folder: str, number: int) -> None:
    """Print what writers found after so many kills, and whether a server that nobody killed writes the same."""
    pick, writers = random.Random(number), [Writer(index) for index in range(WRITERS)]
    state, is_over = {"url": "", "kills": 0}, threading.Event()

    def now() -> tuple[str, int]:
        return str(state["url"]), int(state["kills"])

    threads = [threading.Thread(target=writer.write, args=(now, is_over), daemon=True) for writer in writers]
    while state["kills"] < number:
        with server(environ) as url:
            state["url"] = url
            for thread in threads:
                if not thread.ident:
                    thread.start()
            for module in ("srb.engine.process", ""):  # the engine alone, then all processes
                answered = sum(len(writer.turns) for writer in writers)
                while sum(len(writer.turns) for writer in writers) == answered:
                    time.sleep(_RETRY_SECONDS)
                time.sleep(pick.uniform(*_ALIVE))
                kill(folder, module)
                state["kills"] += 1
        print(f"\r{state['kills']} kills", end="", flush=True)
    is_over.set()
    for thread in threads:
        thread.join(60)
    found = [each for writer in writers for each in writer.found]
    share = sum(least for least, _ in found) / max(1, sum(known for _, known in found))
    errors = [error for writer in writers for error in writer.errors]
    turns = [turn for writer in writers for turn in writer.turns]
    print(f"\r{state['kills']} kills, {len(turns)} turns; after kills {len(found)} turns found {share:.2%}", flush=True)
    print(f"errors: {len(errors)} {errors[:3]}", flush=True)
    other = 0
    with server(environ | {"SRB_CACHE_DISK_MIB": "0"}) as url:
        for turn in turns:
            again = Turn(turn.body)
            again.ask(url)
            other += again.answer != turn.answer
    print(f"turns that a server without kills writes otherwise: {other} of {len(turns)}", flush=True)


def handed(environ: dict[str, str], number: int) -> None:
    """Print what a server computes of the stories of another one that has ended."""
    stories: list[tuple[str, list[int], list[int]]] = []
    with server(environ) as other:
        with server(environ) as url:
            for index in range(number):
                name, text = f"story {index}", words(fresh(), FIRST)
                turn = turn_of(text, name, index)
                turn.ask(url)
                stories.append((name, text, turn.answer[0]))
            began = time.perf_counter()
        print(f"{number} stories written; the server ended in {time.perf_counter() - began:.2f} s", flush=True)
        computed, seconds = [], []
        for index, (name, text, written) in enumerate(stories):
            turn = turn_of(text + written + words(fresh(), NEW)[1:], name, index)
            turn.body["max_tokens"] = 1
            turn.ask(other)
            computed.append(max(0, len(text) + len(written) - 1 - turn.cached))
            seconds.append(turn.seconds)
    print(f"computed: {sum(computed)} tokens of {number} stories, at most {max(computed)} of one")
    print(f"first token: median {1000 * statistics.median(seconds):.0f} ms, at most {1000 * max(seconds):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kept", description=__doc__)
    parser.add_argument("what", choices=["kills", "handed"])
    parser.add_argument("--model", type=model_option, required=True, help="a GGUF file, or smollm2 or gemma3")
    parser.add_argument("--number", type=int, help="of kills (200) or stories (50)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="srb-bench-kept-") as folder:
        environ = {**os.environ, "SRB_MODEL": str(given.model), "SRB_STORIES": "", "SRB_CACHE_DISK": folder}
        environ |= {"SRB_N_CTX": "16384", "SRB_CACHE_DISK_MIB": "8192"}
        if given.what == "kills":
            kills(environ, folder, given.number or 200)
        else:
            handed(environ, given.number or 50)


if __name__ == "__main__":
    main()
