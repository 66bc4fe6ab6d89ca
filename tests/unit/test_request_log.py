"""The one line of a generating call: its tokens, also where the call did not come to its end."""

from __future__ import annotations

from typing import Any

import gevent
import pytest

from srb.web import request_log
from srb.web.calls.mailbox import Mailbox
from srb.web.request_log import BEGAN, CallLine, log_response
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Accepted, Delta, Done, Event, Failed, PromptDone
from tests.logs import lines_of

CANCELLED = ("cancelled", "The client has left")


def line(caplog: pytest.LogCaptureFixture, *events: Event, ids: tuple[str, ...] = ("a",)) -> dict[str, Any]:
    """Return the fields that are logged of a call whose mailbox got these events."""
    commands = [Generate(request_id, ("Once",), (BranchSpec(1), BranchSpec(2))) for request_id in ids]
    mailbox = Mailbox(ids)
    for event in events:
        mailbox.put(event)
    caplog.clear()
    with caplog.at_level("INFO", "srb.web"):
        CallLine({"REQUEST_METHOD": "POST", "PATH_INFO": "/x"}, commands, prompts=False).write(mailbox)
    [record] = caplog.records
    fields: Any = record.args
    return {"message": record.getMessage(), **fields}


def tokens(fields: dict[str, Any]) -> tuple[int, ...]:
    names = ("prompt", "cached", "restored", "computed", "unfinished", "completion")
    return tuple(fields[f"{name}_tokens"] for name in names)


def test_a_call_that_came_to_its_end_has_the_engines_numbers(caplog: pytest.LogCaptureFixture) -> None:
    fields = line(
        caplog,
        Accepted("a", 10),
        PromptDone("a", 4, 1, 2.0, computed_tokens=6),
        Delta("a", 0, "x", [1]),
        Done("a", 10, 4, 7, 2.0, 500.0, 1, computed_tokens=6),
    )
    assert tokens(fields) == (10, 4, 1, 6, 0, 7)
    assert (fields["outcome"], fields["tokens_per_second"]) == ("done", 14.0)
    assert "unfinished" not in fields["message"]


def test_the_tokens_that_branches_read_behind_a_prompt_belong_to_it(caplog: pytest.LogCaptureFixture) -> None:
    done = Done("a", 50, 34, 7, 2.0, 500.0, 1, computed_tokens=16)
    fields = line(caplog, Accepted("a", 10), PromptDone("a", 4, 0, 2.0, computed_tokens=6), done)
    assert tokens(fields) == (50, 34, 1, 16, 0, 7)


def test_an_end_that_each_branch_computed_explains_a_sum_above_the_prompt(caplog: pytest.LogCaptureFixture) -> None:
    done = Done("a", 5, 0, 7, 2.0, 500.0, computed_tokens=12)
    fields = line(caplog, Accepted("a", 5), PromptDone("a", 0, 0, 2.0, computed_tokens=4), done)
    assert "prompt 5 (cached 0, restored 0, computed 12, its end once per branch), new 7 tokens" in fields["message"]


def test_a_cancelled_call_has_the_tokens_that_were_written_until_then(caplog: pytest.LogCaptureFixture) -> None:
    deltas = [Delta("a", index, "x y", [1, 2]) for index in (0, 1, 0)]
    told = PromptDone("a", 4, 1, 2.0, computed_tokens=6)
    fields = line(caplog, Accepted("a", 10), told, *deltas, Failed("a", *CANCELLED))
    assert tokens(fields) == (10, 4, 1, 6, 0, 6)
    assert fields["outcome"] == "cancelled"
    assert fields["tokens_per_second"] > 0
    assert "prompt 10 (cached 4, restored 1, computed 6), new 6 tokens" in fields["message"]


def test_tokens_that_waited_to_be_read_count_once(caplog: pytest.LogCaptureFixture) -> None:
    deltas = [Delta("a", 0, "x", [1]) for _ in range(1000)]  # more than may wait each by itself
    fields = line(caplog, Accepted("a", 10), PromptDone("a", 0, 0, 2.0), *deltas, Failed("a", *CANCELLED))
    assert fields["completion_tokens"] == 1000


def test_a_prompt_that_was_not_told_of_is_unfinished_and_not_computed(caplog: pytest.LogCaptureFixture) -> None:
    fields = line(caplog, Accepted("a", 40_000), Failed("a", *CANCELLED))
    assert tokens(fields) == (40_000, 0, 0, 0, 40_000, 0)
    assert "prompt 40000 (cached 0, restored 0, computed 0, unfinished 40000), new 0 tokens, 0/s" in fields["message"]


def test_each_request_of_a_call_counts_as_far_as_it_came(caplog: pytest.LogCaptureFixture) -> None:
    fields = line(
        caplog, Accepted("a", 10), Accepted("b", 20), Accepted("c", 30),
        PromptDone("a", 1, 0, 2.0), Delta("a", 0, "x", [1]), Done("a", 10, 1, 9, 2.0, 500.0, computed_tokens=9),
        PromptDone("b", 2, 0, 2.0, computed_tokens=18), Delta("b", 0, "x", [1, 2]),
        Failed("b", *CANCELLED), Failed("c", *CANCELLED),
        ids=("a", "b", "c"),
    )  # fmt: skip
    assert tokens(fields) == (60, 3, 0, 27, 30, 11)


def test_a_refused_call_has_none(caplog: pytest.LogCaptureFixture) -> None:
    fields = line(caplog)
    assert tokens(fields) == (0, 0, 0, 0, 0, 0)
    assert fields["outcome"] == "refused"


def test_requests_without_a_key_have_one_line_a_second(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(status: str) -> None:
        log_response({"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/models", BEGAN: 0.0}, status)

    def lines() -> list[str]:
        return lines_of("srb.web", caplog)

    seconds: list[Any] = []  # what is to be done at the end of each
    monkeypatch.setattr(request_log, "_refusals", request_log._Refusals())
    monkeypatch.setattr(gevent, "spawn_later", lambda _, act: seconds.append(act))
    with caplog.at_level("INFO", "srb.web"):
        for _ in range(5000):
            answer("401 UNAUTHORIZED")
        answer("404 NOT FOUND")
        assert [text.partition(": ")[2][:3] for text in lines()] == ["401", "404"]
        seconds.pop()()
        assert lines()[2:] == ["4999 more requests without a valid key: 401"]
        for _ in range(3):
            answer("401 UNAUTHORIZED")
        seconds.pop()()
        assert lines()[3:] == ["3 more requests without a valid key: 401"]
        seconds.pop()()
        assert not seconds
        answer("401 UNAUTHORIZED")
        assert len(lines()) == 5
