"""The view of `srb top`: rates between two readings, and no text that a terminal would obey."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from srb.cli import top
from srb.config.settings import Settings
from srb.top.source import Away, ListedRequest, Reading, Source, Unusable
from srb.top.view import view

NUMBERS = {
    "kv_cells": 1000.0, "kv_cells_used": 250.0, "requests_processing": 2.0, "requests_deferred": 1.0,
    "requests_resting": 3.0, "requests_total": 1234.0, "branches_running": 16.0, "branches_waiting": 4.0,
    "branches_room": 76.0, "tokens_predicted_total": 5000.0, "prompt_tokens_total": 600.0,
    "prompt_tokens_cached_total": 1800.0, "tree_tokens_resident": 240.0, "tree_tokens_parked": 90.0,
    "tree_parked_bytes": 3 << 20, "stored_bytes": 5 << 20, "stored_texts": 12.0, "stored_hits_total": 2.0,
    "stored_tokens_read_total": 6100.0, "stored_seconds_saved_total": 33.0,
}  # fmt: skip
URL = "http://127.0.0.1:9090"


def reading(at: float = 0.0, requests: list[ListedRequest] | None = None, **changed: Any) -> Reading:
    numbers = {**NUMBERS, **{name: value for name, value in changed.items() if name in NUMBERS}}
    facts = {"version": "0.1.0", "state": "ok", "numbers": numbers}
    return Reading(at, requests=requests, **{**facts, **{name: changed[name] for name in facts if name in changed}})


def words(*readings: Reading | None) -> str:
    before, now = readings if len(readings) == 2 else (None, readings[0])
    assert now is not None
    return "\n".join(" ".join(line.split()) for line in view(URL, before, now))


def test_everything_has_its_number() -> None:
    text = words(reading())
    assert text.startswith(f"SRB 0.1.0 at {URL}: ok\n")
    assert "requests 2 running 1 waiting 3 resting 1,234 since the start" in text
    assert "branches 16 running 4 waiting 76 more have room" in text
    assert "cells 250 of 1,000 in use ██████·················· 25%" in text
    assert (
        "cache 240 tokens in cells, 90 parked (3.00 MiB), 75% of all prompts' tokens were there\n"
        "disk 5.00 MiB in 12 files; 2 texts came back: 6,100 tokens, about 33 s of computing" in text
    )


def test_rates_are_those_between_two_readings() -> None:
    later = reading(2.5, tokens_predicted_total=5250.0, prompt_tokens_total=605.0)
    assert "tokens 100.0 a second written, 2.0 a second of prompts computed" in words(reading(), later)
    assert "tokens – a second written" in words(later)


def test_a_restarted_engine_counts_from_zero() -> None:
    assert "tokens 30.0 a second written" in words(reading(), reading(2.0, tokens_predicted_total=60.0))


def test_a_request_is_a_line_the_oldest_first() -> None:
    young = ListedRequest("abc", "running", 3.4, 12, {"running": 8, "ended": 2}, 1512)
    old = ListedRequest("0123456789abcdef", "resting", 61.0, 2000, {"ended": 1}, 7)
    lines = words(reading(requests=[young, old])).splitlines()
    assert lines[-2:] == ["0123456789ab resting 61 s 2,000 1 ended 7", "abc running 3 s 12 8 running, 2 ended 1,512"]
    assert words(reading(requests=[])).endswith("No request of yours runs or rests.")
    assert "are not listed" in words(reading())


def test_no_control_character_gets_into_a_line() -> None:
    bad = "\x1b[2J\x07\r\n\x9b31m\u202e\u2028\x00"
    hostile = ListedRequest(bad, bad, 1.0, 1, {bad: 1}, 1)
    for line in view(URL, None, reading(requests=[hostile], version=bad, state=bad)):
        assert line.isprintable(), repr(line)


def test_a_server_that_tells_no_numbers_says_why() -> None:
    assert "metrics is off" in words(reading(numbers={}))
    assert "The engine tells no numbers now." in words(reading(numbers={"engine_restarts_total": 0.0}))


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:9090"),
        ({"host": "0.0.0.0", "port": 81, "api_prefix": "/llm"}, "http://127.0.0.1:81/llm"),
        ({"host": "::"}, "http://[::1]:9090"),
        ({"host": "/run/srb.sock,127.0.0.1"}, "http://localhost"),
        ({"ssl_cert_file": "c.pem", "ssl_key_file": "k.pem"}, "https://127.0.0.1:9090"),
    ],
)
def test_the_settings_say_where_the_server_is(settings: dict[str, Any], url: str) -> None:
    assert Source(Settings(**settings)).url == url


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "ftp://x", "http://", "http://x:port", "http://[::1"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Unusable, match="should begin with"):
        Source(Settings(), url)


@pytest.fixture
def _signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("_signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_python_drops_ends_it_too(signum: int, capsys: pytest.CaptureFixture[str]) -> None:
    class Closed:
        def __del__(self) -> None:
            signal.raise_signal(signum)

    class LastReading(Source):
        reads = 0

        def read(self) -> Reading:
            self.reads += 1
            assert self.reads == 1, "it goes on"
            Closed()
            raise Away("no server")

    top._show_until(top._take_signals(), LastReading(Settings()), 3600, is_terminal=False)
    assert capsys.readouterr().out.startswith("no server; waiting for it")


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_other_moment_ends_it_at_once(signum: int) -> None:
    class Asked(Source):
        def read(self) -> Reading:
            signal.raise_signal(signum)
            raise AssertionError("it goes on")

    with pytest.raises(KeyboardInterrupt):
        top._show_until(top._take_signals(), Asked(Settings()), 3600, is_terminal=False)
