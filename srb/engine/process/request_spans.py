"""The spans of requests in the engine, in their calls' traces. Imported only where the setting `traces` is on.

The attributes are those of OpenTelemetry's conventions for generative AI; none has text of a prompt or an answer.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from srb.wire.commands import Embed, Generate, Rerank
from srb.wire.events import BranchEnded, Done, Event, Failed, PromptDone, Rejected, Reply, Resting

# The engine knows of no chats: their template is applied before. The conventions have no name for rankings.
_OPERATIONS = {Generate: "text_completion", Embed: "embeddings", Rerank: "rerank"}


@dataclass(slots=True)
class _Open:
    """The span of a request that runs; times are nanoseconds of the UNIX clock."""

    span: Any
    arrived: int
    has_branches: bool  # whether it is no embedding and no ranking
    prompt_done: int | None = None
    reasons: dict[int, str] = field(default_factory=dict)  # by the branch's index


class RequestSpans:
    """A span for each request, from its arrival to its end; in that of a prompt are those of queue, prompt and decode."""

    def __init__(self, provider: Any, model: str) -> None:
        self._tracer = provider.get_tracer("srb.engine")
        self._model = model
        self._open: dict[str, _Open] = {}  # by request_id

    def begin(self, command: Any, arrived: int) -> None:
        """Begin the span of a request that arrived at `arrived`; other commands have none."""
        operation = _OPERATIONS.get(type(command))
        if operation is None:
            return
        parent = TraceContextTextMapPropagator().extract({"traceparent": command.traceparent})
        facts = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "llama.cpp",
            "gen_ai.request.model": self._model,
            "gen_ai.response.model": self._model,
            "gen_ai.response.id": command.request_id,
        }
        if isinstance(command, Generate):
            facts |= _sampling(command)
        span = self._tracer.start_span(f"{operation} {self._model}", parent, attributes=facts, start_time=arrived)
        if span.is_recording():
            self._open[command.request_id] = _Open(span, arrived, isinstance(command, Generate))

    def note(self, event: Event) -> None:
        """Follow a request by an event of it, in the order in which they are sent."""
        if not isinstance(event, PromptDone | BranchEnded | Resting | Done | Failed | Rejected | Reply):
            return
        request = self._open.get(event.request_id)
        if request is None:
            return
        if isinstance(event, PromptDone):
            self._note_prompt(request, event.prompt_ms)
        elif isinstance(event, BranchEnded):
            request.reasons[event.index] = event.reason
        else:
            self._end(request, event)
            del self._open[event.request_id]

    def _note_prompt(self, request: _Open, prompt_ms: float) -> None:
        request.prompt_done = now = time.time_ns()
        began = max(request.arrived, now - round(prompt_ms * 1e6))
        self._span("queue", request, request.arrived, began)
        self._span("prompt", request, began, now)

    def _end(self, request: _Open, event: Resting | Done | Failed | Rejected | Reply) -> None:
        now = time.time_ns()
        if request.has_branches:
            self._note_last_phase(request, event, now)
        if isinstance(event, Reply):
            request.span.set_attribute("gen_ai.usage.input_tokens", sum(event.value["tokens"]))
        elif isinstance(event, Resting | Done):
            request.span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": event.prompt_tokens,
                    "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
                    "gen_ai.usage.output_tokens": event.completion_tokens,
                    "gen_ai.response.finish_reasons": [reason for _, reason in sorted(request.reasons.items())],
                }
            )
        else:
            request.span.set_attribute("error.type", event.code)
            request.span.set_status(StatusCode.ERROR)
        request.span.end(now)

    def _note_last_phase(self, request: _Open, event: Event, now: int) -> None:
        if request.prompt_done is not None:
            self._span("decode", request, request.prompt_done, now)
        elif isinstance(event, Resting | Done) and event.prompt_ms:
            self._note_prompt(request, event.prompt_ms)  # the prompt was cut short
        else:
            self._span("queue", request, request.arrived, now)

    def _span(self, name: str, request: _Open, began: int, ended: int) -> None:
        self._tracer.start_span(name, set_span_in_context(request.span), start_time=began).end(ended)


def _sampling(command: Generate) -> dict[str, Any]:
    """Return the attributes of a request's branches; the sampling is that of the first."""
    first = command.branches[0]
    facts = {
        "gen_ai.request.choice.count": len(command.branches),
        "gen_ai.request.seed": first.seed,
        "gen_ai.request.temperature": first.sampling.temperature,
        "gen_ai.request.top_p": first.sampling.top_p,
        "gen_ai.request.top_k": first.sampling.top_k,
        "gen_ai.request.frequency_penalty": first.sampling.frequency_penalty,
        "gen_ai.request.presence_penalty": first.sampling.presence_penalty,
    }
    return facts | ({"gen_ai.request.max_tokens": first.max_tokens} if first.max_tokens >= 0 else {})
