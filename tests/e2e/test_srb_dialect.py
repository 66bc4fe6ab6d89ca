"""The srb dialect on a whole server with a real model: what the project promises, seen from outside."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import sseclient
import urllib3

from tests.models.random_gguf import write_llama
from tests.pattern_oracle import hits_in
from tests.processes import DEADLINE, wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

Event = dict[str, Any]

SHORT, BRIEF = 24, 12  # tokens


def events(text: str) -> list[Event]:
    """Return the events of a whole response, whose form has to be strict SSE with nothing between the events."""
    blocks = text.split("\n\n")
    assert blocks.pop() == "", "the last event is ended by a blank line, too"
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def ask(server: Server, **body: Any) -> list[Event]:
    response = server.post("/v1/srb/completions", {"prompt": "Once upon a time,", **body})
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/event-stream")
    return events(response.text)


def complete(server: Server, **body: Any) -> dict[str, Any]:
    """Ask for one JSON answer instead of a stream."""
    response = server.post("/v1/srb/completions", {"prompt": "Once upon a time,", "stream": False, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def written(answer: dict[str, Any]) -> list[str]:
    return [completion["text"] for completion in answer["completions"]]


def texts(found: list[Event]) -> dict[int, str]:
    """Return what the stream events of each branch say together."""
    by_index: dict[int, str] = defaultdict(str)
    for event in found:
        if event["event"] == "stream":
            by_index[event["index"]] += event["text"]
    return dict(sorted(by_index.items()))


# The seed's page --------------------------------------------------------------------------------------------------


def test_the_command_of_the_first_page_writes_eight_different_stories(storyteller: Server) -> None:
    command = ["curl", "-sS", "-N", "-X", "POST", "-H", "Content-type: application/json"]
    command += [f"{storyteller.url}/v1/completions", "-d", '{ "prompt": "Once upon a time," }']
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
    first, *middle, last = events(done.stdout)

    assert (first["event"], first["count"]) == ("start", 8)
    assert first["seeds"] == [first["seeds"][0] + i for i in range(8)]
    assert (last["event"], last["count"]) == ("done", 8)
    assert {event["event"] for event in middle} == {"stream", "stop"}
    assert all(event.keys() == {"event", "index", "text"} for event in middle if event["event"] == "stream")

    stops = [event for event in middle if event["event"] == "stop"]
    assert sorted(stop["index"] for stop in stops) == list(range(8))
    assert all((stop["stop"], stop["reason"]) in ((1, "eos"), (0, "limit")) for stop in stops)
    assert all(0 < stop["length"] <= 128 for stop in stops)
    for stop in stops:  # nothing comes from a branch that has stopped
        after = middle[middle.index(stop) + 1 :]
        assert stop["index"] not in {event["index"] for event in after}
    assert sum(stop["length"] for stop in stops) == last["usage"]["completion_tokens"]

    stories = texts(middle)
    assert sorted(stories) == list(range(8))
    assert len(set(stories.values())) == 8


def test_branches_advance_side_by_side(storyteller: Server) -> None:
    streamed = [event["index"] for event in ask(storyteller, n=5, max_tokens=BRIEF, ignore_eos=True)
                if event["event"] == "stream"]  # fmt: skip
    assert set(streamed[:10]) == set(range(5))  # a token may be a part of a character, which has no event
    assert streamed[-5:] != [streamed[-1]] * 5


def test_text_flows_while_it_is_made(paced: Server) -> None:
    server = paced
    body = {"prompt": "Once upon a time,", "n": 4, "max_tokens": -1, "ignore_eos": True}  # far longer than the test
    with server.post("/v1/srb/completions", body, stream=True) as response:
        lines = response.iter_lines(chunk_size=1)
        while not next(lines).startswith(b'data: {"event":"stream"'):
            pass
        assert server.metric("branches_running") > 0  # the first words are here, and none of them has ended
    wait_for(lambda: server.metric("requests_processing") == 0, "who leaves ends the branches")


# n and seeds ------------------------------------------------------------------------------------------------------


def test_branch_i_is_what_seed_plus_i_writes_alone(tiny: Server) -> None:
    together = written(complete(tiny, n=8, seed=1000, max_tokens=SHORT))
    alone = [written(complete(tiny, n=1, seed=1000 + i, max_tokens=SHORT))[0] for i in range(8)]
    assert together == alone
    assert len(set(together)) == 8


def test_a_branch_of_an_unseeded_request_can_be_had_again_by_its_reported_seed(tiny: Server) -> None:
    answer = complete(tiny, n=4, max_tokens=SHORT)
    again = complete(tiny, n=1, seed=answer["seeds"][2], max_tokens=SHORT)
    assert written(again) == [written(answer)[2]]
    assert complete(tiny, n=4, max_tokens=SHORT)["seeds"] != answer["seeds"]


def test_prompt_tokens_are_evaluated_once_whatever_n_is(storyteller: Server) -> None:
    evaluated = {}
    for n in (1, 8, 32):  # another prompt each time, of the same length, so that nothing of it is known already
        prompt = [1000 + n, *range(300, 600)]
        before = storyteller.metric("prompt_tokens_total")
        usage = complete(storyteller, prompt=prompt, n=n, max_tokens=2)["usage"]
        evaluated[n] = storyteller.metric("prompt_tokens_total") - before
        assert usage["prompt_tokens"] == len(prompt)
    assert evaluated == dict.fromkeys((1, 8, 32), 301)


def test_what_has_been_computed_is_not_computed_again(storyteller: Server) -> None:
    prompt = [900, *range(600, 800)]
    first = complete(storyteller, prompt=prompt, n=3, max_tokens=BRIEF, ignore_eos=True, logprobs=0)
    before = storyteller.metric("prompt_tokens_total")
    again = complete(storyteller, prompt=prompt, n=5, max_tokens=2)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == len(prompt)
    for completion in first["completions"]:  # go on from every branch, not from one that was picked
        written_ids = [entry["id"] for entry in completion["logprobs"]]
        usage = complete(storyteller, prompt=[*prompt, *written_ids, 1234], n=2, max_tokens=2)["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= len(prompt) + BRIEF - 1  # its last was never computed
    assert storyteller.metric("prompt_tokens_total") - before <= 2 * len(first["completions"])


def test_more_branches_than_sequences_run_in_waves_on_a_model_of_ones_own(
    make_server: MakeServer, tmp_path: Path
) -> None:
    own = write_llama(tmp_path / "own.gguf")
    server = make_server(model=own, n_ctx=512, n_seq_max=3, n=10).start()
    assert server.get("/v1/models").json()["data"][0]["id"] == "own"
    first, *_, last = found = ask(server, max_tokens=BRIEF, seed=5, ignore_eos=True)
    assert (first["count"], last["count"]) == (10, 10)
    assert [event["length"] for event in found if event["event"] == "stop"] == [BRIEF] * 10
    assert len(set(texts(found).values())) == 10
    assert server.metric("sequences") == 3


def test_requests_of_many_threads_get_their_own_texts(tiny: Server) -> None:
    bodies = [
        {"prompt": prompt, "n": n, "seed": 100 * n, "max_tokens": BRIEF}
        for n in (1, 2, 5)
        for prompt in ("Once upon a time,", "The lighthouse keeper", "In the old library")
    ]
    one_by_one = [written(complete(tiny, **body)) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as threads:
        at_once = list(threads.map(lambda body: written(complete(tiny, **body)), bodies))
    assert at_once == one_by_one


# Ends and extras --------------------------------------------------------------------------------------------------


def test_a_stop_string_ends_its_branch_alone_and_is_not_shown(tiny: Server) -> None:
    plain = written(complete(tiny, n=3, seed=7, max_tokens=SHORT))
    word = plain[0][12:16]  # where it does not occur by chance, the other branches write what they wrote
    found = ask(tiny, n=3, seed=7, max_tokens=SHORT, stop=[word])
    assert texts(found) == {index: text.partition(word)[0] for index, text in enumerate(plain)}
    stop = next(event for event in found if event["event"] == "stop" and event["index"] == 0)
    assert (stop["stop"], stop["reason"], stop["stopping_word"]) == (1, "word", word)


def test_banned_strings_never_come_and_other_texts_are_as_before(storyteller: Server) -> None:
    before = texts(ask(storyteller, n=8, seed=3, max_tokens=40))
    banned = [" ".join(text.split()[1:3]).upper() for text in before.values()][:7]
    found = ask(storyteller, n=8, seed=3, max_tokens=40, banned_strings=[*banned, " The "])
    rewinds = {event["index"]: event.get("rewinds", 0) for event in found if event["event"] == "stop"}
    assert sum(rewinds.values()) > 0
    assert storyteller.metric("rewinds_total") >= sum(rewinds.values())
    for index, text in texts(found).items():
        assert not any(string.lower() in text.lower() for string in [*banned, " The "])
        assert rewinds[index] or text == before[index]


def test_banned_patterns_never_match_and_one_with_a_weight_stands_as_its_seed_says(storyteller: Server) -> None:
    before = texts(ask(storyteller, n=8, seed=3, max_tokens=40))
    patterns = [{"pattern": r"\b(?:the|a) \w+ed?\b"}, {"pattern": r"\bof\b", "weight": 0.3}]
    found, again = (ask(storyteller, n=8, seed=3, max_tokens=40, banned_patterns=patterns) for _ in range(2))
    assert texts(found) == texts(again)
    for index, text in texts(found).items():
        listed = tuple((entry["pattern"], entry.get("weight", 0.0), False) for entry in patterns)
        assert hits_in(text, listed, 3 + index) == []
    stops = [event for event in found if event["event"] == "stop"]
    assert sum(event.get("rewinds", 0) for event in stops) > 0
    assert all(event.get("rewinds") or texts(found)[event["index"]] == before[event["index"]] for event in stops)


def test_logprobs_spell_the_text(storyteller: Server) -> None:
    found = ask(storyteller, n=1, max_tokens=BRIEF, ignore_eos=True, logprobs=2)
    entries = [entry for event in found if event["event"] == "stream" for entry in event["logprobs"]]
    assert len(entries) == BRIEF
    assert "".join(entry["token"] for entry in entries) == texts(found)[0]
    for entry in entries:
        best, second = entry["top_logprobs"]
        assert 0 >= best["logprob"] >= second["logprob"]
        assert best["logprob"] >= entry["logprob"]
    [stop] = [event for event in found if event["event"] == "stop"]
    assert stop["logprob"] == pytest.approx(sum(entry["logprob"] for entry in entries) / stop["length"])


def test_one_answer_says_what_the_stream_says(tiny: Server) -> None:
    body = {"n": 3, "seed": 11, "max_tokens": SHORT}
    answer, found = complete(tiny, **body), ask(tiny, **body)
    assert written(answer) == list(texts(found).values())
    ends = [event for event in found if event["event"] == "stop"]
    for completion in answer["completions"]:
        [end] = [event for event in ends if event["index"] == completion["index"]]
        assert {**completion, "event": "stop"} == {**end, "text": completion["text"]}
    assert answer["usage"]["completion_tokens"] == found[-1]["usage"]["completion_tokens"]


# Dialects and doors -----------------------------------------------------------------------------------------------


def test_any_page_may_ask(storyteller: Server) -> None:
    asked = {"Origin": "null", "Access-Control-Request-Headers": "x-api-key, x-stainless-os"}
    preflight = requests.options(f"{storyteller.url}/v1/completions", headers=asked, timeout=DEADLINE)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == "null"
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == "x-api-key, x-stainless-os"
    for body in ({"prompt": "x", "n": 1, "max_tokens": 1}, {"prompt": []}):  # an error has to be readable, too
        response = storyteller.post("/v1/completions", body, headers={"Origin": "https://example.org"})
        assert response.headers["Access-Control-Allow-Origin"] == "https://example.org"


def test_sseclient_reads_the_stream(tiny: Server) -> None:
    body = json.dumps({"prompt": "Once upon a time,", "n": 3, "seed": 9, "max_tokens": BRIEF})
    with urllib3.PoolManager() as http:
        response = http.request(
            "POST",
            f"{tiny.url}/v1/completions",
            preload_content=False,
            headers={"Content-Type": "application/json"},
            body=body,
        )
        found = [json.loads(event.data) for event in sseclient.SSEClient(response).events()]
    assert [found[0]["event"], found[-1]["event"]] == ["start", "done"]
    assert list(texts(found).values()) == written(complete(tiny, n=3, seed=9, max_tokens=BRIEF))
