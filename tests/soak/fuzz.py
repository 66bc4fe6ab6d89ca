"""Invalid requests: mutated bodies, paths, methods and headers, and bytes that are no HTTP."""

from __future__ import annotations

import errno
import random
import socket
import time
from typing import Any

import orjson

ALLOWED = {
    100,
    200,
    204,
    206,
    301,
    304,
    308,
    400,
    401,
    403,
    404,
    405,
    408,
    411,
    413,
    414,
    415,
    417,
    422,
    429,
    431,
    499,  # to a client that has ended its sending side meanwhile
    501,
    503,
    505,
}
_ANSWER_TIMEOUT = 20.0  # seconds until a missing answer is a problem
_READ_SECONDS = 1.0  # seconds of reading an answer; then the client leaves

_MESSAGES = [{"role": "user", "content": "Tell me a story."}]
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/srb/completions", {"prompt": "Once", "n": 2, "max_tokens": 3}),
    ("/v1/completions", {"prompt": "Once", "n": 2, "max_tokens": 3}),
    ("/v1/completions", {"model": "m", "prompt": ["Once", [1, 5]], "max_tokens": 3, "logprobs": 2, "echo": True}),
    ("/completion", {"prompt": ["Once", 5], "n_predict": 3, "n_probs": 2, "stream": True}),
    ("/v1/chat/completions", {"messages": _MESSAGES, "max_tokens": 3, "logprobs": True, "tools": [_TOOL]}),
    ("/v1/responses", {"input": _MESSAGES, "max_output_tokens": 3, "n": 2, "stream": True, "text": {"format": None}}),
    ("/v1/messages", {"messages": _MESSAGES, "max_tokens": 3, "system": "Be brief.", "thinking": {"type": "adaptive"}}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [], "n_predict": 3}),
    ("/stream", {"prompt": "Once", "num_predict": 3}),
    ("/tokenize", {"content": "Once upon", "add_special": True, "with_pieces": True}),
    ("/detokenize", {"tokens": [1, 5, 9]}),
    ("/apply-template", {"messages": _MESSAGES}),
    ("/v1/embeddings", {"input": ["Once", "upon"]}),
    ("/embedding", {"content": "Once"}),
    ("/rerank", {"query": "a", "documents": ["b", "c"]}),
    ("/props", {}),
    ("/slots/0?action=erase", {}),
    ("/slots/0?action=save", {"filename": "a"}),
    ("/lora-adapters", {}),
]
_NODES = {
    "a": {"text": "Once", "by": "person", "made": 1},
    "b": {"text": " upon", "by": "model", "parent": "a", "keep": 4, "run": "r", "index": 0, "slot": 0},
    "c": {"text": "", "by": "import", "parent": "b", "keep": 2, "tail": 5, "changed": 7},
}
_RUNS = {"r": {"node": "a", "at": 4, "seeds": [1]}}
_META = {"title": {"value": "Fuzz", "changed": 1}, "head": {"value": {"node": "b", "at": 9}, "changed": 2}}
_MARKS = {"b": {"star": {"value": True, "changed": 3}}}
STORIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/srb/stories/fuzz", {"meta": _META, "nodes": _NODES, "runs": _RUNS, "marks": _MARKS, "since": 0}),
    ("/v1/srb/stories/fuzz", {"nodes": _NODES}),
    (
        "/v1/srb/stories",
        {"format": "srb-story", "version": 1, "id": "fuzz", "nodes": _NODES, "runs": _RUNS, "title": "Fuzz"},
    ),
    ("/v1/srb/stories/fuzz/restore", {}),
    ("/v1/srb/stories/nobody", {}),
]
ROUTES += STORIES
READ = [
    "/",
    "/health",
    "/livez",
    "/v1/models",
    "/models",
    "/props",
    "/slots",
    "/metrics",
    "/openapi.json",
    "/lora-adapters",
    "/v1/srb/stories",
    "/v1/srb/stories?deleted=1",
    "/v1/srb/stories/fuzz",
    "/v1/srb/stories/fuzz?since=1",
    "/v1/srb/stories/fuzz?since=-1",
    "/v1/srb/stories/fuzz?since=1e9&server=x",
    "/v1/srb/stories/fuzz/export",
]
METHODS = ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post"]
FIELDS = [
    "n",
    "n_predict",
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "stop",
    "logit_bias",
    "grammar",
    "json_schema",
    "response_format",
    "samplers",
    "mirostat",
    "dry_sequence_breakers",
    "n_probs",
    "logprobs",
    "top_logprobs",
    "n_keep",
    "n_discard",
    "n_indent",
    "stop_at",
    "stop_after",
    "t_max_predict_ms",
    "cache_prompt",
    "id_slot",
    "stream",
    "stream_options",
    "suffix",
    "echo",
    "best_of",
    "select",
    "rank",
    "lora",
    "repeat_last_n",
    "repeat_penalty",
    "dry_multiplier",
    "xtc_probability",
    "penalty_prompt",
    "tools",
    "tool_choice",
    "messages",
    "prompt",
    "chat_template_kwargs",
    "n_cmpl",
    "return_tokens",
    "min_keep",
    "post_sampling_probs",
    "timings_per_token",
    "return_progress",
    "adaptive_target",
    "typical_p",
    "min_tokens",
    "nodes",
    "meta",
    "value",
    "changed",
    "parent",
    "keep",
    "tail",
    "__proto__",
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    64,
    65,
    255,
    256,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**63,
    -(2**63),
    2**64 - 1,
    0.0,
    -0.0,
    0.5,
    1.5,
    -1.5,
    1e9,
    1e30,
    1e39,
    1e300,
    -1e300,
    "",
    " ",
    "x",
    "3",
    "true",
    "null",
    "é",
    "\u0000",
    "\ufffd",
    "\U0001f98a",
    "a" * 5000,
    "root ::= [a-z]+",
    'root ::= "a"{1,500}',
    "root ::= root",
    "root ::= (",
    "{" * 300,
    "[" * 300,
    "../../etc/passwd",
    [],
    {},
    [[]],
    [{}],
    [None],
    [1, 2, 3],
    [-1],
    [10**6],
    ["x"],
    ["x"] * 300,
    [[1, 5]],
    [[1, 1.0], ["x", False]],
    {"1": 1},
    {"x": []},
    {"type": "object"},
    {"type": "string", "pattern": "(" * 50},
    {"$ref": "#"},
    {"type": "json_object"},
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    {"role": "user", "content": "x"},
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],
    [{"role": 7}],
]
GARBAGE = [
    b"",
    b"\r\n\r\n",
    b"\x00" * 64,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9e9\r\n\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
    b"POST /completion HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n{} ",
    b"GET //v1/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://elsewhere/v1/models HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT example.com:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


class Fuzzer:
    """A client that sends random requests; `problems` are those without an answer or with a forbidden status."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._random = random.Random(seed)
        self.statuses: dict[int, int] = {}  # 0: closed without an answer
        self.problems: list[str] = []

    def run(self, count: int) -> None:
        for _ in range(count):
            data = self.request()
            status = self._send(data)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status and status not in ALLOWED:
                self.problems.append(f"{status}: {data[:2000]!r}")

    def request(self) -> bytes:
        """Return the bytes of one request."""
        chance = self._random
        kind = chance.random()
        if kind < 0.08:
            return self._damaged(chance.choice(GARBAGE))
        if kind < 0.15:
            return (
                self._head(chance.choice([*METHODS, "GET"]), chance.choice([*READ, *(path for path, _ in ROUTES)]))
                + b"\r\n"
            )
        path, body = chance.choice(ROUTES)
        payload = orjson.dumps(self._mutated(body))
        if kind < 0.25:
            payload = self._damaged(payload)
        head = self._head("POST" if kind < 0.97 else chance.choice(METHODS), path)
        if chance.random() < 0.1:
            return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload)
        return head + b"Content-Length: %d\r\n\r\n%s" % (len(payload), payload)

    def _head(self, method: str, path: str) -> bytes:
        chance = self._random
        if chance.random() < 0.05:
            path = path.replace("/", chance.choice(("//", "/./", "/%2e/", "/%00")), 1) + chance.choice(
                ("", "/", "?", "?a=%ff")
            )
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        if path.startswith("/v1/srb/stories") and chance.random() < 0.95:
            lines.append("Content-Type: application/json")
        elif chance.random() < 0.1:
            name = chance.choice(
                ("Content-Type", "Accept", "Origin", "X-Forwarded-For", "Authorization", "Accept-Encoding")
            )
            lines.append(
                f"{name}: {chance.choice(('*/*', 'text/plain', 'null', 'Bearer x', '127.0.0.1', 'gzip;q=nan'))}"
            )
        return "\r\n".join(lines).encode() + b"\r\n"

    def _mutated(self, body: dict[str, Any]) -> dict[str, Any]:
        chance, body = self._random, dict(body)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
            name = chance.choice([*FIELDS, *body, *body])
            inner = body.get(name)
            if isinstance(inner, dict) and inner and chance.random() < 0.8:
                body[name] = self._mutated(inner)
            elif chance.random() < 0.1:
                body.pop(name, None)
            else:
                body[name] = self._value()
        return body

    def _value(self, depth: int = 0) -> Any:
        chance = self._random
        kind = chance.random()
        if depth < 3 and kind < 0.1:
            return [self._value(depth + 1) for _ in range(chance.randrange(4))]
        if depth < 3 and kind < 0.2:
            return {chance.choice((*FIELDS, "type", "properties", "x", "")): self._value(depth + 1) for _ in range(2)}
        return chance.choice(VALUES)

    def _damaged(self, data: bytes) -> bytes:
        chance, damaged = self._random, bytearray(data)
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(damaged) + 1)
            match chance.randrange(3):
                case 0:
                    damaged[place : place + chance.randrange(9)] = b""
                case 1:
                    damaged[place:place] = chance.randbytes(chance.randrange(1, 9))
                case _:
                    damaged[place:place] = chance.choice(
                        (b"{", b"[", b'"', b"1e999", b"NaN", b"\xed\xa0\x80", b"\r\n", b"-")
                    )
        return bytes(damaged)

    def _send(self, data: bytes) -> int:
        """Return the status of the answer; 0 if the connection was closed without one."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_TIMEOUT) as sock:
            try:
                sock.sendall(data)
                if self._random.random() < 0.02:
                    _end(sock)
                return self._read_status(sock, data)
            except (ConnectionError, BrokenPipeError):
                return 0

    def _read_status(self, sock: socket.socket, data: bytes) -> int:
        answer = b""
        end = time.monotonic() + _READ_SECONDS
        while time.monotonic() < end or b"\r\n" not in answer:
            try:
                piece = sock.recv(65536)
            except TimeoutError:
                self.problems.append(f"no answer: {data[:2000]!r}")
                return 0
            if not piece:
                break
            answer = (answer + piece)[:64]
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0


def _end(sock: socket.socket) -> None:
    """Close the sending side; the server may have closed the connection already."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise
