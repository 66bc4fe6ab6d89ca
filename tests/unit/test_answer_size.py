"""Answers that are large: what may wait for a reader, what may be gathered, and how the engine's frames are cut."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

import gevent
import orjson
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.errors import AnswerTooLarge, SlowClient
from srb.process import connection
from srb.web.app import create_app
from srb.web.calls.answer_size import ENTRY_BYTES
from srb.web.calls.calls import Calls
from srb.web.calls.outcome import gather
from srb.wire.codec import decode, encode_frames
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, PromptDone, PromptLogprobs, Rejected, Reply
from srb.wire.framing import FrameSocket
from tests.processes import DEADLINE
from tests.scripted import ScriptedClient, count_to_three

MIB = 2**20


def entry(n_top: int) -> dict[str, Any]:
    one = {"id": 1, "token": " a", "bytes": [32, 97], "logprob": -1.5}
    return one | {"top_logprobs": [one] * n_top}


def heavy(n_top: int, steps: int, steps_a_frame: int = 2) -> Any:
    """An engine that sends `steps` tokens of each branch, each with `n_top` likely ones, some steps in a frame."""

    def script(command: Generate) -> Iterable[list[Event]]:
        request_id, n = command.request_id, len(command.branches)
        yield [Accepted(request_id, 5)]
        for _ in range(steps // steps_a_frame):
            yield [Delta(request_id, index, " a", [1], [entry(n_top)]) for index in range(n)] * steps_a_frame
        yield [
            *(BranchEnded(request_id, index, "limit", steps, logprob=-1.5) for index in range(n)),
            Done(request_id, 5, 0, n * steps, 1.0, 1.0),
        ]

    return script


def command(n: int, n_probs: int, **options: Any) -> Generate:
    spec = BranchSpec(1, sampling=SamplingParams(n_probs=n_probs))
    return Generate("r1", ("Once",), (spec,) * n, **options)


def post(client: ScriptedClient, path: str = "/v1/completions", **body: Any) -> Any:
    return create_app(Settings(), client).test_client().post(path, data=orjson.dumps(body))


# What waits for a reader ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_row_41_a_client_that_reads_gets_256_logprobs_of_64_branches(stream: bool) -> None:
    client = ScriptedClient(Settings(), heavy(256, steps=4))
    answer = post(client, model="m", prompt="Once", n=64, max_tokens=4, logprobs=256, stream=stream)
    assert answer.status_code == 200, answer.text
    assert client.cancelled == []
    if stream:
        chunks = [orjson.loads(line[6:]) for line in answer.data.splitlines() if line.startswith(b"data: {")]
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        assert sum(len(choice["logprobs"]["content"]) for choice in choices if choice["logprobs"]) == 64 * 4
        assert sum(choice["finish_reason"] == "length" for choice in choices) == 64
    else:
        assert [len(choice["logprobs"]["content"][3]["top_logprobs"]) for choice in answer.json["choices"]] == [
            256
        ] * 64


def test_a_large_frame_alone_makes_no_reader_slow_but_unread_bytes_at_the_next_one_do() -> None:
    client = ScriptedClient(Settings(max_body_bytes=2**19), lambda command: [[Accepted(command.request_id, 5)]])
    call = Calls(lambda: client, Settings()).open([command(1, -1)], {}, streamed=True)
    client.receive([Delta("r1", 0, "x" * MIB, [1])])
    call.mailbox.take()
    client.receive([Delta("r1", 0, "x" * MIB, [1])])
    assert client.cancelled == []
    client.receive([Delta("r1", 0, "y", [1])])
    assert client.cancelled == ["r1"]
    delta, failed = call.mailbox.take()
    assert delta.text == "x" * MIB
    assert failed.code == SlowClient.code


def test_some_tokens_of_each_branch_may_always_wait() -> None:
    client = ScriptedClient(Settings(max_body_bytes=2**19), lambda command: [[Accepted(command.request_id, 5)]])
    Calls(lambda: client, Settings()).open([command(8, 64)], {}, streamed=True)
    tokens = [Delta("r1", index, " a", [1], [entry(64)]) for index in range(8)]
    for _ in range(16):  # together some 4 MiB
        client.receive(tokens)
    assert client.cancelled == []
    client.receive(tokens)
    client.receive(tokens)
    assert client.cancelled == ["r1"]


def test_log_probabilities_of_a_prompt_weigh_too() -> None:
    client = ScriptedClient(Settings(max_body_bytes=2**19), lambda command: [[Accepted(command.request_id, 5)]])
    Calls(lambda: client, Settings()).open([command(1, 0, prompt_logprobs=True)], {}, streamed=True)
    for _ in range(2):
        client.receive([PromptLogprobs("r1", [entry(0)] * 200)])
    assert client.cancelled == ["r1"]


# What is gathered -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"model": "m", "max_tokens": 4096, "logprobs": 256}),
        ("/v1/srb/completions", {"stream": False, "max_tokens": 4096, "logprobs": 256}),
        ("/completion", {"n_predict": 4096, "n_probs": 256}),
    ],
)
def test_row_41_an_answer_beyond_the_limit_is_400_beforehand_and_the_stream_is_served(
    path: str, body: dict[str, Any]
) -> None:
    client = ScriptedClient(Settings(), count_to_three)
    answer = post(client, path, prompt="Once", n=64, **body)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "logprobs")
    for word in ("64 branches (n)", "max_tokens 4096", "257 log-probabilities", f"{256 * MIB} (8 × max_body_bytes)"):
        assert word in answer.json["error"]["message"]
    assert client.sent == []
    assert post(client, path, prompt="Once", n=64, **body | {"stream": True}).status_code == 200


def test_tokens_beyond_the_context_are_not_counted() -> None:
    client = ScriptedClient(Settings(), count_to_three)
    answer = post(client, model="m", prompt="Once", n=2, max_tokens=10**9, logprobs=5)
    assert answer.status_code == 200


def test_row_41_an_answer_without_a_limit_of_its_own_ends_at_the_servers_and_the_request_is_cancelled() -> None:
    settings = Settings(max_body_bytes=2**17)
    client = ScriptedClient(settings, heavy(256, steps=100))
    calls = Calls(lambda: client, settings)
    with pytest.raises(
        AnswerTooLarge, match=r"1048576 bytes \(8 × max_body_bytes\).*\(n\).*max_tokens.*logprobs"
    ) as raised:
        gather(calls.open([command(2, 256)], {}, streamed=False))
    assert raised.value.http_status == 400
    assert client.cancelled == ["r1"]
    assert len(calls) == 0
    gevent.sleep(0)  # the engine hears of it


@pytest.mark.parametrize("streamed", [False, True])
def test_a_long_prompts_log_probabilities_before_each_branch_are_400_before_the_first_byte(streamed: bool) -> None:
    settings = Settings(max_body_bytes=2**17)
    client = ScriptedClient(settings, lambda command: [[Accepted(command.request_id, 1000)]])
    calls = Calls(lambda: client, settings)
    with pytest.raises(AnswerTooLarge, match="8 × max_body_bytes is 1048576"):
        calls.open([command(8, 0, prompt_logprobs=True)], {}, streamed=streamed)
    assert client.cancelled == ["r1"]
    assert len(calls) == 0


def test_the_prompt_is_part_of_what_is_gathered() -> None:
    settings = Settings(max_body_bytes=2**17)

    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted("r1", 1500), PromptLogprobs("r1", [entry(0)] * 1500), PromptDone("r1", 0, 0, 1.0)]
        yield [Delta("r1", 0, " a", [1], [entry(0)])] * 600

    client = ScriptedClient(settings, script)
    assert 1500 * ENTRY_BYTES < MIB < 2100 * ENTRY_BYTES
    with pytest.raises(AnswerTooLarge):
        gather(Calls(lambda: client, settings).open([command(1, 0, prompt_logprobs=True)], {}, streamed=False))


# The engine's frames --------------------------------------------------------------------------------------------------


def test_a_backlog_is_cut_into_frames_and_arrives_whole_and_in_order() -> None:
    events = [Delta("r1", number % 8, "x" * (number % 100), [number]) for number in range(5000)]
    frames = list(encode_frames(events, 10_000, MIB))
    assert max(map(len, frames)) <= 10_000
    assert len(frames) < 100
    assert [event for frame in frames for event in decode(frame)] == events


def test_two_large_replies_are_two_frames() -> None:
    replies = [Reply(name, ["x" * 30_000]) for name in ("r1", "r2")]
    frames = list(encode_frames(replies, 10_000, 40_000))
    assert [decode(frame) for frame in frames] == [[reply] for reply in replies]


def test_a_reply_longer_than_a_frame_is_refused_and_what_comes_after_it_is_sent() -> None:
    done = Done("r2", 1, 0, 1, 1.0, 1.0)
    frames = list(encode_frames([Reply("r1", "x" * 2000), done], 500, 1000))
    rejected, last = [event for frame in frames for event in decode(frame)]
    assert isinstance(rejected, Rejected)
    assert isinstance(rejected.error, AnswerTooLarge)
    assert last == done


def test_log_probabilities_longer_than_a_frame_come_in_parts() -> None:
    probs = [entry(3) | {"id": number} for number in range(100)]
    frames = list(encode_frames([PromptLogprobs("r1", probs)], 5_000, 10_000))
    events = [event for frame in frames for event in decode(frame)]
    assert len(events) > 1
    assert max(map(len, frames)) <= 10_000
    assert [prob for event in events for prob in event.probs] == probs


def test_neither_two_large_replies_nor_a_backlog_close_the_engines_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_FRAME", 100_000)
    monkeypatch.setattr(connection, "_FRAME_BYTES", 10_000)
    ours, theirs = socket.socketpair()
    theirs.settimeout(DEADLINE)
    engines = connection.Connection(ours, lambda *_: None, lambda _: None)
    replies = [Reply(f"r{number}", "x" * 90_000) for number in range(3)]
    deltas = [Delta("r9", 0, f"{number} " * 10, [number]) for number in range(20_000)]
    engines.send([*replies, Reply("r8", "x" * 110_000), *deltas])
    engines.start()
    frames = FrameSocket(theirs, max_frame=100_000)
    received: list[Any] = []
    while len(received) < 4 + len(deltas):
        received += decode(frames.receive())
    assert received[:3] == replies
    assert received[3].code == AnswerTooLarge.code
    assert received[4:] == deltas
    engines.close()
    theirs.close()
