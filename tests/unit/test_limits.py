"""What one client may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.errors import InvalidRequest, RateLimited
from srb.protocol import BranchSpec, Generate
from srb.settings import Settings
from srb.web.app import create_app
from srb.web.limits import RateLimit, within
from srb.web.scripted import ScriptedClient


def command(*limits: int) -> Generate:
    return Generate("r1", ("Once",), tuple(BranchSpec(seed, limit) for seed, limit in enumerate(limits)))


def limits_of(commands: list[Generate]) -> list[int]:
    return [branch.max_tokens for command in commands for branch in command.branches]


def test_all_branches_of_a_call_share_its_tokens() -> None:
    assert limits_of(within([command(10, 20), command(30)], 60)) == [10, 20, 30]
    with pytest.raises(InvalidRequest, match="'max_tokens': all branches of a request may have 59 tokens together"):
        within([command(10, 20), command(30)], 59)


def test_branches_without_a_limit_get_an_equal_share() -> None:
    assert limits_of(within([command(-1, -1, -1)], 100)) == [33, 33, 33]
    assert limits_of(within([command(-1, -1)], 0)) == [-1, -1]
    with pytest.raises(InvalidRequest):
        within([command(-1, -1, -1)], 2)


def test_a_bucket_fills_again_and_says_when() -> None:
    now = 0.0
    limit = RateLimit(30, lambda: now)
    for _ in range(30):
        limit.take("a")
    with pytest.raises(RateLimited) as caught:
        limit.take("a")
    assert caught.value.retry_after == 2
    limit.take("b")
    now = 2.0
    limit.take("a")
    with pytest.raises(RateLimited):
        limit.take("a")


def test_any_number_of_addresses_takes_bounded_memory() -> None:
    limit = RateLimit(1, lambda: 0.0)
    for number in range(20_001):
        limit.take(str(number))
    assert len(limit._buckets) <= 10_000


def http(**settings: Any) -> FlaskClient:
    chosen = Settings(**settings)
    return create_app(chosen, ScriptedClient(chosen)).test_client()


def test_a_client_that_asks_too_often_is_429_with_the_time_to_wait() -> None:
    client = http(rate_limit=2)
    body = {"prompt": "x", "stream": False}
    statuses = [client.post("/v1/completions", json=body).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = client.post("/v1/embeddings", json={"input": "x"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "30")
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


def test_more_tokens_than_a_request_may_have_are_400_naming_the_field() -> None:
    response = http(max_request_tokens=100).post("/v1/completions", json={"prompt": "x", "n": 4, "max_tokens": 26})
    assert response.status_code == 400
    assert response.json["error"]["param"] == "max_tokens"
