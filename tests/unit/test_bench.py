"""`srb bench`: its plan and its numbers, with a server whose times are known."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import orjson
import pytest

from srb.bench.client import Measure, Server, Work
from srb.bench.speed import Plan, ProgressBar, Speed, as_json, as_text, measure, plan_for
from srb.cli.bench import _own_environ
from srb.config.settings import Settings

DESCRIPTION = {"version": "0.1", "model": "one", "n_ctx": 2048, "max_n": 64}
STEP = 0.1  # seconds of a step of one branch; each further branch costs a tenth of it
PREFILL = 1.0


class TimedServer(Server):
    """A server whose times follow from the request, and that knows the prompts it has seen."""

    def __init__(self) -> None:
        super().__init__("http://nowhere")
        object.__setattr__(self, "works", [])
        object.__setattr__(self, "known", set())

    works: list[Work]
    known: set[str]

    def run(self, work: Work) -> Measure:
        prefill = 0.0 if work.prompt in self.known else PREFILL
        if work.cache_prompt:
            self.known.add(work.prompt)
        self.works.append(work)
        step = STEP * (1 + (work.n - 1) / 10)
        return Measure(work.n * work.tokens, prefill + step * work.tokens, prefill + step, len(work.prompt.split()))


def speed_of(plan: Plan, n_ctx: int = 2048) -> tuple[Speed, TimedServer, list[tuple[int, str]]]:
    server, shown = TimedServer(), []
    speed = measure(server, plan, n_ctx, lambda done, text: shown.append((done, text)))
    return speed, server, shown


def test_the_gain_is_over_requests_one_after_another_of_which_the_first_has_a_new_prompt() -> None:
    speed, _, _ = speed_of(Plan((1, 8), tokens=10, rounds=3))
    one, eight = speed.rows
    assert one.gain == pytest.approx(1)
    assert eight.gain == pytest.approx((PREFILL + 8 * 10 * STEP) / (PREFILL + 10 * STEP * 1.7))
    assert eight.tokens_per_second == pytest.approx(80 / (10 * STEP * 1.7))
    assert eight.tokens_per_second_of_a_branch == pytest.approx(eight.tokens_per_second / 8)


def test_every_prompt_is_new_once_and_then_known() -> None:
    speed, server, shown = speed_of(Plan((1, 4), tokens=10, rounds=2))
    prompts = [work.prompt for work in server.works[1:]]
    assert prompts[::2] == prompts[1::2]
    assert len(set(prompts)) == 4
    for row in speed.rows:
        assert row.first_token_cold - row.first_token_warm == pytest.approx(PREFILL)
    assert [done for done, _ in shown[1:]] == list(range(9))


def test_a_short_context_gets_short_prompts_and_branches() -> None:
    plan = plan_for({**DESCRIPTION, "n_ctx": 128}, [1], tokens=64, rounds=1)
    speed, _, _ = speed_of(plan, n_ctx=128)
    assert plan.tokens + speed.prompt_tokens < 128
    assert speed.prompt_tokens <= 128 // 4


@pytest.mark.parametrize(("asked", "expected"), [((1, 8, 32), (1, 8, 32)), ((16,), (1, 16)), ((8, 100), (1, 8))])
def test_numbers_of_branches_are_limited_by_the_server_and_one_is_always_measured(
    asked: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert plan_for(DESCRIPTION, asked, tokens=64, rounds=1).ns == expected


def test_the_table_and_the_object_have_a_row_for_each_number_of_branches() -> None:
    plan = Plan((1, 8), tokens=10, rounds=2)
    speed, _, _ = speed_of(plan)
    lines = as_text(DESCRIPTION, plan, speed).splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["1", "8"]
    assert len({len(line) for line in lines[-3:]}) == 1
    said: dict[str, Any] = orjson.loads(orjson.dumps(as_json(DESCRIPTION, plan, speed)))
    assert [row["n"] for row in said["rows"]] == [1, 8]
    assert said["rows"][1]["gain"] == pytest.approx(speed.rows[1].gain)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_that_is_removed_and_a_file_shows_none() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        bar = ProgressBar(stream, 4)
        bar.show(2, "n = 8")
        bar.close()
    assert " 50 %  n = 8" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert file.getvalue() == ""


def test_the_own_server_has_the_settings_of_the_model_and_none_of_keys_and_addresses() -> None:
    given = {"SRB_CONFIG": "/x", "SRB_API_KEY": "secret", "LLAMA_ARG_PORT": "1", "SRB_RATE_LIMIT": "1", "HOME": "/me"}
    settings = Settings(
        model="m.gguf", n_ctx=512, threads=2, mmap="off", cache_ram_mib=7, api_key="secret", rate_limit=1, max_n=9, n=3
    )
    environ = _own_environ(settings, given)
    own = Settings.load(environ=environ)
    assert environ["HOME"] == "/me"
    assert not any("secret" in value for value in environ.values())
    expected = Settings(
        model="m.gguf", n_ctx=512, threads=2, mmap="off", cache_ram_mib=7, max_n=9, n=1, stories="", state_dir=""
    )
    assert own == expected
    assert own.model_fields_set == expected.model_fields_set


@pytest.mark.parametrize("tokens_of_a_word", [1, 5])
def test_prompts_have_about_as_many_tokens_whatever_the_vocabulary(tokens_of_a_word: int) -> None:
    class Spelling(TimedServer):
        def run(self, work: Work) -> Measure:
            measure = super().run(work)
            return dataclasses.replace(measure, prompt_tokens=tokens_of_a_word * measure.prompt_tokens)

    speed = measure(Spelling(), Plan((1,), tokens=10, rounds=1), 2048, lambda done, text: None)
    assert 200 < speed.prompt_tokens < 260
