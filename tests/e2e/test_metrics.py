"""Metrics of a server: histograms over all workers, names without a colon, memory; and the rules and dashboard for them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.streams import ENDLESS, Stream
from tests.needs import need
from tests.processes import ROOT, wait_for
from tests.servers import PACED, Server

pytestmark = pytest.mark.e2e

RULES, DASHBOARD = ROOT / "config/prometheus/srb.yaml", ROOT / "config/grafana/srb.json"
BODY = {"prompt": "x", "n": 3, "n_predict": 5}
HISTOGRAMS = ("time_to_first_token_seconds", "queue_seconds", "request_seconds", "tokens_per_request")


def samples(server: Server) -> dict[str, list[Any]]:
    """Return the samples of /metrics by name."""
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(server.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers that the tests of this module share; do not kill any part of it."""
    with Server(tmp_path_factory.mktemp("metrics"), model=PACED, workers=2) as server:
        yield server.start()


def test_each_request_is_in_every_histogram_whichever_worker_answered_it(pair: Server) -> None:
    before = samples(pair)
    for _ in range(4):
        assert pair.post("/completion", BODY).status_code == 200
    found = samples(pair)

    def grown(name: str) -> float:
        return float(found[name][0].value - before[name][0].value)

    for name in HISTOGRAMS:
        assert grown(f"srb_{name}_count") == 4, name
        assert found[f"srb_{name}_bucket"][-1].labels["le"] == "+Inf"
    assert grown("srb_step_seconds_count") >= 4
    assert found["srb_step_seconds_count"][0].value == found["srb_step_seconds_bucket"][-1].value
    assert grown("srb_tokens_per_request_sum") == 4 * 3 * 5
    assert grown("srb_queue_seconds_sum") <= grown("srb_time_to_first_token_seconds_sum")


def test_refused_calls_and_embeddings_are_in_no_histogram(pair: Server) -> None:
    before = samples(pair)["srb_request_seconds_count"][0].value
    assert pair.post("/completion", BODY | {"n": 100_000}).status_code == 400
    assert pair.get("/health").status_code == 200
    assert samples(pair)["srb_request_seconds_count"][0].value == before


def test_a_call_whose_client_leaves_counts_what_it_had(pair: Server) -> None:
    ended, tokens = (pair.metric(f"srb_{name}") for name in ("request_seconds_count", "tokens_per_request_sum"))
    stream = Stream(pair, ENDLESS)
    stream.until("stream")
    stream.close()
    wait_for(lambda: pair.metric("srb_request_seconds_count") == ended + 1, "the call has ended")
    assert pair.metric("srb_tokens_per_request_sum") >= tokens + 1


def test_all_names_are_there_without_a_colon(pair: Server) -> None:
    found = samples(pair)
    with_colon = {name for name in found if ":" in name}
    assert {"llamacpp:requests_processing", "srb:http_requests_total"} <= with_colon
    for name in with_colon:
        assert len(found[f"srb_{name.partition(':')[2]}"]) == len(found[name]), name


def test_the_memory_of_each_process_is_told(pair: Server) -> None:
    memory = samples(pair)["srb_process_resident_bytes"]
    assert sorted(each.labels["process"] for each in memory) == ["arbiter", "engine", "supervisor", "worker", "worker"]
    for each in memory:
        [line] = [
            line for line in Path(f"/proc/{each.labels['pid']}/status").read_text().splitlines() if "VmRSS" in line
        ]
        assert each.value == pytest.approx(1024 * int(line.split()[1]), rel=0.5)


def rules() -> list[str]:
    return [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def targets() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]] + [DASHBOARD.read_text()]


@pytest.mark.parametrize("expressions", [rules, targets])
def test_the_rules_and_the_dashboard_name_metrics_that_there_are(
    pair: Server, expressions: Callable[[], list[str]]
) -> None:
    assert pair.post("/completion", BODY).status_code == 200
    assert pair.post("/v1/srb/stories/one", {"nodes": {}}).status_code == 200
    found = samples(pair)
    for expression in expressions():
        assert expression.count("(") == expression.count(")")
        named = re.findall(r"\bsrb_\w+", expression)
        assert named or expression.startswith("up{"), expression
        assert set(named) <= set(found), expression


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    need(shutil.which("promtool"), "promtool, of Debian's package prometheus")
    return subprocess.run(["promtool", *arguments], input=text, text=True, capture_output=True)


def test_promtool_takes_the_rules() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stderr


def test_promtool_finds_no_fault_in_metrics_without_the_colons_of_llama_server(pair: Server) -> None:
    assert pair.post("/completion", BODY).status_code == 200
    text = pair.get("/metrics?names=plain").text
    assert "srb_engine_state{" in text
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
