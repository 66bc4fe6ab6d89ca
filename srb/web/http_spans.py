"""The spans of a worker's HTTP calls, in the traces of their clients. Imported only where the setting `traces` is on."""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from opentelemetry.propagate import extract
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from srb.traces import close_provider
from srb.web.calls.calls import CALL, TRACEPARENT
from srb.web.metrics import ROUTE
from srb.web.request_log import failure

_SPAN = "srb.span"  # key of a WSGI environ
_MAX_PATH = 200  # characters of a path


class _Headers(Getter):  # type: ignore[misc]
    """The headers of a WSGI environ."""

    def get(self, carrier: Mapping[str, Any], key: str) -> list[str] | None:
        value = carrier.get("HTTP_" + key.upper().replace("-", "_"))
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, Any]) -> Iterable[str]:
        return [key.removeprefix("HTTP_").replace("_", "-").lower() for key in carrier if key.startswith("HTTP_")]


class HttpSpans:
    """A span for each call of a worker, from its arrival until the answer is written or its reader has left."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("srb.web")

    def begin(self, environ: MutableMapping[str, Any]) -> None:
        """Begin the span of a call, in the trace that its headers name or in a new one."""
        facts = {
            "http.request.method": environ["REQUEST_METHOD"],
            "url.scheme": environ.get("wsgi.url_scheme", "http"),
            "url.path": environ.get("PATH_INFO", "")[:_MAX_PATH],
        }
        parent = extract(environ, getter=_Headers())
        span = self._tracer.start_span(environ["REQUEST_METHOD"], parent, SpanKind.SERVER, facts)
        carried: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carried, set_span_in_context(span))
        environ[_SPAN], environ[TRACEPARENT] = span, carried.get("traceparent", "")

    def answered(self, environ: Mapping[str, Any], status: str) -> None:
        """Note the answer's status, WSGI's ("200 OK"), and the route that matched."""
        span, code = environ[_SPAN], int(status[:3])
        if route := environ.get(ROUTE):
            span.update_name(f"{environ['REQUEST_METHOD']} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", code)
        if code >= 500:
            span.set_attribute("error.type", str(code))
            span.set_status(StatusCode.ERROR)

    def end(self, environ: Mapping[str, Any]) -> None:
        """End the span of a call; the engine's reason if it failed, or was cancelled, is the type of the error."""
        span, call = environ[_SPAN], environ.get(CALL)
        if call is not None and (code := failure(call.mailbox)):
            span.set_attribute("error.type", code)
        span.end()

    def close(self) -> None:
        close_provider(self._provider)
