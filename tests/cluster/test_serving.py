"""A server over a cluster answers as one with an engine of its own does."""

from __future__ import annotations

import re
import subprocess
import time
from typing import Any

import orjson
import pytest
import requests

from srb.web.ops.routes import STATS_AGE
from tests.cluster.conftest import MODEL, Cluster, replicas
from tests.processes import DEADLINE, PYTHON, ROOT, wait_for
from tests.servers import Server

STORY = "The lighthouse keeper had not spoken to anyone for nine days when the boat came. "  # more than one mark

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "srb": ("/v1/completions", {"prompt": STORY, "n": 4, "max_tokens": 12, "seed": 7}),
    "openai": ("/v1/completions", {"prompt": STORY, "n": 3, "max_tokens": 9, "seed": 3, "model": "m", "stream": True}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": STORY}], "max_tokens": 9, "seed": 3, "stream": True},
    ),
    "llamacpp": ("/completion", {"prompt": STORY, "n_predict": 9, "seed": 3, "stream": True}),
    "whole": ("/completion", {"prompt": [STORY, "Another."], "n_predict": 9, "seed": 3}),
    "boundary": (
        "/v1/completions",
        {"prompt": STORY, "n": 2, "max_tokens": 40, "seed": 5, "stop_at": "word", "stop_after": 2},
    ),
    "spread": ("/v1/completions", {"prompt": STORY, "n": 6, "max_tokens": 4, "seed": 5, "distinct_words": True}),
    "explore": (
        "/v1/srb/completions",
        {"prompt": STORY, "explore": {"cutoff": 0.2, "max_branches": 5, "depth": 5}, "logprobs": 1, "seed": 5},
    ),
    "tokenize": ("/tokenize", {"content": STORY}),
}


OF_THE_MOMENT = re.compile(
    r"(\w*_)?id|created|slot|slots|id_slot|timings|(\w*_)?cached(_\w*)?|cache_n|\w+_ms|\w+_per_second"
)


def golden(answer: requests.Response) -> Any:
    """Return an answer, of a stream its events in order, without ids, times and counts that depend on earlier requests."""
    if not answer.headers["Content-Type"].startswith("text/event-stream"):
        return lasting(answer.json())
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    events: list[Any] = []
    for event in (lasting(orjson.loads(line)) if line.startswith("{") else line for line in lines):
        if (
            events and is_text(event) and is_text(events[-1])
        ):  # llama-server's sends as many tokens at once as there are
            before = events.pop()
            event |= {name: before[name] + event[name] for name in ("content", "tokens")}
        events.append(event)
    return events


def is_text(event: Any) -> bool:
    return isinstance(event, dict) and event.get("stop") is False


def lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in value.items() if not OF_THE_MOMENT.fullmatch(name)}
    return [lasting(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="package")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with an engine of its own."""
    with Server(tmp_path_factory.mktemp("alone"), model=MODEL) as server:
        yield server.start()


def check_answers(name: str, *servers: Server) -> None:
    """Check that two servers answer a body alike."""
    path, body = BODIES[name]
    answers = [server.post(path, body) for server in servers]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert golden(answers[0]) == golden(answers[1])


@pytest.mark.parametrize("name", BODIES)
def test_an_answer_is_the_same_with_and_without_a_cluster(web: Server, alone: Server, name: str) -> None:
    check_answers(name, web, alone)


def test_a_bad_request_is_refused_alike(web: Server, alone: Server) -> None:
    body = {"prompt": "x" * 100_100, "n": 1}
    answers = [server.post("/v1/completions", body) for server in (web, alone)]
    assert answers[0].status_code == answers[1].status_code == 400
    assert answers[0].json() == answers[1].json()


def usage(server: Server, prompt: str, **fields: Any) -> tuple[str, int]:
    """Return the text of a completion and how many of its prompt's tokens were computed before."""
    answer = server.post("/v1/completions", {"prompt": prompt, "model": "m", "n": 1, "max_tokens": 20, **fields}).json()
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_the_turns_of_a_story_meet_on_the_replica_that_has_it(web: Server) -> None:
    hits = turns = 0
    for story in range(12):
        text = f"Story {story}. {STORY}"
        for turn in range(4):
            added, cached = usage(web, text)
            if turn:
                turns += 1
                hits += cached >= 60  # tokens, of the first turn alone
            text += added + f" And then, in turn {turn}, "
    assert hits >= 0.95 * turns, f"{hits} of {turns} turns found their prefix"


def test_another_web_machine_finds_the_replica_of_a_story_and_of_a_request(
    cluster: Cluster, web: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = cluster.server(tmp_path_factory.mktemp("other")).start(wait=False)
    wait_for(lambda: replicas(other) == 3, "the other server has three replicas")
    for story in range(6):
        text = f"{story} strangers met in a place where nobody had been for a hundred years or more. " + STORY
        usage(web, text)
        time.sleep(1.0)  # as a writer, who reads; web machines tell each other of texts four times a second
        assert usage(other, text + "They ")[1] > 100
    body = {"prompt": STORY, "n": 2, "max_tokens": 4000, "ignore_eos": True}
    with requests.post(f"{web.url}/v1/srb/completions", json=body, stream=True, timeout=DEADLINE) as running:
        lines = running.iter_lines()
        next(lines)
        [listed] = other.get("/v1/srb/completions").json()["completions"]
        stopped = requests.delete(f"{other.url}/v1/srb/completions/{listed['id']}", timeout=DEADLINE)
        assert stopped.status_code == 200, stopped.text
        assert any(b'"cancelled"' in line for line in lines)
    assert other.get("/v1/srb/completions/nonsense").status_code == 404
    other.stop()


def test_a_session_names_the_replica_whatever_the_text(web: Server) -> None:
    time.sleep(STATS_AGE)  # by then what ran before is counted
    before = counts(web)
    for turn in range(5):
        assert (
            web.post(
                "/v1/completions", {"prompt": f"{turn} {turn} {turn}", "n": 1, "max_tokens": 3, "session": "a"}
            ).status_code
            == 200
        )

    def grown() -> list[float]:
        return sorted(count - before[name] for name, count in counts(web).items())

    wait_for(lambda: sum(grown()) == 5, "all are counted: the numbers may be a second old")
    assert grown() == [0, 0, 5]


def counts(server: Server) -> dict[str, float]:
    """Return how many requests each replica has had, a second old at most, from GET /metrics."""
    lines = server.get("/metrics").text.splitlines()
    found = [re.match(r'srb:replica_requests_total\{.*replica="(\w+)"\} (\S+)', line) for line in lines]
    return {match[1]: float(match[2]) for match in found if match}


def test_operators_see_each_replica(cluster: Cluster, web: Server) -> None:
    assert len(counts(web)) == 3
    assert web.metric("srb:replicas_ready") == 3
    word, headings, *rows = cluster.run("status").splitlines()
    assert word == "RUNNING"
    assert headings.split()[:5] == ["replica", "node", "gpu", "state", "model"]
    assert len(rows) == 3
    assert all(" running " in row for row in rows)


def test_without_a_cluster_there_are_no_figures_of_replicas(web: Server, alone: Server) -> None:
    assert "replica" not in alone.get("/metrics").text
    assert orjson.loads(alone.get("/health").content).keys() == {"status", "slots_idle", "slots_processing", "version"}
    slots = [server.get("/slots").json() for server in (web, alone)]
    assert len({slot["replica"] for slot in slots[0]}) == 3
    assert not [slot for slot in slots[1] if "replica" in slot]


CONFIG = """
import sys, yaml
from ray.serve.schema import ServeDeploySchema
from srb.cluster.app import build
from srb.config.settings import Settings
[application] = ServeDeploySchema.model_validate(yaml.safe_load(open(sys.argv[1]))).applications
assert application.import_path == "srb.cluster.app:build"
build(application.args)
Settings.load(flags=application.args["settings"], environ={})
"""


def test_the_config_file_is_one_of_serve_and_of_ours(cluster: Cluster) -> None:
    command = [PYTHON, "-c", CONFIG, ROOT / "config" / "ray" / "srb.yaml"]
    subprocess.run(command, env=cluster.environ, check=True, timeout=DEADLINE, cwd=ROOT)


def test_a_request_may_have_more_branches_than_one_replica(web: Server, alone: Server) -> None:
    assert web.get("/v1/srb/server").json()["max_n"] == 3 * alone.get("/v1/srb/server").json()["max_n"] == 192
    body = {"prompt": STORY, "n": 40, "max_tokens": 6, "seed": 5, "stream": False}
    answers = [server.post("/v1/srb/completions", body).json() for server in (web, alone)]
    for name in ("completions", "seeds"):
        assert answers[0][name] == answers[1][name]
    for name in ("prompt_tokens", "completion_tokens"):
        assert answers[0]["usage"][name] == answers[1]["usage"][name]
    best = {**body, "best_of": 40, "n": 3}
    chosen = [server.post("/v1/srb/completions", best).json()["completions"] for server in (web, alone)]
    assert [each["text"] for each in chosen[0]] == [each["text"] for each in chosen[1]]
    refused = web.post("/v1/srb/completions", {**body, "n": 193})
    assert refused.status_code == 400
    assert "192" in refused.json()["error"]["message"]
