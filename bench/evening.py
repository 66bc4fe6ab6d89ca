"""A writer's evening: one story on a real server for a thousand turns, by text and by tokens.

`python -m bench.evening` starts the server with the bundled model. Each turn appends a whole branch or half of one, edits
a word far back, or goes back ten turns, in a fixed order. It prints the time to the first token by turns, the engine's
memory, and the number of truncated branches.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from srb.bench.client import post
from srb.bench.server import server
from srb.config.settings import Settings

ORDER = ("whole", "whole", "half", "whole", "edit", "whole", "whole", "back", "whole", "half")
EDIT_BACK = 200  # tokens
N, MAX_TOKENS = 4, 24
WINDOW = 50  # turns per median


@dataclass
class Turn:
    """One answered request: seconds to the first token, and the branches' texts and tokens."""

    first_token: float
    texts: dict[int, str] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    truncated: int = 0
    usage: dict[str, Any] = field(default_factory=dict)


def ask(url: str, prompt: str | list[int], seed: int) -> Turn:
    """Stream one turn and read all its events."""
    body = {"prompt": prompt, "n": N, "max_tokens": MAX_TOKENS, "seed": seed, "return_tokens": True}
    began = time.perf_counter()
    turn, received = Turn(0.0), bytearray()
    with post(url, "/v1/srb/completions", orjson.dumps(body)) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            if not turn.first_token and b'"stream"' in received:
                turn.first_token = time.perf_counter() - began
            if chunk.endswith(b"0\r\n\r\n"):
                break
    if b" 200 " not in received[:20]:
        raise RuntimeError(f"the server answered {bytes(received[:300])!r}")
    for event in _events(bytes(received)):
        if event["event"] == "stream":
            turn.texts[event["index"]] = turn.texts.get(event["index"], "") + event["text"]
            turn.tokens.setdefault(event["index"], []).extend(event["tokens"])
        elif event["event"] == "stop":
            turn.truncated += bool(event.get("truncated"))
        elif event["event"] == "done":
            turn.usage = event["usage"]
    return turn


def _events(received: bytes) -> Iterator[dict[str, Any]]:
    for line in received.split(b"\n"):
        if line.startswith(b"data: {"):
            yield orjson.loads(line[6:])


@dataclass
class Evening:
    """A growing story, as text or as tokens, and the cost of each turn."""

    url: str
    by_tokens: bool
    max_prompt: int  # tokens; after a longer prompt the writer goes back
    stories: list[Any] = field(default_factory=list)  # the prompt of each turn
    times: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)  # the cached share of each prompt, 0 to 1
    truncated: int = 0

    def __post_init__(self) -> None:
        opening = "Once upon a time, the old keeper of the lighthouse found a letter"
        self.story: Any = tokenize(self.url, opening) if self.by_tokens else opening

    def write(self, turns: int) -> None:
        for _ in range(turns):
            number = len(self.stories)
            turn = ask(self.url, self.story, seed=number * N)
            self.stories.append(self.story)
            self.times.append(turn.first_token)
            self.truncated += turn.truncated
            prompt_tokens = turn.usage["prompt_tokens"]
            self.cached.append(turn.usage["prompt_tokens_details"]["cached_tokens"] / prompt_tokens)
            self._go_on(ORDER[number % len(ORDER)], turn, number % N, prompt_tokens)

    def _go_on(self, how: str, turn: Turn, branch: int, prompt_tokens: int) -> None:
        added: Any = turn.tokens.get(branch, []) if self.by_tokens else turn.texts.get(branch, "")
        if prompt_tokens > self.max_prompt or how == "back":
            back = 10 if prompt_tokens <= self.max_prompt else len(ORDER) * 3
            self.story = self.stories[max(0, len(self.stories) - back)]
        elif how == "edit":
            self.story = self._edited(self.story)
        else:
            self.story = self.story + (added if how == "whole" else added[: len(added) // 2])

    def _edited(self, story: Any) -> Any:
        """Return the story with a change about EDIT_BACK tokens before its end."""
        place = max(1, len(story) - (EDIT_BACK if self.by_tokens else 4 * EDIT_BACK))
        if self.by_tokens:
            return [*story[:place], story[place - 1], *story[place + 1 :]]
        space = story.rfind(" ", 0, place)
        return story[: space + 1] + "grey " + story[space + 1 :]


def tokenize(url: str, text: str) -> list[int]:
    received = bytearray()
    with post(url, "/tokenize", orjson.dumps({"content": text, "add_special": True})) as sock:
        while chunk := sock.recv(65536):
            received += chunk
    tokens: list[int] = orjson.loads(bytes(received).partition(b"\r\n\r\n")[2])["tokens"]
    return tokens


def engine_memory() -> float:
    """Return the resident memory of the engine process below this one, in MiB."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"srb.engine.process\0" in status.read_bytes():
                pages = int(status.with_name("statm").read_text().split()[1])
                return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        except OSError:
            continue
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.evening", description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--cache-ram-mib", type=int, default=64, help="SRB_CACHE_RAM_MIB (default: %(default)s)")
    args = parser.parse_args()
    environ = {**os.environ, "PYTHONPATH": os.getcwd(), "SRB_CACHE_RAM_MIB": str(args.cache_ram_mib)}
    environ["SRB_MODEL"] = str(Settings().model_path)
    for by_tokens in (False, True):
        with server(environ) as url:
            evening = Evening(url, by_tokens, max_prompt=1500)
            print(f"\n{'by tokens' if by_tokens else 'by text'}: median ms to the first token, engine MiB", flush=True)
            for start in range(0, args.turns, 100):
                evening.write(min(100, args.turns - start))
                median = statistics.median(evening.times[start:]) * 1000
                cached = statistics.mean(evening.cached[start:])
                print(
                    f"  turns {start:>5}-{len(evening.times):<5} {median:7.1f} ms {engine_memory():7.1f} MiB,"
                    f" {cached:6.1%} of the prompts cached",
                    flush=True,
                )
            early = statistics.median(evening.times[WINDOW : 2 * WINDOW]) * 1000
            late = statistics.median(evening.times[-WINDOW:]) * 1000
            print(
                f"  last {WINDOW} turns / turns {WINDOW}-{2 * WINDOW}: {late:.1f} / {early:.1f} ms = {late / early:.2f};"
                f" {evening.truncated} branches truncated"
            )


if __name__ == "__main__":
    main()
