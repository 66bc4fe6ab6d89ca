"""The contract of srb.engine.model.Model: the same for the fake and for llama.cpp, whatever the kind of memory."""

from __future__ import annotations

import numpy as np
import pytest

from srb.engine.core import Engine
from srb.engine.model import Batch, DecodeStatus, Logits, Model
from srb.engine.probs import chosen_probs
from srb.errors import GrammarDeadEnd
from srb.protocol import BranchSpec, ContextShift, Delta, Generate, SamplingParams

TEXT = "the old king said, then a boat ☃"
TOLERANCE = 1e-2  # f16 cells round differently with the shape of the batch; other texts differ by ones


def compute(model: Model, seq_id: int, tokens: list[int], position: int = 0) -> Logits:
    """Compute `tokens` in one decode and return a copy of the last one's logits."""
    batch = Batch()
    row = batch.add(seq_id, position, tokens, want_logits=True)
    assert model.decode(batch) is DecodeStatus.OK
    return model.logits(row).copy()


def close(a: Logits, b: Logits) -> bool:
    return bool(np.allclose(a, b, atol=TOLERANCE))


def tokens_of(model: Model, text: str = TEXT) -> list[int]:
    return model.tokenize(text, add_special=True, parse_special=True)


def test_pieces_of_a_text_concatenate_to_it(model: Model) -> None:
    text = b"".join(model.piece(token) for token in tokens_of(model)).decode()
    assert text.removeprefix(" ") == TEXT


def test_special_tokens_are_added_only_when_asked_for(model: Model) -> None:
    plain = model.tokenize("a", add_special=False, parse_special=False)
    assert tokens_of(model, "a")[1:] == plain
    assert model.piece(tokens_of(model, "a")[0]) == b""


def test_logits_depend_on_everything_visible(model: Model) -> None:
    tokens = tokens_of(model)
    changed = [*tokens[:-3], tokens[-2], tokens[-3], tokens[-1]]
    assert not close(compute(model, 0, tokens), compute(model, 1, changed))


def test_a_prompt_in_chunks_has_the_logits_of_the_whole(model: Model) -> None:
    tokens = tokens_of(model)
    whole = compute(model, 0, tokens)
    compute(model, 1, tokens[:5])
    assert close(whole, compute(model, 1, tokens[5:], position=5))


def test_every_row_that_is_wanted_has_the_logits_of_its_beginning(model: Model) -> None:
    tokens = tokens_of(model)[:12]
    batch = Batch()
    last = batch.add(0, 0, tokens, want_logits=False, want_all=True)
    assert model.decode(batch) is DecodeStatus.OK
    rows = [model.logits(last - 11 + place).copy() for place in range(12)]
    for place in (0, 5, 11):
        model.remove(1)
        assert close(rows[place], compute(model, 1, tokens[: place + 1]))


def test_forked_logits_equal_cold_logits(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    for target in (2, 3):
        model.fork(1, target)
    batch = Batch()
    rows = [batch.add(target, len(tokens) - 1, tokens[-1:], want_logits=True) for target in (2, 3)]
    assert model.decode(batch) is DecodeStatus.OK
    assert all(close(cold, model.logits(row)) for row in rows)


def test_a_fork_outlives_its_source_and_its_siblings(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    model.fork(1, 2)
    model.fork(1, 3)
    model.remove(1)
    compute(model, 3, [tokens[0]], position=len(tokens) - 1)
    model.remove(3)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


def test_a_removed_sequence_can_be_used_again(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[::-1])
    model.remove(1)
    assert close(cold, compute(model, 1, tokens))


def test_clear_empties_every_sequence(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens)
    model.clear()
    assert close(cold, compute(model, 1, tokens))


def test_what_llama_cpp_would_abort_on_raises_before(model: Model) -> None:
    with pytest.raises(AssertionError):
        model.decode(Batch())
    too_long = Batch()
    too_long.add(0, 0, [5] * (model.n_batch + 1), want_logits=True)
    with pytest.raises(AssertionError):
        model.decode(too_long)
    no_such_sequence = Batch()
    no_such_sequence.add(model.n_seq_max, 0, [5], want_logits=True)
    with pytest.raises((AssertionError, KeyError)):
        model.decode(no_such_sequence)
    too_many_rows = Batch()
    too_many_rows.add(0, 0, [5] * (model.n_seq_max + 1), want_logits=True, want_all=True)
    with pytest.raises(AssertionError):
        model.decode(too_many_rows)
    compute(model, 0, [5, 6])
    with pytest.raises((AssertionError, KeyError)):
        model.logits(0)


def test_kept_logits_sample_the_same_token_as_the_row(model: Model) -> None:
    tokens = tokens_of(model)
    batch = Batch()
    row = batch.add(0, 0, tokens, want_logits=True)
    model.decode(batch)
    kept = model.logits(row).copy()
    for seed in range(20):
        from_row = model.new_sampler(SamplingParams(), seed, tokens)
        from_kept = model.new_sampler(SamplingParams(), seed, tokens)
        assert from_row.sample(row) == from_kept.sample_from(kept)


def test_seeds_decide_the_token_and_temperature_zero_takes_the_likeliest(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    sampled = {model.new_sampler(SamplingParams(), seed, []).sample_from(logits) for seed in range(30)}
    again = {model.new_sampler(SamplingParams(), seed, []).sample_from(logits) for seed in range(30)}
    assert sampled == again
    assert len(sampled) > 3
    greedy = {model.new_sampler(SamplingParams(temperature=0), seed, []).sample_from(logits) for seed in range(5)}
    assert greedy == {int(logits.argmax())}


def test_logit_bias_forces_and_forbids(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    greedy = SamplingParams(temperature=0)
    best = model.new_sampler(greedy, 0, []).sample_from(logits)
    forbid = SamplingParams(temperature=0, logit_bias=((best, None),))
    assert model.new_sampler(forbid, 0, []).sample_from(logits) != best
    force = SamplingParams(logit_bias=((7, 1000.0),))
    assert {model.new_sampler(force, seed, []).sample_from(logits) for seed in range(5)} == {7}


def test_the_end_of_text_waits_for_the_least_number_of_tokens(model: Model) -> None:
    logits = np.full(model.n_vocab, -50.0, np.float32)
    ends = [token for token in range(model.n_vocab) if model.is_eog(token)]
    logits[ends] = 50.0
    for params in (SamplingParams(), SamplingParams(temperature=0, repeat_penalty=1.1)):
        sampler = model.new_sampler(params, 1, [5], min_tokens=3)
        sampled = [model.is_eog(sampler.sample_from(logits)) for _ in range(5)]
        assert sampled == [False, False, False, True, True]
        sampler.close()


def test_a_sampler_that_may_choose_nothing_says_so(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    nothing = tuple((token, None) for token in range(model.n_vocab))
    for params in (SamplingParams(logit_bias=nothing), SamplingParams(logit_bias=nothing, temperature=0)):
        sampler = model.new_sampler(params, 1, [])
        with pytest.raises(GrammarDeadEnd):
            sampler.sample_from(logits)
        sampler.close()


def test_candidates_are_what_the_chain_left_with_their_probabilities(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    sampler = model.new_sampler(
        SamplingParams(temperature=0.5, top_k=0, top_p=1, min_p=0, post_sampling_probs=True), 1, []
    )
    token = sampler.sample_from(logits)
    weights = np.exp((logits - logits.max()) / 0.5)
    probs = chosen_probs(model, sampler.candidates, token, 3)
    assert probs["prob"] == pytest.approx(weights[token] / weights.sum(), rel=1e-3)
    assert [entry["id"] for entry in probs["top_probs"]] == np.argsort(-logits)[:3].tolist()
    greedy = model.new_sampler(SamplingParams(temperature=0, post_sampling_probs=True), 1, [])
    token = greedy.sample_from(logits)
    probs = chosen_probs(model, greedy.candidates, token, 3)
    assert (probs["prob"], [entry["id"] for entry in probs["top_probs"]]) == (1.0, [token])


def test_a_sampler_closes_twice(model: Model) -> None:
    sampler = model.new_sampler(SamplingParams(), 0, [])
    sampler.close()
    sampler.close()


def new_engine(model: Model, cache_cells: int = 0, cache_bytes: int = 0) -> Engine:
    model.clear()
    clock = iter(range(10**6)).__next__
    return Engine(model, max_queue=10, clock=clock, cache_cells=cache_cells, cache_bytes=cache_bytes)


def generate(
    engine: Engine, seeds: list[int], prompt: list[int] | None = None, temperature: float = 0.8
) -> list[list[int]]:
    """Run one request and return each branch's tokens."""
    sampling = SamplingParams(temperature=temperature, ignore_eos=True)
    specs = tuple(BranchSpec(seed, 12, sampling=sampling) for seed in seeds)
    engine.submit(engine.prepare(Generate("r", tuple(prompt or (TEXT,)), specs)))
    tokens: list[list[int]] = [[] for _ in seeds]
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                tokens[event.index] += event.tokens
        engine.check_invariants()
    return tokens


def test_a_branch_among_eight_is_the_solo_run_with_its_seed(model: Model) -> None:
    together = generate(new_engine(model), list(range(50, 58)))
    assert len({tuple(tokens) for tokens in together}) == 8
    assert together == [generate(new_engine(model), [seed])[0] for seed in range(50, 58)]


@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_writers_evening_gives_the_texts_of_cold_runs(model: Model, cache_cells: int) -> None:
    """Go on from branches, and back to others, with everything parked in between or everything kept."""
    engine = new_engine(model, cache_cells, cache_bytes=10**8)
    prompt, asked = tokens_of(model), []
    first = generate(engine, [1, 2, 3], prompt)
    for branch in (0, 2, 1, 2):
        story = [*prompt, *first[branch], 7]
        asked.append((story, generate(engine, [9], story, temperature=0)))
    asked.append((prompt, generate(engine, [9], prompt, temperature=0)))
    if cache_cells == 0:
        assert engine.stats()["kv_cells_used"] == 0
        assert engine.stats()["tokens_restored_total"] > 0
    assert engine.stats()["prompt_tokens_cached_total"] > 3 * len(prompt)
    for story, tokens in asked:
        assert tokens == generate(new_engine(model), [9], story, temperature=0)


def test_a_sequence_saved_and_restored_has_the_same_next_logits(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    blob = model.save(1, 0)
    model.remove(1)
    compute(model, 1, tokens[::-1])  # other things happen in its cells
    model.remove(1)
    model.restore(2, blob)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


def test_a_span_is_saved_alone_and_glued_on_behind_what_was_before_it(model: Model) -> None:
    if not model.can_cut:
        return  # whole sequences only: the test above
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    model.fork(1, 2, 5)
    blob = model.save(1, 5)
    assert len(blob) < len(model.save(1, 0))
    model.remove(1)
    model.restore(2, blob)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


def test_a_fork_cut_short_goes_on_another_way(model: Model) -> None:
    if not model.can_cut:
        return
    tokens = tokens_of(model)
    other = [*tokens[:5], *tokens[:3]]
    cold = compute(model, 0, other)
    compute(model, 1, tokens)
    model.fork(1, 2, 5)
    assert close(cold, compute(model, 2, other[5:], position=5))
    model.truncate(1, 5)
    assert close(cold, compute(model, 1, other[5:], position=5))


def test_a_splice_shares_the_beginning_and_keeps_the_rest(model: Model) -> None:
    if not model.can_cut:
        return
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:7])
    compute(model, 2, tokens[:-1])
    model.splice(1, 2, 7)
    model.remove(1)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


def test_a_branch_that_shifts_its_context_goes_on_as_the_rest_of_its_text_would(model: Model) -> None:
    prompt = tokens_of(model)
    sampling = SamplingParams(temperature=0, ignore_eos=True)
    n_ctx, n_keep = model.n_ctx_seq, 5
    engine = new_engine(model)
    spec = BranchSpec(1, n_ctx - len(prompt) + 20, sampling=sampling)
    engine.submit(engine.prepare(Generate("r", tuple(prompt), (spec,), shift=ContextShift(n_keep - 1))))
    tokens: list[int] = []
    while engine.has_work:
        tokens += [token for event in engine.step() if isinstance(event, Delta) for token in event.tokens]
        engine.check_invariants()
    full = [*prompt, *tokens][:n_ctx]
    rest = full[:n_keep] + full[n_keep + (n_ctx - n_keep) // 2 :]
    assert generate(new_engine(model), [1], rest, temperature=0)[0] == tokens[n_ctx - len(prompt) :][:12]
