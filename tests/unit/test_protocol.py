"""The wire: every message comes back as it was sent, and anything else is a ProtocolError."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.config.sampling_params import SamplingParams
from srb.errors import ContextExceeded, ProtocolError, QueueFull
from srb.wire.codec import decode, encode
from srb.wire.commands import (
    BranchSpec,
    Cancel,
    ContextShift,
    Detokenize,
    Embed,
    Generate,
    GetAdapters,
    GetSlots,
    GetStats,
    Rerank,
    SetAdapters,
    StateAction,
    Tokenize,
)
from srb.wire.events import (
    Accepted,
    BranchEnded,
    Delta,
    Done,
    Failed,
    Hello,
    Progress,
    PromptDone,
    PromptLogprobs,
    Ready,
    Rejected,
    Reply,
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32).map(float)
small = st.integers(-(2**31), 2**31)
json_objects = st.dictionaries(words, st.none() | words | small | st.lists(small, max_size=3), max_size=3)

# For each type that a field of SamplingParams has; the shape is what the wire has to bring back.
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "float": numbers,
    "int": small,
    "bool": st.booleans(),
    "str": words,
    "tuple[int, ...]": st.lists(small, max_size=3).map(tuple),
    "tuple[str, ...]": st.lists(words, max_size=3).map(tuple),
    "tuple[str | int, ...] | None": st.none() | st.lists(words | small, max_size=3).map(tuple),
    "tuple[tuple[str, str | int], ...]": st.lists(st.tuples(words, words | small), max_size=3).map(tuple),
    "tuple[tuple[int | str, float | None], ...]": st.lists(
        st.tuples(small | words, numbers | st.none()), max_size=3
    ).map(tuple),
}
sampling_params = st.fixed_dictionaries(
    {}, optional={field.name: _BY_TYPE[str(field.type)] for field in fields(SamplingParams)}
).map(lambda changed: SamplingParams(**changed))
branch_specs = st.builds(
    BranchSpec,
    seed=small,
    max_tokens=small,
    stop=st.lists(words, max_size=2).map(tuple),
    sampling=sampling_params,
    t_max_predict_ms=small,
    min_tokens=small,
    n_indent=small,
    stop_at=words,
    stop_after=small,
    include_stop=st.booleans(),
    hidden_stops=st.lists(words, max_size=2).map(tuple),
)
parts = st.lists(words | small, max_size=4).map(tuple)
scales = st.lists(st.tuples(small, numbers), max_size=3).map(tuple)
generates = st.builds(
    Generate,
    request_id=words,
    prompt=parts,
    branches=st.lists(branch_specs, max_size=4).map(tuple),
    add_special=st.booleans(),
    cache_prompt=st.booleans(),
    state=words,
    lora=st.none() | scales,
    report_progress=st.booleans(),
    shift=st.none() | st.builds(ContextShift, small, small),
    prompt_logprobs=st.booleans(),
    prompt_top=small,
    traceparent=st.just("")
    | st.from_regex("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", fullmatch=True, alphabet=st.characters(codec="ascii")),
)
messages = st.one_of(
    generates,
    st.builds(Cancel, words, st.none() | small),
    st.builds(GetStats, words),
    st.builds(Hello, small, small),
    st.builds(Ready, json_objects),
    st.builds(Accepted, words, small),
    st.builds(Rejected, words, words, words, json_objects),
    st.builds(Delta, words, small, words, st.lists(small, max_size=3), st.none() | st.lists(json_objects, max_size=2)),
    st.builds(BranchEnded, words, small, words, small, words, st.booleans(), st.none() | numbers, words, words),
    st.builds(Done, words, small, small, small, numbers, numbers),
    st.builds(Failed, words, words, words),
    st.builds(Tokenize, words, parts, st.booleans(), st.booleans()),
    st.builds(Detokenize, words, st.lists(small, max_size=3).map(tuple)),
    st.builds(GetSlots, words),
    st.builds(Embed, words, st.lists(parts, max_size=2).map(tuple), words),
    st.builds(Rerank, words, words, st.lists(words, max_size=2).map(tuple)),
    st.builds(GetAdapters, words),
    st.builds(SetAdapters, words, scales),
    st.builds(StateAction, words, words, words, small),
    st.builds(Reply, words, json_objects | st.lists(small, max_size=3)),
    st.builds(Progress, words, small, small, small, numbers),
    st.builds(PromptDone, words, small, small, numbers),
    st.builds(PromptLogprobs, words, st.lists(json_objects, max_size=2)),
)


@given(st.lists(messages, max_size=4))
def test_every_message_comes_back_as_it_was_sent(sent: list[Any]) -> None:
    received = decode(encode(sent))
    assert received == sent
    assert [type(message) for message in received] == [type(message) for message in sent]


def test_branches_that_differ_only_in_their_seed_cross_the_wire_as_one() -> None:
    sampling = SamplingParams(temperature=1.5, dry_sequence_breakers=("x" * 100,))
    eight = encode([Generate("a", ("b",), tuple(BranchSpec(seed, 10, sampling=sampling) for seed in range(8)))])
    one = encode([Generate("a", ("b",), (BranchSpec(0, 10, sampling=sampling),))])
    assert len(eight) < len(one) + 8 * 3


def test_branches_with_settings_of_their_own_keep_them_in_order() -> None:
    hot, cold = SamplingParams(temperature=2.0), SamplingParams(temperature=0.0)
    branches = (
        BranchSpec(1, sampling=hot),
        BranchSpec(2, sampling=cold),
        BranchSpec(3, sampling=hot),
        BranchSpec(3, 5),
    )
    [command] = decode(encode([Generate("a", ("b", 7), branches)]))
    assert command.branches == branches


json_values = st.recursive(
    st.none() | st.booleans() | small | numbers | words,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(words, inner, max_size=3),
)


@given(st.binary(max_size=60) | json_values.map(orjson.dumps))
def test_anything_else_is_a_protocol_error(payload: bytes) -> None:
    try:
        decoded = decode(payload)
    except ProtocolError:
        return
    assert isinstance(decoded, list)


@pytest.mark.parametrize("payload", [b"", b"{", b"[[99]]", b"[[1]]", b"[[0,1,2]]", b"[1]", b"[[]]", b"[" * 2000])
def test_what_is_not_a_message_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(payload)


@pytest.mark.parametrize("traceparent", ["x", "00-" + 32 * "A" + "-0123456789abcdef-01", 7, ["00"], {"a": 1}])
def test_a_traceparent_that_is_none_is_refused(traceparent: Any) -> None:
    with pytest.raises(ProtocolError):
        decode(orjson.dumps([[0, "a", ["b"], [[[1], {}, {}]], {"traceparent": traceparent}]]))


def test_an_error_is_the_same_on_both_sides() -> None:
    error = Rejected("a", "context_exceeded", "too long", {"n_ctx": 8, "n_prompt_tokens": 9}).error
    assert isinstance(error, ContextExceeded)
    assert error.body()["error"] == {
        "code": 400,
        "message": "too long",
        "type": "exceed_context_size_error",
        "n_ctx": 8,
        "n_prompt_tokens": 9,
    }
    assert isinstance(Failed("a", "queue_full", "full").error, QueueFull)
    assert Failed("a", "a_word_of_tomorrow", "?").error.http_status == 500
