"""Readers that are attached again after a bridge's death: they get what they lack, once and in order, or an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gevent
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.errors import Cancelled, NotFound
from srb.web.calls import engine_client
from srb.web.calls.catching_up import Seen, can_catch_up
from srb.web.calls.engine_client import EngineClient
from srb.web.calls.mailbox import Mailbox
from srb.wire.commands import Attach, BranchSpec, Cancel, ContextShift, Explore, Generate
from srb.wire.events import (
    Accepted,
    Attached,
    BranchAdded,
    BranchEnded,
    Delta,
    Done,
    Failed,
    FinishReason,
    PromptDone,
    Rejected,
    Resting,
)
from tests.processes import DEADLINE
from tests.unit.test_client import Engine

COMMAND = Generate("r", ("Once",), (BranchSpec(1), BranchSpec(2)), owner="key 3", linger=60.0)
ENDED = BranchEnded("r", 1, FinishReason.LIMIT, 2)


def branch(index: int, text: str, tokens: list[int], **more: Any) -> dict[str, Any]:
    return {"index": index, "seed": index + 1, "state": "running", "length": len(tokens), "max_tokens": 9} | {
        "text": text,
        "tokens": tokens,
        **more,
    }


def described(*branches: dict[str, Any], state: str = "running") -> dict[str, Any]:
    return {"id": "r", "state": state, "age": 1.0, "prompt_tokens": 3, "linger": 60.0, "branches": list(branches)}


def lacking(value: dict[str, Any], *events: Any) -> list[Any]:
    """Return what a reader of COMMAND lacks that has had these events; that it then lacks nothing is checked."""
    seen = Seen.of(COMMAND)
    for event in events:
        seen.note(event)
    found = []
    for event in seen.lacking(value):
        found.append(event)
        seen.note(event)
    assert list(seen.lacking(value)) == []
    return found


@pytest.mark.parametrize(
    ("events", "value", "expected"),
    [
        ([], described(branch(0, "", []), branch(1, "", [])), []),
        ([Delta("r", 0, "ab", [1])], described(branch(0, "ab", [1]), branch(1, "", [])), []),
        (
            [Delta("r", 0, "ab", [1])],
            described(branch(0, "abcd", [1, 2]), branch(1, "x", [9])),
            [Delta("r", 0, "cd", [2]), Delta("r", 1, "x", [9])],
        ),
        (
            [Delta("r", 1, "x", [9])],
            described(branch(0, "", []), branch(1, "xy", [9, 8], ended=asdict(ENDED))),
            [Delta("r", 1, "y", [8]), ENDED],
        ),
        (
            [Delta("r", 1, "xy", [9, 8]), ENDED],
            described(branch(0, "", []), branch(1, "xy", [9, 8], ended=asdict(ENDED))),
            [],
        ),
        (
            [Delta("r", 1, "xy", [9, 8]), ENDED],
            described(branch(0, "", []), branch(1, "xyz", [9, 8, 7])),
            [BranchAdded("r", 1, 2, resumed=True), Delta("r", 1, "z", [7])],
        ),
        (
            [],
            described(
                branch(0, "", []), branch(1, "", []), branch(2, "abc", [1, 2], origin=0, token=1), branch(3, "q", [5])
            ),
            [
                BranchAdded("r", 2, 3, origin=0, token=1, text="abc"),
                Delta("r", 2, "", [2]),
                BranchAdded("r", 3, 4),
                Delta("r", 3, "q", [5]),
            ],
        ),
    ],
    ids=["nothing", "all", "text", "an end", "an end that is known", "resumed", "a fork and a new branch"],
)
def test_a_reader_gets_what_it_lacks_and_no_more(events: list[Any], value: dict[str, Any], expected: list[Any]) -> None:
    assert lacking(value, *events) == expected


def test_a_reader_hears_that_its_request_rests_with_the_times_that_it_knows() -> None:
    ends = [replace(ENDED, index=index, predicted_ms=7.0) for index in (0, 1)]
    value = described(*(branch(index, "xy", [9, 8], ended=asdict(ends[index])) for index in (0, 1)), state="resting")
    found = lacking(value, PromptDone("r", 2, 0, 5.0, computed_tokens=1), Delta("r", 0, "xy", [9, 8]), ends[0])
    rest = Resting("r", 60.0, 3, 2, 4, 5.0, 7.0, computed_tokens=1)
    assert found == [Delta("r", 1, "xy", [9, 8]), ends[1], rest]
    assert lacking(value, Delta("r", 0, "xy", [9, 8]), Delta("r", 1, "xy", [9, 8]), *ends, rest) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"linger": 0.0},
        {"branches": (BranchSpec(1, sampling=SamplingParams(n_probs=0)),)},
        {"prompt_logprobs": True},
        {"shift": ContextShift()},
        {"explore": Explore()},
    ],
)
def test_a_reader_that_could_lack_something_for_ever_is_not_attached_again(changed: dict[str, Any]) -> None:
    assert can_catch_up(COMMAND)
    assert not can_catch_up(replace(COMMAND, **changed))


class Bridge:
    """An engine in whose place a bridge is, and a worker's client of it."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(runtime_dir=str(folder), replicas="doors.toml")
        self.value: dict[str, Any] | None = None  # of the request, None while its replica is not known
        self.engine = Engine(self.settings.socket_path, self._answer)
        self.client = EngineClient(self.settings)

    def _answer(self, engine: Engine, command: Any) -> None:
        if isinstance(command, Generate):
            engine.send(Accepted(command.request_id, 3))
        elif isinstance(command, Attach) and self.value is None:
            engine.send(Rejected(command.request_id, NotFound.code, "no request with this id is running", {}))
        elif isinstance(command, Attach):
            assert command.owner == "key 3"
            engine.send(Attached(command.request_id, command.target, self.value))

    def restart(self) -> None:
        self.engine.close()
        self.engine = Engine(self.settings.socket_path, self._answer)

    def asked(self, kind: type) -> list[Any]:
        return [command for command in self.engine.received if isinstance(command, kind)]

    def close(self) -> None:
        self.client.stop()
        self.engine.close()


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    made = Bridge(tmp_path)
    yield made
    made.close()


def until(condition: Callable[[], object]) -> None:
    with gevent.Timeout(DEADLINE):
        while not condition():
            gevent.sleep(0.005)


def read(mailbox: Mailbox, number: int) -> list[Any]:
    found: list[Any] = []
    until(lambda: len(found) >= number or found.extend(mailbox.take(0)))
    return found


def test_the_readers_of_a_request_that_lingers_are_attached_again_and_lack_nothing(bridge: Bridge) -> None:
    first = bridge.client.submit(COMMAND)
    bridge.value = described(branch(0, "", []), branch(1, "", []))
    second = bridge.client.attach("r", "key 3")
    bridge.engine.send(Delta("r", 0, "ab", [1]))
    assert read(first, 1) == read(second, 1) == [Delta("r", 0, "ab", [1])]
    bridge.value = None
    bridge.restart()
    until(lambda: len(bridge.asked(Attach)) > 1)  # its replica is not known yet
    bridge.value = described(branch(0, "abcd", [1, 2]), branch(1, "", []))
    until(lambda: first.unread and second.unread)
    bridge.engine.send(Delta("r", 0, "e", [3]), Done("r", 3, 0, 3, 1.0, 1.0))
    expected = [Delta("r", 0, "cd", [2]), Delta("r", 0, "e", [3]), Done("r", 3, 0, 3, 1.0, 1.0)]
    assert read(first, 3) == read(second, 3) == expected
    until(lambda: not bridge.client._attaching)
    assert bridge.asked(Cancel) == []
    assert (bridge.client._mailboxes, bridge.client._lost) == ({}, {})


def test_a_reader_that_cannot_be_attached_again_gets_an_end(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "_CATCH_UP_SECONDS", 0.3)
    mailbox = bridge.client.submit(COMMAND)
    other = bridge.client.submit(replace(COMMAND, request_id="other", linger=0.0))
    bridge.restart()
    [failed] = read(other, 1)
    assert (type(failed), failed.code) == (Failed, "engine_restarted")
    [failed] = read(mailbox, 1)
    assert (type(failed), failed.code) == (Failed, "engine_restarted")
    assert (bridge.client._mailboxes, bridge.client._lost) == ({}, {})


def test_a_reader_that_leaves_meanwhile_is_not_attached(bridge: Bridge) -> None:
    mailbox = bridge.client.submit(COMMAND)
    bridge.restart()
    until(lambda: bridge.client._lost)
    bridge.client.abandon("r", Cancelled("the client has left"), mailbox)
    until(lambda: not bridge.client._lost)
    assert [event.code for event in mailbox.take(0)] == [Cancelled.code]
    bridge.value = described(branch(0, "ab", [1]))
    assert bridge.client.submit(replace(COMMAND, request_id="next")).prompt_tokens == {"next": 3}
    assert mailbox.take(0.05) == []


def test_a_worker_that_stops_ends_the_readers_that_wait(bridge: Bridge) -> None:
    mailbox = bridge.client.submit(COMMAND)
    bridge.engine.close()
    until(lambda: bridge.client._lost)
    bridge.client.stop()
    assert [event.code for event in read(mailbox, 1)] == ["engine_restarted"]
    assert bridge.client._keeper is None
