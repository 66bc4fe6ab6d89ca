"""Random clients: any dialect, any n, streamed or not; some leave early, some read slowly."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

CANCELLED, SLOW = 0.20, 0.05  # shares of the requests
_TIMEOUT = 60.0  # seconds without a byte; no request takes so long
_WORDS = ("the", "old", "king", "said", "that", "nobody", "had", "seen", "a", "boat", "near", "his", "house")

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect: its path, the names of its fields, and the ends of its streams, regular or with an error."""

    path: str
    limit: str
    prompt: str
    ends: tuple[bytes, ...]
    count: str = "n"


DIALECTS = (
    Dialect("/v1/srb/completions", "max_tokens", "prompt", (b'"event":"done"', b'"event":"error"')),
    Dialect("/v1/completions", "max_tokens", "prompt", (b"data: [DONE]", b'data: {"error"')),
    Dialect("/v1/chat/completions", "max_tokens", "messages", (b"data: [DONE]", b'data: {"error"')),
    Dialect("/completion", "n_predict", "prompt", (b'"stop":true', b'data: {"error"', b"error: {"), count=""),
)


@dataclass
class Tally:
    """Outcomes of all requests so far; any thread may count."""

    outcomes: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    def those(self, *beginnings: str) -> int:
        return sum(number for outcome, number in self.outcomes.items() if outcome.startswith(beginnings))


class Client:
    """A client that sends one random request after another, until a point in time."""

    def __init__(self, port: int, seed: int, tally: Tally, until: float) -> None:
        self._port = port
        self._random = random.Random(seed)
        self._tally = tally
        self._until = until
        self._stage = ""  # of the request, for the report

    def run(self) -> None:
        while time.monotonic() < self._until:
            self._stage = "connecting"
            try:
                outcome = self._one()
            except (OSError, http.client.HTTPException) as error:
                outcome = f"lost: {type(error).__name__} {self._stage}"
            self._tally.count(outcome)
            if outcome.startswith(("status 503", "lost")):
                time.sleep(0.2)  # like a client that heeds Retry-After, but less patient

    def body(self, dialect: Dialect) -> Body:
        """Return a valid random request."""
        chance = self._random
        text = " ".join(chance.choices(_WORDS, k=int(chance.paretovariate(0.6)) % 400 + 1))
        body: Body = {"stream": chance.random() < 0.7, dialect.limit: chance.choice((1, 5, 20, 60, 200))}
        body[dialect.prompt] = [{"role": "user", "content": text}] if dialect.prompt == "messages" else text
        if dialect.count:
            body[dialect.count] = chance.choice((1, 1, 2, 3, 8, 16))
        if dialect.path == "/v1/completions":
            body["model"] = "any"
        if chance.random() < 0.3:
            body["seed"] = chance.randrange(5)
        return body

    def _one(self) -> str:
        dialect = self._random.choice(DIALECTS)
        body = self.body(dialect)
        fate = self._random.random()
        slow = CANCELLED <= fate < CANCELLED + SLOW
        with socket.socket() as sock:
            sock.settimeout(_TIMEOUT)
            if slow:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.connect(("127.0.0.1", self._port))
            payload = orjson.dumps(body)
            head = f"POST {dialect.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n"
            sock.sendall(head.encode() + b"Connection: close\r\n\r\n" + payload)
            if fate < CANCELLED:
                return self._leave(sock)
            self._stage = f"before an answer of {dialect.path}"
            response = http.client.HTTPResponse(sock)
            response.begin()
            self._stage = (
                f"in an answer of {dialect.path} with status {response.status}{', read slowly' if slow else ''}"
            )
            answer = self._read_slowly(response) if slow else response.read()
            return self._outcome(dialect, body, response.status, answer)

    def _leave(self, sock: socket.socket) -> str:
        sock.settimeout(self._random.choice((0.001, 0.05, 0.3)))
        try:
            sock.recv(4096)
        except TimeoutError:
            pass  # it leaves in the queue or during prefill
        return "left"

    def _read_slowly(self, response: http.client.HTTPResponse) -> bytes:
        answer = b""
        while piece := response.read1(512):
            answer += piece
            time.sleep(0.02)
        return answer

    def _outcome(self, dialect: Dialect, body: Body, status: int, answer: bytes) -> str:
        if status != 200:
            return f"status {status}: {orjson.loads(answer)['error']['message'][:60]}"
        if not body["stream"]:
            orjson.loads(answer)
            return "answered"
        ends = [end for end in dialect.ends for _ in range(answer.count(end))]
        if len(ends) != 1:
            return f"unterminated: {dialect.path} ended {len(ends)} times"
        return "streamed" if ends[0] == dialect.ends[0] else "ended by an error event"
