"""Branches of one request that differ: drawn without replacement, and kept from their siblings' tokens."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Logits, Model, Sampler
from srb.errors import GrammarDeadEnd
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, TokenProbs

PROBS = (0.55, 0.25, 0.15, 0.05)
FIRST = 20  # id of the likeliest candidate; the others follow it
REQUESTS = 3000
# 0.9999 quantiles of chi-square, by degrees of freedom: the seeds are fixed, so a test that passes always passes.
CHI_SQUARE = {5: 25.7, 23: 56.7}
XTC = {"xtc_probability": 1.0, "xtc_threshold": 0.3}
fake_and_llama = pytest.mark.parametrize("model_name", ["fake", "llama"], indirect=True)


def logits_of(model: Model, probs: Sequence[float] = PROBS, first: int = FIRST) -> Logits:
    """Return logits of a few likely tokens and many unlikely ones."""
    logits = np.full(model.n_vocab, -30.0, np.float32)
    logits[first : first + len(probs)] = np.log(probs)
    return logits


def draw(sampler: Sampler, logits: Logits, seeds: Sequence[int]) -> tuple[int, ...]:
    """Return the first tokens of a request whose branches begin with different ones; `sampler` is cloned for each."""
    taken: list[int] = []
    for seed in seeds:
        clone = sampler.clone(seed)
        taken.append(clone.sample_apart(logits, set(taken), seed))
        clone.close()
    return tuple(taken)


def chi_square(seen: Counter[tuple[int, ...]], tokens: Sequence[int], probs: Sequence[float]) -> float:
    """Compare sequences of three tokens with sampling without replacement; return the statistic."""
    total = 0.0
    for places in itertools.permutations(range(len(tokens)), 3):
        left, chance = 1.0, 1.0
        for place in places:
            chance *= probs[place] / left
            left -= probs[place]
        expected = chance * seen.total()
        total += (seen[tuple(tokens[place] for place in places)] - expected) ** 2 / expected
    return total


@fake_and_llama
def test_first_tokens_are_drawn_exactly_as_without_replacement(model: Model) -> None:
    params = SamplingParams(temperature=1.0, samplers=("top_k", "temperature"), top_k=4)
    sampler, logits = model.new_sampler(params, 1, []), logits_of(model)
    if isinstance(model, LlamaModel):
        logits[:FIRST] = -3.5  # top_k drops these
    requests = [range(3 * number, 3 * number + 3) for number in range(REQUESTS)]
    seen = Counter(draw(sampler, logits, seeds) for seeds in requests)
    assert chi_square(seen, range(FIRST, FIRST + 4), PROBS) < CHI_SQUARE[23]
    assert len(seen) == 24
    sampler.close()


@fake_and_llama
def test_a_branch_whose_token_is_free_begins_as_without_its_siblings(model: Model) -> None:
    sampler, logits = model.new_sampler(SamplingParams(temperature=1.0), 1, []), logits_of(model)
    for seed in range(50):
        plain, apart = sampler.clone(seed), sampler.clone(seed)
        alone = plain.sample_from(logits)
        other = FIRST + (alone == FIRST)
        assert apart.sample_apart(logits, {other}, seed) == alone
        plain.close()
        apart.close()
    sampler.close()


@fake_and_llama
def test_branches_beyond_the_candidates_draw_as_usual(model: Model) -> None:
    biases = tuple((token, None) for token in range(model.n_vocab) if not FIRST <= token < FIRST + 3)
    sampler = model.new_sampler(SamplingParams(temperature=1.0, logit_bias=biases), 1, [])
    drawn = draw(sampler, logits_of(model, PROBS[:3]), range(60))
    assert sorted(drawn[:3]) == [FIRST, FIRST + 1, FIRST + 2]
    plain = [sampler.clone(seed) for seed in range(3, 60)]
    assert list(drawn[3:]) == [each.sample_from(logits_of(model, PROBS[:3])) for each in plain]
    for each in (sampler, *plain):
        each.close()


@fake_and_llama
def test_at_temperature_0_branches_begin_with_the_likeliest_tokens_in_order(model: Model) -> None:
    sampler = model.new_sampler(SamplingParams(temperature=0.0, logit_bias=((FIRST + 1, None),)), 1, [])
    assert draw(sampler, logits_of(model), range(3)) == (FIRST, FIRST + 2, FIRST + 3)
    sampler.close()


def test_with_top_k_1_there_is_one_candidate_for_all_branches(llama: LlamaModel) -> None:
    sampler = llama.new_sampler(SamplingParams(top_k=1), 1, [])
    assert draw(sampler, logits_of(llama), range(3)) == (FIRST,) * 3
    sampler.close()


@pytest.mark.parametrize("given", [{"mirostat": 1}, {"mirostat": 2}, {"adaptive_target": 0.5}, XTC])
def test_every_chooser_gives_up_its_taken_choices(llama: LlamaModel, given: dict[str, Any]) -> None:
    if "adaptive_target" in given:
        given = {**given, "samplers": ("top_k", "adaptive_p")}
    sampler = llama.new_sampler(SamplingParams(temperature=1.0, mirostat_tau=50.0, **given), 1, [])
    assert len(set(draw(sampler, logits_of(llama, [0.25] * 4), range(4)))) == 4
    sampler.close()


def letters(llama: LlamaModel, text: str) -> list[int]:
    """Return the token of each letter of `text`, not the one of its byte."""
    tokens = {llama.piece(token): token for token in range(llama.n_vocab)}  # bytes come first
    return [tokens[char.encode()] for char in text]


def test_a_grammar_is_applied_before_first_tokens_are_drawn(llama: LlamaModel) -> None:
    tokens = letters(llama, "abc")
    probs = (0.6, 0.3, 0.1)
    logits = np.full(llama.n_vocab, -30.0, np.float32)
    logits[tokens] = np.log(probs)
    logits[letters(llama, "z")] = 5.0  # by far the likeliest, and forbidden
    sampler = llama.new_sampler(SamplingParams(grammar='root ::= [abc] "z"', temperature=1.0, samplers=()), 1, [])
    requests = [range(4 * number, 4 * number + 3) for number in range(REQUESTS // 3)]
    seen = Counter(draw(sampler, logits, seeds) for seeds in requests)
    assert chi_square(seen, tokens, probs) < CHI_SQUARE[5]
    assert sorted(draw(sampler, logits, range(4))[:3]) == sorted(tokens)
    sampler.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_goes_on_after_a_token_that_was_drawn_again(llama: LlamaModel, temperature: float) -> None:
    a, b = letters(llama, "ab")
    sampler = llama.new_sampler(SamplingParams(grammar='root ::= "ax" | "by"', temperature=temperature), 1, [])
    logits = np.full(llama.n_vocab, -30.0, np.float32)
    logits[[a, b]] = (0.0, -1.0)
    assert sampler.sample_apart(logits, {a}, 1) == b
    assert llama.piece(sampler.sample_from(logits_of(llama))) == b"y"
    sampler.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_and_biases_with_nothing_in_common_end_in_an_error(llama: LlamaModel, temperature: float) -> None:
    a, b = letters(llama, "ab")
    biases = tuple((token, None) for token in range(llama.n_vocab) if llama.piece(token) in (b"a", b"b"))
    biased = SamplingParams(grammar='root ::= "a" | "b"', logit_bias=biases, temperature=temperature)
    sampler = llama.new_sampler(biased, 1, [])
    with pytest.raises(GrammarDeadEnd):
        sampler.sample_apart(logits_of(llama), set(range(llama.n_vocab)) - {a, b}, 1)
    with pytest.raises(GrammarDeadEnd):
        sampler.sample_apart(logits_of(llama), set(range(llama.n_vocab)), 1)
    sampler.close()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_text_ends_too_early_because_other_tokens_are_taken(llama: LlamaModel, temperature: float) -> None:
    end = next(token for token in range(llama.n_vocab) if llama.is_eog(token))
    sampler = llama.new_sampler(SamplingParams(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0), 1, [], 1)
    logits = np.full(llama.n_vocab, -np.inf, np.float32)
    logits[[FIRST, end]] = (0.0, 5.0)
    assert sampler.sample_apart(logits, {FIRST}, 1) == FIRST
    sampler.close()


def run(model: Model, specs: Sequence[BranchSpec], **options: Any) -> tuple[list[list[int]], list[list[TokenProbs]]]:
    """Run one request; return each branch's tokens and their probabilities."""
    model.clear()
    engine = Engine(model, EngineOptions(max_queue=10), clock=iter(range(10**6)).__next__)
    text = ("the old king said, then a boat",)
    engine.submit(engine.prepare(Generate("r", text, tuple(specs), **options)))
    tokens: list[list[int]] = [[] for _ in specs]
    probs: list[list[TokenProbs]] = [[] for _ in specs]
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                tokens[event.index] += event.tokens
                probs[event.index] += event.probs or []
        engine.check_invariants()
    return tokens, probs


def specs_of(n: int, max_tokens: int = 6, append: str = "", **sampling: Any) -> list[BranchSpec]:
    params = SamplingParams(ignore_eos=True, **sampling)
    given = (append,) if append else ()
    return [BranchSpec(seed, max_tokens, sampling=params, append=given) for seed in range(n)]


@pytest.mark.parametrize("append", ["", " and"])
def test_no_two_branches_of_a_request_begin_alike(model: Model, append: str) -> None:
    tokens, _ = run(model, specs_of(12, append=append, temperature=3.0, top_p=1.0, min_p=0.0), distinct_first=True)
    assert len({branch[0] for branch in tokens}) == 12
    plain, _ = run(model, specs_of(12, append=append, temperature=0))
    assert len({branch[0] for branch in plain}) == 1


@pytest.mark.parametrize("append", ["", " and"])
@pytest.mark.parametrize("temperature", [0.0, 3.0])
def test_as_many_branches_as_there_are_first_words_have_all_of_them(
    model: Model, append: str, temperature: float
) -> None:
    tokens = {model.piece(token): token for token in range(model.n_vocab)}  # bytes come first
    allowed = [tokens[letter] for letter in (b"a", b"b", b"c")]
    bias = tuple((token, None) for token in range(model.n_vocab) if token not in allowed)
    specs = specs_of(9, 2, append, temperature=temperature, min_p=0.0, logit_bias=bias)
    drawn, _ = run(model, specs, distinct_words=True)
    assert sorted(map(tuple, drawn)) == sorted(itertools.product(allowed, repeat=2))
    plain, _ = run(model, specs)
    assert len(set(map(tuple, plain))) < 9
    assert drawn[0] == plain[0]


def test_a_penalty_keeps_greedy_siblings_apart_at_every_place(model: Model) -> None:
    tokens, _ = run(model, specs_of(5, temperature=0), sibling_penalty=100)
    assert all(len(set(place)) == 5 for place in zip(*tokens, strict=True))
    plain, _ = run(model, specs_of(5, temperature=0))
    assert len({tuple(branch) for branch in plain}) == 1
    assert tokens[0] == plain[0]


def test_a_penalty_counts_each_sibling(llama: LlamaModel) -> None:
    """A penalty below the likeliest token's lead keeps no branch from it, and twice the penalty does."""
    _, (probs, *_) = run(llama, specs_of(1, 1, temperature=0, n_probs=2))
    first, second = (entry["logprob"] for entry in probs[0]["top_logprobs"])
    assert first is not None
    assert second is not None
    assert first > second
    lead = first - second
    tokens, _ = run(llama, specs_of(3, 1, temperature=0), sibling_penalty=lead * 0.6)
    assert tokens[0] == tokens[1] != tokens[2]


@fake_and_llama
@pytest.mark.parametrize("append", ["", " and"])
def test_reported_probabilities_are_the_models_without_the_penalty(model: Model, append: str) -> None:
    """Branches of the same text have the same likeliest tokens, whichever they sample: from stored logits and from rows."""
    tokens, probs = run(model, specs_of(4, 1, append, temperature=0, n_probs=4), sibling_penalty=100)
    likely = probs[0][0]["top_logprobs"]
    assert [branch[0] for branch in tokens] == [entry["id"] for entry in likely]
    for own, entry in zip(probs, likely, strict=True):
        assert own[0]["logprob"] == pytest.approx(entry["logprob"], abs=1e-2)
        assert [each["id"] for each in own[0]["top_logprobs"]] == [each["id"] for each in likely]


def test_both_rules_together_reproduce_a_request(model: Model) -> None:
    specs = specs_of(8, temperature=3.0, top_p=1.0, min_p=0.0)
    first, again = (run(model, specs, distinct_first=True, sibling_penalty=2.5)[0] for _ in range(2))
    assert first == again
    assert len({branch[0] for branch in first}) == 8
