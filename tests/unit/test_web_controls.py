"""The routes that control running requests, with a scripted engine: what they ask it, answer and refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import gevent
import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.errors import Conflict, NotFound
from srb.web.app import create_app
from srb.web.dialects.srb.answers import (
    Added,
    AttachedEvent,
    BranchDescription,
    RequestDescription,
    RequestList,
    SRBCompletion,
    SRBEvent,
    Stopped,
)
from srb.wire.commands import AddBranches, Attach, ChangeBranch, Generate, GetRequest, ListRequests, StopBranches
from srb.wire.events import Accepted, Attached, BranchAdded, BranchEnded, Delta, Done, Resting
from tests.processes import DEADLINE
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read

BASE = "/v1/srb/completions"
ONE = f"{BASE}/abc"
ENDED = asdict(BranchEnded("abc", 1, "limit", 4, truncated=True, logprob=-0.5))
FAILED = asdict(BranchEnded("abc", 2, "error", 1, code="grammar_dead_end", message="no token fits"))
BRANCHES: list[dict[str, Any]] = [
    {"index": 0, "seed": 7, "state": "running", "length": 2, "max_tokens": 9, "text": "ab", "tokens": [1, 2]},
    {"index": 1, "seed": 8, "state": "ended", "length": 4, "max_tokens": 4, "text": "", "tokens": [], "ended": ENDED},
    {"index": 2, "seed": 9, "state": "ended", "length": 1, "max_tokens": -1, "text": "a", "tokens": [1], "origin": 0,
     "token": 1, "ended": FAILED},
]  # fmt: skip
REQUEST = {"id": "abc", "state": "running", "age": 1.23456, "prompt_tokens": 3, "linger": 5.0, "branches": BRANCHES}
BARE = {**REQUEST, "branches": [{k: v for k, v in b.items() if k not in ("text", "tokens")} for b in BRANCHES]}


def answer(command: Any, values: dict[str, float]) -> Any:
    match command:
        case ListRequests():
            return [BARE]
        case GetRequest(_, target):
            if target != "abc":
                raise NotFound("no request with this id is running")
            return REQUEST
        case StopBranches(_, target, _, None):
            return {"id": target, "state": "ended"}
        case StopBranches():
            return BARE["branches"][1]
        case ChangeBranch():
            return BARE["branches"][0]
        case AddBranches(_, _, branches):
            return {"indices": list(range(3, 3 + len(branches))), "seeds": [10] * len(branches)}
    raise AssertionError(command)


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    loaded = Settings(**settings)
    engine = ScriptedClient(loaded, script)
    engine.answers = answer
    return create_app(loaded, engine).test_client(), engine


@pytest.fixture
def served() -> tuple[FlaskClient, ScriptedClient]:
    return serve()


def send(http: FlaskClient, method: str, path: str, body: Any = None, **options: Any) -> Any:
    return http.open(path, method=method, data=None if body is None else orjson.dumps(body), **options)


def shaped(kind: Any, value: Any) -> Any:
    """Return a value that has exactly the shape of an answer type."""
    read(kind, orjson.dumps(value))
    return value


# What is asked and answered ---------------------------------------------------------------------------------------------


def test_a_list_has_the_callers_requests_without_texts(served: tuple[FlaskClient, ScriptedClient]) -> None:
    http, engine = served
    said = shaped(RequestList, send(http, "GET", BASE).json)
    assert isinstance(engine.sent[0], ListRequests)
    assert said["completions"][0]["age"] == 1.235
    assert "text" not in said["completions"][0]["branches"][0]


def test_a_description_has_each_branch_with_its_end(served: tuple[FlaskClient, ScriptedClient]) -> None:
    http, engine = served
    said = shaped(RequestDescription, send(http, "GET", ONE).json)
    assert engine.sent[0].target == "abc"
    assert said["branches"] == [
        {"index": 0, "seed": 7, "state": "running", "length": 2, "max_tokens": 9, "text": "ab", "tokens": [1, 2]},
        {"index": 1, "seed": 8, "state": "ended", "length": 4, "max_tokens": 4, "text": "", "tokens": [], "stop": 0,
         "reason": "limit", "stopping_word": "", "truncated": True, "logprob": -0.5},
        {"index": 2, "seed": 9, "state": "ended", "length": 1, "max_tokens": -1, "text": "a", "tokens": [1],
         "from": {"branch": 0, "token": 1}, "stop": 0, "reason": "error", "stopping_word": "",
         "error": {"code": "grammar_dead_end", "message": "no token fits"}},
    ]  # fmt: skip


def test_a_stop_names_the_request_or_one_branch(served: tuple[FlaskClient, ScriptedClient]) -> None:
    http, engine = served
    assert shaped(Stopped, send(http, "DELETE", ONE).json) == {"id": "abc", "state": "ended"}
    assert shaped(BranchDescription, send(http, "DELETE", f"{ONE}/branches/1").json)["reason"] == "limit"
    assert [(command.target, command.index) for command in engine.sent] == [("abc", None), ("abc", 1)]


def test_added_branches_carry_only_what_differs(served: tuple[FlaskClient, ScriptedClient]) -> None:
    http, engine = served
    body = {"count": 2, "max_tokens": 5, "temperature": 1.5, "stop": ["x"], "append": [3, "y"], "from": {"branch": 1}}
    assert shaped(Added, send(http, "POST", f"{ONE}/branches", body).json) == {"indices": [3, 4], "seeds": [10, 10]}
    entry = (None, (3, "y"), (("max_tokens", 5), ("stop", ("x",))), (("temperature", 1.5),))
    command = engine.sent[0]
    assert (command.branches, command.origin, command.token, command.character) == ((entry, entry), 1, None, None)
    send(http, "POST", f"{ONE}/branches", {"branches": [{"seed": 4}, {}], "from": {"branch": 0, "character": 12}})
    command = engine.sent[1]
    assert command.branches == ((4, (), (), ()), (None, (), (), ()))
    assert (command.origin, command.token, command.character) == (0, None, 12)


def test_the_servers_limits_go_along_with_additions_and_changes() -> None:
    http, engine = serve(n=1, max_n=5, max_request_tokens=1000)
    send(http, "POST", f"{ONE}/branches", {})
    send(http, "PATCH", f"{ONE}/branches/0", {"max_tokens": 3})
    assert [(command.max_running, command.max_tokens) for command in engine.sent] == [(5, 1000)] * 2


def test_a_change_carries_the_tokens_and_the_new_ends(served: tuple[FlaskClient, ScriptedClient]) -> None:
    http, engine = served
    body = {"max_tokens": 3, "stop": "x", "stop_at": "line", "stop_after": 2}
    assert shaped(BranchDescription, send(http, "PATCH", f"{ONE}/branches/4", body).json)["index"] == 0
    send(http, "PATCH", f"{ONE}/branches/4", {"stop": []})
    first, second = engine.sent
    assert (first.target, first.index, first.more) == ("abc", 4, 3)
    assert first.changes == (("stop", ("x",)), ("stop_at", "line"), ("stop_after", 2))
    assert (second.more, second.changes) == (0, (("stop", ()),))


# What is refused --------------------------------------------------------------------------------------------------------


WRONG_ADDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"conut": 2}, "conut"),
    ({"count": 0}, "count"), ({"count": 65}, "count"), ({"count": True}, "count"), ({"count": "2"}, "count"),
    ({"count": 2, "seed": 3}, "seed"), ({"count": 2, "branches": [{}]}, "count"),
    ({"branches": []}, "branches"), ({"branches": [{}] * 65}, "branches"), ({"branches": {}}, "branches"),
    ({"branches": [{"seed": "x"}]}, "branches[0].seed"), ({"branches": [{}, {"conut": 1}]}, "branches[1].conut"),
    ({"branches": [{"from": {"branch": 0}}]}, "branches[0].from"),
    ({"branches": [{}], "max_tokens": 4}, "max_tokens"), ({"branches": [{}], "n_predict": 4}, "n_predict"),
    ({"from": 3}, "from"), ({"from": {}}, "from"), ({"from": {"branch": -1}}, "from"), ({"from": {"branch": "0"}}, "from"),
    ({"from": {"branch": 0, "tokn": 1}}, "from"), ({"from": {"branch": 0, "token": 1, "character": 1}}, "from"),
    ({"from": {"branch": 0, "token": 2**31}}, "from"), ({"from": {"branch": 0, "character": 1.5}}, "from"),
    ({"temperature": "hot"}, "temperature"), ({"stop": 5}, "stop"), ({"append": {}}, "append"),
    ({"post_sampling_probs": True}, "post_sampling_probs"), ({"prompt": "x"}, "prompt"), ({"linger": 5}, "linger"),
]  # fmt: skip
WRONG_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({}, "max_tokens"), ({"max_tokens": None}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"), ({"max_tokens": 1.5}, "max_tokens"), ({"max_tokens": 2**31}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"), ({"temperature": 1}, "temperature"), ({"seed": 1}, "seed"), ({"stop": 5}, "stop"),
    ({"stop_at": "page"}, "stop_at"), ({"stop_after": 0}, "stop_after"),
    ({"stop_after": 1001, "stop_at": "line"}, "stop_after"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        *(("POST", "/branches", *each) for each in WRONG_ADDITIONS),
        *(("PATCH", "/branches/0", *each) for each in WRONG_CHANGES),
    ],
)
def test_a_wrong_addition_or_change_is_400_and_names_the_field_as_it_was_sent(
    served: tuple[FlaskClient, ScriptedClient], method: str, path: str, body: dict[str, Any], field: str
) -> None:
    http, engine = served
    response = send(http, method, ONE + path, body)
    assert (response.status_code, response.json["error"]["param"]) == (400, field)
    assert engine.sent == []


@pytest.mark.parametrize(("method", "path", "body"), [
    ("GET", "", None), ("GET", "/events", None), ("DELETE", "", None), ("DELETE", "/branches/0", None),
    ("POST", "/branches", {}), ("PATCH", "/branches/0", {"max_tokens": 3}),
])  # fmt: skip
def test_the_engines_refusals_keep_their_status(method: str, path: str, body: Any) -> None:
    http, engine = serve()

    def refuse(error: Exception) -> Callable[..., Any]:
        def raise_it(*_: Any) -> Any:
            raise error

        return raise_it

    engine.answers = refuse(NotFound("no request with this id is running"))
    response = send(http, method, ONE + path, body)
    assert response.status_code == 404
    assert response.json["error"]["type"] == "not_found_error"
    engine.answers = refuse(Conflict("branch 0 has ended", state="ended"))
    response = send(http, method, ONE + path, body)
    assert response.status_code == 409
    assert response.json["error"]["state"] == "ended"


@pytest.mark.parametrize("index", ["-1", "x", "1.5", str(2**31), str(10**30)])
@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
def test_an_index_that_no_branch_has_is_404(method: str, index: str) -> None:
    http, engine = serve()
    assert send(http, method, f"{ONE}/branches/{index}", {"max_tokens": 3}).status_code == 404
    assert engine.sent == []


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", ONE), ("POST", ONE), ("GET", f"{ONE}/branches"), ("POST", f"{ONE}/events")]
)
def test_another_method_is_405(served: tuple[FlaskClient, ScriptedClient], method: str, path: str) -> None:
    assert send(served[0], method, path, {}).status_code == 405


@pytest.mark.parametrize(("method", "path", "body"), [
    ("GET", BASE, None), ("GET", ONE, None), ("GET", f"{ONE}/events", None), ("DELETE", ONE, None),
    ("DELETE", f"{ONE}/branches/0", None), ("POST", f"{ONE}/branches", {}),
    ("PATCH", f"{ONE}/branches/0", {"max_tokens": 3}),
])  # fmt: skip
def test_with_keys_each_command_says_whose_it_is_and_without_a_key_it_is_401(method: str, path: str, body: Any) -> None:
    http, engine = serve(api_key="one, two")
    assert send(http, method, path, body).status_code == 401
    engine.answers = lambda *_: (_ for _ in ()).throw(NotFound("no"))
    for key in ("one", "two"):
        send(http, method, path, body, headers={"Authorization": f"Bearer {key}"})
    owners = [command.owner for command in engine.sent]
    assert len(set(owners)) == 2
    assert all(owner.startswith("key ") for owner in owners)
    send(http, "POST", BASE, {"prompt": "x"}, headers={"Authorization": "Bearer one"})
    assert engine.sent[-1].owner == owners[0]


def test_without_keys_who_knows_the_id_may_control_and_each_address_lists_its_own() -> None:
    http, engine = serve()
    for address in ("10.0.0.1", "10.0.0.2"):
        send(http, "GET", BASE, environ_overrides={"REMOTE_ADDR": address})
        send(http, "DELETE", ONE, environ_overrides={"REMOTE_ADDR": address})
    lists = [command.owner for command in engine.sent if isinstance(command, ListRequests)]
    assert len(set(lists)) == 2
    assert {command.owner for command in engine.sent if isinstance(command, StopBranches)} == {""}


# Streams ----------------------------------------------------------------------------------------------------------------


def events(text: str) -> list[dict[str, Any]]:
    return [orjson.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line.startswith("data: ")]


def attach_to(*later: Any, query: str = "") -> list[dict[str, Any]]:
    """Return what a reader gets that attaches, when these events come."""
    http, engine = serve()
    real = engine.receive

    def receive(replies: list[Any]) -> None:
        command = engine.sent[-1]
        if isinstance(command, Attach):
            real([Attached(command.request_id, "abc", REQUEST), *later])
        else:
            real(replies)

    engine.answers = lambda *_: None
    engine.receive = receive  # type: ignore[method-assign]
    with gevent.Timeout(DEADLINE), send(http, "GET", f"{ONE}/events{query}") as response:
        return events(response.text)


LATER = (
    Delta("abc", 0, "c", [3]),
    BranchEnded("abc", 0, "limit", 3),
    Resting.of(Done("abc", 3, 0, 7, 1.0, 1.0), 5.0),
    BranchAdded("abc", 3, 10, origin=0, token=2, text="ab"),
    Delta("abc", 3, "z", [9]),
    BranchEnded("abc", 3, "eos", 1),
    BranchAdded("abc", 0, 7, resumed=True),
    BranchAdded("abc", 4, 11),
    Delta("abc", 4, "new", [5]),
    BranchEnded("abc", 4, "error", 1, code="grammar_dead_end", message="no"),
    Done("abc", 3, 0, 9, 1.0, 1.0),
)


def test_a_reader_that_attaches_gets_a_snapshot_and_then_what_comes() -> None:
    snapshot, *later = attach_to(*LATER)
    for event in (snapshot, *later):
        shaped(AttachedEvent, event)
    assert (snapshot["event"], snapshot["id"]) == ("snapshot", "abc")
    assert [branch["text"] for branch in snapshot["branches"]] == ["ab", "", "a"]
    assert not any("tokens" in branch for branch in snapshot["branches"])
    assert [event["event"] for event in later] == [
        "stream", "stop", "rest", "branch", "stream", "stop", "branch", "branch", "stream", "error", "stop", "done",
    ]  # fmt: skip
    assert later[3] == {"event": "branch", "index": 3, "seed": 10, "from": {"branch": 0, "token": 2}, "text": "ab"}
    assert later[6] == {"event": "branch", "index": 0, "seed": 7, "resumed": True}
    assert later[7] == {"event": "branch", "index": 4, "seed": 11}
    assert later[-1]["count"] == 5


def test_a_reader_is_one_line_of_the_log_with_what_it_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "srb.web"):
        attach_to(*LATER, query="?return_tokens=1")
    [record] = [record for record in caplog.records if record.name == "srb.web"]
    fields: Any = record.args
    assert (record.levelname, fields["id"], fields["outcome"]) == ("INFO", "abc", "done")
    assert (fields["branches"], fields["read_tokens"]) == (3, 3)
    assert record.getMessage().startswith(f"GET {ONE}/events 127.0.0.1 abc: done, 3 branches, read 3 tokens, ")


def test_a_reader_that_is_refused_is_one_line_with_its_status(caplog: pytest.LogCaptureFixture) -> None:
    http, engine = serve()
    engine.answers = lambda *_: (_ for _ in ()).throw(NotFound("no request with this id is running"))
    with caplog.at_level("DEBUG", "srb.web"):
        assert send(http, "GET", f"{BASE}/unknown/events").status_code == 404
    [record] = [record for record in caplog.records if record.name == "srb.web"]
    assert f"{BASE}/unknown/events" in record.getMessage()
    assert ": 404, " in record.getMessage()


def test_with_return_tokens_snapshot_and_events_have_them() -> None:
    snapshot, first, *_ = attach_to(*LATER, query="?return_tokens=1")
    assert [branch["tokens"] for branch in snapshot["branches"]] == [[1, 2], [], [1]]
    assert first == {"event": "stream", "index": 0, "text": "c", "tokens": [3]}


def test_the_first_readers_stream_goes_on_through_rests() -> None:
    def script(command: Generate) -> Any:
        def own(event: Any) -> Any:
            return type(event)(*(command.request_id, *list(asdict(event).values())[1:]))

        yield [Accepted(command.request_id, 3)]
        yield [own(event) for event in LATER]

    http, _ = serve(script)
    start, *later = events(send(http, "POST", BASE, {"prompt": "x", "n": 3, "linger": 5}).text)
    for event in (start, *later):
        shaped(SRBEvent, event)
    assert [event["event"] for event in later if event["event"] in ("rest", "branch", "done")] == [
        "rest", "branch", "branch", "branch", "done",
    ]  # fmt: skip
    assert later[-1]["count"] == 5


@pytest.mark.parametrize(("path", "body"), [
    ("/v1/completions", {"prompt": "x", "stream": True, "model": "m"}), ("/completion", {"prompt": "x", "stream": True}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": True}),
])  # fmt: skip
def test_streams_of_other_dialects_end_when_the_rest_begins(path: str, body: dict[str, Any]) -> None:
    def script(command: Generate) -> Any:
        request_id = command.request_id
        yield [Accepted(request_id, 3)]
        yield [Delta(request_id, 0, "a", [1]), BranchEnded(request_id, 0, "eos", 1)]
        yield [Resting.of(Done(request_id, 3, 0, 1, 1.0, 1.0), 5.0)]

    http, engine = serve(script)
    with gevent.Timeout(DEADLINE):
        response = send(http, "POST", path, body | {"linger": 5})
        assert response.status_code == 200
        assert response.text
    assert engine.sent[0].linger == 5
    assert engine.cancelled == [engine.sent[0].request_id]  # it has left, and the request lingers


def test_an_answer_that_is_not_streamed_comes_when_the_rest_begins() -> None:
    def script(command: Generate) -> Any:
        request_id = command.request_id
        yield [Accepted(request_id, 3)]
        yield [Delta(request_id, 0, "a", [1]), BranchEnded(request_id, 0, "eos", 1)]
        yield [Resting.of(Done(request_id, 3, 0, 1, 1.0, 1.0), 5.0)]

    http, engine = serve(script)
    with gevent.Timeout(DEADLINE):
        said = send(http, "POST", BASE, {"prompt": "x", "n": 1, "linger": 5, "stream": False}).json
    shaped(SRBCompletion, said)
    assert said["id"] == engine.sent[0].request_id


@pytest.mark.parametrize("linger", [-1, "x", 10**9, True])
def test_a_wrong_linger_is_400(served: tuple[FlaskClient, ScriptedClient], linger: Any) -> None:
    response = send(served[0], "POST", BASE, {"prompt": "x", "linger": linger})
    assert (response.status_code, response.json["error"]["param"]) == (400, "linger")


def test_linger_has_the_servers_limit() -> None:
    http, _ = serve(max_linger=0)
    response = send(http, "POST", BASE, {"prompt": "x", "linger": 1})
    assert (response.status_code, response.json["error"]["param"]) == (400, "linger")
    assert "max_linger" in response.json["error"]["message"]
