"""Metrics in Prometheus's text format: `llamacpp:` for those that llama-server has too, `srb:` for others, `srb_` for all.

The engine's numbers are queried from the engine. Those of the web workers are kept by prometheus-client: the workers
share a folder (PROMETHEUS_MULTIPROC_DIR, see gunicorn_conf), and any worker answers for all.
"""

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from srb.atomic import write_atomically
from srb.host.processes import Process, family
from srb.models.control import ModelState
from srb.version import version
from srb.web.calls.mailbox import Mailbox
from srb.web.metric_files import move_to_files, use_allocated_files
from srb.web.stories.stories_file import STATES, Watched
from srb.wire.events import ClusterStats, Done
from srb.wire.step_seconds import buckets_of, is_of_steps

log = logging.getLogger("srb.web")

CONTENT_TYPE = "text/plain; version=0.0.4"

_RUNS = ("running", "hung")  # the states of an engine whose latest numbers are still its own
ENGINE_STATES = ("loading", "running", "hung", "restarting", "failed")
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus-client's name for the folder
ROUTE = "srb.route"  # key of a WSGI environ: the rule that matched

LLAMACPP = {
    "prompt_tokens_total": "Prompt tokens processed.",
    "prompt_tokens_cached_total": "Prompt tokens reused from the prefix tree.",
    "prompt_seconds_total": "Time spent on prompts.",
    "tokens_predicted_total": "Tokens generated, over all branches.",
    "tokens_predicted_seconds_total": "Time spent on generating.",
    "n_decode_total": "Calls of llama_decode.",
    "n_tokens_max": "Largest number of tokens in one sequence.",
    "prompt_tokens_seconds": "Average prompt throughput in tokens/s since the last scrape.",
    "predicted_tokens_seconds": "Average throughput in tokens/s since the last scrape, without first tokens.",
    "requests_processing": "Requests being processed.",
    "requests_deferred": "Requests that wait in the queue.",
    "n_busy_slots_per_decode": "Average number of prompts and branches per llama_decode call.",
    "kv_cache_usage_ratio": "Fraction of the KV cells in use, 0 to 1.",
    "kv_cache_tokens": "KV cells in use.",
    "spec_decode_num_draft_tokens_total": "Tokens drafted and computed (spec_type).",
    "spec_decode_num_accepted_tokens_total": "Drafted tokens accepted.",
    "spec_decode_num_drafts_total": "Drafts verified.",
}

# A colon is for recording rules, as promtool says: each metric has a name without one as well.
_WITH_COLON = re.compile(rb"^(# (?:HELP|TYPE) )?(?:llamacpp|srb):(.*\n)", re.MULTILINE)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # upper ends of buckets
_TOKENS = (1, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)  # likewise: two to a decade
_KINDS = {  # of processes, by module
    "srb.engine.process": "engine",
    "srb.process.supervisor": "supervisor",
    "srb.models.supervisor": "supervisor",
}

_LAST_SCRAPE = "last_scrape.json"


class Metrics:
    """HTTP counters of one worker, and the text of all metrics."""

    def __init__(self, folder: Path | None = None) -> None:
        """Share the numbers of the last scrape with all workers that have the same `folder`."""
        if folder is not None:
            use_allocated_files()
        self._own = CollectorRegistry()
        self._answered = Counter(
            "srb:http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=self._own
        )
        self.open_calls = Gauge(
            "srb:http_calls_open",
            "HTTP calls being answered that wait for the engine: completions, embeddings, rankings.",
            registry=self._own,
            multiprocess_mode="livesum",
        )
        self._first_token = self._histogram(
            "time_to_first_token_seconds", "Time from a call's arrival to its first token, of each request.", _SECONDS
        )
        self._queue = self._histogram(
            "queue_seconds", "Time from a call's arrival to the start of its prompt, of each request.", _SECONDS
        )
        self._request = self._histogram("request_seconds", "Time of a whole call that generates.", _SECONDS)
        self._tokens = self._histogram("tokens_per_request", "Tokens generated, over a request's branches.", _TOKENS)
        self._arbiter = os.getppid() if folder else None  # without gunicorn there is no family of processes
        self._last = _LastScrape(folder and folder / _LAST_SCRAPE)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"srb_{name}", text, buckets=buckets, registry=self._own)

    def observe(self, mailbox: Mailbox, began: float) -> None:
        """Count the call that began at `began`, on time.monotonic()'s clock, if the engine has accepted its requests."""
        if not mailbox.prompt_tokens:
            return
        self._request.observe(time.monotonic() - began)
        for prompt, at in mailbox.prompts_done.values():
            self._first_token.observe(at - began)
            self._queue.observe(max(0.0, at - began - prompt.prompt_ms / 1000))
        ends = {end.request_id: end.completion_tokens for end in mailbox.ended if isinstance(end, Done)}
        for request_id in mailbox.prompt_tokens:
            self._tokens.observe(ends.get(request_id, mailbox.new_tokens[request_id]))

    def count(self, environ: Mapping[str, Any], status: str) -> None:
        """Count a response; `status` is WSGI's ("200 OK"), the label `route` is the rule that matched, not the path."""
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "POST", "HEAD", "OPTIONS"):
            method = "other"  # a client's invented methods must not become time series
        self._answered.labels(method, environ.get(ROUTE, "none"), status[:3]).inc()

    def render(
        self,
        stats: Mapping[str, float],
        answered_at: float = 0.0,
        state: str = "running",
        restarts: int = 0,
        cluster: ClusterStats | None = None,
        models: Sequence[ModelState] = (),
        knows_models: bool | None = None,
        stories: Watched | None = None,
        tokens: Sequence[tuple[str, int, int]] = (),
    ) -> bytes:
        """Return the text of all workers' counters, the engine's state and `stats`, its numbers ({}: unknown).

        The engine answered with these `answered_at` a UNIX time. If others of an engine that still runs are newer, or
        nothing else is known, those of the last scrape are shown again, also if another worker answered it.
        With a cluster, the numbers of each replica follow; with several models, their states and numbers of calls, and
        whether these are the present ones (`knows_models`). `tokens` are those of each client: its name, computed, written.
        """
        latest = self._last.update(_Scrape(dict(stats), answered_at, restarts), runs=state in _RUNS)
        values = latest.values | {"engine_restarts_total": restarts}
        if latest.values:
            values["engine_answer_timestamp_seconds"] = latest.at
        replicas = _text_of(_replica_numbers(cluster)) if cluster is not None else b""
        several = _text_of(_model_numbers(models, knows_models)) if knows_models is not None else b""
        memory = _text_of(_process_numbers(self._arbiter)) if self._arbiter is not None else b""
        text = generate_latest(self._workers()) + _text_of(_engine_numbers(values, state)) + replicas + several
        memory += _text_of(_stories_state(stories)) if stories is not None else b""
        memory += _text_of(_client_tokens(tokens)) if tokens else b""
        return text + b"".join(b"%bsrb_%b" % found.groups(b"") for found in _WITH_COLON.finditer(text)) + memory

    def _workers(self) -> CollectorRegistry:
        if SHARED_FOLDER not in os.environ:
            return self._own
        move_to_files()
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry


def without_colons(text: bytes) -> bytes:
    """Return the text of all metrics without the names that have a colon."""
    return _WITH_COLON.sub(b"", text)


@dataclass(frozen=True, slots=True)
class _Scrape:
    """The engine's numbers as one scrape shows them; `restarts` are those before the engine."""

    values: dict[str, float] = field(default_factory=dict)
    at: float = 0.0  # UNIX time
    restarts: int = -1


class _LastScrape:
    """The numbers of the last scrape, whoever asked and whichever worker answered.

    Rates begin there, as llama-server's. No scrape is older than the last one: a counter that falls is one that begins anew.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._own = _Scrape()  # this worker's last scrape

    def update(self, new: _Scrape, *, runs: bool) -> _Scrape:
        """Keep and return the newer scrape of `new` and the last one, with rates; without an engine that `runs`, `new`."""
        last = self._read()
        if runs and last.restarts == new.restarts and (not new.values or new.at <= last.at):
            return last
        if new.values:
            new = replace(new, values={**new.values, **_averages(new.values, last.values)})
            self._write(new)
        return new

    def _read(self) -> _Scrape:
        if self._path is None or not self._path.exists():
            return self._own
        try:
            return _Scrape(**orjson.loads(self._path.read_bytes()))
        except OSError as error:
            return self._alone(error)

    def _write(self, scrape: _Scrape) -> None:
        self._own = scrape
        if self._path is None:
            return
        try:
            write_atomically(self._path, orjson.dumps(scrape))
        except OSError as error:
            self._alone(error)

    def _alone(self, error: OSError) -> _Scrape:
        """Tell that scrapes are not shared, as on a full disk: rates of this worker's are better than no metrics."""
        log.warning("the rates in /metrics are of this worker's scrapes: %s", error)
        return self._own


def _averages(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return llama-server's gauges: rates between two scrapes, slots per decode since the start, and the use of the cells.

    A branch's first token comes from its prompt's logits, without a step of its own.
    """

    def grown(name: str) -> float:
        """Return a counter's growth; a restarted engine counts from zero."""
        value, last = now.get(name, 0.0), before.get(name, 0.0)
        return value - last if value >= last else value

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    return {
        "prompt_tokens_seconds": ratio(grown("prompt_tokens_total"), grown("prompt_seconds_total")),
        "predicted_tokens_seconds": ratio(grown("decode_steps_total"), grown("tokens_predicted_seconds_total")),
        "n_busy_slots_per_decode": ratio(now.get("busy_slots_total", 0.0), now.get("n_decode_total", 0.0)),
        "kv_cache_usage_ratio": ratio(now.get("kv_cells_used", 0.0), now.get("kv_cells", 0.0)),
        "kv_cache_tokens": now.get("kv_cells_used", 0.0),
    }


class _Numbers(Collector):
    """Metrics that are made for one scrape."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _text_of(metrics: Iterable[Metric]) -> bytes:
    return generate_latest(_Numbers(metrics))


def _client_tokens(tokens: Sequence[tuple[str, int, int]]) -> Iterator[CounterMetricFamily]:
    """Yield the tokens of each client since the usage file began."""
    text = "Tokens of a key's calls that have ended: computed of prompts, and written."
    family = CounterMetricFamily("srb_client_tokens", text, labels=["client", "kind"])
    for client, computed, written in tokens:
        family.add_metric([client, "computed"], computed)
        family.add_metric([client, "written"], written)
    yield family


def _states(name: str, text: str, known: Sequence[str], current: str) -> GaugeMetricFamily:
    states = GaugeMetricFamily(name, text, labels=["state"])
    for state in known:
        states.add_metric([state], float(state == current))
    return states


def _engine_numbers(values: Mapping[str, float], state: str) -> Iterator[Metric]:
    """Yield the engine's metrics: names that end in _total are counters, others gauges; each possible state has a gauge."""
    yield _states("srb:engine_state", "1 for the current state, 0 for the others.", ENGINE_STATES, state)
    build = GaugeMetricFamily("srb_build_info", "1, with the version of SRB that answers.", labels=["version"])
    build.add_metric([version()], 1.0)
    yield build
    if (steps := buckets_of(values)) is not None:
        buckets, seconds = steps
        text = "Time of the engine's steps, each a batch of prompts and branches."
        yield HistogramMetricFamily("srb_step_seconds", text, buckets=buckets, sum_value=seconds)
    for name, value in sorted(values.items()):
        if is_of_steps(name):
            continue
        full_name = ("llamacpp:" if name in LLAMACPP else "srb:") + name
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        yield family(full_name, LLAMACPP.get(name, f"{name.replace('_', ' ').capitalize()}."), value=value)


def _stories_state(stories: Watched) -> Iterator[GaugeMetricFamily]:
    """Yield the state of the stories' file, and the time of its last backup."""
    yield _states("srb_stories_state", "1 for the state of the stories' file.", STATES, stories.state)
    if stories.last_backup is not None:
        yield GaugeMetricFamily(
            "srb_stories_backup_timestamp_seconds",
            "Unix time of the last backup of the stories; 0 without one.",
            value=stories.last_backup,
        )


def _process_numbers(arbiter: int) -> Iterator[GaugeMetricFamily]:
    """Yield the resident memory of each process of this server; with units of their own, of the web server's alone."""
    memory = GaugeMetricFamily(
        "srb_process_resident_bytes",
        "Resident memory of a process, pages that it shares included.",
        labels=["process", "pid"],
    )
    for process in family(arbiter):
        memory.add_metric([_kind(process, arbiter), str(process.pid)], process.resident_bytes)
    yield memory


def _kind(process: Process, arbiter: int) -> str:
    if process.pid == arbiter:
        return "arbiter"
    kinds = [kind for module, kind in _KINDS.items() if module in process.words]
    return kinds[0] if kinds else "worker" if process.parent == arbiter else "other"


def _replica_numbers(cluster: ClusterStats) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield a cluster's metrics: how many replicas take requests, and numbers of each, with the labels replica and node."""
    replicas = cluster["replicas"]
    yield GaugeMetricFamily("srb:replicas_ready", "Replicas that take requests.", value=len(replicas))
    trouble = float(bool(cluster["trouble"]))
    yield GaugeMetricFamily(
        "srb:cluster_degraded", "1 while the list of replicas, or one on it, cannot be read.", value=trouble
    )
    for name in sorted({name for each in replicas.values() for name in each["stats"] if not is_of_steps(name)}):
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        text = f"{name.replace('_', ' ').capitalize()}, of each replica."
        numbers = family(f"srb:replica_{name}", text, labels=["replica", "node"])
        for replica, each in replicas.items():
            if name in each["stats"]:
                numbers.add_metric([replica, each["node"]], each["stats"][name])
        yield numbers


def _model_numbers(
    models: Sequence[ModelState], knows_models: bool
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield the numbers of several models, with the label model: the state, and the calls that hold it and wait for it."""
    yield GaugeMetricFamily(
        "srb:models_supervisor_up",
        "1 if the supervisor of several models answers; 0: their states are the last that were known.",
        value=float(knows_models),
    )
    states = GaugeMetricFamily("srb:model_state", "1 for each model's current state.", labels=["model", "state"])
    running = GaugeMetricFamily("srb:model_calls_running", "Calls that use a model.", labels=["model"])
    waiting = GaugeMetricFamily("srb:model_calls_waiting", "Calls that wait for a model.", labels=["model"])
    loads = CounterMetricFamily("srb:model_loads_total", "Times that a model was loaded.", labels=["model"])
    for each in models:
        states.add_metric([each.name, each.state], 1.0)
        running.add_metric([each.name], each.running)
        waiting.add_metric([each.name], each.waiting)
        loads.add_metric([each.name], each.loads)
    yield from (states, running, waiting, loads)
