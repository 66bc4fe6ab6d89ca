"""The contract of srb.engine.model.Model: the same for the fake and for llama.cpp, whatever the kind of memory."""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama import sampler_states
from srb.engine.model import Batch, Blob, DecodeStatus, Logits, Model, Sampler
from srb.engine.patterns import fold
from srb.engine.probs import chosen_probs
from srb.errors import GrammarDeadEnd
from srb.wire.commands import AddBranches, BranchSpec, ContextShift, Generate
from srb.wire.events import Delta
from tests.contract.conftest import ALIKE, SMALL_WINDOWS, WINDOWS_AND_STATES
from tests.contract.rounding import ROUNDING, needs_equal_texts

TEXT = "the old king said, then a boat ☃"
PARTLY_REUSABLE = (
    *(
        "fake",
        "llama",
        "qwen2vl",
        "qwen3vl",
        "deepseek2",
        "glm4moe",
        "step35",
        "gemma2",
        "gemma3",
        "gemma4",
        "gpt-oss",
        "llama4",
    ),
)
WITH_STATES = (
    *("fake, with states", "mamba", "mamba2", "rwkv7", "lfm2", "falcon-h1", "granite-hybrid", "qwen35", "qwen3next"),
    *(SMALL_WINDOWS, WINDOWS_AND_STATES),
)
with_states = pytest.mark.parametrize("model_name", WITH_STATES, indirect=True)
partly_reusable = pytest.mark.parametrize("model_name", PARTLY_REUSABLE, indirect=True)
TOLERANCE = 1e-2 * ROUNDING  # f16 cells round differently with the shape of the batch; other texts differ by ones


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


def test_the_bos_is_the_one_that_the_model_tells_of(model: Model) -> None:
    assert model.bos_id == model.info("any").bos_id
    assert -1 <= model.bos_id < model.n_vocab


def test_an_empty_text_begins_with_the_bos(model: Model) -> None:
    assert model.blank_page == model.info("any").blank_page == [model.bos_id]


def test_pieces_of_a_text_concatenate_to_it(model: Model) -> None:
    text = b"".join(model.piece(token) for token in tokens_of(model)).decode()
    assert text.removeprefix(" ") == TEXT


def test_special_tokens_are_added_only_when_asked_for(model: Model) -> None:
    plain = model.tokenize("a", add_special=False, parse_special=False)
    assert tokens_of(model, "a")[1:] == plain
    assert model.piece(tokens_of(model, "a")[0]) == b""


def test_no_token_stands_for_more_bytes_than_the_longest_piece(model: Model) -> None:
    longest = model.max_piece_bytes
    assert longest == max(len(model.piece(token, special=True)) for token in range(model.n_vocab))
    for text in (TEXT * 9, " " * 500, "the the  the\n\n" * 40, "<s></s>" * 50, "é☃" * 99, "\u2581" * 70):
        for parse_special in (False, True):
            tokens = model.tokenize(text, add_special=False, parse_special=parse_special)
            assert len(tokens) * longest >= len(text.encode())


def test_logits_depend_on_everything_visible(model: Model) -> None:
    tokens = tokens_of(model)
    changed = [*tokens[:-2], tokens[5], tokens[-1]]
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


@partly_reusable
@pytest.mark.parametrize("flushes", [False, True], ids=["edits that wait", "edits at once"])
def test_edits_follow_one_another_in_the_order_of_their_calls(model: Model, flushes: bool) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 3, tokens)
    compute(model, 0, tokens)
    edits: list[tuple[Callable[..., None], tuple[int, ...]]] = [
        (model.fork, (0, 1)),
        (model.truncate, (1, 4)),
        (model.remove, (0,)),
        (model.fork, (1, 0)),
        (model.fork, (1, 2, 3)),
        (model.splice, (2, 0, 3)),
        (model.remove, (1,)),
    ]
    for edit, arguments in edits:
        edit(*arguments)
        if flushes:
            model.flush()
    assert close(compute(model, 2, tokens[3:], 3), cold)
    assert close(compute(model, 0, tokens[4:], 4), cold)
    assert close(compute(model, 1, tokens), cold)


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


def test_calls_that_would_abort_llama_cpp_raise_before(model: Model) -> None:
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


def test_a_stop_token_waits_for_the_least_number_of_tokens_too(model: Model) -> None:
    logits = np.full(model.n_vocab, -50.0, np.float32)
    logits[7] = 50.0
    for params in (SamplingParams(stop_token_ids=(7,)), SamplingParams(temperature=0, stop_token_ids=(9, 7))):
        first = model.new_sampler(params, 1, [5], min_tokens=2)
        clone = first.clone(1, 3)
        assert [first.sample_from(logits) == 7 for _ in range(4)] == [False, False, True, True]
        assert [clone.sample_from(logits) == 7 for _ in range(4)] == [False, False, False, True]
        first.close()
        clone.close()


def test_no_token_comes_but_those_that_are_allowed(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    allowed = (7, 9, 11)
    best = max(allowed, key=lambda token: float(logits[token]))
    params = SamplingParams(allowed_token_ids=allowed, temperature=2.0, min_p=0, top_p=1)
    first = model.new_sampler(params, 1, [])
    clone = first.clone(2)
    assert {sampler.sample_from(logits) for sampler in (first, clone) for _ in range(40)} == set(allowed)
    greedy = model.new_sampler(SamplingParams(allowed_token_ids=allowed, temperature=0), 1, [])
    assert greedy.sample_from(logits) == best
    rest = model.new_sampler(SamplingParams(allowed_token_ids=allowed, logit_bias=((best, None),)), 1, [])
    assert rest.sample_from(logits) in set(allowed) - {best}
    nothing = model.new_sampler(SamplingParams(allowed_token_ids=(7,), logit_bias=((7, None),)), 1, [])
    with pytest.raises(GrammarDeadEnd):
        nothing.sample_from(logits)
    for sampler in (first, clone, greedy, rest, nothing):
        sampler.close()


def test_a_grammar_chooses_among_the_tokens_that_are_allowed(model: Model) -> None:
    a, b, c = (model.tokenize(text, False, False)[-1] for text in "abc")
    params = SamplingParams(grammar='root ::= ("a" | "b")+', allowed_token_ids=(b, c), temperature=0)
    sampler = model.new_sampler(params, 1, [])
    logits = np.full(model.n_vocab, -50.0, np.float32)
    logits[[a, c]] = 50.0
    assert sampler.sample_from(logits) == b
    sampler.close()
    dead = model.new_sampler(SamplingParams(grammar='root ::= "a"', allowed_token_ids=(c,), temperature=0), 1, [])
    with pytest.raises(GrammarDeadEnd):
        dead.sample_from(logits)
    dead.close()


def test_a_sampler_without_an_allowed_token_raises(model: Model) -> None:
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


def test_closing_a_sampler_twice_leaves_another_unchanged(model: Model) -> None:
    logits = compute(model, 0, tokens_of(model))
    first, second = (model.new_sampler(SamplingParams(), 7, []) for _ in range(2))
    chosen = [first.sample_from(logits) for _ in range(5)]
    first.close()
    first.close()
    assert [second.sample_from(logits) for _ in range(5)] == chosen
    second.close()


SETTINGS = [
    SamplingParams(),
    SamplingParams(temperature=0),
    SamplingParams(min_p=0.5, top_k=0, temperature=2.0),  # often one candidate alone
    SamplingParams(mirostat=1),
    SamplingParams(mirostat=2),
    SamplingParams(smoothing_factor=0.4, smoothing_curve=2.0, top_k=0),
    SamplingParams(xtc_probability=0.5, xtc_threshold=0.02, top_k=0, samplers=("xtc", "min_p", "temperature")),
    SamplingParams(adaptive_target=0.3, samplers=(*SamplingParams().samplers, "adaptive_p")),
    SamplingParams(dry_multiplier=2.0, dry_allowed_length=1, dry_penalty_last_n=200, repeat_penalty=1.5),
    SamplingParams(presence_penalty=1.0, frequency_penalty=0.5, logit_bias=((7, 3.0), (9, None)), ignore_eos=True),
    SamplingParams(allowed_token_ids=tuple(range(5, 45)), stop_token_ids=(9,), temperature=2.0, min_p=0),
]


def draws(model: Model, sampler: Sampler, count: int = 12) -> list[int]:
    """Return the tokens that a sampler draws from rows of noise, the same ones each time; then close it."""
    rows = np.random.default_rng(1).standard_normal((count, model.n_vocab)).astype(np.float32)
    tokens = [sampler.sample_from(row * 2) for row in rows]
    sampler.close()
    return tokens


@pytest.mark.parametrize("params", SETTINGS)
def test_a_clone_draws_as_a_sampler_built_anew_with_its_seed(model: Model, params: SamplingParams) -> None:
    history = [5, 6, 7, 5, 6] * 9
    first = model.new_sampler(params, 1, history)
    clones = [first.clone(seed) for seed in range(8)]
    drawn = [draws(model, first.clone(3)), draws(model, first)]  # none depends on when the others draw
    assert drawn == [draws(model, model.new_sampler(params, seed, history)) for seed in (3, 1)]
    cloned = [draws(model, clone) for clone in clones]
    assert cloned == [draws(model, model.new_sampler(params, seed, history)) for seed in range(8)]
    assert len({tuple(tokens) for tokens in cloned}) == (1 if params.temperature == 0 else 8)
    assert draws(model, model.new_sampler(params, 1, history).clone(2).clone(5)) == cloned[5]


def test_a_clone_has_a_least_number_of_tokens_of_its_own(model: Model) -> None:
    logits = np.full(model.n_vocab, -50.0, np.float32)
    logits[[token for token in range(model.n_vocab) if model.is_eog(token)]] = 50.0
    for of_the_first in (0, 3):
        first = model.new_sampler(SamplingParams(repeat_penalty=1.1, logit_bias=((7, 1.0),)), 1, [5], of_the_first)
        for least in (0, 2, 4):
            clone = first.clone(1, least)
            ends = [model.is_eog(clone.sample_from(logits)) for _ in range(6)]
            assert ends == [False] * least + [True] * (6 - least)
            clone.close()
        first.close()


def test_a_clone_outlives_the_sampler_it_was_made_of(model: Model) -> None:
    params = SamplingParams(dry_multiplier=2.0, repeat_penalty=1.5)
    first = model.new_sampler(params, 1, [5, 6] * 9)
    clone = first.clone(4)
    first.close()
    assert draws(model, clone) == draws(model, model.new_sampler(params, 4, [5, 6] * 9))


def rewound(model: Model, sampler: Sampler, choices: random.Random) -> tuple[list[int], list[int], list[set[int]]]:
    """Sample from rows of noise and rewind at random, forbidding a token each time; then close the sampler.

    Return the tokens that stay, the places that were rewound to, and the tokens that are forbidden at each place.
    """
    rows = np.random.default_rng(2).standard_normal((24, model.n_vocab)).astype(np.float32)
    tokens: list[int] = []
    places: list[int] = []
    forbidden: list[set[int]] = [set() for _ in rows]
    held = 0
    sampler.remember()
    while len(tokens) < len(rows):
        row = rows[len(tokens)] * 2
        row[list(forbidden[len(tokens)])] = -np.inf
        tokens.append(sampler.sample_from(row))
        held += 1
        match choices.randrange(4):
            case 0 if len(places) < 30:
                count = choices.randint(1, held)
                sampler.rewind(count)
                held -= count
                places.append(len(tokens) - count)
                forbidden[places[-1]].add(tokens[places[-1]])
                for later in forbidden[places[-1] + 1 :]:
                    later.clear()
                del tokens[places[-1] :]
            case 1:
                held = choices.randint(0, held)
                sampler.forget(held)
    sampler.close()
    return tokens, places, forbidden


@pytest.mark.parametrize("lag", [2, 64])
@pytest.mark.parametrize("params", SETTINGS)
def test_a_rewound_sampler_goes_on_as_if_what_was_taken_back_had_never_been(
    model: Model, params: SamplingParams, lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_states, "LAG", lag)
    history, rewinds = [5, 6, 7, 5, 6] * 9, 0
    rows = np.random.default_rng(2).standard_normal((24, model.n_vocab)).astype(np.float32)
    for seed in range(4):
        sampler = model.new_sampler(params, seed, history, min_tokens=9)
        tokens, places, forbidden = rewound(model, sampler, random.Random(seed))
        anew = model.new_sampler(params, seed, history, min_tokens=9)
        for place, row in enumerate(rows * 2):
            row[list(forbidden[place])] = -np.inf
            assert anew.sample_from(row) == tokens[place], f"seed {seed}, place {place}, rewound to {places}"
        anew.close()
        rewinds += len(places)
    assert rewinds > 10


@pytest.mark.parametrize("params", SETTINGS)
def test_a_draw_from_no_allowed_token_can_be_taken_back_and_remembering_can_end(
    model: Model, params: SamplingParams
) -> None:
    rows = np.random.default_rng(2).standard_normal((12, model.n_vocab)).astype(np.float32) * 2
    sampler, anew = (model.new_sampler(params, 3, [5, 6, 7] * 9, min_tokens=4) for _ in range(2))
    sampler.remember()
    for place, row in enumerate(rows):
        if place < 8:
            with contextlib.suppress(GrammarDeadEnd):  # llama.cpp's chain chooses a token that is forbidden
                sampler.sample_from(np.full_like(row, -np.inf))
            sampler.rewind(1)
        if place == 8:
            sampler.stop_remembering()
        assert sampler.sample_from(row) == anew.sample_from(row), f"place {place}"
    sampler.close()
    anew.close()


def new_engine(model: Model, cache_cells: int = 0, cache_bytes: int = 0) -> Engine:
    model.clear()
    clock = iter(range(10**6)).__next__
    return Engine(model, EngineOptions(max_queue=10, cache_cells=cache_cells, cache_bytes=cache_bytes), clock=clock)


def generate(
    engine: Engine,
    seeds: list[int],
    prompt: list[int] | None = None,
    temperature: float = 0.8,
    banned: tuple[str, ...] = (),
    **options: Any,
) -> list[list[int]]:
    """Run one request and return each branch's tokens."""
    sampling = SamplingParams(temperature=temperature, ignore_eos=True, **options)
    specs = tuple(BranchSpec(seed, 12, sampling=sampling, banned_strings=banned) for seed in seeds)
    engine.submit(engine.prepare(Generate("r", tuple(prompt or (TEXT,)), specs)))
    tokens: list[list[int]] = [[] for _ in seeds]
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                tokens[event.index] += event.tokens
        engine.check_invariants()
    return tokens


@needs_equal_texts
def test_a_branch_among_eight_is_the_solo_run_with_its_seed(model: Model) -> None:
    together = generate(new_engine(model), list(range(50, 58)))
    assert len({tuple(tokens) for tokens in together}) == 8
    assert together == [generate(new_engine(model), [seed])[0] for seed in range(50, 58)]


def text_of(model: Model, tokens: list[int]) -> str:
    """Return the text of tokens, without its case."""
    return fold(b"".join(map(model.piece, tokens)).decode(errors="replace"))


@pytest.mark.parametrize("model_name", ALIKE, indirect=True)
def test_a_branch_goes_on_after_a_rewind_as_a_text_in_which_the_token_was_forbidden(model: Model) -> None:
    compared = 0
    for prompt in ([*tokens_of(model), last] for last in range(40, 46)):
        [plain] = generate(new_engine(model), [1], prompt, temperature=0)
        for place in range(0, 10, 3):
            texts = [text_of(model, plain[place : place + count]) for count in (1, 2)]
            banned = texts[1]
            if not texts[0] or "\ufffd" in texts[0] + banned or banned in text_of(model, plain[: place + 1]):
                continue  # the second token alone would begin it, or it comes earlier
            engine = new_engine(model)
            [tokens] = generate(engine, [1], prompt, temperature=0, banned=(banned,))
            assert banned not in text_of(model, tokens)
            assert tokens[:place] == plain[:place]
            assert engine.stats()["rewinds_total"] >= 1
            if engine.stats()["rewinds_total"] == 1:
                compared += 1
                before = [*prompt, *plain[:place]]
                [other] = generate(new_engine(model), [1], before, temperature=0, logit_bias=((plain[place], None),))
                [rest] = generate(new_engine(model), [1], [*before, other[0]], temperature=0)
                assert tokens[place:] == [other[0], *rest][: 12 - place]
    assert compared


@partly_reusable
@pytest.mark.parametrize("rests", [False, True])
def test_a_fork_computes_one_token_and_writes_what_a_new_request_would(
    model: Model, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tuple((token, None) for token in range(model.n_vocab) if not model.piece(token).isascii())
    sampling = SamplingParams(temperature=0, ignore_eos=True, logit_bias=parts)  # every token ends a character
    for place in (1, 5, 9):
        engine = new_engine(model, cache_cells=10**6, cache_bytes=10**8)
        specs = (BranchSpec(1, 10 if rests else 40, sampling=sampling),)
        engine.submit(engine.prepare(Generate("r", (TEXT,), specs, linger=10.0**6, can_grow=True)))
        written: dict[int, list[int]] = {0: [], 1: []}
        decoded = 0

        def step(engine: Engine = engine, written: dict[int, list[int]] = written) -> None:
            for event in engine.step():
                if isinstance(event, Delta):
                    written[event.index] += event.tokens
            engine.check_invariants()

        while len(written[0]) < 10:
            step()
        assert engine.has_work != rests
        changes = (("max_tokens", 6),)
        engine.submit(engine.prepare(AddBranches("a", "r", ((None, (), changes, ()),), origin=0, token=place)))
        decode, origin = model.decode, len(written[0])

        def count(batch: Batch, decode: Callable[[Batch], DecodeStatus] = decode) -> DecodeStatus:
            nonlocal decoded
            decoded += len(batch)
            return decode(batch)

        monkeypatch.setattr(model, "decode", count)
        while not written[1]:
            step()
        monkeypatch.undo()
        assert decoded - (len(written[0]) - origin) <= 1 + model.decodes_ahead
        while len(written[1]) < 6:
            step()
        engine.cancel("r")
        prompt = [*tokens_of(model), *written[0][:place]]
        cold = generate(new_engine(model), [2], prompt, temperature=0, logit_bias=parts)[0]
        assert written[1] == cold[:6]


@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_writers_evening_gives_the_texts_of_cold_runs(model: Model, cache_cells: int) -> None:
    """Continue from branches and go back to earlier ones, with everything parked in between or everything resident."""
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


def saved_state(model: Model, seq_id: int) -> Blob | None:
    """Return the state of a sequence's end, if the memory has states beside its cells."""
    return model.save_state(seq_id) if model.has_states else None


def restore(model: Model, seq_id: int, blob: Blob, state: Blob | None) -> None:
    assert model.restore(seq_id, blob)
    assert state is None or model.restore_state(seq_id, state)


def test_a_sequence_saved_and_restored_has_the_same_next_logits(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    blob, state = model.save(1, 0), saved_state(model, 1)
    model.remove(1)
    compute(model, 1, tokens[::-1])  # other things happen in its cells
    model.remove(1)
    restore(model, 2, blob, state)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


def test_all_memory_but_small_windows_can_be_cut_and_recurrent_memory_has_states(model: Model, model_name: str) -> None:
    assert model.supports_partial_reuse == (model_name in (*PARTLY_REUSABLE, *WITH_STATES))
    assert model.has_states == (model_name in WITH_STATES)


@with_states
def test_a_text_goes_on_from_the_state_of_a_place_within_it(model: Model) -> None:
    tokens = tokens_of(model)
    other = [*tokens[:5], *tokens[:3]]
    cold = compute(model, 0, other)
    compute(model, 1, tokens[:5])
    state = model.save_state(1)
    compute(model, 1, tokens[5:], position=5)
    model.fork(1, 2, 5)
    assert model.restore_state(2, state)
    assert close(cold, compute(model, 2, other[5:], position=5))
    model.truncate(1, 5)
    assert model.restore_state(1, state)
    assert close(cold, compute(model, 1, other[5:], position=5))


@with_states
def test_a_state_is_shared_without_cells_except_by_windows(model: Model, model_name: str) -> None:
    tokens = tokens_of(model)
    other = [*tokens[:5], *tokens[:3]]
    cold = compute(model, 0, other)
    compute(model, 1, tokens[:5])
    state = model.save_state(1)
    assert model.shares_states is not ("windows" in model_name or "gemma" in model_name)
    if not model.shares_states:
        with pytest.raises(AssertionError, match="shares no states"):
            model.copy_state(1, 3)
        return
    model.copy_state(1, 3)
    compute(model, 1, tokens[5:], position=5)
    assert np.array_equal(model.save_state(3)[8:], state[8:])  # before it is the sequence's number
    model.fork(1, 2, 5)
    model.copy_state(3, 2)
    model.truncate(1, 5)
    model.copy_state(3, 1)
    model.remove(3)
    for seq_id in (1, 2):
        assert close(cold, compute(model, seq_id, other[5:], position=5))


@with_states
def test_spans_and_states_are_saved_apart_and_restored_one_after_the_other(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:5])
    compute(model, 1, tokens[5:-1], position=5)
    model.fork(1, 2, 5)
    span, state = model.save(1, 5), model.save_state(1)
    beginning = model.save(2, 0)
    model.remove(1)
    model.remove(2)
    assert model.restore(3, beginning)
    restore(model, 3, span, state)
    assert close(cold, compute(model, 3, tokens[-1:], position=len(tokens) - 1))


@with_states
def test_a_spliced_sequence_keeps_its_state(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    for seq_id in (1, 2):
        compute(model, seq_id, tokens[:-1])
    model.splice(1, 2, 5)
    model.remove(1)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


@with_states
def test_eight_forks_of_one_checkpoint_do_not_disturb_each_other(model: Model) -> None:
    tokens = tokens_of(model)
    compute(model, 0, tokens[:6])
    state = model.save_state(0)
    compute(model, 0, tokens[6:], position=6)
    for seq_id in range(1, 9):
        model.fork(0, seq_id, 6)
        assert model.restore_state(seq_id, state)
    rows, batch = {}, Batch()
    for seq_id in range(1, 9):
        rows[seq_id] = batch.add(seq_id, 6, [tokens[seq_id]], want_logits=True)
    assert model.decode(batch) is DecodeStatus.OK
    forked = {seq_id: model.logits(row).copy() for seq_id, row in rows.items()}
    for seq_id in range(1, 9):
        model.remove(9)
        assert close(forked[seq_id], compute(model, 9, [*tokens[:6], tokens[seq_id]])), seq_id


@partly_reusable
def test_a_span_is_saved_alone_and_restored_after_the_same_text(model: Model) -> None:
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    compute(model, 1, tokens[:-1])
    model.fork(1, 2, 5)
    blob = model.save(1, 5)
    assert len(blob) < len(model.save(1, 0))
    model.remove(1)
    model.restore(2, blob)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


@pytest.mark.parametrize("model_name", [*PARTLY_REUSABLE, *WITH_STATES], indirect=True)
@pytest.mark.parametrize(("start", "at"), [(0, 1), (0, 8), (3, 4), (5, 8)])
def test_a_saved_span_is_split_into_two_that_are_restored_one_after_the_other(
    model: Model, start: int, at: int
) -> None:
    tokens = tokens_of(model)[:20]
    cold = compute(model, 0, tokens)
    for seq_id in (3, 4):  # so that not all cells lie in the order of the text
        compute(model, seq_id, tokens[:5])
    compute(model, 1, tokens[:5])
    model.remove(3)
    compute(model, 1, tokens[5:-1], position=5)
    blob, state = model.save(1, start), saved_state(model, 1)
    if start:
        model.fork(1, 2, start)
    model.remove(1)
    parts = model.split(blob, start, at)
    assert parts is not None
    assert model.restore(2, parts[0])
    restore(model, 2, parts[1], state)
    assert close(cold, compute(model, 2, tokens[-1:], position=len(tokens) - 1))


@partly_reusable
def test_the_upper_part_of_a_split_span_goes_on_differently(model: Model) -> None:
    tokens = tokens_of(model)[:20]
    other = [*tokens[:7], *tokens[:3]]
    cold = compute(model, 0, other)
    compute(model, 1, tokens)
    parts = model.split(model.save(1, 0), 0, 7)
    assert parts is not None
    assert len(parts[0]) < len(parts[1])
    assert model.restore(2, parts[0])
    assert close(cold, compute(model, 2, other[7:], position=7))


@partly_reusable
def test_a_truncated_fork_can_continue_differently(model: Model) -> None:
    tokens = tokens_of(model)
    other = [*tokens[:5], *tokens[:3]]
    cold = compute(model, 0, other)
    compute(model, 1, tokens)
    model.fork(1, 2, 5)
    assert close(cold, compute(model, 2, other[5:], position=5))
    model.truncate(1, 5)
    assert close(cold, compute(model, 1, other[5:], position=5))


@partly_reusable
def test_a_splice_shares_the_beginning_and_keeps_the_rest(model: Model) -> None:
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


def test_operations_leave_no_garbage_that_grows_with_their_number(model: Model) -> None:
    """The engine's collections are far apart: garbage of every saved span would grow for thousands of requests."""

    def use_once() -> None:
        compute(model, 0, tokens_of(model))
        sampler = model.new_sampler(SamplingParams(post_sampling_probs=True), 1, [])
        branch = sampler.clone(2)
        branch.sample_from(model.logits(len(tokens_of(model)) - 1))
        assert len(branch.candidates.ids)
        blob = model.save(0, 0)
        model.remove(0)
        assert model.restore(0, blob)
        model.remove(0)
        sampler.close()
        branch.close()

    use_once()  # what is made once and kept
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            use_once()
        assert gc.collect() < 50  # ctypes' types of arrays, which all uses share, and nothing of each use
    finally:
        gc.enable()
