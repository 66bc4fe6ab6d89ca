"""Tokens of each key by day, and what becomes of a key whose budget is spent."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from srb.config.api_keys import ApiKey
from srb.config.settings import Settings
from srb.errors import ConfigError, RateLimited
from srb.web.app import create_app
from srb.web.request_log import Work
from srb.web.usage import Usage
from tests.scripted import ScriptedClient

ANNA, BEN = "key @anna", "key @ben"
WORK = Work(prompt=100, cached=60, computed=40, new=10)
KEYS = "anna:annas-key tokens_per_day=20\nben:bens-key tokens_per_month=1000 max_n=2\nzoe:zoes-key\nmetrics:scraper\n"


class Clock:
    def __init__(self, now: str) -> None:
        self.now = datetime.fromisoformat(now).replace(tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_tokens_are_summed_by_key_and_day_and_outlive_the_server(tmp_path: Path) -> None:
    clock = Clock("2026-11-30T23:59:58")
    usage = Usage(tmp_path / "new" / "usage.sqlite3", clock)
    for client in (ANNA, ANNA, BEN, "127.0.0.1", "::1"):
        usage.note(client, WORK)
    clock.now = datetime(2026, 12, 1, tzinfo=UTC)
    usage.note(ANNA, WORK)
    later = Usage(tmp_path / "new" / "usage.sqlite3", clock)
    rows = [
        (row["client"], row["day"], row["requests"], row["computed_tokens"])
        for row in later.days("2026-11-01", "2026-12-31")
    ]
    assert rows == [
        ("", "2026-11-30", 2, 80), ("anna", "2026-11-30", 2, 80), ("ben", "2026-11-30", 1, 40),
        ("anna", "2026-12-01", 1, 40),
    ]  # fmt: skip
    assert [row["day"] for row in later.days("2026-12-01", "2026-12-01", ANNA)] == ["2026-12-01"]
    assert sorted(later.totals()) == [("", 80, 20), ("anna", 120, 30), ("ben", 40, 10)]
    assert (tmp_path / "new" / "usage.sqlite3").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("budgets", "until", "seconds"),
    [
        (ApiKey("a", tokens_per_day=50), "2026-12-31T00:00:00+00:00", 3600),
        (ApiKey("a", tokens_per_month=50), "2027-01-01T00:00:00+00:00", 90000),
    ],
)
def test_a_spent_budget_says_when_there_are_tokens_again(
    tmp_path: Path, budgets: ApiKey, until: str, seconds: int
) -> None:
    clock = Clock("2026-12-30T23:00:00")
    usage = Usage(tmp_path / "usage.sqlite3", clock)
    usage.check(ANNA, budgets)
    usage.note(BEN, WORK)
    usage.check(ANNA, budgets)
    usage.note(ANNA, WORK)
    with pytest.raises(RateLimited, match="has spent its 50 tokens of the ") as caught:
        usage.check(ANNA, budgets)
    assert until in caught.value.message
    assert caught.value.retry_after == seconds
    clock.now = datetime.fromisoformat(until)
    usage.check(ANNA, budgets)


def test_a_file_that_cannot_be_written_lets_requests_pass(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    usage = Usage(tmp_path / "file" / "usage.sqlite3")
    usage.note(ANNA, WORK)
    usage.check(ANNA, ApiKey("a", tokens_per_day=1, tokens_per_month=1))
    assert usage.days("2026-01-01", "2026-12-31") == []


class Host:
    """A server with keys that counts."""

    def __init__(self, folder: Path) -> None:
        (folder / "keys").write_text(KEYS)
        chosen = Settings(api_key_file=str(folder / "keys"), usage_file=str(folder / "usage.sqlite3"))
        self.http: FlaskClient = create_app(chosen, ScriptedClient(chosen)).test_client()

    def write(self, key: str, **body: Any) -> TestResponse:
        body = {"prompt": "Once", "stream": False, "n": 1} | body
        return self.http.post("/v1/srb/completions", json=body, headers={"X-Api-Key": key})

    def read(self, key: str, path: str = "/v1/srb/usage") -> TestResponse:
        return self.http.get(path, headers={"X-Api-Key": key})


def test_a_key_is_refused_when_its_budget_is_spent_and_others_are_not(tmp_path: Path) -> None:
    host = Host(tmp_path)
    answers = [host.write("annas-key") for _ in range(9)]
    assert answers[0].status_code == 200
    refused = answers[-1]
    assert refused.status_code == 429
    assert "tokens of the day" in refused.json["error"]["message"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86400
    embedding = host.http.post("/v1/embeddings", json={"input": "x"}, headers={"X-Api-Key": "annas-key"})
    assert embedding.status_code == 429
    assert host.write("bens-key").status_code == host.write("zoes-key").status_code == 200
    said = host.read("annas-key").json
    [day], [budget] = said["days"], said["budgets"]
    assert day["client"] == "anna"
    assert day["requests"] == sum(answer.status_code == 200 for answer in answers)
    assert budget["of"] == "day"
    assert budget["spent"] == day["computed_tokens"] + day["completion_tokens"] >= budget["tokens"] == 20


def test_streams_and_those_that_leave_count_as_well(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with host.write("zoes-key", stream=True) as stream:
        assert stream.status_code == 200
        next(iter(stream.response))
    assert host.read("zoes-key").json["days"][0]["requests"] == 1


def test_each_key_sees_its_own_tokens_and_those_for_metrics_see_all(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("annas-key")
    host.write("bens-key")
    assert [day["client"] for day in host.read("bens-key").json["days"]] == ["ben"]
    assert [day["client"] for day in host.read("scraper").json["days"]] == ["anna", "ben"]
    assert host.read("zoes-key").json == {"days": [], "budgets": []}
    assert host.read("bens-key", "/v1/srb/usage?first=2020-01-01&last=2020-12-31").json["days"] == []
    metrics = host.read("scraper", "/metrics").text
    assert 'srb_client_tokens_total{client="anna",kind="written"} 3.0' in metrics
    assert "zoe" not in metrics


@pytest.mark.parametrize("query", ["first=yesterday", "last=2026-13-01", "first=20261130"])
def test_a_day_that_is_none_is_refused_by_its_name(tmp_path: Path, query: str) -> None:
    refused = Host(tmp_path).read("zoes-key", f"/v1/srb/usage?{query}")
    assert refused.status_code == 400
    assert f"'{query.partition('=')[0]}'" in refused.json["error"]["message"]


def test_a_server_that_does_not_count_says_so(tmp_path: Path) -> None:
    chosen = Settings()
    refused = create_app(chosen, ScriptedClient(chosen)).test_client().get("/v1/srb/usage")
    assert refused.status_code == 501
    assert "usage_file" in refused.json["error"]["message"]


def test_budgets_need_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEYS)
    with pytest.raises(ConfigError, match="usage_file"):
        Settings(api_key_file=str(tmp_path / "keys")).load_api_keys()
