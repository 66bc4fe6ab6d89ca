"""OpenAI's own client, blocking and asynchronous, against a whole server with a real model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from statistics import mean
from typing import Any

import openai
import orjson
import pytest

from tests.models.random_gguf import write_llama
from tests.processes import wait_for
from tests.servers import MakeServer, Server, openai_options

pytestmark = pytest.mark.e2e

ASK: dict[str, Any] = {"model": "tiny", "prompt": "Once upon a time,", "max_tokens": 24, "seed": 42}


@pytest.fixture
def client(tiny: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(**openai_options(tiny)) as made:
        yield made


class Collected:
    """A stream's chunks, taken apart."""

    def __init__(self, n: int) -> None:
        self.texts = [""] * n
        self.endings: dict[int, str] = {}
        self.usages: list[Any] = []

    def add(self, chunk: Any) -> None:
        if chunk.usage is not None:
            assert not chunk.choices
            self.usages.append(chunk.usage)
            return
        [choice] = chunk.choices
        assert choice.index not in self.endings, "a choice goes on after its end"
        self.texts[choice.index] += choice.text
        if choice.finish_reason is not None:
            self.endings[choice.index] = choice.finish_reason


def test_eight_choices_and_their_usage_summed(client: openai.OpenAI) -> None:
    answer = client.completions.create(**ASK, n=8, extra_body={"ignore_eos": True})
    assert answer.object == "text_completion"
    assert answer.model == "tiny"
    assert [choice.index for choice in answer.choices] == list(range(8))
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert len({choice.text for choice in answer.choices}) == 8
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8 * 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8 * 24
    assert answer.usage.prompt_tokens < 24  # once, not once a choice


def test_a_stream_of_eight_says_what_the_answer_says(client: openai.OpenAI) -> None:
    whole = client.completions.create(**ASK, n=8)
    collected = Collected(8)
    with client.completions.create(**ASK, n=8, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            collected.add(chunk)
    assert collected.texts == [choice.text for choice in whole.choices]
    assert collected.endings == {choice.index: choice.finish_reason for choice in whole.choices}
    [usage] = collected.usages
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_a_stream_has_no_usage_unless_asked(client: openai.OpenAI) -> None:
    collected = Collected(2)
    with client.completions.create(**ASK, n=2, stream=True) as stream:
        for chunk in stream:
            collected.add(chunk)
    assert sorted(collected.endings) == [0, 1]
    assert not collected.usages


def test_the_asynchronous_client_runs_several_streams_at_once(tiny: Server, client: openai.OpenAI) -> None:
    seeds = (1, 2, 3)

    async def stream(asynchronous: openai.AsyncOpenAI, seed: int) -> list[str]:
        collected = Collected(8)
        async with await asynchronous.completions.create(**ASK | {"seed": seed}, n=8, stream=True) as chunks:
            async for chunk in chunks:
                collected.add(chunk)
        return collected.texts

    async def all_streams() -> list[list[str]]:
        async with openai.AsyncOpenAI(**openai_options(tiny)) as asynchronous:
            return await asyncio.gather(*(stream(asynchronous, seed) for seed in seeds))

    together = asyncio.run(all_streams())
    for seed, texts in zip(seeds, together, strict=True):
        answer = client.completions.create(**ASK | {"seed": seed}, n=8)
        assert texts == [choice.text for choice in answer.choices]


def test_both_dialects_write_the_same_branches(client: openai.OpenAI, tiny: Server) -> None:
    answer = client.completions.create(**ASK, n=4)
    body = {**ASK, "n": 4, "stream": False}
    completions = tiny.post("/v1/srb/completions", body).json()["completions"]
    assert [choice.text for choice in answer.choices] == [completion["text"] for completion in completions]


def test_several_prompts_make_one_list_of_choices(client: openai.OpenAI) -> None:
    prompts = ["Once upon a time,", "The old king"]
    answer = client.completions.create(**ASK | {"prompt": prompts}, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for place, prompt in enumerate(prompts):
        alone = client.completions.create(**ASK | {"prompt": prompt}, n=2)
        assert [choice.text for choice in alone.choices] == [
            choice.text for choice in answer.choices[2 * place : 2 * place + 2]
        ]


def test_stop_strings_and_finish_reasons(client: openai.OpenAI) -> None:
    plain = client.completions.create(**ASK, n=1).choices[0]
    word = plain.text[12:16]
    stopped = client.completions.create(**ASK, n=1, stop=[word]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.text == plain.text.partition(word)[0]
    assert stopped.model_extra == {"stop_reason": word, "seed": 42}


def test_logprobs_have_the_completions_shape(storyteller: Server) -> None:
    with openai.OpenAI(**openai_options(storyteller)) as client:
        [choice] = client.completions.create(**ASK, n=1, logprobs=3).choices
    logprobs = choice.logprobs
    assert logprobs is not None
    assert logprobs.tokens
    assert logprobs.text_offset
    assert logprobs.top_logprobs
    assert "".join(logprobs.tokens) == choice.text
    for offset, token in zip(logprobs.text_offset, logprobs.tokens, strict=True):
        assert choice.text[offset:].startswith(token)
    assert all(1 <= len(top) <= 4 for top in logprobs.top_logprobs)


def test_likely_tokens_are_ordered_and_hold_the_chosen_one(storyteller: Server) -> None:
    with openai.OpenAI(**openai_options(storyteller)) as client:
        answer = client.completions.create(**ASK | {"temperature": 2}, n=4, logprobs=1)
    chosen = [choice.logprobs for choice in answer.choices if choice.logprobs]
    assert len(chosen) == 4
    sizes = set()
    for logprobs in chosen:
        assert logprobs.tokens
        assert logprobs.token_logprobs
        assert logprobs.top_logprobs
        for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
            assert list(top.values()) == sorted(top.values(), reverse=True)
            assert top[token] == logprob
            sizes.add(len(top))
    assert sizes == {1, 2}  # two where the chosen token is not the likeliest


def test_echo_scores_a_prompt_without_writing_a_word(storyteller: Server) -> None:
    with openai.OpenAI(**openai_options(storyteller)) as client:
        answer = client.completions.create(**ASK | {"max_tokens": 0}, echo=True, logprobs=2)
        again = client.completions.create(**ASK | {"max_tokens": 0}, echo=True, logprobs=2)
    [choice] = answer.choices
    assert choice.text == ASK["prompt"]
    logprobs = choice.logprobs
    assert logprobs is not None
    assert logprobs.tokens
    assert logprobs.token_logprobs
    assert "".join(logprobs.tokens) == choice.text
    assert logprobs.token_logprobs[0] is None
    assert all(-100 < logprob <= 0 for logprob in logprobs.token_logprobs[1:] if logprob is not None)
    assert answer.usage is not None
    assert len(logprobs.tokens) == answer.usage.prompt_tokens
    assert again.choices[0].logprobs == logprobs  # also where the prompt is known


def test_an_echo_is_the_prompt_and_the_text_of_the_request_without_echo(client: openai.OpenAI) -> None:
    plain = client.completions.create(**ASK, n=2)
    whole = client.completions.create(**ASK, n=2, echo=True)
    assert [choice.text for choice in whole.choices] == [ASK["prompt"] + choice.text for choice in plain.choices]
    collected = Collected(2)
    with client.completions.create(**ASK, n=2, echo=True, stream=True) as stream:
        for chunk in stream:
            collected.add(chunk)
    assert collected.texts == [choice.text for choice in whole.choices]


def test_the_best_of_six_are_those_of_the_highest_mean_logprob(client: openai.OpenAI) -> None:
    every = client.completions.create(**ASK, n=6, logprobs=0).choices
    means = {choice.text: mean(choice.logprobs.token_logprobs) for choice in every}  # type: ignore[union-attr,arg-type]
    best = client.completions.create(**ASK, n=2, best_of=6)
    assert [choice.text for choice in best.choices] == sorted(means, key=means.__getitem__, reverse=True)[:2]
    assert best.usage is not None
    assert best.usage.completion_tokens > 24 * 2


def test_a_streamed_choice_is_the_choice_of_the_answer(client: openai.OpenAI) -> None:
    for select in ("likely", "diverse"):
        options: dict[str, Any] = {**ASK, "n": 2, "extra_body": {"best_of": 6, "select": select}}
        answer = client.completions.create(**options)
        collected = Collected(2)
        seeds = {}
        with client.completions.create(**options, stream=True) as stream:
            for chunk in stream:
                collected.add(chunk)
                seeds |= {choice.index: choice.seed for choice in chunk.choices if choice.finish_reason}
        assert collected.texts == [choice.text for choice in answer.choices]
        assert [seeds[index] for index in range(2)] == [choice.seed for choice in answer.choices]


def test_rank_orders_the_choices_as_their_logprobs_do(client: openai.OpenAI) -> None:
    told = client.completions.create(**ASK, n=6, logprobs=0)
    means = [mean(choice.logprobs.token_logprobs) for choice in told.choices]  # type: ignore[union-attr,arg-type]
    answer = client.completions.create(**ASK, n=6, extra_body={"rank": True})
    found = answer.model_extra or {}
    assert found["ranking"] == sorted(range(6), key=means.__getitem__, reverse=True)
    assert found["duplicates"] == []
    assert 0 < found["diversity"]["distance"] <= 1
    assert all(choice.logprobs is None for choice in answer.choices)


def test_a_suffix_is_led_up_to_by_a_model_that_can(storyteller: Server) -> None:
    with openai.OpenAI(**openai_options(storyteller)) as client:
        [choice] = client.completions.create(**ASK, suffix=" They lived happily ever after.").choices
    assert choice.text


def test_a_suffix_is_refused_for_a_model_that_cannot(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**ASK, suffix=" The end.")
    assert caught.value.param == "suffix"


def test_models_lists_the_one_that_answers(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 0), ("n", 65), ("temperature", "hot"), ("max_tokens", -5), ("stop", 7), ("best_of", 65)],
)
def test_a_bad_value_is_a_bad_request_error_that_names_it(client: openai.OpenAI, field: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**ASK | {field: value})
    assert caught.value.status_code == 400
    assert caught.value.param == field
    assert caught.value.type == "invalid_request_error"
    assert f"'{field}'" in caught.value.message


def test_a_prompt_beyond_the_context_is_a_bad_request_error_with_both_numbers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**ASK | {"prompt": "the sea " * 600}, n=8, stream=True)
    error: Any = caught.value.body
    assert error["type"] == "exceed_context_size_error"
    assert error["n_prompt_tokens"] > error["n_ctx"]
    assert str(error["n_prompt_tokens"]) in caught.value.message
    assert str(error["n_ctx"]) in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("prompt", [2**31 - 1], "prompt"),
        ("grammar", "no grammar", "grammar"),
        ("json_schema", {"type": 7}, "json_schema.type"),
    ],
)
def test_what_the_engine_refuses_is_a_bad_request_error_that_names_it(
    client: openai.OpenAI, field: str, value: Any, place: str
) -> None:
    body = ASK | {"extra_body": {field: value}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**body)
    assert caught.value.param == place
    assert caught.value.message.count(f"Field '{place}'") == 1


def test_the_asynchronous_client_raises_the_same_errors(tiny: Server) -> None:
    async def ask(**body: Any) -> None:
        async with openai.AsyncOpenAI(**openai_options(tiny)) as asynchronous:
            await asynchronous.completions.create(**ASK | body)

    with pytest.raises(openai.BadRequestError):
        asyncio.run(ask(n=0))
    with pytest.raises(openai.BadRequestError):
        asyncio.run(ask(n=0, stream=True))


def test_a_wrong_key_is_an_authentication_error(make_server: MakeServer) -> None:
    server = make_server(api_key="right").start()
    for key, good in (("right", True), ("wrong", False)):
        with openai.OpenAI(**openai_options(server) | {"api_key": key}) as client:
            if good:
                assert client.completions.create(**ASK).choices
            else:
                with pytest.raises(openai.AuthenticationError) as caught:
                    client.completions.create(**ASK)
                assert caught.value.type == "authentication_error"


def test_a_full_queue_is_a_rate_limit_error(make_server: MakeServer, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "tiny.gguf")
    server = make_server(model=model, max_queue=1, n_seq_max=2, n_ctx=32768, threads=1).start()
    body = orjson.dumps(ASK | {"n": 64, "max_tokens": -1, "ignore_eos": True})  # one branch after the other
    with ExitStack() as stack, openai.OpenAI(**openai_options(server)) as client:
        for gauge in ("requests_processing", "requests_deferred"):
            connection = stack.enter_context(closing(HTTPConnection("127.0.0.1", server.port)))
            connection.request("POST", "/v1/completions", body)
            wait_for(lambda gauge=gauge: server.metric(gauge) == 1, gauge)  # type: ignore[misc]
        with pytest.raises(openai.RateLimitError) as caught:
            client.completions.create(**ASK)
    assert caught.value.type == "rate_limit_error"
    assert int(caught.value.response.headers["Retry-After"]) > 0


def test_a_route_that_is_not_there_is_a_not_found_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.files.list()


def test_a_server_without_its_engine_is_an_internal_server_error(make_server: MakeServer) -> None:
    server = make_server(engine_managed=False).start(wait=False)
    wait_for(lambda: server.health() == 503, "the web server answers")
    with openai.OpenAI(**openai_options(server)) as client, pytest.raises(openai.InternalServerError) as caught:
        client.completions.create(**ASK)
    assert caught.value.status_code == 503
    assert caught.value.response.headers["Retry-After"] == "1"


def test_leaving_a_stream_ends_its_branches(paced: Server) -> None:
    server = paced
    body = ASK | {"max_tokens": -1, "n": 2}
    wait_for(lambda: server.metric("requests_processing") == 0, "those of other tests have ended")
    with openai.OpenAI(**openai_options(server)) as client:
        with client.completions.create(**body, stream=True, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
            wait_for(lambda: server.metric("requests_processing") == 1, "it runs; a cluster's numbers are a second old")
        wait_for(lambda: server.metric("requests_processing") == 0, "the request has ended")


def ids_of(client: openai.OpenAI, n: int = 1, **more: Any) -> list[list[int]]:
    """Return the token ids of each choice; a stream has to have the same, and the same prompt."""
    body = {**ASK, "n": n, "extra_body": {"return_token_ids": True, "ignore_eos": True, **more}}
    whole: list[Any] = [choice.model_dump() for choice in client.completions.create(**body).choices]
    streamed: list[list[int]] = [[] for _ in range(n)]
    prompts: dict[int, list[int]] = {}
    with client.completions.create(**body, stream=True) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                said = choice.model_dump()
                streamed[choice.index] += said.get("token_ids") or []
                prompts |= {choice.index: said["prompt_token_ids"]} if said.get("prompt_token_ids") else {}
    own = [choice["token_ids"] for choice in whole]
    assert streamed == own
    assert [prompts[index] for index in range(n)] == [choice["prompt_token_ids"] for choice in whole]
    return own


def test_vllms_fields_about_tokens_hold_on_a_real_model(client: openai.OpenAI) -> None:
    free = ids_of(client, 3)
    assert len(set(map(tuple, free))) == 3
    end = free[1][5]
    for own, cut in zip(free, ids_of(client, 3, stop_token_ids=[end]), strict=True):
        assert cut == (own[: own.index(end) + 1] if end in own else own)
    allowed = sorted({token for own in free for token in own[:4]})
    assert {token for own in ids_of(client, 3, allowed_token_ids=allowed) for token in own} <= set(allowed)
    answer = client.completions.create(**ASK, extra_body={"truncate_prompt_tokens": 3, "return_token_ids": True})
    assert len(answer.choices[0].model_dump()["prompt_token_ids"]) == 3
    scored = (
        client.completions.create(**ASK, extra_body={"prompt_logprobs": 2, "temperature": 0}).choices[0].model_dump()
    )
    first, *others = scored["prompt_logprobs"]
    assert first is None
    assert all(entry["rank"] >= 1 for each in others for entry in each.values())
    assert all(2 <= len(each) <= 3 for each in others)


def test_quadratic_sampling_changes_texts_and_repeats_them(client: openai.OpenAI) -> None:
    plain, smooth, again = (ids_of(client, 4, top_k=0, smoothing_factor=factor) for factor in (0, 3.0, 3.0))
    assert smooth == again
    assert smooth != plain
