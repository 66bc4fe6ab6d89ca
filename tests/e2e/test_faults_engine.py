"""What becomes of requests when the engine is not what it should be; a test's name begins with its row in docs/faults.md."""

from __future__ import annotations

import os
import re
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
import requests

from srb.config.named_models import BUNDLED_MODEL
from srb.engine.fake import BOS, FATAL, INVALID, NO_ROOM
from srb.exit_codes import EXIT_MODEL
from tests.e2e.streams import BRIEF, ENDLESS, Stream, texts
from tests.needs import long
from tests.processes import DEADLINE, PYTHON, Process, children, is_alive, wait_for
from tests.servers import GUNICORN, PACED, MakeServer, Server

pytestmark = pytest.mark.e2e


def engine_states(server: Server) -> dict[str, float]:
    """Return srb:engine_state by label."""
    lines = server.get("/metrics").text.splitlines()
    found = (
        line.removeprefix('srb:engine_state{state="').split('"} ') for line in lines if "srb:engine_state{" in line
    )
    return {state: float(value) for state, value in found}


def state_told(server: Server) -> str:
    """Return the one state that GET /metrics tells."""
    [state] = [state for state, value in engine_states(server).items() if value]
    return state


def all_are_ready(server: Server) -> None:
    """Wait until each worker has found the engine, also one that answers nobody: a line says so for each engine."""
    engines = 1 + server.metric("engine_restarts_total")
    for pid in server.workers:
        line = f"srb.client[{pid}]: the engine is ready"
        wait_for(lambda line=line: server.logs.count(line) >= engines, "the worker has found the engine")  # type: ignore[misc]
    wait_for(lambda: all(server.health() == 200 for _ in range(8)), "both workers say so")


def check_restarted(server: Server, stream: Stream, answer: requests.Response) -> None:
    """Check the results of a stream and an answer when the engine died, and wait for the next engine."""
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    last = stream.rest()[-1]
    assert (last["event"], last["code"]) == ("error", "engine_restarted")
    server.wait_ready()


def test_row_23_a_hung_engine_is_unhealthy_and_then_replaced(make_server: MakeServer) -> None:
    server = make_server(model=PACED, stall_timeout=12, workers=2).start()
    all_are_ready(server)
    before, workers, hung = texts(server), sorted(server.workers), server.engine
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    supervisor = server.supervisor
    os.kill(hung, signal.SIGSTOP)
    wait_for(lambda: server.status["state"] == "hung", "the supervisor notices the stop")
    os.kill(supervisor, signal.SIGSTOP)  # it would replace the engine, while this test may be slow to look
    try:
        wait_for(lambda: "The engine is hung" in server.get("/health").text, "the stop is noticed")
        assert server.health() == 503
        assert (state_told(server), server.get("/livez").status_code, is_alive(hung)) == ("hung", 200, True)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert "engine_restarted" in orjson.dumps(stream.rest()).decode()
    server.wait_ready()
    all_are_ready(server)
    assert not is_alive(hung)
    assert texts(server) == before
    assert sorted(server.workers) == workers
    assert (state_told(server), server.metric("engine_restarts_total")) == ("running", 1)


def test_row_23_an_engine_that_was_stopped_only_briefly_goes_on(make_server: MakeServer) -> None:
    server = make_server(model=PACED, stall_timeout=10 * DEADLINE).start()
    engine = server.engine
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    os.kill(engine, signal.SIGSTOP)
    wait_for(lambda: server.health() == 503, "the stop is noticed")
    os.kill(engine, signal.SIGCONT)
    wait_for(lambda: server.status["state"] == "running", "it is known to run again")
    wait_for(lambda: server.health() == 200, "and known to be healthy")
    stream.until("stream")
    assert server.engine == engine
    stream.close()


def test_row_21_until_the_model_is_loaded_workers_answer_503(make_server: MakeServer, tmp_path: Path) -> None:
    """The test starts the engine itself, as systemd would, and so decides when there is one."""
    server = make_server(engine_managed="false").start(wait=False)
    wait_for(lambda: server.live() == 200, "a worker answers")
    workers = server.workers
    for _ in range(2):
        for path in ("/v1/completions", "/completion", "/v1/chat/completions", "/health"):
            body = BRIEF | {"messages": [{"role": "user", "content": "Hello"}]}
            answer = server.get(path) if path == "/health" else server.post(path, body)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["error"]["type"] == "unavailable_error"
        assert (state_told(server), server.live()) == ("loading", 200)
        with Process([PYTHON, "-m", "srb.engine.process"], server.environ, tmp_path / "engine.log") as engine:
            server.wait_ready()
            assert texts(server)
            assert state_told(server) == "running"
            engine.stop(signal.SIGKILL)
        wait_for(lambda: server.health() == 503, "its end is noticed")
    assert server.workers == workers


@pytest.mark.parametrize(
    "signum",
    [pytest.param(signal.SIGKILL, marks=pytest.mark.smoke), *long(signal.SIGABRT, signal.SIGSEGV)],
    ids=lambda signum: signum.name,
)
def test_row_22_a_dead_engine_ends_streams_with_an_event_and_answers_with_503(
    make_server: MakeServer, signum: signal.Signals
) -> None:
    server = make_server(model=PACED, workers=2).start()
    all_are_ready(server)
    before, workers, engine = texts(server), sorted(server.workers), server.engine
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(server.post, "/v1/completions", ENDLESS | {"stream": False})
        wait_for(lambda: server.metric("requests_processing") == 2, "both requests run")
        os.kill(engine, signum)
        answer = whole.result()
    check_restarted(server, stream, answer)
    all_are_ready(server)
    assert texts(server) == before
    assert sorted(server.workers) == workers
    assert f"the engine exited ({signum.name})" in server.logs


def test_row_22_engines_that_die_at_once_are_restarted_with_growing_delays(make_server: MakeServer) -> None:
    server = make_server().start()
    for delay in (0.1, 0.2, 0.4, 0.8):
        os.kill(server.engine, signal.SIGKILL)
        wait_for(lambda delay=delay: f"restarting in {delay} s" in server.logs, "the restart is logged")  # type: ignore[misc]
    server.wait_ready()


def check_failed(server: Server, said: str) -> None:
    """Check that the engine is not started again and that the web server says why, once in the logs and to everybody."""
    wait_for(lambda: server.status["state"] == "failed", "the status says so")
    wait_for(lambda: server.health() == 503 and state_told(server) == "failed", "the web server says so")
    answer = server.post("/v1/completions", BRIEF)
    assert answer.status_code == 503
    assert "Retry-After" not in answer.headers
    assert said in answer.json()["error"]["message"]
    wait_for(lambda: not children(server.supervisor), "the engine has ended")
    assert server.live() == 200
    assert server.logs.count("srb: ") == 1
    assert "Traceback" not in server.logs
    assert server.stop() == 0


def truncated(folder: Path, part: float) -> Path:
    whole, model = BUNDLED_MODEL.read_bytes(), folder / "truncated.gguf"
    model.write_bytes(whole[: int(len(whole) * part)])
    return model


def test_row_24_a_model_that_llama_cpp_refuses_is_said_once_and_not_tried_again(
    make_server: MakeServer, tmp_path: Path
) -> None:
    model = tmp_path / "empty.gguf"
    model.write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    check_failed(make_server(model=model).start(wait=False), str(model))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (0.01, "is incomplete or damaged: its header goes beyond its end"),
        (0.5, "is incomplete: a download that was stopped leaves such a file"),
        (0.99, "is incomplete: a download that was stopped leaves such a file"),
    ],
)
def test_row_24_a_model_whose_end_is_missing_stops_the_start(
    make_server: MakeServer, tmp_path: Path, part: float, said: str
) -> None:
    model = truncated(tmp_path, part)
    server = make_server(model=model).start(wait=False)
    assert server.wait() == EXIT_MODEL
    assert server.logs == f"srb: the model {model} {said}\n"


def test_row_25_a_context_beyond_the_memory_is_reported_with_its_size(make_server: MakeServer) -> None:
    little = ("bash", "-c", 'ulimit -v 8000000; exec "$@"', "bash", *GUNICORN)
    server = make_server(model="storyteller", n_ctx=2**24, command=little).start(wait=False)
    check_failed(server, "no context of 16777216 cells")
    assert re.search(r"failed to allocate buffer of size \d+", server.logs)


def test_row_25_an_engine_that_gets_no_more_memory_while_it_computes_is_replaced(make_server: MakeServer) -> None:
    server = make_server(model="storyteller", n_ctx=4096, threads=1).start()
    engine, stream = server.engine, Stream(server, ENDLESS)
    stream.until("stream")
    resource.prlimit(engine, resource.RLIMIT_AS, (1, 1))  # what it has it keeps
    answer = server.post("/v1/srb/completions", {"prompt": "the sea " * 900, "n": 32, "stream": False})
    check_restarted(server, stream, answer)
    assert not is_alive(engine)
    assert server.post("/v1/srb/completions", BRIEF | {"stream": False}).status_code == 200


# Decodes that fail ----------------------------------------------------------------------------------------------------

WATCHED = ENDLESS | {"seed": 7, "return_tokens": True}


def prompt_with(token: int, **body: object) -> dict[str, object]:
    """Return a body whose prompt makes FakeModel fail as `token` says."""
    return {"prompt": [BOS, 7, 8, token, 9], "n": 2, "max_tokens": 4, "ignore_eos": True, "stream": False} | body


def tokens_up_to_now(server: Server, stream: Stream, before: float) -> list[list[int]]:
    """Read a stream of WATCHED until it is beyond what all have written since `before`; return each branch's tokens."""
    now = server.metric("tokens_predicted_total") - before
    tokens: list[list[int]] = [[], [], []]
    while sum(map(len, tokens)) <= now or not all(tokens):
        event = stream.until("stream")
        tokens[event["index"]] += event["tokens"]
    return tokens


def check_unchanged(server: Server, tokens: list[list[int]]) -> None:
    """Check that what was read of WATCHED is what it writes where nothing fails."""
    body = WATCHED | {"max_tokens": max(map(len, tokens)), "stream": False}
    completions = server.post("/v1/srb/completions", body).json()["completions"]
    assert [each["tokens"][: len(own)] for each, own in zip(completions, tokens, strict=True)] == tokens


def test_row_30_where_a_batch_finds_no_room_branches_pause_and_nobody_fails(paced: Server) -> None:
    server = paced
    paused, failed = server.metric("branches_paused_total"), server.metric("decode_failures_total")
    written = server.metric("tokens_predicted_total")
    engine, stream = server.engine, Stream(server, WATCHED)
    stream.until("start")
    crowding = server.post("/v1/srb/completions", prompt_with(NO_ROOM))
    assert crowding.status_code == 200
    assert [(each["length"], each["reason"]) for each in crowding.json()["completions"]] == [(4, "limit")] * 2
    assert server.metric("branches_paused_total") > paused
    tokens = tokens_up_to_now(server, stream, written)
    stream.close()
    check_unchanged(server, tokens)
    assert (server.engine, server.metric("decode_failures_total")) == (engine, failed)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_row_31_an_invalid_batch_fails_only_the_request_at_fault(paced: Server, streamed: bool) -> None:
    server = paced
    failed, written = server.metric("decode_failures_total"), server.metric("tokens_predicted_total")
    engine, stream = server.engine, Stream(server, WATCHED)
    stream.until("start")
    if streamed:
        last = Stream(server, WATCHED | {"prompt": prompt_with(INVALID)["prompt"]}).rest()[-1]
        assert (last["event"], last["code"]) == ("error", "decode_failed")
    else:
        answer = server.post("/v1/srb/completions", prompt_with(INVALID))
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
        assert "refused this request" in answer.json()["error"]["message"]
    tokens = tokens_up_to_now(server, stream, written)
    stream.close()
    check_unchanged(server, tokens)
    assert (server.engine, server.metric("decode_failures_total") > failed) == (engine, True)


def test_row_32_a_failed_computation_ends_running_requests_and_a_second_one_the_engine(make_server: MakeServer) -> None:
    server = make_server(model=PACED, workers=2).start()
    all_are_ready(server)
    before, workers, engine = texts(server), sorted(server.workers), server.engine

    stream = Stream(server, ENDLESS)
    stream.until("stream")
    answer = server.post("/v1/srb/completions", prompt_with(FATAL))
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    last = stream.rest()[-1]
    assert (last["event"], last["code"]) == ("error", "decode_failed")
    assert texts(server) == before
    assert (server.engine, server.metric("engine_restarts_total")) == (engine, 0)
    wait_for(lambda: server.metric("requests_processing") == 0, "nothing runs any more")

    stream = Stream(server, ENDLESS)
    stream.until("stream")
    answer = server.post("/v1/srb/completions", prompt_with(FATAL))
    check_restarted(server, stream, answer)
    all_are_ready(server)
    assert texts(server) == before
    assert sorted(server.workers) == workers
    assert server.metric("engine_restarts_total") == 1
    assert not is_alive(engine)
    assert "failed twice within a minute" in server.logs
