"""Traces: the spans of a call in the worker and the engine, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.models.random_gguf import write_bert
from tests.processes import DEADLINE, PYTHON, wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

SECRET = "The lighthouse keeper's secret"
PHASES = {"queue", "prompt", "decode"}


@dataclass(frozen=True)
class Span:
    name: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    is_error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """A receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        spans: queue.SimpleQueue[Span] = queue.SimpleQueue()
        self._spans, self.all = spans, list[Span]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                for span in spans_of(sent):
                    spans.put(span)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, trace: str, *names: str) -> dict[str, Span]:
        """Return the spans of a trace by name, once these are among them."""
        while not set(names) <= (found := {span.name: span for span in self.all if span.trace == trace}).keys():
            self.all.append(self._spans.get(timeout=DEADLINE))
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def spans_of(sent: Any) -> Iterator[Span]:
    for group in sent.resource_spans:
        for scope in group.scope_spans:
            for each in scope.spans:
                yield Span(
                    each.name, each.trace_id.hex(), each.span_id.hex(), each.parent_span_id.hex(),
                    each.start_time_unix_nano, each.end_time_unix_nano, each.status.code == 2,
                    values_of(each.attributes), values_of(group.resource.attributes),
                )  # fmt: skip


def values_of(attributes: Any) -> dict[str, Any]:
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value: Any) -> Any:
    found = getattr(value, value.WhichOneof("value"))
    return [value_of(each) for each in found.values] if hasattr(found, "values") else found


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with contextlib.closing(Collector()) as collector:
        yield collector


@pytest.fixture(scope="module")
def server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"model": "fake:100", "alias": "tale", "parallel": 1, "max_queue": 1, "workers": 2}
    server = Server(tmp_path_factory.mktemp("traces"), traces=True, **settings)
    server.environ |= collector.variables | {
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=desk,deployment.environment=test"
    }
    with server.start():
        yield server


def parent(number: int, *, sampled: bool = True) -> tuple[str, dict[str, str]]:
    """Return the id of a trace, and the header of a client that has begun it."""
    trace = f"{number:032x}"
    return trace, {"traceparent": f"00-{trace}-{number:016x}-0{int(sampled)}"}


def test_a_call_is_one_trace_through_worker_and_engine(collector: Collector, server: Server) -> None:
    trace, headers = parent(0xA1)
    body = {"prompt": SECRET, "max_tokens": 5, "n": 3, "temperature": 0.5, "seed": 7, "ignore_eos": True}
    assert requests.post(f"{server.url}/v1/completions", json=body, headers=headers).status_code == 200
    found = collector.wait(trace, "POST /v1/completions", "text_completion tale", *PHASES)
    assert len(found) == 5
    call, request = found["POST /v1/completions"], found["text_completion tale"]
    assert call.parent == f"{0xA1:016x}"
    assert request.parent == call.id
    assert {found[name].parent for name in PHASES} == {request.id}
    assert call.attributes["http.response.status_code"] == 200
    assert call.attributes["http.route"] == "/v1/completions"
    expected = {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "llama.cpp",
        "gen_ai.request.model": "tale",
        "gen_ai.request.choice.count": 3,
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 7,
        "gen_ai.usage.output_tokens": 15,
        "gen_ai.response.finish_reasons": ["limit"] * 3,
    }
    assert {name: request.attributes[name] for name in expected} == expected
    assert request.attributes["gen_ai.usage.input_tokens"] > 0
    queued, prompt, decode = (found[name] for name in ("queue", "prompt", "decode"))
    assert call.began <= request.began == queued.began <= queued.ended == prompt.began
    assert prompt.began <= prompt.ended == decode.began <= decode.ended == request.ended <= call.ended
    assert not any(span.is_error for span in found.values())
    assert {span.resource["service.name"] for span in found.values()} == {"desk"}
    assert not any(word in repr(span) for span in found.values() for word in SECRET.split())


def test_the_spans_of_calls_at_the_same_time_stay_apart(collector: Collector, server: Server) -> None:
    traces = [parent(0xB0 + number) for number in range(8)]

    def ask(number: int) -> None:
        body = {"prompt": f"Story {number}", "max_tokens": 10 + number, "n": 2, "ignore_eos": True, "stream": True}
        answer = requests.post(f"{server.url}/v1/completions", json=body, headers=traces[number][1], stream=True)
        assert answer.status_code == 200
        assert answer.content

    for first in range(0, len(traces), 2):
        threads = [threading.Thread(target=ask, args=(first + each,)) for each in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, (trace, _) in enumerate(traces):
        found = collector.wait(trace, "POST /v1/completions", "text_completion tale", *PHASES)
        request = found["text_completion tale"]
        assert request.parent == found["POST /v1/completions"].id
        assert {found[name].parent for name in PHASES} == {request.id}
        assert request.attributes["gen_ai.usage.output_tokens"] == 2 * (10 + number)
        assert sum(span.trace == trace for span in collector.all) == 5


@pytest.mark.parametrize(
    ("number", "route", "body", "status"),
    [
        (0xC1, "/v1/completions", {"prompt": "a", "max_tokens": "many"}, 400),
        (0xC2, "/v1/completions", {"prompt": "word " * 200_000}, 400),
        (0xC3, "/v1/nothing", {}, 404),
        (0xC4, "/props", {}, 501),
    ],
)
def test_a_call_that_is_refused_has_a_span_with_its_status(
    collector: Collector, server: Server, number: int, route: str, body: dict[str, Any], status: int
) -> None:
    trace, headers = parent(number)
    assert requests.post(server.url + route, json=body, headers=headers).status_code == status
    name = "POST" if status == 404 else f"POST {route}"
    call = collector.wait(trace, name)[name]
    assert call.attributes["http.response.status_code"] == status
    assert call.is_error == (status >= 500)
    assert "http.route" in call.attributes or status == 404


def test_a_reader_who_leaves_ends_its_spans(collector: Collector, server: Server) -> None:
    trace, headers = parent(0xD1)
    body = {"prompt": "Endless", "max_tokens": -1, "ignore_eos": True, "stream": True}
    with requests.post(f"{server.url}/v1/completions", json=body, headers=headers, stream=True) as answer:
        next(answer.iter_lines())
    found = collector.wait(trace, "POST /v1/completions", "text_completion tale", *PHASES)
    assert found["POST /v1/completions"].attributes["error.type"] == "cancelled"
    assert found["text_completion tale"].attributes["gen_ai.response.finish_reasons"] == ["cancelled"]


def test_the_queue_is_seen_by_who_waits_in_it_and_by_who_is_refused(collector: Collector, server: Server) -> None:
    url, brief = f"{server.url}/v1/completions", {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
    endless = {**brief, "max_tokens": -1, "stream": True}
    waiting, refused = parent(0xD2), parent(0xD3)
    waits = threading.Thread(target=requests.post, args=(url,), kwargs={"json": brief, "headers": waiting[1]})
    with requests.post(url, json=endless, stream=True) as answer:
        lines = answer.iter_lines()  # whose end would be that of the connection
        next(lines)
        waits.start()
        wait_for(lambda: "requests_deferred 1" in requests.get(f"{server.url}/metrics").text, "a request waits")
        assert requests.post(url, json=brief, headers=refused[1]).status_code == 429
    waits.join()
    names = ("POST /v1/completions", "text_completion tale", "queue")
    missed, waited = collector.wait(refused[0], *names), collector.wait(waiting[0], *names, *PHASES)
    assert waited["queue"].began < missed["queue"].began < missed["queue"].ended < waited["queue"].ended
    assert missed["text_completion tale"].is_error
    assert missed["text_completion tale"].attributes["error.type"] == "queue_full"
    assert missed["POST /v1/completions"].attributes["http.response.status_code"] == 429
    assert not waited["text_completion tale"].is_error
    assert missed.keys() == set(names)


def test_a_trace_that_its_client_does_not_sample_is_not_sent(collector: Collector, server: Server) -> None:
    unsampled, headers = parent(0xE1, sampled=False)
    body = {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
    assert requests.post(f"{server.url}/v1/completions", json=body, headers=headers).status_code == 200
    trace, headers = parent(0xE2)
    assert requests.post(f"{server.url}/v1/completions", json=body, headers=headers).status_code == 200
    collector.wait(trace, "POST /v1/completions", "text_completion tale", *PHASES)
    assert not any(span.trace == unsampled for span in collector.all)


@pytest.mark.parametrize("header", ["", "00-zz-1-01", "x" * 5000, f"00-{'0' * 32}-{'0' * 16}-01"])
def test_a_call_without_a_good_traceparent_has_a_trace_of_its_own(
    collector: Collector, server: Server, header: str
) -> None:
    before = {span.trace for span in collector.all}
    body = {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
    answer = requests.post(f"{server.url}/completion", json=body, headers={"traceparent": header})
    assert answer.status_code == 200
    while not (own := {span.trace for span in collector.all if span.name == "POST /completion"} - before):
        collector.all.append(collector._spans.get(timeout=DEADLINE))
    found = collector.wait(own.pop(), "POST /completion", "text_completion tale", *PHASES)
    assert found["POST /completion"].parent == ""


def test_the_last_spans_are_sent_at_the_end(collector: Collector, tmp_path: Path) -> None:
    server = Server(tmp_path, traces=True)
    server.environ |= collector.variables | {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    trace, headers = parent(0xF1)
    with server.start():
        body = {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
        assert requests.post(f"{server.url}/v1/completions", json=body, headers=headers).status_code == 200
        assert server.stop() == 0
    found = collector.wait(trace, "POST /v1/completions", "text_completion fake:", *PHASES)
    assert len(found) == 5


def test_an_embedding_is_one_trace_through_worker_and_engine(collector: Collector, tmp_path: Path) -> None:
    model = write_bert(tmp_path / "bert.gguf")
    server = Server(tmp_path, model=model, alias="bert", n_ctx=512, threads=1, embedding=True, traces=True)
    server.environ |= collector.variables
    trace, headers = parent(0xF2)
    with server.start():
        body = {"input": ["a", SECRET]}
        answer = requests.post(f"{server.url}/v1/embeddings", json=body, headers=headers).json()
        found = collector.wait(trace, "POST /v1/embeddings", "embeddings bert")
    assert len(found) == 2
    call, work = found["POST /v1/embeddings"], found["embeddings bert"]
    assert work.parent == call.id
    assert call.began <= work.began <= work.ended <= call.ended
    assert work.attributes["gen_ai.usage.input_tokens"] == answer["usage"]["prompt_tokens"]
    assert not any(word in repr(span) for span in found.values() for word in SECRET.split())


def test_a_collector_that_is_away_stops_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path, traces=True)
    server.environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with server.start():
        body = {"prompt": "a", "max_tokens": 1, "ignore_eos": True}
        for _ in range(3):
            assert requests.post(f"{server.url}/v1/completions", json=body).status_code == 200
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "nothing"}, "no package for the exporter nothing is installed"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "OpenTelemetry refuses a variable"),
    ],
)
def test_what_cannot_trace_does_not_start(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    server = Server(tmp_path, traces=True)
    server.environ |= variables
    with server.start(wait=False):
        assert server.wait() == 2
    assert said in server.logs


def test_nothing_of_it_is_imported_without_the_setting() -> None:
    program = """
import sys
from srb.web.app import create_app
from srb.config.settings import Settings
import srb.engine.process.__main__, srb.cli.main
create_app(Settings())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
