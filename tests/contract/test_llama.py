"""What only llama.cpp can show: its samplers, its grammars, its limits, and files it cannot load."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as native
import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.grammar.schemas import prepared
from srb.engine.llama.dry import MAX_BREAKERS, DrySamplers
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.sampler import LlamaSampler
from srb.engine.model import Batch, DecodeStatus, Logits
from srb.errors import GrammarDeadEnd, InvalidRequest, ModelLoadFailed
from tests.contract.test_model import close, compute, tokens_of
from tests.models.random_gguf import TINY, WRITERS
from tests.poison import poisoned_memory

EVERY_SAMPLER: list[dict[str, Any]] = [
    {"dynatemp_range": 0.5, "dynatemp_exponent": 2.0},
    {"top_k": 0},
    {"top_k": 3, "min_keep": 2},
    {"top_p": 0.3},
    {"min_p": 0.4},
    {"typical_p": 0.5},
    {"top_n_sigma": 1.0},
    {"smoothing_factor": 0.3, "smoothing_curve": 4.0, "top_k": 0},
    {"xtc_probability": 0.9, "xtc_threshold": 0.01},
    {"repeat_penalty": 1.5, "repeat_last_n": 8},
    {"frequency_penalty": 1.0, "presence_penalty": -1.0},
    {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 1, "dry_sequence_breakers": ("\n", "☃")},
    {"mirostat": 1},
    {"mirostat": 2, "mirostat_tau": 3.0},
    {"samplers": ("temperature", "adaptive_p"), "adaptive_target": 0.5},
    {"samplers": ("infill", "temperature")},
    {"samplers": ()},
    {
        "samplers": ("xtc", "temperature", "xtc", "dry", "dry", "penalties", "penalties", "infill", "infill"),
        "xtc_probability": 0.9,
        "xtc_threshold": 0.01,
        "dry_multiplier": 0.8,
        "repeat_penalty": 1.1,
    },
]


@pytest.mark.parametrize("options", EVERY_SAMPLER, ids=lambda options: "-".join(options))
def test_every_sampler_builds_and_samples_by_its_seed(llama: LlamaModel, options: dict[str, Any]) -> None:
    tokens = tokens_of(llama)
    logits = compute(llama, 0, tokens)
    for seed in range(5):
        a, b = (llama.new_sampler(SamplingParams(**options), seed, tokens) for _ in range(2))
        c = llama.new_sampler(SamplingParams(**options), seed + 99, tokens).clone(seed)
        drawn = [[sampler.sample_from(logits) for _ in range(5)] for sampler in (a, b, c)]
        assert drawn[0] == drawn[1] == drawn[2]


@pytest.mark.parametrize("options", EVERY_SAMPLER, ids=lambda options: "-".join(options))
def test_no_sampler_aborts_where_every_token_is_forbidden(llama: LlamaModel, options: dict[str, Any]) -> None:
    nothing = tuple((token, None) for token in range(llama.n_vocab))
    batch = Batch()
    row = batch.add(0, 0, tokens_of(llama), want_logits=True)
    llama.decode(batch)
    sampler = llama.new_sampler(SamplingParams(logit_bias=nothing, **options), 1, [])
    with pytest.raises(GrammarDeadEnd):
        sampler.sample(row)
    sampler.close()


def test_penalties_look_at_the_prompt(llama: LlamaModel) -> None:
    tokens = tokens_of(llama)
    logits = compute(llama, 0, tokens)
    params = SamplingParams(temperature=0, presence_penalty=2.0, repeat_last_n=1)
    best = llama.new_sampler(SamplingParams(temperature=0), 0, []).sample_from(logits)
    level = logits.copy()
    level[best] = np.sort(logits)[-2] + 1.0
    assert llama.new_sampler(params, 0, [5]).sample_from(level) == best
    assert llama.new_sampler(params, 0, [best]).sample_from(level) != best


def test_a_penalty_that_is_named_twice_counts_twice(llama: LlamaModel) -> None:
    level = np.full(llama.n_vocab, -50.0, np.float32)
    level[[300, 301]] = 3.0, 0.0
    once, twice = (
        SamplingParams(temperature=0, presence_penalty=2.0, samplers=(*["penalties"] * count, "temperature"))
        for count in (1, 2)
    )
    assert llama.new_sampler(once, 0, [300]).sample_from(level) == 300
    assert llama.new_sampler(twice, 0, [300]).sample_from(level) == 301


def test_a_string_in_logit_bias_biases_each_of_its_tokens(llama: LlamaModel) -> None:
    logits = compute(llama, 0, tokens_of(llama))
    force = SamplingParams(logit_bias=(("king", 1000.0),))
    assert llama.new_sampler(force, 1, []).sample_from(logits) in llama.tokenize("king", False, False)


def test_ignore_eos_forbids_the_end_of_text(llama: LlamaModel) -> None:
    logits = np.full(llama.n_vocab, -50.0, np.float32)
    logits[[2, 300]] = 50.0, 0.0
    assert llama.is_eog(llama.new_sampler(SamplingParams(), 1, []).sample_from(logits))
    assert llama.new_sampler(SamplingParams(ignore_eos=True), 1, []).sample_from(logits) == 300


def typical(logits: Logits, share: float) -> dict[int, float]:
    """Return the tokens that typical sampling (Meister et al. 2023) leaves of logits, −inf for none, and their chances."""
    tokens = np.flatnonzero(np.isfinite(logits))
    kept = logits[tokens].astype(np.float64)
    chances = np.exp(kept - kept.max())
    tokens, chances = tokens[chances > 0], chances[chances > 0] / chances.sum()
    surprise = -np.log(chances)
    order = np.argsort(np.abs(surprise - (chances * surprise).sum()), kind="stable")
    count = int(np.searchsorted(np.cumsum(chances[order]), share, side="right")) + 1
    left = order[:count]
    return dict(zip(tokens[left].tolist(), (chances[left] / chances[left].sum()).tolist(), strict=True))


def without(logits: Logits, *tokens: int) -> Logits:
    logits[list(tokens)] = -np.inf
    return logits


# Options of a request, and what the stages before typical-p leave of some logits.
BEFORE_TYPICAL: dict[str, tuple[dict[str, Any], Callable[[Logits], Logits]]] = {
    "nothing": ({"samplers": ("typ_p", "temperature")}, np.copy),
    "top-n-sigma": (
        {"samplers": ("top_n_sigma", "typ_p", "temperature"), "top_n_sigma": 1.5},
        lambda logits: np.where(logits < logits.max() - 1.5 * logits.std(), -np.inf, logits),
    ),
    "top-n-sigma, in llama.cpp's order": (
        {"top_n_sigma": 1.0, "top_k": 300, "top_p": 1.0, "min_p": 0.0},
        lambda logits: np.where(logits < logits.max() - logits.std(), -np.inf, logits),
    ),
    "biases": (
        {"samplers": ("typ_p", "temperature"), "logit_bias": ((40, None), (41, None))},
        lambda logits: without(logits.copy(), 40, 41),
    ),
    "no end": ({"samplers": ("typ_p", "temperature"), "ignore_eos": True}, lambda logits: without(logits.copy(), 2)),
    "a low temperature": ({"samplers": ("temperature", "typ_p"), "temperature": 0.02}, lambda logits: logits / 0.02),
}


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", BEFORE_TYPICAL)
def test_typical_sampling_is_measured_over_the_tokens_that_may_come(llama: LlamaModel, name: str, share: float) -> None:
    options, leaves = BEFORE_TYPICAL[name]
    params = SamplingParams(**{"temperature": 1.0, "typical_p": share, "post_sampling_probs": True, **options})
    for seed in range(5):
        logits = np.random.default_rng(seed).standard_normal(llama.n_vocab).astype(np.float32) * 3
        sampler = llama.new_sampler(params, seed, [])
        sampler.sample_from(logits)
        left = sampler.candidates
        expected = typical(leaves(logits), share)
        found = dict(zip(left.ids.tolist(), left.probs.tolist(), strict=True))
        assert found.keys() == expected.keys()
        assert all(abs(found[token] - chance) < 1e-4 for token, chance in expected.items())
        sampler.close()


def softmax(logits: Any) -> Any:
    chances = np.exp(logits - logits.max())
    return chances / chances.sum()


def quadratic(logits: Any, factor: float, curve: float) -> Any:
    """Return logits after quadratic sampling, as text-generation-webui's pull request 5551 gives its formula."""
    found = np.full(len(logits), -np.inf)
    for token in np.flatnonzero(np.isfinite(logits)):
        d = float(logits[token]) - float(logits.max())
        found[token] = -((3 - curve) / 2 * factor * d**2) + ((curve - 1) / 2 * factor * d**3) + float(logits.max())
    return found


def of_top_k(logits: Any, k: int) -> Any:
    return np.where(logits >= np.sort(logits)[-k], logits, -np.inf)


ALL = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
# Options of a request, and what they leave of some logits beside quadratic sampling.
AROUND_QUADRATIC: dict[str, tuple[dict[str, Any], Callable[[Any, Callable[[Any], Any]], Any]]] = {
    "alone": (ALL, lambda logits, smooth: smooth(logits)),
    "a high temperature": ({**ALL, "temperature": 1.7}, lambda logits, smooth: smooth(logits / 1.7)),
    "a low temperature": ({**ALL, "temperature": 0.5}, lambda logits, smooth: smooth(logits / 0.5)),
    "after top-k": ({**ALL, "top_k": 20}, lambda logits, smooth: smooth(of_top_k(logits, 20))),
    "before top-k": (
        {**ALL, "top_k": 20, "samplers": ("temperature", "top_k")},
        lambda logits, smooth: of_top_k(smooth(logits), 20),
    ),
    "after a bias": (
        {**ALL, "logit_bias": ((40, None), (41, 2.0))},
        lambda logits, smooth: smooth(without(logits + 2.0 * (np.arange(len(logits)) == 41), 40)),
    ),
}


@pytest.mark.parametrize(
    ("factor", "curve"), [(0.2, 1.0), (1.5, 1.0), (0.3, 2.5), (0.1, 3.0), (0.05, 0.5), (0.01, 7.0)]
)
@pytest.mark.parametrize("name", AROUND_QUADRATIC)
def test_quadratic_sampling_is_its_formula_after_the_temperature(
    llama: LlamaModel, name: str, factor: float, curve: float
) -> None:
    options, leaves = AROUND_QUADRATIC[name]
    smoothing = {"smoothing_factor": factor, "smoothing_curve": curve, "post_sampling_probs": True}
    params = SamplingParams(**{"temperature": 1.0, **smoothing, **options})
    first = llama.new_sampler(params, 1, [])
    for sampler in (first, first.clone(2), first.clone(3).clone(4)):
        logits = np.random.default_rng(3).standard_normal(llama.n_vocab).astype(np.float32) * 3
        expected = softmax(leaves(logits.astype(np.float64), lambda each: quadratic(each, factor, curve)))
        sampler.sample_from(logits)
        found = np.zeros(llama.n_vocab)
        found[sampler.candidates.ids] = sampler.candidates.probs
        assert np.abs(found - expected).max() < 1e-4
        sampler.close()


def test_quadratic_sampling_draws_as_often_as_its_chances_and_not_at_temperature_0(llama: LlamaModel) -> None:
    logits = np.full(llama.n_vocab, -50.0, np.float32)
    logits[[300, 301, 302]] = 3.0, 2.5, 0.0
    params = SamplingParams(temperature=1.0, smoothing_factor=0.4, **ALL)
    sampler = llama.new_sampler(params, 1, [])
    drawn = [sampler.sample_from(logits) for _ in range(4000)]
    expected = softmax(quadratic(logits.astype(np.float64), 0.4, 1.0))
    assert all(abs(drawn.count(token) / 4000 - expected[token]) < 0.03 for token in (300, 301, 302))
    greedy = llama.new_sampler(replace(params, temperature=0.0, smoothing_curve=9.0), 1, [])
    assert greedy.sample_from(logits) == 300


def test_mirostat_measures_what_quadratic_sampling_leaves(llama: LlamaModel) -> None:
    logits = np.full(llama.n_vocab, -50.0, np.float32)
    logits[[300, 301]] = 9.0, 0.0
    mirostat = SamplingParams(mirostat=2, mirostat_tau=20.0, temperature=1.0)
    plain, flat = mirostat, replace(mirostat, smoothing_factor=0.00001)
    drawn = [{llama.new_sampler(each, seed, []).sample_from(logits) for seed in range(30)} for each in (plain, flat)]
    assert drawn[0] == {300}
    assert len(drawn[1]) > 1


def test_mirostat_is_measured_over_the_tokens_that_may_come(llama: LlamaModel) -> None:
    few = (300, 301, 302, 303)
    logits = np.full(llama.n_vocab, -50.0, np.float32)
    logits[list(few)] = 1.0, 0.9, 0.8, 0.7
    biases = tuple((token, None) for token in range(llama.n_vocab) if token not in few)
    params = SamplingParams(mirostat=1, logit_bias=biases, temperature=1.0)
    assert {llama.new_sampler(params, seed, []).sample_from(logits) for seed in range(50)} == {*few}


def test_equal_dry_settings_search_the_vocabulary_once(llama: LlamaModel) -> None:
    """Samplers of one search do not share their past."""
    params = SamplingParams(dry_multiplier=5.0, dry_allowed_length=1, dry_sequence_breakers=("q",), temperature=0.0)
    pasts = [[300, 301, 302, 300], [], [303, 304, 303], [300, 301, 302, 300]]
    logits = np.random.default_rng(1).random(llama.n_vocab, dtype=np.float32)
    logits[[301, 304]] += 3  # the ends of two repetitions

    def choices() -> list[int]:
        samplers = [llama.new_sampler(params, 1, past) for past in pasts]
        return [each.sample_from(logits) for each in samplers for _ in range(3)]

    before = llama.dry.num_built
    together = choices()
    assert llama.dry.num_built == before + 1
    alone = []
    for past in pasts:
        llama.dry.close()
        sampler = llama.new_sampler(params, 1, past)
        alone += [sampler.sample_from(logits) for _ in range(3)]
    assert llama.dry.num_built == before + 1 + len(pasts)
    assert together == alone
    assert len(set(together)) > 1, "the pasts make no difference"


def test_dry_samplers_are_kept_while_they_have_few_breakers(llama: LlamaModel) -> None:
    kept = DrySamplers(llama.vocab)

    def build(multiplier: float, breakers: int) -> bool:
        before = kept.num_built
        native.llama_sampler_free(kept.new(multiplier, 1.75, 2, 64, tuple("abcdefgh" * 100)[:breakers]))
        return kept.num_built > before

    assert build(1.0, MAX_BREAKERS - 4)
    assert build(2.0, 4)
    assert not build(1.0, MAX_BREAKERS - 4)
    assert build(3.0, 1)
    assert build(2.0, 4), "it was used longest ago"
    assert not build(3.0, 1)
    assert build(4.0, MAX_BREAKERS + 1)
    assert not build(3.0, 1), "a sampler that is too large to keep takes the room of no other"
    kept.close()
    kept.close()


def test_a_grammar_is_obeyed_to_its_end(llama: LlamaModel) -> None:
    for seed in range(5):
        sampler = llama.new_sampler(SamplingParams(grammar='root ::= "yes" | "no"'), seed, [])
        text, position = b"", 0
        token = sampler.sample_from(compute(llama, 0, tokens_of(llama)))
        while not llama.is_eog(token):
            text += llama.piece(token)
            position += 1
            assert position < 10
            token = sampler.sample_from(np.random.default_rng(position).random(llama.n_vocab, dtype=np.float32))
        assert text in (b"yes", b"no")
        llama.remove(0)


def test_a_grammar_is_rewound_with_the_text(llama: LlamaModel) -> None:
    """Also within a character of several bytes: the text is always one that the grammar makes, to its end."""
    params = SamplingParams(grammar='root ::= "☃" [a-e]+ "☃" [0-9] "."', dry_multiplier=1.0, repeat_penalty=1.2)
    rows = np.random.default_rng(6).standard_normal((40, llama.n_vocab)).astype(np.float32) * 2
    rewinds = 0
    for seed in range(12):
        rewound, choices = llama.new_sampler(params, seed, [5, 6]), np.random.default_rng(seed)
        rewound.remember()
        tokens: list[int] = []
        forbidden: list[set[int]] = [set() for _ in rows]
        held = tries = 0
        while not tokens or not llama.is_eog(tokens[-1]):
            row = rows[len(tokens)].copy()
            row[list(forbidden[len(tokens)])] = -np.inf
            tokens.append(rewound.sample_from(row))
            held += 1
            if tries < 6 and choices.random() < 0.3:
                count = int(choices.integers(1, held + 1))
                place = len(tokens) - count
                if len(forbidden[place]) < 2 and tokens[place] in range(ord("a") + 3, ord("e") + 4):
                    forbidden[place].add(tokens[place])
                for later in forbidden[place + 1 :]:
                    later.clear()
                rewound.rewind(count)
                del tokens[place:]
                held, tries = held - count, tries + 1
            elif choices.random() < 0.2:
                held = int(choices.integers(0, held + 1))
                rewound.forget(held)
        rewinds += tries
        anew = llama.new_sampler(params, seed, [5, 6])
        for place, token in enumerate(tokens):
            row = rows[place].copy()
            row[list(forbidden[place])] = -np.inf
            assert anew.sample_from(row) == token
        text = b"".join(map(llama.piece, tokens)).decode()
        assert re.fullmatch("☃[a-e]+☃[0-9][.]", text)
        rewound.close()
        anew.close()
    assert rewinds > 12


def text_of(llama: LlamaModel, sampler: LlamaSampler, begun: bytes = b"") -> bytes:
    """Go on with noise until the text ends; return the whole of it."""
    for row in np.random.default_rng(3).random((40, llama.n_vocab), dtype=np.float32):
        if llama.is_eog(token := sampler.sample_from(row)):
            sampler.close()
            return begun + llama.piece(token)
        begun += llama.piece(token)
    raise AssertionError(f"{begun!r} does not end")


def test_a_clone_stands_where_its_grammar_stands(llama: LlamaModel) -> None:
    """Also within a character of several bytes, and whatever the other one does."""
    params = SamplingParams(grammar='root ::= "☃" ("ab" | "cd") "☃"')
    whole = {"☃ab☃".encode(), "☃cd☃".encode()}
    rows = np.random.default_rng(5).random((40, llama.n_vocab), dtype=np.float32)
    for count in range(7):
        first, begun = llama.new_sampler(params, 1, []), b""
        begun += b"".join(llama.piece(first.sample_from(row)) for row in rows[:count])
        clones = [first.clone(seed) for seed in range(16)]
        assert text_of(llama, first, begun) in whole
        texts = {text_of(llama, clone, begun) for clone in clones}
        assert texts <= whole
        assert count > 3 or texts == whole


def of_schema(schema: dict[str, Any], **options: Any) -> SamplingParams:
    made = prepared(json.dumps(schema), "json_schema").text
    return SamplingParams(grammar="root ::= schema-0", grammar_schemas=(made,), **options)


def test_a_clone_of_a_fresh_sampler_with_a_grammar_draws_as_one_built_anew(llama: LlamaModel) -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    params = of_schema(schema, logit_bias=((40, 2.0),), temperature=1.5)
    first = llama.new_sampler(params, 1, [])
    rows = np.random.default_rng(4).standard_normal((12, llama.n_vocab)).astype(np.float32)
    for seed in range(4):
        pair = (first.clone(seed), llama.new_sampler(params, seed, []))
        clone, anew = ([each.sample_from(row) for row in rows[:6]] for each in pair)
        assert clone == anew
        going_on = [pair[0].clone(9).sample_from(rows[6]), pair[1].clone(9).sample_from(rows[6])]
        assert going_on[0] == going_on[1]


def test_a_grammar_and_a_bias_with_nothing_in_common_end_in_an_error_not_an_abort(llama: LlamaModel) -> None:
    every_byte_of_no = tuple((token, None) for token in range(llama.n_vocab) if llama.piece(token)[:1] in (b"n",))
    sampler = llama.new_sampler(SamplingParams(grammar='root ::= "no"', logit_bias=every_byte_of_no), 1, [])
    with pytest.raises(GrammarDeadEnd):
        sampler.sample_from(np.zeros(llama.n_vocab, np.float32))


@pytest.mark.parametrize(
    "grammar", ["root ::= (", "nonsense", "other ::= [a]", "root ::= root [a]", 'root ::= "a" missing']
)
def test_a_grammar_that_cannot_be_parsed_is_the_clients_error(llama: LlamaModel, grammar: str) -> None:
    with pytest.raises(InvalidRequest, match="grammar"):
        llama.new_sampler(SamplingParams(grammar=grammar), 1, [])


@pytest.mark.parametrize("arch", WRITERS)
def test_logits_do_not_depend_on_what_memory_held_before(load: Callable[..., LlamaModel], arch: str) -> None:
    def logits() -> list[Logits]:
        model = load(arch, swa_full="on")
        found = [compute(model, 0, list(range(300, 320)))]
        model.fork(0, 1)
        return [*found, *(compute(model, seq_id, [330], position=20) for seq_id in range(2))]

    with poisoned_memory():
        found = logits()
    np.testing.assert_array_equal(found, logits())


def test_more_tokens_than_cells_finds_no_room_and_changes_nothing(llama: LlamaModel) -> None:
    tokens = tokens_of(llama)
    compute(llama, 0, tokens[:-1])
    for position in range(0, 192, 64):
        compute(llama, 1, [5] * 64, position)
    batch = Batch()
    batch.add(2, 0, [5] * 64, want_logits=True)
    assert llama.decode(batch) is DecodeStatus.NO_ROOM
    llama.remove(1)
    warm = compute(llama, 0, tokens[-1:], position=len(tokens) - 1)
    assert close(warm, compute(llama, 3, tokens))


def test_an_invalid_position_is_refused_and_harms_nobody(llama: LlamaModel) -> None:
    compute(llama, 0, [5, 6, 7])
    batch = Batch()
    batch.add(0, 1, [8], want_logits=True)
    assert llama.decode(batch) is DecodeStatus.INVALID
    compute(llama, 0, [8], position=3)


@pytest.fixture
def edited(llama: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The edits of llama.cpp's memory that were carried out, by their names; one of each waits."""
    carried_out: list[str] = []
    compute(llama, 0, [1, 2, 3, 4])
    for name in ("fork", "truncate", "splice", "remove"):
        monkeypatch.setattr(llama._sequences, name, lambda *_, name=name: carried_out.append(name))
    llama.fork(0, 1)
    llama.truncate(1, 3)
    llama.splice(0, 1, 2)
    llama.remove(2)
    yield carried_out
    monkeypatch.undo()
    llama.clear()


@pytest.mark.parametrize("name", ["flush", "decode", "save", "restore"])
def test_forks_and_cuts_wait_for_the_next_call_that_needs_them(llama: LlamaModel, edited: list[str], name: str) -> None:
    assert edited == []
    one = Batch()
    one.add(0, 4, [5], want_logits=True)
    calls: dict[str, Callable[[], Any]] = {
        "flush": llama.flush,
        "decode": lambda: llama.decode(one),
        "save": lambda: llama.save(0, 2),
        "restore": lambda: llama.restore(3, np.zeros(8, np.uint8)),
    }
    calls[name]()
    assert edited == ["fork", "truncate", "splice", "remove"]
    llama.flush()
    assert len(edited) == 4


def test_clear_drops_the_edits_that_wait(llama: LlamaModel, edited: list[str]) -> None:
    llama.clear()
    llama.flush()
    assert edited == []


def test_files_that_cannot_be_loaded_say_why_in_one_line(tmp_path: Path, gguf: Callable[[str], Path]) -> None:
    whole = gguf("llama").read_bytes()
    broken = {
        "text.gguf": b"not a model",
        "empty.gguf": b"",
        "header.gguf": whole[:100],
        "truncated.gguf": whole[: len(whole) // 2],
        "garbled.gguf": whole[:24] + bytes(255 - byte for byte in whole[24:2000]) + whole[2000:],
    }
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
    for name in [*broken, "missing.gguf"]:
        with pytest.raises(ModelLoadFailed) as caught:
            LlamaModel.load(Settings(model=str(tmp_path / name)))
        assert name in caught.value.message
        assert "\n" not in caught.value.message
        assert not caught.value.message.endswith(("failed to load model", "no reason given")), "that is no reason"


def test_the_license_is_the_files(llama: LlamaModel) -> None:
    assert llama.info("").license == "cc0-1.0"


def test_a_model_in_several_files_is_loaded_by_the_first(tmp_path: Path, llama: LlamaModel) -> None:
    WRITERS["llama"](tmp_path / "split.gguf", replace(TINY, split=8))
    first, *others = sorted(tmp_path.iterdir())
    assert first.name.startswith("split-00001-of-")
    assert others
    model = LlamaModel.load(Settings(model=str(first), n_ctx=256, n_batch=64, n_seq_max=16, threads=1))
    try:
        assert model.info("").n_params == llama.info("").n_params
        tokens = tokens_of(model)
        assert np.allclose(compute(model, 0, tokens), compute(llama, 0, tokens))
    finally:
        model.close()
    with pytest.raises(
        ModelLoadFailed, match=f"is part 2 of {1 + len(others)}: the first one .* {re.escape(first.name)}"
    ):
        LlamaModel.load(Settings(model=str(others[0])))
    others[-1].unlink()
    with pytest.raises(ModelLoadFailed, match=others[-1].name):
        LlamaModel.load(Settings(model=str(first)))


def test_loading_reports_each_percentage_once(gguf: Callable[[str], Path]) -> None:
    percentages: list[int] = []
    settings = Settings(model=str(gguf("llama")), n_ctx=256, n_batch=64, n_seq_max=16, threads=1)
    LlamaModel.load(settings, percentages.append).close()
    assert percentages == sorted(set(percentages))
    assert percentages[-1] == 100


def test_an_impossible_context_is_a_load_failure(gguf: Callable[[str], Path]) -> None:
    settings = Settings(model=str(gguf("llama")), flash_attn="off", cache_type_v="q8_0")
    with pytest.raises(ModelLoadFailed, match="context"):
        LlamaModel.load(settings)


@pytest.mark.parametrize(
    ("arch", "memory"),
    [
        ("llama", "attention"),
        ("gemma2", "sliding_window"),
        ("gemma3", "sliding_window"),
        ("mamba", "recurrent"),
        ("lfm2", "hybrid"),
    ],
)
def test_the_model_describes_itself(gguf: Callable[[str], Path], arch: str, memory: str) -> None:
    model = LlamaModel.load(Settings(model=str(gguf(arch)), n_ctx=256))
    info = model.info("alias")
    assert (info.alias, info.architecture, info.memory) == ("alias", arch, memory)
    assert (info.n_ctx, info.n_ctx_seq, info.n_ctx_train, info.n_vocab) == (256, 256, 512, 512)
    assert (info.bos_token, info.eos_token) == ("<s>", "</s>")
    assert info.eog_ids == [token for token in range(info.n_vocab) if model.is_eog(token)]
    assert set(info.eog_ids) >= {info.eos_id}
    model.close()


@pytest.mark.parametrize("options", EVERY_SAMPLER, ids=lambda options: "-".join(options))
def test_the_token_of_every_sampler_is_among_its_candidates(llama: LlamaModel, options: dict[str, Any]) -> None:
    batch = Batch()
    row = batch.add(0, 0, tokens_of(llama), want_logits=True)
    llama.decode(batch)
    sampler = llama.new_sampler(SamplingParams(post_sampling_probs=True, **options), 1, [])
    plain = llama.new_sampler(SamplingParams(**options), 1, [])
    for _ in range(5):
        token = sampler.sample(row)
        assert token == plain.sample(row)
        assert token in sampler.candidates.ids
        assert sampler.candidates.probs.sum() == pytest.approx(1.0, rel=1e-4)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["ö\n\\", 'q"']}}, "required": ["a", "b"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    {"type": "string", "minLength": 3, "maxLength": 150},
    {"type": "string", "pattern": "^[a-c]{2,4}-x$"},
    {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [
        {"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}}},
    {"allOf": [{"$ref": "#/$defs/a b"}], "$defs": {"a b": {"properties": {"c": {"type": "null"}}}}},
    {"const": {"ö": [1, None]}},
    {},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_json_schema_is_obeyed(llama: LlamaModel, schema: dict[str, Any]) -> None:
    for seed in range(3):
        sampler = llama.new_sampler(of_schema(schema, temperature=3.0, samplers=()), seed, [])
        noise, text = np.random.default_rng(seed), b""
        for _ in range(2000):
            logits = noise.random(llama.n_vocab, dtype=np.float32)
            # The ends of strings, arrays and objects are likely, so that texts end.
            logits[llama.tokenize('"]}0', False, False)] += 4.0
            logits[2] += 100.0
            if llama.is_eog(token := sampler.sample_from(logits)):
                break
            text += llama.piece(token)
        sampler.close()
        value = json.loads(text)
        if "enum" in str(schema):
            assert value["b"] in schema["properties"]["b"]["enum"]
        if "const" in schema:
            assert value == schema["const"]
        if "minItems" in schema:
            assert len(value) in (2, 3)
        if "minLength" in schema:
            assert 3 <= len(value) <= 150
        if "pattern" in schema:
            assert re.fullmatch(schema["pattern"], value)


@pytest.mark.parametrize(
    "schema",
    [{"type": "poem"}, {"$ref": "https://example.org/schema"}, {"$ref": "#/nowhere"}, {"properties": 5}, {"$ref": "#"}],
    ids=str,
)
def test_a_schema_that_cannot_be_made_a_grammar_is_refused(llama: LlamaModel, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        llama.grammars.matcher("root ::= schema-0", (prepared(json.dumps(schema), "json_schema").text,), "json_schema")
    assert caught.value.extra["param"].partition(".")[0] == "json_schema"


def test_a_text_may_be_longer_than_the_trained_context_only_where_rope_is_scaled(gguf: Callable[[str], Path]) -> None:
    settings = Settings(model=str(gguf("llama")), n_ctx=100_000)
    plain = LlamaModel.load(settings)
    assert plain.n_ctx_seq == plain.n_ctx_train
    plain.close()
    for n_ctx, is_as_trained in ((100_000, True), (plain.n_ctx_train, True), (256, False)):
        model = LlamaModel.load(settings.model_copy(update={"n_ctx": n_ctx}))
        assert model.is_as_trained is is_as_trained
        model.close()
    scaled = LlamaModel.load(settings.model_copy(update={"rope_freq_scale": 0.01, "kv_offload": False}))
    assert scaled.n_ctx_seq == scaled.n_ctx
    assert not scaled.is_as_trained
    scaled.close()


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "integer", "minimum": -12, "maximum": 305}, ["-12", "0", "305", "99"], ["-13", "306", "-99", "01"]),
        ({"type": "integer", "exclusiveMinimum": 1995}, ["1996", "20000"], ["1995", "0", "-1996"]),
        ({"type": ["integer", "null"], "maximum": -3}, ["-3", "-40", "null"], ["-2", "0", "3"]),
        (
            {"properties": {"integer": {"type": "integer", "minimum": 7}}, "required": ["integer"]},
            ['{"integer":7}', '{"integer": 12}'],
            ['{"integer":6}'],
        ),
    ],
)
def test_integers_stay_within_the_bounds_of_a_schema(
    llama: LlamaModel, schema: dict[str, Any], taken: list[str], refused: list[str]
) -> None:
    of_byte = {piece[0]: token for token in range(llama.n_vocab) if len(piece := llama.piece(token)) == 1}

    def takes(text: str) -> bool:
        sampler = llama.new_sampler(of_schema(schema, temperature=0.0), 1, [])
        try:
            for token in [*(of_byte[byte] for byte in text.encode()), 2]:
                logits = np.zeros(llama.n_vocab, np.float32)
                logits[token] = 50.0
                if sampler.sample_from(logits) != token:
                    return False
            return True
        finally:
            sampler.close()

    assert [text for text in taken if not takes(text)] == []
    assert [text for text in refused if takes(text)] == []
