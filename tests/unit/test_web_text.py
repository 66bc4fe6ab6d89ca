"""What only text completions have: best_of, echo and suffix, in both dialects, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.fields import Prompt
from srb.web.calls.echo import read_back
from srb.web.calls.engine_client import EngineClient
from srb.wire.commands import Detokenize, Generate, Tokenize
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Progress, PromptDone, PromptLogprobs
from tests import scripted
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read

SRB, OPENAI = {"format": "srb"}, {"model": "any"}


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    loaded = Settings(**settings)
    engine = ScriptedClient(loaded, script)
    return create_app(loaded, engine).test_client(), engine


def post(http: FlaskClient, **body: Any) -> Any:
    return http.post("/v1/completions", data=orjson.dumps({"prompt": "x", **body}))


def events(text: str) -> list[dict[str, Any]]:
    lines = text.removesuffix("\n\n").split("\n\n")
    return [orjson.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]"]


def entry(token: str, logprob: float | None) -> dict[str, Any]:
    top = [] if logprob is None else [{"id": 1, "token": token, "bytes": [], "logprob": logprob}]
    return {"id": 1, "token": token, "bytes": list(token.encode()), "logprob": logprob, "top_logprobs": top}


def ranked(command: Generate) -> Iterable[list[Event]]:
    """Give the branches the means -4, -1, -3, -2, none and an error, in this order."""
    request_id = command.request_id
    yield [Accepted(request_id, 1)]
    count = len(command.branches)
    for index in range(count):
        yield [Delta(request_id, index, f"text {index}", [index], [entry(f"text {index}", -1.0)])]
    means = [-4.0, -1.0, -3.0, -2.0, None][:count]
    yield [BranchEnded(request_id, index, "eos", 1, logprob=mean) for index, mean in enumerate(means)]
    yield [
        *(BranchEnded(request_id, index, "error", 0, code="decode_failed", message="no") for index in range(5, count)),
        Done(request_id, 1, 0, count, 1.0, 1.0),
    ]


def test_the_best_of_more_branches_are_answered_best_first() -> None:
    http, engine = serve(ranked)
    answer = post(http, **OPENAI, n=2, best_of=4).json
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "text 1"), (1, "text 3")]
    assert answer["usage"]["completion_tokens"] == 4  # all that were sampled
    assert all(branch.score and branch.sampling.n_probs == -1 for branch in engine.sent[0].branches)


def test_ranking_puts_branches_without_tokens_last_and_failed_ones_behind_them() -> None:
    http, _ = serve(ranked)
    answer = post(http, **OPENAI, n=6, best_of=7).json
    assert [choice["text"] for choice in answer["choices"]] == [f"text {i}" for i in (1, 3, 2, 0, 4, 5)]


def test_each_prompt_has_its_own_best() -> None:
    http, _ = serve(ranked)
    answer = post(http, **OPENAI, prompt=["x", "y"], n=1, best_of=3, logprobs=1).json
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "text 1"), (1, "text 1")]
    assert answer["choices"][1]["logprobs"]["tokens"] == ["text 1"]


def test_the_srb_dialect_says_the_seeds_of_the_best() -> None:
    http, _ = serve(ranked)
    answer = post(http, **SRB, n=2, best_of=4, seed=10, stream=False).json
    assert [completion["text"] for completion in answer["completions"]] == ["text 1", "text 3"]
    assert [completion["logprob"] for completion in answer["completions"]] == [-1.0, -2.0]
    assert answer["seeds"] == [11, 13]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**OPENAI, "n": 4, "best_of": 2}, "Value must be between 4 <= value <= 64, but got 2"),
        ({**OPENAI, "best_of": 65}, "Value must be between 1 <= value <= 64, but got 65"),
        ({**OPENAI, "best_of": True}, "Input should be a valid integer, but got true"),
        ({**SRB, "best_of": 4, "stream": False}, "but got 4 (n is 8)"),
    ],
)
def test_a_best_of_that_makes_no_sense_is_refused(body: dict[str, Any], words: str) -> None:
    http, engine = serve()
    response = post(http, **body)
    assert response.status_code == 400
    assert response.json["error"]["param"] == "best_of"
    assert words in response.json["error"]["message"]
    assert engine.sent == []


def test_best_of_that_is_n_may_be_streamed_and_ranks_nothing() -> None:
    http, engine = serve()
    assert post(http, **OPENAI, n=2, best_of=2, stream=True).status_code == 200
    assert not engine.sent[0].branches[0].is_scored


# ---- echo


def with_prompt_logprobs(command: Generate) -> Iterable[list[Event]]:
    """The prompt's tokens are BOS and its bytes; each of two branches says " yes"."""
    request_id = command.request_id
    size = sum(len(part.encode()) if isinstance(part, str) else 1 for part in command.prompt)
    yield [Accepted(request_id, size + 1)]
    if command.prompt_logprobs:
        yield [PromptLogprobs(request_id, [entry("<s>", None)])]
        yield [PromptLogprobs(request_id, [entry("?", -0.5)] * size)]
    yield [PromptDone(request_id, 0, 0, 1.0)]
    probs = [entry(" yes", -0.25)] if command.branches[0].sampling.n_probs >= 0 else None
    yield [Delta(request_id, index, " yes", [7], probs) for index in range(len(command.branches))]
    yield [
        *(BranchEnded(request_id, index, "eos", 1) for index in range(len(command.branches))),
        Done(request_id, size + 1, 0, len(command.branches), 1.0, 1.0),
    ]


def test_echo_puts_the_prompt_before_each_text() -> None:
    http, _ = serve(with_prompt_logprobs)
    answer = post(http, **OPENAI, prompt=["Née", "B"], n=2, echo=True).json
    assert [choice["text"] for choice in answer["choices"]] == ["Née yes", "Née yes", "B yes", "B yes"]
    answer = post(http, **SRB, prompt="Née", n=2, echo=True, stream=False).json
    assert [completion["text"] for completion in answer["completions"]] == ["Née yes"] * 2


def test_echo_asks_the_engine_what_token_ids_mean() -> None:
    http, engine = serve(with_prompt_logprobs)
    [choice] = post(http, **OPENAI, prompt=["A", 66, 195, 169], echo=True).json["choices"]
    assert choice["text"] == "ABé yes"
    asked = [command for command in engine.sent if isinstance(command, Tokenize | Detokenize)]
    assert len(asked) == 2


def test_a_streamed_echo_comes_before_anything_else_of_its_choice() -> None:
    http, _ = serve(with_prompt_logprobs)
    choices = [event["choices"][0] for event in events(post(http, **OPENAI, n=2, echo=True, stream=True).text)]
    assert [(choice["index"], choice["text"]) for choice in choices[:4]] == [
        (0, "x"),
        (1, "x"),
        (0, " yes"),
        (1, " yes"),
    ]
    start, *rest = events(post(http, **SRB, n=2, echo=True).text)
    assert start["event"] == "start"
    assert [(event["index"], event["text"]) for event in rest[:4]] == [(0, "x"), (1, "x"), (0, " yes"), (1, " yes")]


def test_logprobs_of_an_echo_begin_with_the_prompts_tokens_and_a_null() -> None:
    http, engine = serve(with_prompt_logprobs)
    answer = post(http, **OPENAI, prompt="Né", echo=True, logprobs=1).json
    assert engine.sent[-1].prompt_logprobs
    [choice] = answer["choices"]
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == ["", "N", "", "é", " yes"]  # a BOS, and the two bytes of é
    assert "".join(logprobs["tokens"]) == choice["text"]
    assert logprobs["token_logprobs"] == [None, -0.5, -0.5, -0.5, -0.25]
    assert logprobs["top_logprobs"][0] is None
    assert all(
        top[token] == logprob
        for token, logprob, top in zip(
            *(logprobs[key][1:] for key in ("tokens", "token_logprobs", "top_logprobs")), strict=True
        )
    )
    assert logprobs["text_offset"] == [0, 0, 1, 1, 2]
    assert answer["usage"]["prompt_tokens"] == len(logprobs["tokens"]) - 1


def test_a_streamed_echo_with_logprobs_says_what_the_answer_says() -> None:
    http, _ = serve(with_prompt_logprobs)
    body: dict[str, Any] = {**OPENAI, "prompt": "Né", "n": 2, "echo": True, "logprobs": 1}
    whole = post(http, **body).json["choices"]
    choices = [event["choices"][0] for event in events(post(http, **body, stream=True).text)]
    for index, expected in enumerate(whole):
        parts = [choice for choice in choices if choice["index"] == index]
        assert "".join(part["text"] for part in parts) == expected["text"]
        for key, values in expected["logprobs"].items():
            assert [value for part in parts if part["logprobs"] for value in part["logprobs"][key]] == values, key


def test_the_srb_dialect_gives_the_prompts_logprobs_too() -> None:
    http, _ = serve(with_prompt_logprobs)
    body: dict[str, Any] = {**SRB, "prompt": "Né", "n": 1, "echo": True, "logprobs": 1}
    [completion] = post(http, **body, stream=False).json["completions"]
    streamed = [event for event in events(post(http, **body).text) if event["event"] == "stream"]
    assert [event["text"] for event in streamed] == ["Né", " yes"]
    assert streamed[0]["logprobs"] + streamed[1]["logprobs"] == completion["logprobs"]
    assert completion["logprobs"][0]["logprob"] is None


class Vocabulary(EngineClient):
    """Tokenizes as SentencePiece does: a BOS, then a space before each string; ids 100 and up are the pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(Settings())
        self.pieces = pieces

    def tokenize(self, parts: Any, *, add_special: bool = False, parse_special: bool = True) -> list[int]:
        return list(range(len(self.pieces)))

    def detokenize(self, tokens: Any) -> list[bytes]:
        return [self.pieces[token] for token in tokens]


@pytest.mark.parametrize(
    ("prompt", "pieces", "text", "expected"),
    [
        (("Once upon",), [b"<s>", b" Once", b" upon"], "Once upon", ["", "Once", " upon"]),
        (("a☃",), [b"<s>", b" a", b"\xe2", b"\x98\x83"], "a☃", ["", "a", "", "☃"]),
        (("a", 5, "b"), [b"<s>", b" a", b"!", b" b"], "a!b", ["", "a", "!", "b"]),
        ((1, 5), [b"<s>", b" a"], "<s> a", ["<s>", " a"]),
        (("a<|end|>",), [b" a", b"<|end|>"], "a<|end|>", ["a", "<|end|>"]),
        (("a",), [b" a", b"</s>"], "a", ["a", ""]),
        (("ＡＢ",), [b"<s>", b" A", b"B"], "ＡＢ", ["<s>", " A", "B"]),  # a tokenizer that normalizes
        ((5,), [b"\xff"], "\ufffd", ["\ufffd"]),
    ],
)
def test_pieces_leave_out_what_the_tokenizer_added(
    prompt: Prompt, pieces: list[bytes], text: str, expected: list[str]
) -> None:
    echo = read_back(Vocabulary(pieces), prompt, with_pieces=True)
    assert echo.text == text
    assert list(echo.pieces) == expected


# ---- suffix


@pytest.fixture
def filling_in(monkeypatch: pytest.MonkeyPatch) -> None:
    model = replace(
        scripted.MODEL, has_fill_in_the_middle=True, fim={"pre": 5, "suf": 6, "mid": 7, "rep": -1, "sep": -1}
    )
    monkeypatch.setattr(scripted, "MODEL", model)


@pytest.mark.usefixtures("filling_in")
def test_a_suffix_asks_for_what_stands_between() -> None:
    http, engine = serve()
    [choice] = post(http, **OPENAI, prompt=["Once", 3], suffix=" The end.", echo=True).json["choices"]
    command = engine.sent[-1]
    assert command.prompt == (1, 5, "Once", 3, 6, " The end.", 7)
    assert not command.add_special
    assert choice["text"] == "Once\x03 0.0 0.1 0.2"


@pytest.mark.usefixtures("filling_in")
def test_the_suffix_comes_first_where_the_setting_says_so() -> None:
    http, engine = serve(spm_infill=True)
    assert post(http, **OPENAI, prompt="Once", suffix=" The end.").status_code == 200
    assert engine.sent[-1].prompt == (1, 6, " The end.", 5, "Once", 7)


@pytest.mark.usefixtures("filling_in")
def test_a_suffix_with_the_prompts_logprobs_is_refused() -> None:
    http, _ = serve()
    response = post(http, **OPENAI, suffix=" The end.", echo=True, logprobs=1)
    assert response.status_code == 400
    assert response.json["error"]["param"] == "echo"


def test_a_model_that_cannot_fill_in_refuses_a_suffix_and_takes_an_empty_one() -> None:
    http, _ = serve()
    response = post(http, **OPENAI, suffix=" The end.")
    assert response.status_code == 400
    assert response.json["error"]["param"] == "suffix"
    assert post(http, **OPENAI, suffix="").status_code == 200


# ---- what is accepted


@pytest.mark.parametrize("user", ["me", 7, None, {"id": "me"}])
def test_model_and_user_have_no_effect_and_a_model_is_a_string(user: Any) -> None:
    http, engine = serve()
    assert post(http, model="gpt-4", user=user).status_code == 200
    assert "gpt-4" not in repr(engine.sent)
    response = post(http, model=7)
    assert response.status_code == 400
    assert response.json["error"]["param"] == "model"


def test_probabilities_after_sampling_have_logarithms_in_the_legacy_arrays() -> None:
    def sampled(command: Generate) -> Iterable[list[Event]]:
        tops = [{"id": 1, "token": " a", "bytes": [], "prob": 1.0}, {"id": 2, "token": " b", "bytes": [], "prob": 0.0}]
        probs = [{"id": 1, "token": " a", "bytes": [], "prob": 1.0, "top_probs": tops}]
        yield [Accepted(command.request_id, 1), Delta(command.request_id, 0, " a", [1], probs)]
        yield [BranchEnded(command.request_id, 0, "eos", 1), Done(command.request_id, 1, 0, 1, 1.0, 1.0)]

    http, engine = serve(sampled)
    [choice] = post(http, **OPENAI, logprobs=2, post_sampling_probs=True).json["choices"]
    assert engine.sent[0].branches[0].sampling.post_sampling_probs
    assert choice["logprobs"]["token_logprobs"] == [0.0]
    assert [list(top.items()) for top in choice["logprobs"]["top_logprobs"]] == [[(" a", 0.0), (" b", -1e9)]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/completions", SRB), ("/v1/completions", OPENAI), ("/v1/srb/completions", {}), ("/completion", {"n": 1})],
)
def test_timings_say_how_many_tokens_were_computed_in_every_dialect(
    path: str, body: dict[str, Any], stream: bool
) -> None:
    """Of a prompt of nine tokens, of which four were cached and two removed; one was computed to heal it."""

    def healed(command: Generate) -> Iterable[list[Event]]:
        request_id, count = command.request_id, len(command.branches)
        yield [Accepted(request_id, 9), PromptDone(request_id, 4, 0, 3.0, computed_tokens=3)]
        yield [
            BranchEnded(request_id, 0, "eos", 0, given_computed=1),
            *(BranchEnded(request_id, index, "eos", 0) for index in range(1, count)),
            Done(request_id, 9, 4, 0, 3.0, 1.0, computed_tokens=4),
        ]

    http, _ = serve(healed)
    said = http.post(path, data=orjson.dumps({"prompt": "x", "stream": stream, **body}))
    timings = (events(said.text)[-1] if stream else said.json)["timings"]
    assert (timings["cache_n"], timings["prompt_n"]) == (4, 4)


def test_progress_of_the_prompt_comes_in_chunks_of_its_first_choice() -> None:
    def slowly(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 9), Progress(command.request_id, 9, 2, 5, 1.6)]
        yield [BranchEnded(command.request_id, 0, "eos", 0), Done(command.request_id, 9, 2, 0, 1.0, 1.0)]

    http, engine = serve(slowly)
    first, *_ = events(post(http, **OPENAI, stream=True, return_progress=True).text)
    assert engine.sent[0].report_progress
    assert first["prompt_progress"] == {"total": 9, "cache": 2, "processed": 5, "time_ms": 1}
    assert first["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}]


def test_verbose_adds_the_llamacpp_dialects_object_to_the_answer_and_to_each_event() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 9), Progress(command.request_id, 9, 2, 5, 1.5)]
        yield [PromptDone(command.request_id, 2, 0, 3.0)]
        yield [Delta(command.request_id, 0, "a", [5])]
        yield [Delta(command.request_id, 0, "", [6])]
        yield [BranchEnded(command.request_id, 0, "limit", 2), Done(command.request_id, 9, 2, 2, 1.0, 1.0)]

    http, _ = serve(script)
    whole = post(http, **OPENAI, verbose=True)
    read("openai.TextCompletion", whole.data)
    found = whole.json["__verbose"]
    assert (found["content"], found["prompt"], found["tokens_evaluated"]) == ("a", "<s>x", 9)
    assert found["timings"]["cache_n"] == 2
    response = post(http, **OPENAI, verbose=True, stream=True, return_progress=True, timings_per_token=True)
    streamed = events(response.text)
    for event in streamed:
        read("openai.TextCompletionChunk", orjson.dumps(event))
    progress, first, second, last = (event["__verbose"] for event in streamed)
    assert progress["prompt_progress"] == streamed[0]["prompt_progress"]
    assert [(part["content"], part["tokens_predicted"]) for part in (first, second)] == [("a", 1), ("", 2)]
    assert first["timings"]["predicted_n"] == 1
    assert (last["stop"], last["stop_type"], last["tokens_predicted"]) == (True, "limit", 2)
    assert "__verbose" not in post(http, **OPENAI).json
    assert all("__verbose" not in event for event in events(post(http, **OPENAI, stream=True).text))
    assert "__verbose" not in http.post("/v1/srb/completions", data=b'{"prompt": "x", "n": 1, "verbose": true}').text
