"""The spans of requests that do not end as they should: cut short, refused, failed, or at rest."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from srb.engine.process.request_spans import RequestSpans
from srb.wire.commands import BranchSpec, Embed, Generate, Rerank
from srb.wire.events import BranchEnded, Done, Failed, PromptDone, Rejected, Reply, Resting

TRACE, CALL = 0xA1, 0xB2
PARENT = f"00-{TRACE:032x}-{CALL:016x}-01"
ARRIVED = 1_000_000_000


def spans_after(*events: Any, traceparent: str = PARENT) -> dict[str, Any]:
    """Return the spans of a request, by name, that has had these events."""
    return spans_of(Generate("a", ("secret",), (BranchSpec(1), BranchSpec(2)), traceparent=traceparent), *events)


def spans_of(command: Any, *events: Any) -> dict[str, Any]:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    spans = RequestSpans(provider, "tale")
    spans.begin(command, ARRIVED)
    for event in events:
        spans.note(event)
    return {span.name: span for span in kept.get_finished_spans()}


DONE = Done("a", prompt_tokens=6, cached_tokens=2, completion_tokens=0, prompt_ms=0.0, predicted_ms=0.0)
PROMPT = PromptDone("a", 2, 0, prompt_ms=1.0)


@pytest.mark.parametrize(
    ("events", "names", "error"),
    [
        ([DONE], {"queue"}, None),  # cancelled while it waited
        (
            [Done("a", 6, 2, 0, prompt_ms=5.0, predicted_ms=0.0)],
            {"queue", "prompt"},
            None,
        ),  # … while its prompt was computed
        ([Rejected("a", "queue_full", "full", {})], {"queue"}, "queue_full"),
        ([Failed("a", "queue_timeout", "late")], {"queue"}, "queue_timeout"),
        ([PROMPT, Failed("a", "shutting_down", "end")], {"queue", "prompt", "decode"}, "shutting_down"),
        ([PROMPT, Resting.of(DONE, 5.0), PROMPT, DONE], {"queue", "prompt", "decode"}, None),
        ([PromptDone("b", 0, 0, 1.0), DONE], {"queue"}, None),
    ],
)
def test_each_end_closes_the_spans_that_have_begun(events: list[Any], names: set[str], error: str | None) -> None:
    spans = spans_after(*events)
    assert spans.keys() == names | {"text_completion tale"}
    request = spans.pop("text_completion tale")
    assert (request.context.trace_id, request.parent.span_id) == (TRACE, CALL)
    assert {span.parent.span_id for span in spans.values()} == {request.context.span_id}
    assert request.attributes.get("error.type") == error
    assert request.status.is_ok == (error is None)
    assert spans["queue"].start_time == request.start_time == ARRIVED


def test_the_reasons_are_those_of_the_branches_in_their_order() -> None:
    spans = spans_after(PROMPT, BranchEnded("a", 1, "eos", 3), BranchEnded("a", 0, "limit", 4), DONE)
    assert spans["text_completion tale"].attributes["gen_ai.response.finish_reasons"] == ("limit", "eos")


def test_a_request_without_a_call_has_a_trace_of_its_own() -> None:
    assert spans_after(DONE, traceparent="")["text_completion tale"].parent is None


def test_a_request_of_a_trace_that_is_not_sampled_has_no_span() -> None:
    assert spans_after(PROMPT, DONE, traceparent=f"00-{TRACE:032x}-{CALL:016x}-00") == {}


@pytest.mark.parametrize(
    ("command", "name"),
    [(Embed("a", (("secret",), ("two",)), traceparent=PARENT), "embeddings tale"),
     (Rerank("a", "secret", ("one", "two"), traceparent=PARENT), "rerank tale")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("event", "tokens", "error"),
    [(Reply("a", {"tokens": [3, 4]}), 7, None), (Failed("a", "cancelled", "left"), None, "cancelled")],
)
def test_an_embedding_and_a_ranking_have_one_span(
    command: Any, name: str, event: Any, tokens: int | None, error: str | None
) -> None:
    [span] = spans_of(command, event).values()
    assert (span.name, span.context.trace_id, span.parent.span_id) == (name, TRACE, CALL)
    assert (span.start_time, span.attributes["gen_ai.response.id"]) == (ARRIVED, "a")
    assert span.attributes.get("gen_ai.usage.input_tokens") == tokens
    assert span.attributes.get("error.type") == error
    assert not any("secret" in str(value) for value in span.attributes.values())
