"""Readers that attach to running requests, in a worker: one request has several mailboxes, and each leaves alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gevent
import pytest

from srb.config.settings import Settings
from srb.errors import Cancelled, EngineRestarted, NotFound, Unavailable
from srb.web.calls import engine_client
from srb.web.calls.calls import Calls
from srb.web.calls.mailbox import Mailbox, coalesced
from srb.wire.commands import Attach, BranchSpec, Cancel, Generate
from srb.wire.events import Accepted, Attached, BranchAdded, BranchEnded, Delta, Done, Event, Failed, Rejected, Resting
from tests.processes import DEADLINE
from tests.scripted import ScriptedClient

COMMAND = Generate("r", ("Once",), (BranchSpec(1), BranchSpec(2)))
SNAPSHOT = {"id": "r", "state": "running", "age": 1.0, "prompt_tokens": 3, "linger": 0.0, "branches": []}
DONE = Done("r", 3, 0, 2, 1.0, 1.0)


def accept_only(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 3)]


class Client(ScriptedClient):
    """A client whose engine answers an Attach only when the test says so."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(Settings(**settings), accept_only)
        self.answers = lambda command, values: None

    def receive(self, events: list[Event]) -> None:
        """Leave out the scripted answers: the tests answer."""
        super().receive([event for event in events if type(event).__name__ != "Reply"])

    def asked(self) -> list[Attach]:
        return [command for command in self.sent if isinstance(command, Attach)]

    def begin(self, target: str = "r", owner: str = "") -> tuple[Any, Attach]:
        """Begin to attach; return the greenlet and the command that the engine got."""
        count = len(self.asked())
        greenlet = gevent.spawn(self.attach, target, owner)
        with gevent.Timeout(DEADLINE):
            while len(self.asked()) == count:
                gevent.sleep(0)
        return greenlet, self.asked()[-1]

    def attached(self, target: str = "r") -> Mailbox:
        greenlet, command = self.begin(target)
        self.receive([Attached(command.request_id, target, SNAPSHOT)])
        mailbox: Mailbox = greenlet.get(timeout=DEADLINE)
        return mailbox

    @property
    def left(self) -> list[str]:
        return [command.request_id for command in self.sent if isinstance(command, Cancel) and command.leaves]

    @property
    def is_clean(self) -> bool:
        return self._mailboxes == {} and not self._attaching


@pytest.fixture
def client() -> Client:
    return Client()


def words(mailbox: Mailbox) -> str:
    return "".join(event.text for event in mailbox.take(0) if isinstance(event, Delta))


def test_two_readers_in_one_worker_get_the_same_events_from_their_beginning_on(client: Client) -> None:
    first = client.submit(COMMAND)
    client.receive([Delta("r", 0, "a", [1])])
    second = client.attached()
    assert second.snapshot == SNAPSHOT
    client.receive([Delta("r", 0, "b", [2]), DONE])
    assert (words(first), words(second)) == ("ab", "b")
    assert first.ended == second.ended == [DONE]
    assert client.left == []
    assert client.is_clean


def test_the_owner_that_asks_is_told_to_the_engine(client: Client) -> None:
    greenlet, command = client.begin("r", "key 3")
    assert (command.target, command.owner) == ("r", "key 3")
    client.receive([Rejected(command.request_id, NotFound.code, "no", {})])
    with pytest.raises(NotFound):
        greenlet.get(timeout=DEADLINE)


def test_a_refused_reader_leaves_nothing_and_others_read_on(client: Client) -> None:
    first = client.submit(COMMAND)
    greenlet, command = client.begin()
    client.receive([Rejected(command.request_id, NotFound.code, "no request with this id is running", {})])
    with pytest.raises(NotFound, match="no request"):
        greenlet.get(timeout=DEADLINE)
    client.receive([Delta("r", 0, "a", [1]), DONE])
    assert words(first) == "a"
    assert client.left == []
    assert client.is_clean


def test_an_answer_that_comes_after_the_reader_gave_up_is_told_to_the_engine(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_client, "ASK_DEADLINE", 0.02)
    greenlet, command = client.begin()
    with pytest.raises(Unavailable):
        greenlet.get(timeout=DEADLINE)
    assert client.left == []  # the engine may not have attached it yet
    client.receive([Attached(command.request_id, "r", SNAPSHOT)])
    assert client.left == ["r"]
    assert client.is_clean


def test_a_late_answer_does_not_take_the_request_from_another_reader(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.submit(COMMAND)
    monkeypatch.setattr(engine_client, "ASK_DEADLINE", 0.02)
    greenlet, command = client.begin()
    with pytest.raises(Unavailable):
        greenlet.get(timeout=DEADLINE)
    client.receive([Attached(command.request_id, "r", SNAPSHOT)])
    client.receive([Delta("r", 0, "a", [1])])
    assert words(first) == "a"
    assert client.left == []


def test_while_one_attaches_the_last_other_reader_may_leave(client: Client) -> None:
    first = client.submit(COMMAND)
    greenlet, command = client.begin()
    client.abandon("r", Cancelled("left"), first)
    assert client.left == []  # else the engine would cancel what the other is about to read
    client.receive([Attached(command.request_id, "r", SNAPSHOT)])
    second = greenlet.get(timeout=DEADLINE)
    client.receive([Delta("r", 0, "b", [2])])
    assert words(second) == "b"
    client.abandon("r", Cancelled("left"), second)
    assert client.left == ["r"]
    assert client.is_clean


def test_if_the_one_that_attaches_is_refused_the_engine_learns_that_the_other_left(client: Client) -> None:
    first = client.submit(COMMAND)
    greenlet, command = client.begin()
    client.abandon("r", Cancelled("left"), first)
    client.receive([Rejected(command.request_id, NotFound.code, "no", {})])
    with pytest.raises(NotFound):
        greenlet.get(timeout=DEADLINE)
    assert client.left == ["r"]
    assert client.is_clean


def test_a_reader_that_is_killed_while_it_attaches_leaves_when_the_answer_comes(client: Client) -> None:
    greenlet, command = client.begin()
    greenlet.kill()
    assert not client._attaching
    client.receive([Attached(command.request_id, "r", SNAPSHOT)])
    assert client.left == ["r"]
    assert client.is_clean


def test_two_that_attach_at_once_are_both_attached_in_any_order(client: Client) -> None:
    (one, first), (two, second) = client.begin(), client.begin()
    client.receive([Attached(second.request_id, "r", SNAPSHOT), Delta("r", 0, "a", [1])])
    client.receive([Attached(first.request_id, "r", SNAPSHOT), Delta("r", 0, "b", [2])])
    mailboxes = one.get(timeout=DEADLINE), two.get(timeout=DEADLINE)
    assert [words(mailbox) for mailbox in mailboxes] == ["b", "ab"]
    client.abandon("r", Cancelled("left"))
    assert [type(mailbox.ended[0]) for mailbox in mailboxes] == [Failed, Failed]
    assert client.left == ["r"]
    assert client.is_clean


def test_each_reader_gets_one_error_when_the_engine_dies(client: Client) -> None:
    first, second = client.submit(COMMAND), client.attached()
    greenlet, _ = client.begin()
    client.lose_engine()
    with pytest.raises(EngineRestarted):
        greenlet.get(timeout=DEADLINE)
    for mailbox in (first, second):
        assert [event.code for event in mailbox.take(0)] == [EngineRestarted.code]
    assert client._mailboxes == {}


def test_a_slow_reader_loses_only_itself() -> None:
    client = Client(max_body_bytes=2**19)
    slow = client.attached()
    quick = client.attached()
    text = ""
    for _ in range(80):
        client.receive([Delta("r", 0, "x" * 1000, [1])])
        text += words(quick)
    assert [event.code for event in slow.ended if isinstance(event, Failed)] == ["slow_client"]
    assert len(text) == 80_000
    assert quick.ended == []
    assert client.left == []
    client.receive([DONE])
    assert quick.ended == [DONE]
    assert client.is_clean


def test_the_only_reader_that_is_too_slow_is_told_to_the_engine() -> None:
    client = Client(max_body_bytes=2**19)
    slow = client.attached()
    for _ in range(80):
        client.receive([Delta("r", 0, "x" * 1000, [1])])
    assert [event.code for event in slow.ended if isinstance(event, Failed)] == ["slow_client"]
    assert client.left == ["r"]


def test_a_reader_may_leave_a_rest_and_the_others_stay(client: Client) -> None:
    calls = Calls(lambda: client, Settings())
    call = calls.open([COMMAND], {}, streamed=True)
    request_id = call.request_ids[0]
    other = client.attached(request_id)
    call.leave_resting(Done(request_id, 3, 0, 2, 1.0, 1.0))
    assert call.mailbox.done
    assert client.left == []
    client.receive([BranchAdded(request_id, 2, 7), Delta(request_id, 2, "x", [1])])
    assert words(other) == "x"
    call.close()
    assert client.left == []
    client.leave(request_id, other)
    assert client.left == [request_id]


def test_a_rest_that_is_over_before_it_is_read_ends_a_call_once(client: Client) -> None:
    calls = Calls(lambda: client, Settings())
    call = calls.open([COMMAND], {}, streamed=False)
    done = Done(call.request_ids[0], 3, 0, 2, 1.0, 1.0)
    client.receive([Resting.of(done, 0.01), done])
    for event in call.mailbox.take():
        if isinstance(event, Resting):
            call.leave_resting(event.done)
    assert call.mailbox.ended == [done]
    assert call.mailbox.done
    call.close()
    assert client.is_clean


def test_a_call_that_ends_while_it_attaches_reads_nothing(client: Client) -> None:
    calls = Calls(lambda: client, Settings())
    greenlet = gevent.spawn(calls.attach, "r", {})
    with gevent.Timeout(DEADLINE):
        while not client.asked():
            gevent.sleep(0)
    [call] = calls._open
    call.lose_client()
    client.receive([Attached(client.asked()[0].request_id, "r", SNAPSHOT)])
    assert greenlet.get(timeout=DEADLINE) is call
    assert [event.code for event in call.mailbox.take(0)] == ["cancelled"]
    assert client.left == ["r"]
    call.close()
    assert len(calls) == 0


def test_what_a_branch_writes_after_its_end_stays_behind_it_when_unread_text_is_merged() -> None:
    end = BranchEnded("r", 0, "limit", 2)
    goes_on = BranchAdded("r", 0, 1, resumed=True)
    rest = Resting.of(DONE, 5.0)
    events: list[Event] = [
        Delta("r", 0, "a", [1]),
        Delta("r", 1, "x", [9]),
        Delta("r", 0, "b", [2]),
        end,
        rest,
        goes_on,
    ]
    events += [Delta("r", 0, "c", [3]), Delta("r", 1, "y", [8]), Delta("r", 0, "d", [4])]
    assert coalesced(events) == [
        Delta("r", 0, "ab", [1, 2]), Delta("r", 1, "xy", [9, 8]), end, rest, goes_on, Delta("r", 0, "cd", [3, 4]),
    ]  # fmt: skip
