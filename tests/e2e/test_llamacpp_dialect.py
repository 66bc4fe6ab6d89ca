"""The llamacpp dialect on a whole server: gunicorn, real workers, a real engine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from srb.version import version
from tests.e2e.streams import ENDLESS, Stream
from tests.processes import DEADLINE, wait_for
from tests.servers import PACED, MakeServer, Server
from tests.shapes import read

pytestmark = pytest.mark.e2e

WELL = {"prompt": "Once upon a time,", "n_predict": 12, "seed": 7}
LONG = WELL | {"n": 32, "n_predict": 250, "ignore_eos": True, "stream": True}  # takes more than a moment


def ask(server: Server, path: str = "/completion", **body: Any) -> requests.Response:
    return server.post(path, {**WELL, **body})


def events(response: requests.Response) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in response.text.removesuffix("\n\n").split("\n\n")]


def check_error(response: requests.Response, status: int, kind: str, words: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["type"] == kind
    assert type(error["code"]) is str or error["code"] == status  # a word on OpenAI's routes
    assert words in error["message"]
    return error


# ---- completions


def test_a_completion_has_its_shape_streamed_and_not_and_the_same_text(tiny: Server) -> None:
    answer = read("llamacpp.Final", ask(tiny, return_tokens=True, n_probs=2).content)
    assert answer["tokens_predicted"] == len(answer["tokens"]) == 12
    assert (answer["stop_type"], answer["stopped_limit"]) == ("limit", True)
    assert "".join(entry["token"] for entry in answer["completion_probabilities"]) == answer["content"]
    response = ask(tiny, stream=True, n_probs=2, timings_per_token=True, return_progress=True, cache_prompt=False)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    found = [read("llamacpp.LlamaEvent", json.dumps(event)) for event in events(response)]
    read("llamacpp.Final", json.dumps(found[-1]))
    assert "".join(event["content"] for event in found) == answer["content"]
    assert found[-1]["tokens_predicted"] == 12
    assert any("prompt_progress" in event for event in found)


def test_branches_are_a_list_with_seeds_of_their_own_and_texts_that_can_be_had_again(tiny: Server) -> None:
    branches = ask(tiny, n=3).json()
    seeds = [branch["generation_settings"]["seed"] for branch in branches]
    assert seeds == [7, 8, 9]
    for branch, seed in zip(branches, seeds, strict=True):
        assert ask(tiny, seed=seed).json()["content"] == branch["content"]


def test_a_prompt_sent_again_is_cached(tiny: Server) -> None:
    prompt = "A prompt that nobody has sent to this server before this test came along."
    cold, warm = ask(tiny, prompt=prompt).json(), ask(tiny, prompt=prompt).json()
    assert cold["timings"]["prompt_n"] == cold["tokens_evaluated"] - cold["timings"]["cache_n"]
    assert warm["timings"]["cache_n"] > cold["timings"]["cache_n"]


def test_n_predict_0_warms_the_prompt_up(tiny: Server) -> None:
    prompt = "Only to be computed, and continued later by somebody else."
    answer = ask(tiny, prompt=prompt, n_predict=0).json()
    assert (answer["content"], answer["tokens_predicted"]) == ("", 0)
    assert ask(tiny, prompt=prompt).json()["timings"]["cache_n"] >= answer["tokens_evaluated"] - 1


def test_a_stop_string_ends_the_text_before_it(storyteller: Server) -> None:
    whole = ask(storyteller, n_predict=64).json()["content"]
    word = whole.split()[5]
    answer = ask(storyteller, n_predict=64, stop=[word]).json()
    assert (answer["stop_type"], answer["stopping_word"]) == ("word", word)
    assert whole.startswith(answer["content"])
    assert word not in answer["content"]


def test_json_schemas_and_grammars_hold(storyteller: Server) -> None:
    schema = {"type": "object", "properties": {"old": {"type": "boolean"}}, "required": ["old"]}
    assert set(json.loads(ask(storyteller, json_schema=schema, n_predict=40).json()["content"])) == {"old"}
    grammar = 'root ::= "yes" | "no"'
    assert ask(storyteller, grammar=grammar, json_schema=schema).json()["content"] in ("yes", "no")


def test_penalties_look_at_another_prompt_where_there_is_one(tiny: Server) -> None:
    said = {"temperature": 0, "repeat_penalty": 1.5, "repeat_last_n": 100, "n_predict": 4}
    by_default = ask(tiny, **said).json()["content"]
    assert ask(tiny, penalty_prompt=WELL["prompt"], **said).json()["content"] == by_default
    favourite = ask(tiny, penalty_prompt="", **said, return_tokens=True).json()["tokens"][0]
    without = ask(tiny, penalty_prompt=[favourite], **said, return_tokens=True).json()["tokens"][0]
    assert without != favourite
    check_error(ask(tiny, penalty_prompt=[10**6]), 400, "invalid_request_error", "penalty_prompt")


def test_a_list_of_2024_without_penalties_has_them_nevertheless(tiny: Server) -> None:
    said = {"temperature": 0, "presence_penalty": 100.0, "n_predict": 12, "return_tokens": True}
    named = ask(tiny, samplers=["penalties", "top_k", "temperature"], **said).json()
    unnamed = ask(tiny, samplers=["top_k", "temperature"], **said).json()
    assert unnamed["tokens"] == named["tokens"]
    assert len(set(unnamed["tokens"])) == 12  # no token twice
    assert unnamed["generation_settings"]["samplers"] == ["penalties", "top_k", "temperature"]


def test_infill_fills_in(storyteller: Server) -> None:
    body = {
        "input_prefix": "Once upon a time there was a ",
        "input_suffix": " who lived in the wood.",
        "prompt": "small ",
    }
    response = ask(storyteller, "/infill", stream=False, **body)
    answer = read("llamacpp.Final", response.content)
    assert answer["prompt"].endswith("small <|fim_suffix|> who lived in the wood.<|fim_middle|>")
    assert answer["content"]
    fill = storyteller.get("/v1/srb/server").json()["fill"]
    assert fill["prefix"] in answer["prompt"]
    assert answer["prompt"].endswith(fill["middle"])
    assert events(ask(storyteller, "/infill", **body))[-1]["stop"]


def test_the_text_of_a_prompt_of_tokens_is_given_back(storyteller: Server) -> None:
    tokens = storyteller.post("/tokenize", {"content": "Once upon a time,"}).json()["tokens"]
    assert ask(storyteller, prompt=tokens).json()["prompt"] == "Once upon a time,"
    assert ask(storyteller, prompt="Once upon").json()["prompt"].endswith(">Once upon")


# ---- what is refused


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3", 10**9, 10**30])
def test_a_bad_number_of_branches_is_400(storyteller: Server, n: Any) -> None:
    data = json.dumps({**WELL, "n": n})
    response = requests.post(storyteller.url + "/completion", data=data, timeout=DEADLINE)
    check_error(response, 400, "invalid_request_error", "Field 'n'" if n != 10**30 else "")


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_beyond_the_context_is_400_with_both_lengths(storyteller: Server, stream: bool) -> None:
    long = [{"role": "user", "content": "a " * 9000}]
    for response in (
        ask(storyteller, prompt="a " * 9000, stream=stream),
        storyteller.post("/v1/chat/completions", {"messages": long, "stream": stream}),
    ):
        error = check_error(response, 400, "exceed_context_size_error", "exceeds the available context size")
        assert error["n_prompt_tokens"] > error["n_ctx"]


def test_a_chats_progress_is_told_batch_by_batch_and_verbose_has_the_whole_prompt(storyteller: Server) -> None:
    said = " ".join(f"It is sentence {number} of a long message." for number in range(90))
    body = {"messages": [{"role": "user", "content": said}], "max_tokens": 1, "stream": True, "cache_prompt": False}
    response = storyteller.post("/v1/chat/completions", {**body, "return_progress": True, "verbose": True})
    assert response.text.endswith("data: [DONE]\n\n")
    found = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n")[:-2]]
    told = [chunk["prompt_progress"] for chunk in found if "prompt_progress" in chunk]
    assert all(set(progress) == {"total", "cache", "processed", "time_ms"} for progress in told)
    processed = [progress["processed"] for progress in told]
    assert (processed[0], processed[-1]) == (told[0]["cache"], told[0]["total"])
    assert processed == sorted(set(processed))
    assert len(processed) > 2
    (verbose,) = (chunk["__verbose"] for chunk in found if "__verbose" in chunk)
    assert verbose["tokens_evaluated"] == told[0]["total"]
    assert said in verbose["prompt"]


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [10**6]}, {"prompt": ["x", 10**6]}, {"repeat_last_n": -2}, {"n_discard": -1}, {"n_keep": -2},
        {"lora": [{"id": 7, "scale": 1}]}, {"grammar": "root ::= ("}, {"json_schema": {"type": "nothing"}},
        {"temperature": 10**400}, {"top_p": "x"}, {"repeat_penalty": 0}, {"prompt": []},
    ],
)  # fmt: skip
def test_input_that_would_abort_native_code_is_400_and_the_engine_lives(
    storyteller: Server, body: dict[str, Any]
) -> None:
    engine = storyteller.engine
    check_error(ask(storyteller, **body), 400, "invalid_request_error", "")
    assert ask(storyteller).status_code == 200
    assert storyteller.engine == engine


def test_a_token_id_outside_the_vocabulary_is_400_also_for_detokenize(storyteller: Server) -> None:
    check_error(storyteller.post("/detokenize", {"tokens": [10**6]}), 400, "invalid_request_error", "vocabulary")


def test_head_on_a_generating_route_is_405(storyteller: Server) -> None:
    assert requests.head(storyteller.url + "/completion", timeout=DEADLINE).status_code == 405


# ---- tokens, properties, slots


@pytest.mark.parametrize("text", ["Once upon a time,", "naïve — 雪 🦊", "", " \n\t", "<|fim_middle|>"])
def test_tokens_lead_back_to_the_text(storyteller: Server, text: str) -> None:
    response = storyteller.post("/tokenize", {"content": text, "with_pieces": True})
    found = read("llamacpp.TokenList", response.content)
    ids = [entry["id"] for entry in response.json()["tokens"]]
    assert len(ids) == found["count"]
    assert storyteller.post("/detokenize", {"tokens": ids}).json() == {"content": text}
    pieces = [entry["piece"] for entry in response.json()["tokens"]]
    assert b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces).decode() == text


def test_properties_are_those_of_the_model(storyteller: Server) -> None:
    found = read("llamacpp.Props", storyteller.get("/props").content)
    assert found["default_generation_settings"]["n_ctx"] > 0
    assert found["chat_template"]
    assert found["model_path"].endswith("storyteller.gguf")


def test_slots_and_health_show_what_runs(storyteller: Server) -> None:
    def busy() -> list[Any]:
        slots = [read("llamacpp.Slot", json.dumps(slot)) for slot in storyteller.get("/slots").json()]
        return [slot for slot in slots if slot["is_processing"]]

    with requests.post(storyteller.url + "/completion", json=LONG, stream=True, timeout=DEADLINE) as stream:
        lines = stream.iter_lines()  # kept: without it the connection would be closed
        next(lines)
        health = read("llamacpp.Health", storyteller.get("/health").content)
        slots = busy()
    assert health["slots_processing"] == len(slots) == LONG["n"]
    assert all(slot["next_token"][0]["n_decoded"] > 0 and slot["params"] for slot in slots)
    wait_for(lambda: not busy(), "the branches were cancelled")


def test_a_client_that_leaves_ends_its_branches(storyteller: Server) -> None:
    body = json.dumps(LONG | {"stream": False}).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with contextlib.closing(socket.create_connection(("127.0.0.1", storyteller.port))) as client:
        client.sendall(head.encode() + body)
        wait_for(lambda: storyteller.get("/health").json()["slots_processing"] > 0, "branches run")
    wait_for(lambda: storyteller.get("/health").json()["slots_processing"] == 0, "they were cancelled")


@pytest.mark.parametrize("path", ["/health", "/nowhere", "/completion", "/metrics"])
def test_every_answer_has_llama_cpps_server_header(storyteller: Server, path: str) -> None:
    assert storyteller.get(path).headers["Server"] == "llama.cpp"


def test_a_stream_says_so_too(storyteller: Server) -> None:
    assert ask(storyteller, stream=True).headers["Server"] == "llama.cpp"


def test_the_number_of_computing_threads_is_a_metric(storyteller: Server) -> None:
    assert storyteller.metric("srb:threads") == int(storyteller.environ["SRB_THREADS"])


# ---- several workers


def counts(server: Server) -> dict[str, float]:
    text = server.get("/metrics").text
    return {name: float(value) for name, value in re.findall(r"^(srb:http\S+) (\S+)$", text, re.MULTILINE)}


ANSWERED = 'srb:http_requests_total{method="POST",route="/completion",status="200"}'


def test_metrics_of_any_worker_cover_all_and_drop_a_dead_workers_open_calls(make_server: MakeServer) -> None:
    server = make_server(workers=2).start()

    def count(_: int) -> int:
        return ask(server).status_code

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, range(40))) == [200] * 40
    assert {counts(server)[ANSWERED] for _ in range(8)} == {40.0}

    with requests.post(
        server.url + "/completion", json=LONG | {"n_predict": 3000}, stream=True, timeout=DEADLINE
    ) as stream:
        lines = stream.iter_lines()  # kept: without it the connection would be closed
        next(lines)
        assert {counts(server)["srb:http_calls_open"] for _ in range(8)} == {1.0}
        workers = server.workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(server.workers) == 2 and not set(workers) & set(server.workers), "there are new workers")
    wait_for(lambda: server.health() == 200, "they answer")
    wait_for(lambda: counts(server)["srb:http_calls_open"] == 0.0, "nothing is open")
    assert counts(server)[ANSWERED] == 41.0


def test_a_system_prompt_holds_in_all_workers_and_ends_with_the_server(make_server: MakeServer) -> None:
    server = make_server(workers=2).start()
    ask(server, system_prompt={"prompt": "A dialogue. ", "anti_prompt": "U:", "assistant_name": "A:"})
    assert {server.get("/props").json()["system_prompt"] for _ in range(16)} == {"A dialogue. "}
    assert {ask(server).json()["prompt"].endswith("A dialogue. Once upon a time,") for _ in range(16)} == {True}
    server.stop()
    assert not server.runtime.exists()


def test_a_slots_text_outlives_the_server_under_the_name_of_a_file(make_server: MakeServer, tmp_path: Path) -> None:
    def slot(server: Server, action: str, name: str = "story.bin") -> requests.Response:
        return server.post(f"/slots/0?action={action}", {"filename": name})

    settings = {"model": "", "n_ctx": 2048, "threads": 1, "state_dir": tmp_path / "states"}
    first = make_server(**settings).start()
    answer = ask(first, n_predict=40).json()
    saved = slot(first, "save").json()
    assert saved["n_saved"] >= answer["tokens_evaluated"] + answer["tokens_predicted"] - 1
    assert saved["n_written"] > 0
    check_error(slot(first, "restore", "nothing.bin"), 400, "invalid_request_error", "Unable to restore slot")
    assert slot(first, "erase").json()["n_erased"] > 0
    first.stop()

    second = make_server(**settings).start()
    restored = slot(second, "restore").json()
    assert (restored["n_restored"], restored["n_read"]) == (saved["n_saved"], saved["n_written"])
    again = ask(second, prompt=WELL["prompt"] + answer["content"]).json()
    assert again["timings"]["cache_n"] >= answer["tokens_evaluated"]


def test_each_conversation_is_saved_from_the_slot_that_it_asked_for(make_server: MakeServer, tmp_path: Path) -> None:
    def save(server: Server, slot: int) -> dict[str, Any]:
        saved: dict[str, Any] = server.post(f"/slots/{slot}?action=save", {"filename": f"slot-{slot}"}).json()
        return saved

    first = make_server(state_dir=tmp_path / "states").start()
    prompts = {2: "the fox said that the lamp was lost", 0: "the girl opened a letter"}
    answers = {slot: ask(first, prompt=prompt, id_slot=slot).json() for slot, prompt in prompts.items()}
    chat = {"messages": [{"role": "user", "content": "a quiet river"}], "max_tokens": 4}
    assert first.post("/v1/chat/completions", {**chat, "id_slot": 3}).status_code == 200
    others = ask(first, prompt="another client", n=3).json()
    assert [answer["id_slot"] for answer in (*answers.values(), *others)] == [2, 0, 1, 4, 5]
    saved = {slot: save(first, slot)["n_saved"] for slot in (2, 0, 3)}
    assert all(
        saved[slot] == answer["tokens_evaluated"] + answer["tokens_predicted"] - 1 for slot, answer in answers.items()
    )
    first.stop()

    second = make_server(state_dir=tmp_path / "states").start()
    assert second.post("/slots/2?action=restore", {"filename": "slot-2"}).json()["n_restored"] == saved[2]
    again = ask(second, prompt=prompts[2] + answers[2]["content"], id_slot=2, n_predict=1).json()
    assert (again["id_slot"], again["timings"]["cache_n"]) == (2, saved[2])


def test_answers_have_the_first_of_several_names(make_server: MakeServer) -> None:
    server = make_server(alias="first,second").start()
    [model] = server.get("/v1/models").json()["data"]
    assert (model["id"], model["aliases"], model["tags"]) == ("first", ["first", "second"], [])
    assert ask(server).json()["model"] == server.get("/props").json()["model_alias"] == "first"
    assert {slot["model"] for slot in server.get("/slots").json()} == {"first"}
    chat = {"model": "second", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
    assert server.post("/v1/chat/completions", chat).json()["model"] == "first"


def test_a_limit_of_requests_is_told_and_kept(make_server: MakeServer) -> None:
    server = make_server(model=PACED, parallel=2).start()
    assert server.get("/props").json()["total_slots"] == len(server.get("/slots").json()) == 2
    streams = [Stream(server, ENDLESS | {"n": 3}) for _ in range(2)]
    for stream in streams:
        stream.until("stream")
    slots = [read("llamacpp.FullSlot", json.dumps(slot)) for slot in server.get("/slots").json()]
    assert [(slot["id"], slot["is_processing"], len(slot["next_token"])) for slot in slots] == [
        (0, True, 3),
        (1, True, 3),
    ]
    full = {"status": "no slot available", "slots_idle": 0, "slots_processing": 6, "version": version()}
    assert server.get("/health").json() == full
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, server)
        wait_for(lambda: server.metric("requests_deferred") == 1, "the third request waits")
        streams.pop().close()
        assert waiting.result().json()["id_slot"] in (0, 1)
    streams.pop().close()


def test_a_system_prompt_alone_is_computed_and_holds_for_all(make_server: MakeServer) -> None:
    server = make_server(workers=2).start()
    text = "Transcript of a never ending dialog, where the User interacts with an Assistant.\nUser:"
    system = {"prompt": text, "anti_prompt": "User:", "assistant_name": "Assistant:"}
    answer = read("llamacpp.Final", server.post("/completion", {"system_prompt": system}).content)
    assert (answer["content"], answer["tokens_predicted"], answer["stop_type"]) == ("", 0, "limit")
    for _ in range(8):
        assert server.get("/props").json()["system_prompt"] == text
    after = read("llamacpp.Final", server.post("/completion", {"prompt": " Hello", "n_predict": 2}).content)
    assert after["prompt"].endswith(f"{text} Hello")
    assert after["timings"]["cache_n"] >= answer["tokens_evaluated"] - 1


def test_a_server_says_that_it_is_full_while_a_request_would_wait(make_server: MakeServer) -> None:
    server = make_server(model=PACED).start()
    slots = server.get("/props").json()["total_slots"]
    free = {
        "status": "ok",
        "slots_idle": slots - 1,
        "slots_processing": 0,
        "version": version(),
    }  # a prompt has one, too
    assert server.get("/health?fail_on_no_slot").json() == free
    stream = Stream(server, ENDLESS | {"n": slots})
    stream.until("stream")
    full = {"status": "no slot available", "slots_idle": 0, "slots_processing": slots - 1, "version": version()}
    wait_for(lambda: server.get("/health").json() == full, "all that can run does")
    assert server.get("/health").status_code == server.get("/slots").status_code == 200
    assert server.get("/health?fail_on_no_slot").status_code == 503
    refused = server.get("/slots?fail_on_no_slot")
    assert (refused.status_code, refused.json()["error"]["message"]) == (503, "no slot available")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.post, "/completion", {"prompt": "Once", "n_predict": 2})
        wait_for(lambda: server.metric("requests_deferred") == 1, "a request that comes now waits")
        stream.close()
        assert waiting.result().status_code == 200
    wait_for(lambda: server.get("/health?fail_on_no_slot").json() == free, "there is room again")
    assert server.get("/slots?fail_on_no_slot").status_code == 200
