"""No body keeps its worker deaf: another client is answered while megabytes of any list field are read, on every route.

The other client is counted: how many of its answers a request costs, of those it would have had in the same computing time.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import gevent
import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import Application, create_app
from srb.web.bodies.encodings import MAX_ENTRIES, MAX_VALUES, refusal_of
from srb.web.openapi import describe
from srb.web.stories.origin_check import ROOT as STORIES
from srb.wire.commands import Tokenize
from tests import scripted
from tests.scripted import ScriptedClient, answer_simply

SIZE = 4 * 2**20 - 4096  # bytes
HALF = SIZE // 2  # for each of a hundred fields, where every route has a whole one: enough to lose thrice MOST_LOST
MOST_LOST = 10_000  # answers: what a body costs beside busy programs is less; one with `branches` cost 70,000
# answered 501 before a body is read
NOT_READ = ("/api/copy", "/api/create", "/api/delete", "/api/push", "/models/load", "/models/unload")
ENTRIES: list[Any] = [{}, "", [], [1], None, True, 1.5, {"": ""}, {"role": "user", "content": ""}]


def make_app() -> Application:
    """Return an application whose engine, which here is in the same process, has no work with a text."""
    settings = Settings(state_dir="/nowhere")
    engine = ScriptedClient(settings)
    engine.answers = lambda ask, values: [] if isinstance(ask, Tokenize) else answer_simply(ask, values)
    return create_app(settings, engine)


APP = make_app()
DOCUMENT = describe(APP)


class Victim:
    """A client that asks `/livez` again and again."""

    def __init__(self, http: FlaskClient) -> None:
        self.answers = 0
        self._http = http
        self._asking = gevent.spawn(self._ask)
        self.lost(lambda: self._wait(50))
        began = time.thread_time()
        self._wait(500)
        self._rate = 500 / (time.thread_time() - began)

    def _ask(self) -> None:
        while True:
            assert self._http.get("/livez").status_code == 200
            self.answers += 1
            gevent.sleep(0)

    def _wait(self, answers: int) -> None:
        until = self.answers + answers
        while self.answers < until:
            gevent.sleep(0)

    _rate = 0.0

    def lost(self, act: Callable[[], Any]) -> float:
        """Return how many answers `act` costs: those of its computing time, less those that were given in it."""
        before, began = self.answers, time.thread_time()
        act()
        return self._rate * (time.thread_time() - began) - (self.answers - before)

    def leave(self) -> None:
        self._asking.kill()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    victim = Victim(APP.test_client())
    yield victim
    victim.leave()


class Answer:
    """The answer to a body, once `ask` has asked for it."""

    def __init__(self, method: str, path: str, data: bytes) -> None:
        self._sent = {"path": path, "method": method, "data": data}

    def ask(self) -> None:
        response = APP.test_client().open(**self._sent)
        self.status, self.text = response.status_code, response.get_data(as_text=True)


@cache
def entries(one: bytes, size: int) -> bytes:
    """Return as many entries of a list as fit into a body of `size` bytes."""
    return b",".join([one] * (size // (len(one) + 1)))


@cache
def members() -> bytes:
    """Return as many members of an object."""
    return b",".join(b'"%d":0' % number for number in range(HALF // 11))


def filled(begin: str, entry: Any, end: str, size: int = SIZE) -> bytes:
    """Return a body of `size` bytes with as many entries as fit between its begin and its end."""
    return begin.encode() + entries(orjson.dumps(entry), size) + end.encode()


def keys(begin: str, end: str) -> bytes:
    return begin.encode() + members() + end.encode()


# The fields of all bodies, from the description of the interface --------------------------------------------------------


def lists(schema: dict[str, Any], begin: str, end: str, seen: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Return where a schema has arrays and objects of any size: their kind, and the JSON around them."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from lists(DOCUMENT["components"]["schemas"][name], begin, end, seen | {name})
        return
    kinds = schema.get("type", ())
    if "array" in kinds:
        yield "array", begin, end
        yield from lists(schema.get("items", {}), f"{begin}[", f"]{end}", seen)
    if "object" in kinds and not schema.get("properties"):
        yield "object", begin, end
    for name, inner in schema.get("properties", {}).items():
        yield from lists(inner, f'{begin}{{"{name}":', f"}}{end}", seen)
    for choice in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(choice, ()):
            yield from lists(inner, begin, end, seen)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return method, path and body's schema of every route that reads a body as other dialects do; stories do not."""
    for path, methods in DOCUMENT["paths"].items():
        for method, described in methods.items():
            if "requestBody" in described and not path.startswith(STORIES):
                schema = described["requestBody"]["content"]["application/json"]["schema"]
                yield method.upper(), re.sub(r"{\w+}", "1", path), schema


def every_field() -> list[Any]:
    """Return every list field, on one route that takes it, with one kind of entry after the other."""
    found: dict[tuple[str, str], Any] = {}
    for method, path, schema in operations():
        for kind, begin, end in lists(schema, "", "", frozenset()):
            entry = ENTRIES[len(found) % len(ENTRIES)]
            body = (f"{begin}{{", None, f"}}{end}") if kind == "object" else (f"{begin}[", entry, f"]{end}")
            found.setdefault((kind, begin), pytest.param(method, path, body, id=f"{path} {begin}{kind}"))
    return list(found.values())


def every_route() -> list[Any]:
    return [pytest.param(method, path, id=f"{method} {path}") for method, path, _ in operations()]


@pytest.mark.parametrize(("method", "path", "body"), every_field())
def test_no_list_field_takes_what_fills_a_body_nor_the_worker(
    method: str, path: str, body: tuple[str, Any, str], victim: Victim
) -> None:
    begin, _, end = body
    data = filled(*body, HALF) if begin.endswith("[") else keys(begin, end)
    answer = Answer(method, path, data)
    assert victim.lost(answer.ask) < MOST_LOST
    assert answer.status == 400
    field = re.match(r'{"(\w+)":', begin)
    assert f"Field '{field[1]}': has " in answer.text if field else "The body has " in answer.text


@pytest.mark.parametrize(("method", "path"), every_route())
def test_no_route_reads_a_body_in_another_way(method: str, path: str, victim: Victim) -> None:
    answer = Answer(method, path, filled('{"anything":[', [], "]}"))
    assert victim.lost(answer.ask) < MOST_LOST
    assert answer.status == (501 if path in NOT_READ else 400)


@pytest.mark.parametrize("entry", ENTRIES, ids=repr)
def test_branches_of_any_kind_are_refused_by_their_number(entry: Any, victim: Victim) -> None:
    answer = Answer("POST", "/v1/completions", filled('{"prompt":"x","branches":[', entry, "]}"))
    assert victim.lost(answer.ask) < MOST_LOST
    assert re.search(r"Field 'branches': has \d+ entries; at most \d+ are allowed", answer.text)


# What is taken, and takes long ----------------------------------------------------------------------------------------

MESSAGES = [{"role": "user", "content": "hi"}] * MAX_ENTRIES
PARTS = [{"role": "user", "content": [{"type": "text", "text": "hi"}] * 1000}] * 30
IDS = [7] * 2_000_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/chat/completions", {"messages": PARTS}),
        ("/v1/messages", {"messages": MESSAGES}),
        ("/v1/responses", {"input": MESSAGES}),
        ("/api/chat", {"model": "storyteller", "messages": MESSAGES, "stream": False}),
        ("/apply-template", {"messages": MESSAGES}),
        ("/v1/completions", {"prompt": IDS}),
        ("/v1/completions", {"prompt": ["once", *IDS]}),
        ("/tokenize", {"content": ["once", *IDS]}),
        ("/detokenize", {"tokens": IDS}),
        ("/v1/embeddings", {"input": IDS}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_others_are_answered_while_a_long_body_is_worked_on(path: str, body: dict[str, Any], victim: Victim) -> None:
    answer = Answer("POST", path, orjson.dumps(body))
    before = victim.answers
    assert victim.lost(answer.ask) < 2 * MOST_LOST
    assert victim.answers - before >= 10
    assert answer.status == 200, answer.text[:300]


def test_between_two_of_many_large_bodies_others_are_answered(victim: Victim) -> None:
    answers = [Answer("POST", "/v1/completions", filled('{"branches":[', [], "]}")) for _ in range(10)]
    gevent.sleep(0)
    asking = [gevent.spawn(answer.ask) for answer in answers]
    seen = []
    for each in asking:
        each.link(lambda _: seen.append(victim.answers))
    gevent.joinall(asking)
    assert [answer.status for answer in answers] == [400] * 10
    assert len(set(seen)) > 5


def test_a_conversation_of_an_agent_is_taken() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call] * 3},
        *[{"role": "tool", "tool_call_id": "a", "content": "x"}] * 3,
    ]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    body = {"messages": [{"role": "user", "content": "go"}, *turn * 1500], "tools": [tool] * 128}
    answer = Answer("POST", "/v1/chat/completions", orjson.dumps(body))
    answer.ask()
    assert answer.status == 200, answer.text[:300]


def test_lists_and_objects_have_so_many_entries_and_a_body_so_many_values() -> None:
    assert refusal_of({"a": [""] * MAX_ENTRIES}) is None
    assert refusal_of({"a": [1] * 10 * MAX_ENTRIES + [""] * MAX_ENTRIES}) is None
    assert refusal_of({"a": {str(key): 0 for key in range(MAX_ENTRIES)}}) is None
    for value in (
        [""] * (MAX_ENTRIES + 1),
        [[1.5] * (MAX_ENTRIES + 1)],
        {"b": {"c": [1] * MAX_ENTRIES + [None] * MAX_ENTRIES * 2}},
    ):
        assert str(refusal_of({"a": value})).startswith("Field 'a': has ")
    full = [[""] * 999] * (MAX_VALUES // 1000)
    assert refusal_of({"a": full}) is None
    assert str(refusal_of({"x": full, "y": [0]})).startswith("Field 'y': has too many values")
    assert str(refusal_of({str(key): 0 for key in range(MAX_ENTRIES + 1)})).startswith("The body has ")
    assert str(refusal_of([[]] * (MAX_ENTRIES + 1))).startswith("The body has ")


@pytest.mark.parametrize("data", [b"{}", b"{", b'{"a":[' + b"[]," * MAX_ENTRIES + b"[]]}"])
def test_the_garbage_collector_runs_after_every_body(data: bytes) -> None:
    Answer("POST", "/tokenize", data).ask()
    assert gc.isenabled()


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embedding", "/api/embed", "/api/embeddings", "/rerank"])
def test_what_the_model_cannot_do_is_said_before_a_body_is_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, embedding=False, reranking=False))
    settings = Settings()
    engine = ScriptedClient(settings)
    engine.start()
    with pytest.MonkeyPatch.context() as reading:
        reading.setattr("srb.web.bodies.completion.read_bytes", lambda request: pytest.fail("the body was read"))
        assert create_app(settings, engine).test_client().post(path, data=b"[]").status_code == 501
