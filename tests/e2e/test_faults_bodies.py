"""Bodies that native code must never see, in every dialect. A test's name begins with its row in docs/faults.md."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.e2e.streams import ENDLESS, Stream
from tests.needs import long
from tests.processes import DEADLINE, wait_for
from tests.servers import Server
from tests.unit.test_grammar_limits import BOMBS, KINDS

pytestmark = pytest.mark.e2e

MESSAGES = [{"role": "user", "content": "Hello"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/srb/completions": {"prompt": "Once", "max_tokens": 2},
    "/v1/completions": {"model": "m", "prompt": "Once", "max_tokens": 2},
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 2},
    "/completion": {"prompt": "Once", "n_predict": 2},
    "/stream": {"prompt": "Once", "n_predict": 2},
}
COUNTED = ["/v1/srb/completions", "/v1/completions", "/v1/chat/completions"]


@pytest.fixture(autouse=True)
def engine_is_unharmed(storyteller: Server) -> Iterator[None]:
    """Check after each test that the same engine runs and has nothing of the bad request in use."""
    engine = storyteller.engine
    yield
    assert storyteller.engine == engine
    wait_for(lambda: storyteller.metric("requests_processing") == 0, "nothing runs any more")
    assert storyteller.post("/v1/srb/completions", ROUTES["/v1/srb/completions"]).status_code == 200


def refused(server: Server, path: str, field: str, value: str) -> str:
    """Send a field's value as JSON text; return the message of the expected 400."""
    body = orjson.dumps({name: part for name, part in ROUTES[path].items() if name != field})
    data = body[:-1] + f',"{field}":{value}}}'.encode()
    answer = requests.post(server.url + path, data=data, timeout=DEADLINE)
    assert answer.status_code == 400, f"{path} {value[:50]}: {answer.status_code} {answer.text[:300]}"
    message: str = answer.json()["error"]["message"]
    return message


@pytest.mark.parametrize("path", COUNTED)
def test_row_01_an_invalid_number_of_branches_is_refused_naming_its_field(storyteller: Server, path: str) -> None:
    before = storyteller.metric("requests_total")
    for value in ("0", "-1", "1.5", "true", '"3"', "1e9", "1" + "0" * 30, "65", "[]"):
        assert "'n'" in refused(storyteller, path, "n", value)
    assert storyteller.metric("requests_total") == before  # the engine saw none of them


POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"


def most_memory(pid: int) -> int:
    """Return the most bytes that a process has had in memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


@pytest.fixture(scope="module")
def strict_and_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, int]]:
    """A server that takes bodies of 2 MiB, and the memory that its worker needs for small ones."""
    with Server(tmp_path_factory.mktemp("strict"), max_body_bytes=2 * 2**20, log_level="debug") as server:
        server.start()
        wait_for(lambda: "bodies are built" in server.logs, "the worker has what it needs for all requests")
        server.post("/v1/completions", ROUTES["/v1/completions"])
        [worker] = server.workers
        yield server, most_memory(worker)


@pytest.fixture
def strict(strict_and_memory: tuple[Server, int]) -> Iterator[Server]:
    """A server that takes bodies of 2 MiB, and whose memory does not grow by more than eight of them. Tests share it."""
    server, before = strict_and_memory
    [worker] = server.workers
    yield server
    assert most_memory(worker) - before < 16 * 2**20
    assert server.workers == [worker]


def test_row_04_a_body_that_is_announced_too_large_is_refused_before_it_comes(strict: Server) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), DEADLINE) as client:
        client.sendall(POST + b"Content-Length: 1073741824\r\n\r\n")
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == 413


@pytest.mark.parametrize(
    ("framing", "piece"),
    [
        (b"Content-Length: 1073741824\r\n\r\n", b" " * 65536),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n40000000\r\n", b" " * 65536),
    ],
    ids=["length", "chunks", "one chunk"],
)
def test_row_04_a_body_without_end_is_read_only_so_far(strict: Server, framing: bytes, piece: bytes) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), DEADLINE) as client:
        client.sendall(POST + framing)
        pieces = 0
        with pytest.raises(ConnectionError):  # noqa: PT012 what has been received is read below
            while pieces < 2048:  # 128 MiB, and the server reads on
                client.sendall(piece)
                pieces += 1
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == 413


def memory(pid: int) -> int:
    """Return the bytes that a process has in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def test_row_57_uploads_that_are_held_open_have_a_budget_and_their_memory_goes_back(tmp_path: Path) -> None:
    size, uploads = 30_000_000, 12
    head = b"POST /v1/srb/stories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with ExitStack() as held, Server(tmp_path, max_body_bytes=8 * 2**20, log_level="debug") as server:
        server.start()
        wait_for(lambda: "bodies are built" in server.logs, "the worker has what it needs for all requests")
        [worker] = server.workers
        before = memory(worker)
        refused = 0
        for _ in range(uploads):
            client = held.enter_context(socket.create_connection(("127.0.0.1", server.port), DEADLINE))
            with suppress(ConnectionError):  # it was refused, and no more of it is read
                client.sendall(head + b"Content-Length: %d\r\n\r\n" % size + b" " * (size - 1))
            wait_for(lambda: server.live() == 200, "others are answered")
            client.setblocking(False)
            with suppress(BlockingIOError):
                refused += client.recv(65536).startswith(b"HTTP/1.1 503")
        assert refused >= uploads - 3
        line = re.compile(r"/v1/srb/stories 127\.0\.0\.1 \w+: 503")
        wait_for(lambda: len(line.findall(server.logs)) >= refused, "each refusal is logged")
        assert len(line.findall(server.logs)) == refused
        assert server.post("/v1/completions", ROUTES["/v1/completions"]).status_code == 200
        held.close()
        wait_for(lambda: memory(worker) - before < 24 * 2**20, "the memory goes back")


@pytest.mark.parametrize("path", ROUTES)
def test_row_06_another_method_is_405_and_no_work(storyteller: Server, path: str) -> None:
    before = storyteller.metric("requests_total")
    reads = ("GET", "HEAD") if path != "/v1/srb/completions" else ()  # there GET lists the requests that run
    for method in (*reads, "PUT", "DELETE", "PATCH"):
        answer = requests.request(method, storyteller.url + path, timeout=DEADLINE)
        assert (answer.status_code, "POST" in answer.headers["Allow"]) == (405, True)
    assert storyteller.metric("requests_total") == before


@pytest.mark.parametrize("path", ROUTES)
def test_row_07_numbers_out_of_range_or_not_finite_are_refused(storyteller: Server, path: str) -> None:
    for field, value in (
        ("temperature", "1e39"), ("seed", "1.5"), ("top_p", "[]"), ("repeat_penalty", "0"),
        ("repeat_last_n", "-2"), ("presence_penalty", "1e400"), ("temperature", "NaN"), ("temperature", "-Infinity"),
    ):  # fmt: skip
        message = refused(storyteller, path, field, value)
        assert field in message or "body" in message


@pytest.mark.parametrize("path", [path for path in ROUTES if path != "/v1/chat/completions"])
def test_row_08_token_ids_outside_the_vocabulary_are_refused(storyteller: Server, path: str) -> None:
    for value in ("[1, 1000000]", "[-1]", "[2147483648]", "[1e3]", "[true]"):
        assert "prompt" in refused(storyteller, path, "prompt", value)


@pytest.mark.parametrize("path", ROUTES)
def test_row_08_biases_outside_the_vocabulary_are_skipped_and_too_many_are_refused(
    storyteller: Server, path: str
) -> None:
    engine = storyteller.engine
    for value in ({"1000000": 1, "-5": 1, "9" * 30: 1}, [[1000000, False], [2147483648, 1], [2**63 - 1, 1], [-1, 1]]):
        answer = storyteller.post(path, ROUTES[path] | {"logit_bias": value})
        assert answer.status_code == 200, answer.text
    assert storyteller.engine == engine
    many = orjson.dumps([[token % 500, 1.0] for token in range(1025)]).decode()
    assert "logit_bias" in refused(storyteller, path, "logit_bias", many)


@pytest.mark.parametrize("path", ["/v1/srb/completions", "/completion", "/stream"])
def test_row_09_numbers_below_their_minimum_are_refused(storyteller: Server, path: str) -> None:
    for field, value in (("n_discard", "-1"), ("n_keep", "-2"), ("n_indent", "-1"), ("n_cache_reuse", "-1")):
        assert field in refused(storyteller, path, field, value)


@pytest.mark.parametrize("path", ROUTES)
def test_row_10_grammars_that_would_break_the_parser_are_refused(storyteller: Server, path: str) -> None:
    for grammar in (
        "a" * 70_000, "root ::= " + "(" * 200 + '"a"' + ")" * 200, 'root ::= "a"{1000000}', 'root ::= root "a"',
        "root ::= nobody", 'root ::= ("a"{500}){500}',
    ):  # fmt: skip
        assert "grammar" in refused(storyteller, path, "grammar", orjson.dumps(grammar).decode())


@pytest.mark.parametrize("path", ["/v1/srb/completions", "/v1/completions", "/completion", "/v1/chat/completions"])
def test_row_10_schemas_that_would_break_the_parser_are_refused(storyteller: Server, path: str) -> None:
    nested = '{"type":"array","items":' * 200 + "{}" + "}" * 200
    long = '{"enum":[' + ",".join(map(str, range(50_000))) + "]}"
    for schema in (nested, long):
        assert "json_schema" in refused(storyteller, path, "json_schema", schema)


@pytest.mark.parametrize("name", [*KINDS, *long(*(name for name in BOMBS if name not in KINDS))])
def test_row_10_a_grammar_that_explodes_holds_nobody_up(storyteller: Server, name: str) -> None:
    """A stream beside gets tokens while 16 branches have the grammar, and after they have ended."""
    beside = Stream(storyteller, ENDLESS)
    beside.until("stream")
    answer = storyteller.post("/v1/srb/completions", {"prompt": "Once", "n": 16, "max_tokens": 40, **BOMBS[name]()})
    assert answer.status_code in (200, 400), answer.text
    for _ in range(20):
        assert beside.until("stream", "error")["event"] == "stream"
    assert storyteller.post("/v1/srb/completions", {"prompt": "Once", "max_tokens": 4}).status_code == 200
    beside.close()
    wait_for(lambda: storyteller.metric("requests_processing") == 0, "who leaves ends the branches")


def tool(name: str) -> dict[str, Any]:
    keys = {f"{name}{'a' * length}": {"type": "string"} for length in range(4)}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": keys}}}


ALIKE = {"anyOf": [{"type": "object", "properties": {"a": {}, "b": {}, f"c{i}": {}}} for i in range(50)]}
NEIGHBOURS: dict[str, dict[str, Any]] = {
    "GBNF": {"grammar": BOMBS["thirty levels of operators"]()["grammar"]},
    "a long constant": {"grammar": 'root ::= [ab] "' + "a b " * 200 + '"'},
    "a schema": {"json_schema": ALIKE},
    "tools": {
        "messages": MESSAGES, "tools": [tool("t" * (1 + i)) for i in range(5)], "tool_choice": "required", "stream": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_row_10_a_stream_gets_a_token_in_every_step_beside_64_branches_with_costly_grammars(
    storyteller: Server, name: str
) -> None:
    """Steps in which each of the 64 samples a token are as many for the stream; all tokens but theirs are its own."""
    beside = Stream(storyteller, ENDLESS)
    beside.until("stream")
    names = ("tokens_predicted_total", "tokens_forced_total")
    body = {
        "prompt": "Once",
        "n": 64,
        "max_tokens": 24,
        "temperature": 1.5,
        "seed": 3,
        "stream": False,
        **NEIGHBOURS[name],
    }
    path = "/v1/chat/completions" if "messages" in body else "/v1/srb/completions"
    before = [storyteller.metric(each) for each in names]
    answer = storyteller.post(path, {key: value for key, value in body.items() if path[4] == "s" or key != "prompt"})
    written, forced = (storyteller.metric(each) - then for each, then in zip(names, before, strict=True))
    assert answer.status_code == 200, answer.text
    said = answer.json()
    tokens = said["usage"]["completion_tokens"]
    assert tokens - forced >= 64, "they sample tokens"
    assert written - tokens >= (tokens - forced) / 64 - 2
    assert beside.until("stream", "error")["event"] == "stream"
    beside.close()
    wait_for(lambda: storyteller.metric("requests_processing") == 0, "who leaves ends the branches")


# A token that begins a snowman is forbidden, and the grammar has one behind an a: that way leads nowhere.
DEAD_END = {"prompt": "Once", "logit_bias": [["☃", False]], "grammar": 'root ::= "a☃"'}
ONE_WAY_OUT = DEAD_END | {"grammar": 'root ::= "a☃" | "b"', "temperature": 1e6, "n": 8, "seed": 1}


def test_row_11_a_branch_whose_grammar_allows_no_token_fails_alone(storyteller: Server) -> None:
    beside = Stream(storyteller, ENDLESS | {"max_tokens": 1000})
    beside.until("stream")
    events = Stream(storyteller, ONE_WAY_OUT).rest()
    stops = {event["index"]: event["reason"] for event in events if event["event"] == "stop"}
    errors = {event["index"]: event["code"] for event in events if event["event"] == "error"}
    assert sorted(stops) == list(range(8))
    assert set(stops.values()) == {"error", "eos"}
    assert errors == {index: "grammar_dead_end" for index, reason in stops.items() if reason == "error"}
    assert events[-1]["event"] == "done"

    completions = storyteller.post("/v1/srb/completions", ONE_WAY_OUT | {"stream": False}).json()["completions"]
    for each in completions:
        failed = each["text"] == "a"
        assert (each["reason"], failed) in (("error", True), ("eos", False))
        assert ("error" in each) == failed
    reasons = [event["reason"] for event in beside.rest() if event["event"] == "stop"]
    assert reasons == ["limit"] * 3, "the stream beside goes on to its end"


@pytest.mark.parametrize("path", [path for path in ROUTES if path != "/stream"])
def test_row_11_an_answer_is_400_if_the_grammar_allows_no_branch_a_token(storyteller: Server, path: str) -> None:
    answer = storyteller.post(path, ROUTES[path] | DEAD_END | {"stream": False, "max_tokens": 9, "n_predict": 9})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "allow no" in answer.json()["error"]["message"]


CHUNKED = b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("head", "status"), [(b"POST /tokenize", 400), (b"GET /livez", 200), (b"POST /nowhere", 404)])
def test_row_04_chunks_of_a_byte_are_refused_and_end_the_connection(strict: Server, head: bytes, status: int) -> None:
    """Also those of a body that nobody reads, and there is one answer alone."""
    with socket.create_connection(("127.0.0.1", strict.port), DEADLINE) as client:
        with suppress(ConnectionError):
            client.sendall(head + b" HTTP/1.1\r\n" + CHUNKED + b"1\r\nx\r\n" * 100_000)
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == status
        answer.read()
        with suppress(ConnectionError):
            assert client.recv(1) == b""
    assert "Traceback" not in strict.logs
