"""The engine's numbers as Prometheus text: `llamacpp:` for those that llama-server has too, `srb:` for the rest."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "prompt_tokens_total": "Prompt tokens processed.",
    "prompt_tokens_cached_total": "Prompt tokens that were already computed.",
    "prompt_seconds_total": "Time spent on prompts.",
    "tokens_predicted_total": "Tokens generated, over all branches.",
    "tokens_predicted_seconds_total": "Time spent on generating.",
    "n_decode_total": "Calls of llama_decode.",
    "n_tokens_max": "Largest number of tokens in one sequence.",
    "prompt_tokens_seconds": "Average prompt throughput in tokens/s.",
    "predicted_tokens_seconds": "Average generation throughput in tokens/s.",
    "requests_processing": "Requests being processed.",
    "requests_deferred": "Requests that wait.",
    "n_busy_slots_per_decode": "Average number of sequences in a decode.",
}


class _EngineStats(Collector):
    def __init__(self, values: dict[str, float]) -> None:
        self._values = values

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for name, value in sorted(self._values.items()):
            full_name = ("llamacpp:" if name in HELP else "srb:") + name
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(full_name, HELP.get(name, f"{name.replace('_', ' ').capitalize()}."), value=value)


def render(values: dict[str, float]) -> bytes:
    """Return the exposition of the engine's numbers; names that end in _total are counters, others gauges."""
    return generate_latest(_EngineStats(values))
