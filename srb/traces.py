"""Traces of OpenTelemetry: spans of a process, which go to where its OTEL_* variables say."""

import os
import threading
from importlib.metadata import entry_points
from typing import Any

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.version import version

_GROUP = "opentelemetry_traces_exporter"  # exporters' entry points
_CLOSE_SECONDS = 1.0  # for the last spans; a collector that does not answer must not hold up the end of a process


def open_provider(settings: Settings) -> Any | None:
    """Return a TracerProvider of OpenTelemetry, which exports in a thread of its own; None without the setting.

    Called after a worker's fork, since the thread would not outlive it. Raise ConfigError for what is not installed, and for
    variables that OpenTelemetry refuses.
    """
    if not settings.traces:
        return None
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(f"traces needs a package: pip install 'llama-srb[traces]' ({error})") from error
    own = {"service.name": "srb", "service.version": version()}
    try:
        # Attributes given to `create` win over the operator's, which are therefore among them.
        resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        for name in _exporters():
            provider.add_span_processor(BatchSpanProcessor(_load(name)()))
    except ValueError as error:
        raise ConfigError(f"traces: OpenTelemetry refuses a variable: {error}") from error
    return provider


def close_provider(provider: Any) -> None:
    """Send the last spans, for a second at most."""
    closing = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)


def _exporters() -> list[str]:
    """Return the names of the exporters that OTEL_TRACES_EXPORTER asks for, by default that of OTLP over HTTP."""
    asked = [name.strip() for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")]
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((os.environ[each] for each in variables if os.environ.get(each)), "http/protobuf")
    otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    return [otlp if name == "otlp" else name for name in asked if name not in ("", "none")]


def _load(name: str) -> Any:
    found = entry_points(group=_GROUP, name=name)
    if not found:
        raise ConfigError(f"traces: no package for the exporter {name} is installed (OTEL_TRACES_EXPORTER)")
    return next(iter(found)).load()
