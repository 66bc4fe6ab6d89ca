"""Several models behind one server: a request names its model, which is loaded while others finish."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.models.random_gguf import TINY, write_llama
from tests.processes import DEADLINE, children, is_alive, wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

TWO = {"models": "a=fake:,b=fake:", "model": ""}
BODY = {"prompt": "Once upon a time,", "max_tokens": 4, "stream": False}


@pytest.fixture
def two(make_server: MakeServer) -> Server:
    return make_server(**TWO).start()


@pytest.fixture(scope="module")
def shared_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("two"), **TWO) as server:
        yield server.start()


@pytest.fixture
def shared(shared_two: Server) -> Server:
    """A server with two models of which the first is loaded. Tests share it: of its parts kill only engines."""
    assert complete(shared_two, "a").status_code == 200
    wait_for(lambda: [state(shared_two, name) for name in "ab"] == ["loaded", "unloaded"], "a alone is loaded")
    return shared_two


def state(server: Server, name: str) -> str:
    [value] = [each["status"]["value"] for each in server.get("/v1/models").json()["data"] if each["id"] == name]
    return str(value)


def complete(server: Server, model: str, **fields: Any) -> requests.Response:
    return server.post("/v1/completions", {**BODY, "model": model, **fields})


def stream(server: Server, model: str, max_tokens: int) -> requests.Response:
    """Begin a long stream, and return it when its first line is there."""
    body = {**BODY, "model": model, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
    answer = requests.post(f"{server.url}/v1/completions", json=body, stream=True, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def events(answer: requests.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield orjson.loads(line[6:])


def test_a_request_names_its_model_and_one_without_a_name_gets_the_first(shared: Server) -> None:
    assert complete(shared, "b").json()["model"] == "b"
    assert state(shared, "b") == "loaded"
    assert state(shared, "a") == "unloaded"
    assert len(children(shared.supervisor)) == 1
    answer = shared.post("/v1/completions", {**BODY, "model": ""})
    assert answer.json()["model"] == "a"
    chat = shared.post(
        "/v1/chat/completions", {"model": "B", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}
    )
    assert chat.json()["model"] == "b"
    missing = complete(shared, "c")
    assert missing.status_code == 404
    assert "a, b" in missing.json()["error"]["message"]


NAMED = """[{"name": "a", "model": "fake:"}, {"name": "b", "model": "fake:", "alias": "gpt-4o, small"},
            {"name": "c", "model": "fake:", "mmproj": "fake.gguf"}]"""


def test_a_request_may_name_a_model_by_its_alias(server_with: MakeServer) -> None:
    server = server_with(models=NAMED, model="")
    assert complete(server, "gpt-4o").json()["model"] == "b"
    chat = server.post("/api/chat", {"model": "GPT-4o:latest", "messages": [], "stream": False})
    assert chat.status_code == 200, chat.text
    listed = server.get("/v1/models").json()["data"]
    assert [(each["id"], each["aliases"]) for each in listed] == [("a", []), ("b", ["gpt-4o", "small"]), ("c", [])]
    assert server.get("/v1/models/small").json()["id"] == "b"
    assert server.post("/models/unload", {"model": "small"}).json() == {"success": True}
    wait_for(lambda: state(server, "b") == "unloaded", "b is unloaded")


def test_a_model_with_a_projector_is_multimodal_before_it_is_loaded(server_with: MakeServer) -> None:
    listed = server_with(models=NAMED, model="").get("/v1/models").json()
    assert listed["data"][2]["status"]["value"] == "unloaded"
    assert [each["capabilities"] for each in listed["models"]][1:] == [["completion"], ["completion", "multimodal"]]


def test_a_stream_ends_whole_while_another_model_is_wished_for(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=0).start()
    answer = stream(server, "a", 60)
    found: list[requests.Response] = []
    thread = threading.Thread(target=lambda: found.append(complete(server, "b")))
    thread.start()
    reasons = [event["choices"][0].get("finish_reason") for event in events(answer) if event.get("choices")]
    assert reasons[-1] == "length"
    thread.join(DEADLINE)
    assert found[0].json()["model"] == "b"


def test_two_clients_with_two_models_both_advance_and_loads_are_few(make_server: MakeServer) -> None:
    server = make_server(**TWO, model_seconds=1).start()
    began = time.monotonic()
    answered = {"a": 0, "b": 0}
    stop = threading.Event()

    def ask(model: str) -> None:
        while not stop.is_set():
            assert complete(server, model).json()["model"] == model
            answered[model] += 1

    threads = [threading.Thread(target=ask, args=(model,)) for model in answered]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: min(answered.values()) >= 20, "both clients advance")
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)
    assert server.metric("model_loads_total") <= 2 + (time.monotonic() - began) / 1, "each keeps its turn of a second"


def test_a_model_that_cannot_be_loaded_gives_its_reason_and_harms_no_other(
    make_server: MakeServer, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    server = make_server(models=f"a=fake:,{broken}", model="").start()
    refused = complete(server, "broken")
    assert refused.status_code == 503
    assert "is not a GGUF file" in refused.json()["error"]["message"]
    assert complete(server, "a").json()["model"] == "a"
    entry = server.get("/models/broken").json()
    assert entry["status"]["value"] == "unloaded"
    assert entry["status"]["failed"] is True
    assert server.health() == 200


def test_load_and_unload(shared: Server) -> None:
    assert shared.post("/models/unload", {"model": "b"}).status_code == 400, "it is not loaded"
    assert shared.post("/models/load", {"model": "b"}).json() == {"success": True}
    wait_for(lambda: state(shared, "b") == "loaded", "b is loaded")
    assert shared.post("/models/load", {"model": "b"}).status_code == 400
    assert shared.post("/models/unload", {"model": "b"}).json() == {"success": True}
    wait_for(lambda: state(shared, "b") == "unloaded", "b is unloaded")
    wait_for(lambda: children(shared.supervisor) == [], "its engine has ended")
    assert shared.health() == 200
    assert shared.post("/models/load", {"model": "c"}).status_code == 404
    refused = shared.post("/v1/completions?autoload=false", {**BODY, "model": "a"})
    assert refused.status_code == 400
    assert "not loaded" in refused.json()["error"]["message"]
    assert shared.post("/v1/completions?autoload=true", {**BODY, "model": "a"}).json()["model"] == "a"


def test_a_stream_of_the_models_states_ends_with_its_client(make_server: MakeServer) -> None:
    server = make_server(**TWO, max_client_requests=1, graceful_timeout=60).start()

    with requests.get(f"{server.url}/models/sse", stream=True, timeout=60) as answer:
        assert server.get("/models/sse").status_code == 429, "it counts as an open request"
        assert server.post("/models/load", {"model": "b"}).status_code == 200
        told = events(answer)
        found = [next(told) for _ in range(3)]
        assert found == [
            {"model": "a", "event": "status_change", "data": {"status": "unloaded", "exit_code": 0}},
            {"model": "b", "event": "model_status", "data": {"status": "loading"}},
            {"model": "b", "event": "status_change", "data": {"status": "loaded"}},
        ]
    wait_for(lambda: complete(server, "b").status_code == 200, "the stream counts no longer")
    with requests.get(f"{server.url}/models/sse", stream=True, timeout=60) as answer:
        assert answer.status_code == 200
        assert server.stop() == 0, "long before graceful_timeout"
        assert list(events(answer)) == []


def test_two_engines_serve_two_models_at_once(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:,c=fake:", model="", max_engines=2).start()
    answer = stream(server, "a", 1000)
    texts = events(answer)
    next(texts)
    assert complete(server, "b").json()["model"] == "b"
    assert complete(server, "c").json()["model"] == "c"
    assert [state(server, name) for name in "abc"] == ["loaded", "unloaded", "loaded"]
    listed = server.get("/v1/srb/completions").json()["completions"]
    assert len(listed) == 1
    stopped = requests.delete(f"{server.url}/v1/srb/completions/{listed[0]['id']}", timeout=60)
    assert stopped.status_code == 200, stopped.text
    assert [each["choices"][0]["finish_reason"] for each in texts if each.get("choices")][-1] == "length"


def test_a_request_is_controlled_though_another_models_engine_hangs(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", max_engines=2, stall_timeout=0).start()
    [first] = children(server.supervisor)
    answer = stream(server, "a", 100_000)
    assert complete(server, "b").status_code == 200
    [listed] = server.get("/v1/srb/completions").json()["completions"]
    [second] = set(children(server.supervisor)) - {first}
    os.kill(second, signal.SIGSTOP)
    try:
        unknown = requests.get(f"{server.url}/v1/srb/completions/{'0' * 32}", timeout=60)
        assert unknown.status_code == 503, "it may be a request of the engine that hangs"
        stopped = requests.delete(f"{server.url}/v1/srb/completions/{listed['id']}", timeout=60)
        assert stopped.status_code == 200, stopped.text
    finally:
        os.kill(second, signal.SIGCONT)
        answer.close()


def test_an_engine_that_is_killed_while_it_loads_is_started_again(shared: Server) -> None:
    """The models are asked for in turn: on a busy machine an engine may have loaded before it is killed."""

    def is_started_again() -> bool:
        before = children(shared.supervisor)
        name = "b" if state(shared, "a") == "loaded" else "a"
        found: list[requests.Response] = []
        thread = threading.Thread(target=lambda: found.append(complete(shared, name)))
        thread.start()
        [second] = wait_for(
            lambda: [pid for pid in children(shared.supervisor) if pid not in before], f"{name} is started"
        )
        was_loading = state(shared, name) == "loading"
        os.kill(second, signal.SIGKILL)
        thread.join(DEADLINE)
        assert not is_alive(second)
        return was_loading and found[0].status_code == 200 and found[0].json()["model"] == name

    wait_for(is_started_again, "an engine was killed while it loaded, and its request answered")


def test_a_loaded_engine_that_is_killed_is_started_again(shared: Server) -> None:
    [first] = children(shared.supervisor)
    os.kill(first, signal.SIGKILL)
    answer = wait_for(lambda: (found := complete(shared, "a")).status_code == 200 and found, "another engine answers")
    assert answer.json()["model"] == "a"
    assert not is_alive(first)
    wait_for(lambda: "SIGKILL" in shared.logs, "its end is logged")


def test_a_client_that_leaves_takes_back_its_wish(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=600).start()
    answer = stream(server, "a", 100_000)
    body = orjson.dumps({**BODY, "model": "b"})
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        wait_for(lambda: 'srb:model_calls_waiting{model="b"} 1.0' in server.get("/metrics").text, "it waits")
    wait_for(lambda: 'srb:model_calls_waiting{model="b"} 0.0' in server.get("/metrics").text, "it has left")
    assert state(server, "b") == "unloaded"
    answer.close()


def test_a_wish_that_is_not_met_in_time_is_answered_503(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=600, queue_timeout=1).start()
    answer = stream(server, "a", 100_000)
    late = complete(server, "b")
    assert late.status_code == 503
    assert late.headers["Retry-After"]
    assert "Loading model b" in late.json()["error"]["message"]
    answer.close()


def test_calls_that_wait_for_a_model_count_as_open_ones_of_their_client(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=600, max_client_requests=2).start()
    with stream(server, "a", 100_000):
        found: list[requests.Response] = []
        thread = threading.Thread(target=lambda: found.append(complete(server, "b")))
        thread.start()
        wait_for(lambda: 'srb:model_calls_waiting{model="b"} 1.0' in server.get("/metrics").text, "one waits")
        for model in "ab":
            assert complete(server, model).status_code == 429
    thread.join(DEADLINE)
    assert found[0].status_code == 200, "a call that has waited is not counted twice"
    for path in ("/tokenize", "/v1/completions"):
        for model in "ab":
            answer = server.post(path, {**BODY, "content": "Hi", "model": model})
            assert answer.status_code == 200, answer.text


def test_a_reader_of_no_request_counts_no_longer_once_it_is_answered(make_server: MakeServer) -> None:
    server = make_server(**TWO, max_client_requests=1).start()
    assert server.post("/models/unload", {"model": "a"}).status_code == 200
    wait_for(lambda: state(server, "a") == "unloaded", "no model is loaded")
    for _ in range(2):
        assert server.get(f"/v1/srb/completions/{'0' * 32}/events").status_code == 404
    assert complete(server, "b").status_code == 200


def test_ollama_lists_loads_and_unloads(shared: Server) -> None:
    assert [each["name"] for each in shared.get("/api/tags").json()["models"]] == ["a:latest", "b:latest"]
    done = shared.post(
        "/api/generate", {"model": "b:latest", "prompt": "Hi", "stream": False, "options": {"num_predict": 3}}
    )
    assert done.status_code == 200, done.text
    assert [each["name"] for each in shared.get("/api/ps").json()["models"]] == ["b:latest"]
    assert shared.post("/api/show", {"model": "b"}).status_code == 200
    gone = shared.post("/api/generate", {"model": "b", "keep_alive": 0})
    assert gone.json()["done_reason"] == "unload"
    wait_for(lambda: shared.get("/api/ps").json()["models"] == [], "b is unloaded")
    assert shared.post("/api/generate", {"model": "x", "prompt": "Hi"}).status_code == 404


def test_the_properties_of_a_model_that_a_query_names(shared: Server) -> None:
    assert shared.get("/props?model=b").json()["model_alias"] == "b"
    assert shared.get("/props").json()["model_alias"] == "b", "it loads nothing"
    assert shared.get("/props?model=c").status_code == 404


def test_nobody_without_a_key_loads_a_model_or_learns_their_names(make_server: MakeServer) -> None:
    server = make_server(**TWO, api_key="secret").start()
    for query in ("model=b", "model=c"):
        answer = requests.get(f"{server.url}/health?{query}", timeout=60)
        assert answer.status_code == 200, answer.text
    listed = requests.get(f"{server.url}/v1/models", headers={"Authorization": "Bearer secret"}, timeout=60).json()
    assert [each["status"]["value"] for each in listed["data"]] == ["loaded", "unloaded"]


def test_stopping_the_server_leaves_no_process_and_no_file(two: Server) -> None:
    complete(two, "b")
    pids = [two.supervisor, *children(two.supervisor)]
    assert two.stop() == 0
    assert not any(map(is_alive, pids))
    assert not two.runtime.exists()


# Each dialect's route, and where its answer names the model.
DIALECTS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/completions", {"prompt": "Hi", "max_tokens": 2}, "model"),
    ("/completion", {"prompt": "Hi", "n_predict": 2}, "model"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}, "model"),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 2}, "model"),
    ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}, "model"),
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hi"}]}, ""),
    ("/v1/embeddings", {"input": "Hi"}, "model"),
    ("/tokenize", {"content": "Hi"}, ""),
    ("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}, ""),
    ("/api/generate", {"prompt": "Hi", "stream": False, "options": {"num_predict": 2}}, "model"),
    ("/api/v1/generate", {"prompt": "Hi", "max_length": 2}, ""),
    ("/v1/srb/completions", {"prompt": "Hi", "max_tokens": 2, "n": 2}, ""),
]


EMBEDDING = {**TWO, "embedding": True, "model_seconds": 0, "max_request_tokens": 100}


def test_every_dialect_picks_the_model_that_is_named(server_with: MakeServer) -> None:
    """A request without a name would load the first model."""
    server = server_with(**EMBEDDING)
    for name in "ba":
        for path, body, key in DIALECTS:
            answer = server.post(path, {**body, "model": name})
            assert answer.status_code == 200, f"{path}: {answer.text}"
            assert state(server, name) == "loaded", path
            if key:
                assert answer.json()[key] == name, path


def test_an_unknown_name_is_404_in_every_dialect(shared: Server) -> None:
    for path, body, _ in DIALECTS:
        assert shared.post(path, {**body, "model": "x"}).status_code == 404, path
    assert state(shared, "a") == "loaded"


# Bodies that are wrong whatever the model is, or beyond a setting.
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"prompt": "Hi", "n": 65}),
    ("/v1/completions", {"prompt": "Hi", "echo": True, "temperature": "hot"}),
    ("/v1/completions", {"prompt": "Hi", "stream": False, "max_tokens": 101}),
    ("/v1/srb/completions", {"prompt": ["Hi", "Ho"]}),
    ("/completion", {"prompt": "Hi", "n": 65}),
    ("/infill", {"input_prefix": 1, "input_suffix": "x"}),
    ("/infill", {"input_prefix": "x", "input_suffix": "x", "n": 65}),
    ("/v1/chat/completions", {**CHAT, "n": 65}),
    ("/v1/chat/completions", {"messages": []}),
    ("/v1/responses", {"input": "Hi", "n": 65}),
    ("/v1/messages", {**CHAT, "n": 2}),
    ("/v1/messages", {**CHAT, "max_tokens": 101}),
    ("/api/generate", {"prompt": "Hi", "options": {"temperature": "hot"}}),
    ("/api/generate", {"prompt": "Hi", "raw": True, "system": "x"}),
    ("/api/chat", {**CHAT, "n": 65}),
    ("/api/v1/generate", {"prompt": "Hi", "n": 65}),
    ("/v1/embeddings", {"input": {}}),
    ("/api/embed", {"input": 1}),
    ("/rerank", {"query": 1, "documents": ["x"]}),
    ("/tokenize", {"content": {}}),
]


def test_a_bad_body_loads_no_model(server_with: MakeServer) -> None:
    server = server_with(**EMBEDDING)
    assert complete(server, "a").status_code == 200
    before = server.metric("model_loads_total")
    for path, body in WRONG:
        refused = server.post(path, {**body, "model": "b"})
        assert refused.status_code == 400, f"{path} {body}: {refused.text}"
        assert state(server, "b") == "unloaded", f"{path} {body}"
    assert server.metric("model_loads_total") == before


def test_a_request_that_goes_on_without_readers_is_finished_before_its_model_gives_way(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=0).start()
    body = {"prompt": "Once", "n": 1, "max_tokens": 150, "ignore_eos": True, "stream": True, "linger": 60, "model": "a"}
    answer = requests.post(f"{server.url}/v1/srb/completions", json=body, stream=True, timeout=60)
    next(answer.iter_lines())
    answer.close()
    wait_for(lambda: 'srb:model_calls_running{model="a"} 0.0' in server.get("/metrics").text, "the reader has left")
    [begun] = server.get("/v1/srb/completions").json()["completions"]
    found: list[requests.Response] = []
    thread = threading.Thread(target=lambda: found.append(complete(server, "b")))
    thread.start()
    last = begun
    while (seen := server.get(f"/v1/srb/completions/{begun['id']}")).status_code == 200:
        last = seen.json()
    thread.join(DEADLINE)
    assert found[0].json()["model"] == "b"
    assert last["branches"][0]["length"] > 120, "it was not cut short after the ten or so that the reader left behind"


def test_a_worker_that_is_killed_holds_nothing_more(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:50,b=fake:", model="", model_seconds=600, workers=2).start()
    answer = stream(server, "a", 100_000)
    assert 'srb:model_calls_running{model="a"} 1.0' in server.get("/metrics").text
    for pid in server.workers:
        os.kill(pid, signal.SIGKILL)
    answer.close()
    wait_for(lambda: server.live() == 200, "there are new workers")
    assert complete(server, "b").json()["model"] == "b"


def test_real_files_in_a_folder_and_one_that_is_copied_there(make_server: MakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("one", "two"):
        write_llama(folder / f"{name}.gguf")
    server = make_server(models=folder, model="two", n_ctx=512, threads=1, state_dir=tmp_path / "states").start()
    assert state(server, "two") == "loaded"
    found = complete(server, "one", state="mine")
    assert found.json()["model"] == "one", found.text
    assert server.get("/v1/models/one").json()["meta"]["n_params"] > 0
    write_llama(folder / "three.gguf")
    assert complete(server, "three").json()["model"] == "three"
    assert [each["id"] for each in server.get("/v1/models").json()["data"]] == ["one", "three", "two"]
    again = complete(server, "one", state="mine", prompt=BODY["prompt"])
    assert again.status_code == 200, again.text


def test_a_new_server_that_takes_over_the_sockets_uses_the_old_ones_engines_until_it_ends(two: Server) -> None:
    complete(two, "b")
    before = two.all_pids()
    two.process.send(signal.SIGUSR2)
    wait_for(lambda: "another supervisor" in two.logs, "the new server's supervisor waits")
    [new_arbiter] = set(two.workers) - set(before)
    try:
        for _ in range(4):
            assert complete(two, "b").json()["model"] == "b", "old and new workers share the old engines"
        assert two.stop() == 0
        wait_for(lambda: not any(map(is_alive, before)), "all of the old server has ended")
        wait_for(lambda: complete(two, "b").status_code == 200, "the new server has engines of its own")
    finally:
        os.kill(new_arbiter, signal.SIGTERM)
        wait_for(lambda: not is_alive(new_arbiter), "the new server has ended")
    assert not two.runtime.exists()


def test_a_reload_keeps_the_models_and_says_so(make_server: MakeServer, tmp_path: Path) -> None:
    config = tmp_path / "srb.toml"
    config.write_text('models = "a=fake:,b=fake:"')
    server = make_server(config=config, model="").start()
    config.write_text("n = 2")
    server.process.send(signal.SIGHUP)
    wait_for(lambda: "not reloaded: models was removed" in server.logs, "the log says so")
    assert complete(server, "b").json()["model"] == "b"
    config.write_text('models = "a=fake:,c=fake:"')
    server.process.send(signal.SIGHUP)
    wait_for(lambda: "models has changed" in server.logs, "the log says so")
    assert complete(server, "b").json()["model"] == "b"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": "/a/one.gguf,/b/one.gguf"}, "have the same name, one"),
        ({"models": "/nowhere"}, "models: there is no folder or file /nowhere"),
        ({"models": "/nowhere/one.gguf"}, "cannot read the model /nowhere/one.gguf"),
        ({"models": "a=fake:", "cluster": "auto"}, "models and cluster exclude each other"),
    ],
)
def test_a_wrong_list_is_refused_at_the_start(make_server: MakeServer, settings: dict[str, str], message: str) -> None:
    server = make_server(**{"model": "", **settings}).start(wait=False)
    assert server.wait() != 0
    assert message in server.logs


def test_one_model_takes_any_name_as_before(server: Server) -> None:
    assert complete(server, "any name").status_code == 200
    assert "status" not in server.get("/v1/models").json()["data"][0]
    assert server.post("/models/load", {"model": "x"}).status_code == 501


OWN = """
temperature = 0.25

[[models]]
name = "a"
model = "fake:"
n_ctx = 512
default_max_tokens = 3
chat_template = "chatml"

[[models]]
name = "b"
model = "fake:"
temperature = 0.75
chat_template = "llama3"

[[models]]
name = "c"
model = "fake:"
temperature = 0.75
chat_template = "llama3"
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose three models have settings of their own. Tests share it: kill no part of it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "srb.toml").write_text(OWN)
    with Server(folder, config=folder / "srb.toml", model="") as server:
        yield server.start()


def test_each_model_has_its_own_settings_in_its_engine_and_for_its_requests(own: Server) -> None:
    def rendered(model: str) -> str:
        chat = {"messages": [{"role": "user", "content": "Hi"}], "model": model}
        return str(own.post("/apply-template", chat).json()["prompt"])

    first = own.post("/v1/srb/completions", {"prompt": "Hi", "n": 1, "stream": False}).json()
    assert first["usage"]["completion_tokens"] == 3
    assert "<|im_start|>user" in rendered("a")
    assert own.get("/props?model=a").json()["default_generation_settings"]["n_ctx"] == 512
    assert own.get("/props").json()["default_generation_settings"]["params"]["temperature"] == 0.25
    assert "<|start_header_id|>user" in rendered("b")
    assert own.get("/props?model=b").json()["default_generation_settings"]["params"]["temperature"] == 0.75
    assert own.get("/props?model=b").json()["default_generation_settings"]["n_ctx"] > 512


def test_the_description_of_a_model_that_is_not_loaded_loads_nothing(own: Server) -> None:
    before = own.get("/v1/srb/server?model=c").json()
    assert (before["model"], before["status"], before["models"], before["n_ctx"]) == (
        "c",
        "unloaded",
        ["a", "b", "c"],
        0,
    )
    assert (before["modalities"], before["chat_template"]) == (None, None)
    assert before["sampling"]["temperature"] == 0.75
    assert state(own, "c") == "unloaded"
    complete(own, "c")
    after = own.get("/v1/srb/server?model=c").json()
    assert (after["status"], after["n_ctx"] > 0, after["chat_template"]) == ("loaded", True, True)
    missing = own.get("/v1/srb/server?model=d")
    assert (missing.status_code, missing.json()["error"]["models"]) == (404, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("n_ctx = -1", "models: a: n_ctx: Input should be greater than or equal to 0, got -1"),
        ('chat_template = "{% if %}"', "models: a: chat_template"),
    ],
)
def test_a_wrong_setting_of_a_model_is_refused_at_the_start(
    make_server: MakeServer, tmp_path: Path, table: str, message: str
) -> None:
    (tmp_path / "srb.toml").write_text(f'[[models]]\nname = "a"\nmodel = "fake:"\n{table}\n')
    server = make_server(config=tmp_path / "srb.toml", model="").start(wait=False)
    assert server.wait() != 0
    assert message in server.logs


def test_metrics_tell_what_is_known_while_the_models_supervisor_does_not_answer(shared: Server) -> None:
    wait_for(lambda: shared.metric("models_supervisor_up") == 1, "it answers")
    supervisor = shared.supervisor
    os.kill(supervisor, signal.SIGSTOP)
    try:
        answer = shared.get("/metrics")
        assert answer.status_code == 200, answer.text
        assert "srb:models_supervisor_up 0.0" in answer.text
        assert 'srb:model_state{model="a",state="loaded"} 1.0' in answer.text
        assert "srb:http_requests_total" in answer.text
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_for(lambda: shared.metric("models_supervisor_up") == 1, "it answers again")


def test_two_fakes_share_no_states(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server(**TWO, state_dir=tmp_path / "states").start()
    saved = complete(server, "a", state="mine")
    assert saved.status_code == 200, saved.text
    assert complete(server, "b").status_code == 200, "a has ended, and has written its state"

    def reused(model: str) -> int:
        answer = server.post("/v1/srb/completions", {**BODY, "n": 1, "model": model, "state": "mine"})
        return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert reused("a") > 0, "another engine of the same model has read it"
    assert reused("b") == 0


STORY = "The old king looked at the sea. " * 8


@pytest.mark.parametrize("model", ["fake", "file"])
def test_a_model_that_gave_way_comes_back_with_its_texts(make_server: MakeServer, tmp_path: Path, model: str) -> None:
    shapes = {"a": TINY, "b": replace(TINY, layers=TINY.layers + 1)}
    files = {name: write_llama(tmp_path / f"{name}.gguf", shape) for name, shape in shapes.items()}
    listed = TWO["models"] if model == "fake" else ",".join(f"{name}={path}" for name, path in files.items())
    kept = {"cache_disk": tmp_path / "texts", "cache_disk_mib": 100, "model_seconds": 0}
    server = make_server(models=listed, model="", n_ctx=2048, **kept).start()
    asked = {"prompt": STORY, "n": 3, "seed": 5, "max_tokens": 12, "ignore_eos": True}

    def ask(name: str) -> tuple[int, list[str]]:
        answer = complete(server, name, **asked).json()
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return cached, [choice["text"] for choice in answer["choices"]]

    first = {name: ask(name) for name in "ab"}
    assert [cached for cached, _ in first.values()] == [0, 0]
    length = len(server.post("/tokenize", {"content": STORY, "model": "b"}).json()["tokens"])
    for name in "abab":  # each gives way at once, with texts that rest since a moment
        cached, texts = ask(name)
        assert cached >= length - 2
        assert texts == first[name][1]


def test_a_request_of_low_priority_loads_no_model_and_keeps_none(make_server: MakeServer) -> None:
    server = make_server(models="a=fake:2,b=fake:", model="", n_ctx=8192).start()
    low = {"prompt": 10 * STORY, "max_tokens": 0, "priority": 1}
    refused = complete(server, "b", **low)
    assert refused.status_code == 400
    assert "low priority" in refused.json()["error"]["message"]
    assert state(server, "b") == "unloaded"
    answers: list[requests.Response] = []
    asking = threading.Thread(target=lambda: answers.append(complete(server, "a", **low)))
    asking.start()
    wait_for(lambda: server.metric("prompt_tokens_total") > 0, "the text is being computed")
    assert complete(server, "b").status_code == 200
    asking.join(DEADLINE)
    assert answers[0].status_code == 503
