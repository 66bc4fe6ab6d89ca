"""What one client may ask for."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gevent
import pytest
from flask.testing import FlaskClient

from srb.config.api_keys import ApiKey
from srb.config.settings import Settings
from srb.errors import InvalidRequest, RateLimited
from srb.web import limits
from srb.web.app import create_app
from srb.web.limits import NO_KEY, OpenLimit, RateLimit, cap_max_tokens, give_back_calls
from srb.wire.commands import BranchSpec, Generate
from tests.logs import lines_of
from tests.processes import DEADLINE
from tests.scripted import ScriptedClient

SECOND = 10**9  # nanoseconds


def command(*limits: int) -> Generate:
    return Generate("r1", ("Once",), tuple(BranchSpec(seed, limit) for seed, limit in enumerate(limits)))


def limits_of(commands: list[Generate]) -> list[int]:
    return [branch.max_tokens for command in commands for branch in command.branches]


def test_all_branches_of_a_call_share_its_tokens() -> None:
    assert limits_of(cap_max_tokens([command(10, 20), command(30)], 60)) == [10, 20, 30]
    with pytest.raises(InvalidRequest, match="'max_tokens': the branches of a request may have 59 tokens together"):
        cap_max_tokens([command(10, 20), command(30)], 59)


def test_branches_without_a_limit_get_an_equal_share() -> None:
    assert limits_of(cap_max_tokens([command(-1, -1, -1)], 100)) == [33, 33, 33]
    assert limits_of(cap_max_tokens([command(-1, -1)], 0)) == [-1, -1]
    with pytest.raises(InvalidRequest):
        cap_max_tokens([command(-1, -1, -1)], 2)


def test_a_bucket_fills_again_and_says_when() -> None:
    now = 0
    limit = RateLimit(30, clock=lambda: now)
    for _ in range(30):
        limit.take("a")
    with pytest.raises(RateLimited) as caught:
        limit.take("a")
    assert caught.value.retry_after == 2
    limit.take("b")
    now = 2 * SECOND
    limit.take("a")
    with pytest.raises(RateLimited):
        limit.take("a")


@pytest.mark.parametrize("per_minute", [1, 7, 59, 1000])
def test_a_bucket_has_as_many_as_the_limit_says_and_not_one_more(per_minute: int) -> None:
    limit = RateLimit(per_minute, clock=lambda: SECOND)
    for _ in range(per_minute):
        limit.take("a")
    with pytest.raises(RateLimited):
        limit.take("a")


def test_any_number_of_addresses_takes_bounded_room(tmp_path: Path) -> None:
    limit = RateLimit(1, tmp_path, clock=lambda: 0)
    for number in range(20_001):
        limit.take(str(number))
    assert rows(tmp_path, "bucket") == 10_000
    with pytest.raises(RateLimited):
        limit.take("20000")


# Workers ----------------------------------------------------------------------------------------------------------------


def rows(folder: Path, table: str) -> int:
    [path] = folder.glob("*.sqlite")
    with closing(sqlite3.connect(path)) as database:
        count: int = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return count


def test_workers_of_one_folder_count_the_same_requests(tmp_path: Path) -> None:
    one, other = (RateLimit(2, tmp_path, clock=lambda: 0) for _ in range(2))
    one.take("a")
    other.take("a")
    for limit in (one, other):
        with pytest.raises(RateLimited) as caught:
            limit.take("a")
        assert caught.value.retry_after == 30
    other.take("b")


def test_workers_of_one_folder_count_the_same_open_requests(tmp_path: Path) -> None:
    one, other = OpenLimit(2, tmp_path), OpenLimit(2, tmp_path)
    call = one.take("a")
    assert call is not None
    other.take("a")
    for limit in (one, other):
        with pytest.raises(RateLimited):
            limit.take("a")
    other.take("b")
    one.give_back(call)
    one.give_back(call)
    other.take("a")
    with pytest.raises(RateLimited):
        one.take("a")


def test_a_key_has_the_smaller_one_of_its_own_number_and_the_servers(tmp_path: Path) -> None:
    mine, theirs = ApiKey("a", max_requests=1), ApiKey("b", max_requests=5)
    limit = OpenLimit(2, tmp_path)
    assert [limit.of(key) for key in (mine, theirs, NO_KEY)] == [1, 2, 2]
    limit.take("a", mine)
    with pytest.raises(RateLimited, match="More than 1 requests"):
        limit.take("a", mine)
    unlimited = OpenLimit(0)
    assert unlimited.of(mine) == 1
    assert unlimited.take("c") is None
    call = unlimited.take("a", mine)
    with pytest.raises(RateLimited):
        unlimited.take("a", mine)
    assert call is not None
    unlimited.give_back(call)
    unlimited.take("a", mine)


def test_a_dead_workers_open_requests_are_given_back_and_others_stay(tmp_path: Path) -> None:
    give_back_calls(tmp_path, [])  # nobody has counted anything
    assert not list(tmp_path.iterdir())
    limit = OpenLimit(1, tmp_path)
    limit.take("a")
    give_back_calls(tmp_path, [1, os.getpid()])
    with pytest.raises(RateLimited):
        limit.take("a")
    give_back_calls(tmp_path, [1])
    limit.take("a")


def test_no_file_names_a_client(tmp_path: Path) -> None:
    RateLimit(2, tmp_path).take("203.0.113.7")
    OpenLimit(2, tmp_path).take("203.0.113.7")
    files = list(tmp_path.iterdir())
    assert files
    assert not any(b"203.0.113.7" in path.read_bytes() for path in files)
    assert not any(path.suffix == ".db" for path in files), "prometheus-client would read them"


def test_without_limits_there_is_no_file_and_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", None)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert http().post("/v1/completions", json={"prompt": "x", "stream": False}).status_code == 200
    assert not list(tmp_path.glob("*.sqlite*"))


def test_a_request_that_cannot_be_counted_passes_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "later"
    limit = RateLimit(1, folder)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            limit.take("a")
    [line] = lines_of("srb.web", caplog)
    assert line.endswith("suspended, since requests cannot be counted: unable to open database file")
    assert OpenLimit(1, folder).take("a") is None
    folder.mkdir()
    limit.take("a")
    with pytest.raises(RateLimited):
        limit.take("a")


def test_a_request_that_could_not_be_given_back_is_given_back_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_LOCK_TIMEOUT", 0)
    limit = OpenLimit(1, tmp_path)
    call = limit.take("a")
    assert call is not None
    with closing(sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        limit.give_back(call)
        other.execute("ROLLBACK")
    limit.take("a")
    assert rows(tmp_path, "call") == 1


@pytest.mark.parametrize("make", [partial(RateLimit, 5), partial(OpenLimit, 5)], ids=["rate", "open"])
def test_others_have_their_turns_while_another_worker_holds_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., RateLimit | OpenLimit]
) -> None:
    monkeypatch.setattr(limits, "_LOCK_TIMEOUT", DEADLINE)
    limit = make(tmp_path)
    limit.take("a")
    [path] = tmp_path.glob("*.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        waiting = [gevent.spawn(limit.take, "a") for _ in range(3)]
        for _ in range(50):
            gevent.sleep(0)  # a turn of somebody else
        assert not any(each.dead for each in waiting)
        other.execute("ROLLBACK")
        gevent.joinall(waiting, raise_error=True)


def test_calls_that_end_together_are_all_given_back(tmp_path: Path) -> None:
    limit = OpenLimit(20, tmp_path)
    calls = [limit.take("a") for _ in range(20)]
    gevent.joinall([gevent.spawn(limit.give_back, call) for call in calls], raise_error=True)
    assert rows(tmp_path, "call") == 0


# Over HTTP --------------------------------------------------------------------------------------------------------------


def http(**settings: Any) -> FlaskClient:
    chosen = Settings(**settings)
    return create_app(chosen, ScriptedClient(chosen)).test_client()


def test_a_client_that_asks_too_often_is_429_with_the_time_to_wait() -> None:
    client, began = http(rate_limit=2), time.monotonic()
    body = {"prompt": "x", "stream": False}
    statuses = [client.post("/v1/completions", json=body).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = client.post("/v1/embeddings", json={"input": "x"})
    passed = time.monotonic() - began
    assert refused.status_code == 429
    assert 30 - passed <= int(refused.headers["Retry-After"]) <= 30
    assert refused.json["error"]["type"] == "rate_limit_error"
    assert client.get("/health").status_code == 200


def test_each_key_has_a_rate_of_its_own() -> None:
    client = http(rate_limit=1, api_key="one,two")

    def ask(key: str) -> int:
        return client.post("/tokenize", json={"content": "x"}, headers={"X-Api-Key": key}).status_code

    assert [ask("one"), ask("one"), ask("two"), ask("two"), ask("three")] == [200, 429, 200, 429, 401]


def test_a_client_has_only_so_many_requests_open() -> None:
    client = http(max_client_requests=1)
    body = {"prompt": "x", "stream": True}
    with client.post("/v1/completions", json=body) as first:
        assert first.status_code == 200
        assert client.post("/v1/completions", json=body).status_code == 429
    with client.post("/v1/completions", json=body) as next_one:
        assert next_one.status_code == 200


def test_readers_of_running_requests_count_as_open() -> None:
    client = http(max_client_requests=1)
    with client.post("/v1/srb/completions", json={"prompt": "x"}) as first:
        assert first.status_code == 200
        assert client.get("/v1/srb/completions/abc/events").status_code == 429
    assert client.get("/v1/srb/completions/abc/events").status_code == 404
    assert client.get("/v1/srb/completions/abc/events").status_code == 404  # the refused one is not counted


def test_changes_of_branches_count_in_the_rate_as_posts_do() -> None:
    client = http(rate_limit=2)
    path = "/v1/srb/completions/abc/branches"
    sent = [client.post(path, json={}), client.patch(f"{path}/0", json={"max_tokens": 1}), client.patch(f"{path}/0")]
    assert [response.status_code == 429 for response in sent] == [False, False, True]


def test_more_tokens_than_a_request_may_have_are_400_naming_the_field() -> None:
    response = http(max_request_tokens=100).post("/v1/completions", json={"prompt": "x", "n": 4, "max_tokens": 26})
    assert response.status_code == 400
    assert response.json["error"]["param"] == "max_tokens"
