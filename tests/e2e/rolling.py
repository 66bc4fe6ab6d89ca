"""Writers who go on with their stories while replicas are replaced: what was computed again, and how long each waited."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

import orjson
import requests

from tests.processes import DEADLINE, wait_for
from tests.servers import Server


class Writer:
    """A writer in a thread, who takes each continuation and adds some words, until she is told to stop.

    Her story is of tokens, since a text may be divided otherwise where it goes on.
    """

    def __init__(
        self, server: Server, story: str, beginning: list[int], *, max_tokens: int = 20, pause: float = 0.0
    ) -> None:
        self.turns: list[dict[str, int]] = []  # the usage of each: prompt, known, written
        self.errors: list[str] = []
        self.silence = 0.0  # the longest time without a token, in seconds
        self._url = f"{server.url}/v1/srb/completions"
        self._text = beginning
        self._fields: dict[str, Any] = {
            "n": 1,
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "return_tokens": True,
            "session": story,
        }
        self._pause = pause
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stops.set()
        self._thread.join(DEADLINE)

    def go_on(self) -> None:
        """Take one more turn after she has stopped."""
        self._turn()

    @property
    def again(self) -> int:
        """Number of tokens of her story that were computed again: all but what is new in a turn, and its last tokens."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return sum(max(0, one["prompt"] + one["written"] - 1 - two["known"]) for one, two in pairs)

    def _write(self) -> None:
        try:
            while not self._stops.wait(self._pause):
                self._turn()
        except Exception as error:  # the test, or the measurement, tells it
            self.errors.append(repr(error))

    def _turn(self) -> None:
        heard = time.monotonic()
        answer = requests.post(self._url, json={"prompt": self._text, **self._fields}, stream=True, timeout=DEADLINE)
        assert answer.status_code == 200, answer.text
        for line in answer.iter_lines():
            if not line.startswith(b"data: {"):
                continue
            event: dict[str, Any] = orjson.loads(line[6:])
            if event["event"] == "error":
                raise RuntimeError(line.decode())
            if event["event"] == "stream":
                now = time.monotonic()
                self.silence, heard = max(self.silence, now - heard), now
                self._text = [*self._text, *event["tokens"]]
            elif event["event"] == "done":
                used = event["usage"]
                known = used["prompt_tokens_details"]["cached_tokens"]
                turn = {"prompt": used["prompt_tokens"], "known": known, "written": used["completion_tokens"]}
                self.turns.append(turn)
        self._text = [*self._text, *(len(self.turns) % 40 + 2 for _ in range(8))]


class Writers:
    """Several writers. Leave the `with` block and they have stopped."""

    def __init__(self, server: Server, number: int, length: int, **options: Any) -> None:
        def beginning(each: int) -> list[int]:
            return [2 + place * (each + 1) % 39 for place in range(length)]  # words of the fake model

        self.all = [Writer(server, f"story {each}", beginning(each), **options) for each in range(number)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self.all:
            writer.stop()

    def wait_for_turns(self, number: int) -> None:
        """Wait until each has taken so many more turns; an error is raised."""
        before = [len(writer.turns) for writer in self.all]

        def have_gone_on() -> bool:
            assert not self.errors, self.errors
            return all(len(writer.turns) >= count + number for writer, count in zip(self.all, before, strict=True))

        wait_for(have_gone_on, f"each writer takes {number} more turns")

    @property
    def errors(self) -> list[str]:
        return [error for writer in self.all for error in writer.errors]
