"""Preparing a command: what can be refused without work is, and branches with the same settings share the work."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine import preparing
from srb.engine.fake import EOS, FakeModel, FakeSampler
from srb.engine.grammar import grammars as grammars_module
from srb.engine.preparing import Preparer
from srb.errors import ContextExceeded, InvalidRequest
from srb.wire.commands import BranchSpec, Embed, Generate, Rerank
from tests.logs import lines_of
from tests.state_folders import a_folder

INT32 = 2**31 - 1


@pytest.fixture
def model() -> FakeModel:
    return FakeModel(n_ctx=64)


def forbid_reading(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> list[int]:
        raise AssertionError("the text was read")

    monkeypatch.setattr(model, "tokenize", read)


def test_the_longest_text_that_may_fit_is_read(model: FakeModel) -> None:
    request = Preparer(model, None).request(Generate("a", (" remembered" * 60,), (BranchSpec(1),)))
    assert len(request.prefix.tokens) == 61  # each word is as long as any token
    request.close()


@pytest.fixture
def counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every text that cannot fit for one that is too long to count."""
    monkeypatch.setattr("srb.engine.preparing.COUNTED_BYTES", 0)


@pytest.mark.usefixtures("counts_nothing")
@pytest.mark.parametrize("prompt", [("x" * 64 * 11,), (5, "x" * 62 * 11, "é" * 11)])
def test_a_text_that_can_never_fit_is_refused_without_being_read(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, prompt: tuple[Any, ...]
) -> None:
    assert model.max_piece_bytes == len(" remembered") == 11
    forbid_reading(model, monkeypatch)
    with pytest.raises(ContextExceeded, match=r"\(at least 6[45] tokens\) exceeds") as caught:
        Preparer(model, None).request(Generate("a", prompt, (BranchSpec(1),)))
    assert caught.value.extra["n_ctx"] == 64
    assert caught.value.extra["n_prompt_tokens"] in (64, 65)


@pytest.mark.parametrize("prompt", [("remembered " * 500,), (5, "x" * 4000), ("é" * 900, 7, 7)])
def test_an_error_tells_the_true_number_of_tokens_of_a_text_that_is_not_huge(
    model: FakeModel, prompt: tuple[Any, ...]
) -> None:
    preparer = Preparer(model, None)
    count = len(preparer.tokenize(prompt, add_special=True, parse_special=True))
    with pytest.raises(ContextExceeded, match=rf"^request \({count} tokens\)") as caught:
        preparer.request(Generate("a", prompt, (BranchSpec(1),)))
    assert caught.value.extra["n_prompt_tokens"] == count
    with pytest.raises(ContextExceeded) as caught:
        preparer.request(Generate("a", ("x",), (BranchSpec(1, append=prompt),)))
    assert caught.value.extra["n_prompt_tokens"] in (count + 1, count + 2)  # with the prompt


def test_a_prompt_of_token_ids_is_checked_by_its_exact_length(model: FakeModel) -> None:
    with pytest.raises(
        ContextExceeded,
        match=r"^request \(64 tokens\) exceeds the available context size \(64 tokens\), try increasing it$",
    ):
        Preparer(model, None).request(Generate("a", (5,) * 64, (BranchSpec(1),)))


def test_a_prompt_beyond_the_trained_length_is_not_told_to_increase_the_context() -> None:
    model = FakeModel(n_ctx=128, n_ctx_seq=64)
    with pytest.raises(
        ContextExceeded, match=r"size \(64 tokens\), for which the model was trained; rope_scaling"
    ) as caught:
        Preparer(model, None).request(Generate("a", (5,) * 64, (BranchSpec(1),)))
    assert caught.value.extra["n_ctx"] == 64


def test_a_text_without_a_beginning_begins_with_bos_though_the_vocabulary_puts_it_nowhere(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "tokenize", lambda *_: [])
    request = Preparer(model, None).request(Generate("a", ("",), (BranchSpec(1),)))
    assert list(request.prefix.tokens) == [model.bos_id] == [0]
    request.close()


def test_an_empty_prompt_begins_with_what_the_model_has_before_texts(model: FakeModel) -> None:
    model.blank_page = model.tokenize("the king\n", add_special=False, parse_special=False)
    for heals in (False, True):
        request = Preparer(model, None).request(Generate("a", ("",), (BranchSpec(1, token_healing=heals),)))
        assert list(request.prefix.tokens) == model.blank_page  # nothing of it is healed: nobody wrote it
        request.close()


def test_where_there_is_no_bos_an_empty_prompt_is_refused(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "tokenize", lambda *_: [])
    model.blank_page = []
    with pytest.raises(InvalidRequest, match="Field 'prompt': is empty, and the vocabulary has no token") as caught:
        Preparer(model, None).request(Generate("a", ("",), (BranchSpec(1),)))
    assert caught.value.extra["param"] == "prompt"
    assert model.open_samplers == 0


def test_a_bias_beyond_the_vocabulary_is_skipped_and_told_once(
    model: FakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    preparer = Preparer(model, None)
    samplers = []
    for beyond in (model.n_vocab, 50256):
        sampling = SamplingParams(temperature=0, logit_bias=((beyond, None), (7, 1000.0)))
        request = preparer.request(Generate("a", ("the",), (BranchSpec(1, sampling=sampling),)))
        samplers += [branch.sampler for branch in request.branches]
        request.close()
    assert [sampler._params.logit_bias for sampler in samplers] == [((7, 1000.0),)] * 2
    [line] = lines_of("srb.engine", caplog)
    assert f"token id {model.n_vocab} is not in the vocabulary (0 to {model.n_vocab - 1})" in line


def test_control_tokens_have_their_text_only_where_it_is_wanted(model: FakeModel) -> None:
    tokens = [model.bos_id, *model.tokenize("a king", False, False)]
    assert b"".join(Preparer(model, None).detokenize(tokens)) == b"<s>a king"
    assert b"".join(Preparer(model, None).detokenize(tokens, special=False)) == b"a king"


@pytest.mark.usefixtures("counts_nothing")
def test_inputs_of_embeddings_and_rankings_are_refused_without_being_read(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_reading(model, monkeypatch)
    with pytest.raises(InvalidRequest, match=r"Field 'input\[1\]': is too large to process: at least 909 tokens"):
        Preparer(model, None).embedding(Embed("a", (("a",), ("x" * 9999,))))
    with pytest.raises(InvalidRequest, match=r"Field 'documents\[1\]': is too large to process: at least"):
        Preparer(model, None).embedding(Rerank("a", "x", ("x", "x" * 9999)))


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("text", ["the king", "the" + " king" * 15, "the" + " king" * 16, "x☃" * 100_000, ""])
def test_a_text_that_is_to_be_truncated_keeps_its_beginning_and_the_vocabularys_end(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, text: str, ends: bool
) -> None:
    plain, read = model.tokenize, []

    def tokenize(text: str, add_special: bool, parse_special: bool) -> list[int]:
        read.append(text)
        return plain(text, add_special, parse_special) + [EOS] * (add_special and ends)

    monkeypatch.setattr(model, "tokenize", tokenize)
    whole, most = tokenize(text[:1000], True, True), model.n_embed_tokens
    [tokens] = Preparer(model, None).embedding(Embed("a", ((text,),), truncate=True)).inputs
    assert tokens == (whole if len(whole) <= most else whole[: most - ends] + [EOS] * ends)
    assert max(map(len, read[1:])) < 1000, "of megabytes the beginning alone is read"


@pytest.mark.parametrize(("limit", "kept"), [(1, 1), (3, 3), (9, 9), (5000, 9)])
def test_so_many_tokens_of_a_document_are_kept_as_were_asked_for(model: FakeModel, limit: int, kept: int) -> None:
    command = Rerank("a", " a fox", (" king" * 9, ""), truncate=True, max_tokens=limit)
    assert Preparer(model, None).embedding(command).inputs == [
        model.pair(" a fox", " king" * kept),
        model.pair(" a fox", ""),
    ]


@pytest.mark.parametrize("document", [" king" * 9, " king" * 10, " king" * 5000, "é" * 5000, ""])
def test_a_document_that_is_to_be_truncated_fits_beside_its_query(model: FakeModel, document: str) -> None:
    query, most = " a fox", model.n_embed_tokens
    [pair, same] = Preparer(model, None).embedding(Rerank("a", query, (document, " a fox"), truncate=True)).inputs
    whole = model.pair(query, document)
    assert pair == whole[: len(pair)]
    assert most - 1 <= len(pair) <= most or pair == whole  # a character of two tokens may leave one's place
    assert same == model.pair(query, " a fox")
    with pytest.raises(InvalidRequest, match="Field 'documents': is too large to process"):
        Preparer(model, None).embedding(Rerank("a", query, (document + " fox" * 20,)))
    with pytest.raises(InvalidRequest, match="Field 'documents': is too large to process"):
        Preparer(model, None).embedding(Rerank("a", " king" * 20, ("a",), truncate=True))


def test_an_empty_text_is_embedded_where_the_vocabulary_puts_a_token_before_it(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Preparer(model, None).embedding(Embed("a", (("",),))).inputs == [[model.bos_id]]
    monkeypatch.setattr(model, "tokenize", lambda *_: [])
    with pytest.raises(InvalidRequest, match=r"^Input content cannot be empty$") as caught:
        Preparer(model, None).embedding(Embed("a", (("",),)))
    assert caught.value.extra == {"param": "input"}


def test_the_text_that_is_empty_is_named(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenize = model.tokenize
    monkeypatch.setattr(model, "tokenize", lambda text, *flags: tokenize(text, *flags) if text else [])
    with pytest.raises(InvalidRequest, match=r"^Input content cannot be empty: input\[2\]$") as caught:
        Preparer(model, None).embedding(Embed("a", (("a",), ("b",), ("",))))
    assert caught.value.extra == {"param": "input[2]"}


class ReadsSpecials(FakeModel):
    """A vocabulary whose special tokens are read in texts, as GGUFs' are."""

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        if not parse_special or not text.startswith("<s>"):
            return super().tokenize(text, add_special, parse_special)
        rest = self.tokenize(text.removeprefix("<s>"), False, True)
        return [*([self.bos_id] if add_special else []), self.bos_id, *rest]


@pytest.mark.parametrize("text", ["<s>a king", "a king"])
def test_a_prompt_that_brings_its_bos_has_it_once(text: str) -> None:
    preparer = Preparer(model := ReadsSpecials(n_ctx=64), None)
    wanted = [model.bos_id, *model.tokenize("a king", False, False)]
    assert preparer.tokenize([text], add_special=True, parse_special=True) == wanted
    request = preparer.request(Generate("a", (text,), (BranchSpec(1),)))
    assert list(request.prefix.tokens) == wanted
    request.close()


def test_a_bos_that_no_vocabulary_adds_stays_as_it_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    preparing._warn.cache_clear()  # it is told once
    preparer = Preparer(model := ReadsSpecials(n_ctx=64), None)
    assert preparer.tokenize(["<s>"], add_special=False, parse_special=True) == [model.bos_id]
    twice = preparer.tokenize(["<s><s>"], add_special=True, parse_special=True)
    assert twice == [model.bos_id] * 2  # the prompt asks for two
    assert any("brings the token that begins texts" in line for line in lines_of("srb.engine", caplog))


def test_one_sampler_is_built_for_each_set_of_parameters(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    new_sampler = model.new_sampler
    monkeypatch.setattr(model, "new_sampler", lambda params, *a: built.append(params) or new_sampler(params, *a))
    hot, cold = (SamplingParams(temperature=t, logit_bias=((7, 1.0),)) for t in (1.0, 0.5))
    same = SamplingParams(temperature=1.0, logit_bias=((7, 1.0),))
    specs = tuple(BranchSpec(seed, sampling=(hot, cold, same)[seed % 3]) for seed in range(12))
    request = Preparer(model, None).request(Generate("a", ("the",), specs))
    assert built == [hot, cold]
    assert model.open_samplers == 12
    request.close()
    assert model.open_samplers == 0


def test_a_request_that_cannot_be_prepared_leaves_no_sampler_open(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> FakeSampler:
        raise MemoryError

    specs = tuple(BranchSpec(seed, sampling=SamplingParams(logit_bias=((-1, 1.0),))) for seed in range(3))
    with pytest.raises(InvalidRequest, match="logit_bias"):
        Preparer(model, None).request(Generate("a", ("the",), (BranchSpec(0), BranchSpec(1), *specs)))
    monkeypatch.setattr(FakeSampler, "clone", fail)
    with pytest.raises(MemoryError):
        Preparer(model, None).request(Generate("a", ("the",), (BranchSpec(0), BranchSpec(1))))
    with pytest.raises(InvalidRequest, match="state"):
        Preparer(model, a_folder(tmp_path)).request(Generate("a", ("the",), (BranchSpec(0),), state="../x"))
    assert model.open_samplers == 0


def test_a_wrong_id_in_a_long_prompt_of_ids_is_named(model: FakeModel) -> None:
    with pytest.raises(InvalidRequest, match="token id 99999 is not in the vocabulary"):
        Preparer(model, None).tokenize([5] * 100 + [99999] + [5] * 100, True, True)
    with pytest.raises(InvalidRequest, match="token id -1 is not in the vocabulary"):
        Preparer(model, None).tokenize([5, -1], True, True)
    assert Preparer(model, None).tokenize([5, 6, 7], True, True) == [5, 6, 7]
    assert Preparer(model, None).tokenize([], True, True) == []


def test_a_penalty_considers_no_more_than_the_context_holds(model: FakeModel) -> None:
    asked = [(-1, -1), (0, 7), (INT32, INT32), (model.n_ctx_seq, 5)]
    held = [(model.n_ctx_seq, model.n_ctx_seq), (0, 7), (model.n_ctx_seq, model.n_ctx_seq), (model.n_ctx_seq, 5)]
    specs = tuple(
        BranchSpec(1, sampling=SamplingParams(repeat_penalty=1.1, repeat_last_n=last, dry_penalty_last_n=dry))
        for last, dry in asked
    )
    request = Preparer(model, None).request(Generate("a", ("the",), specs))
    params = [branch.sampler._params for branch in request.branches]
    assert [(each.repeat_last_n, each.dry_penalty_last_n) for each in params] == held
    request.close()


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("repeat_last_n", SamplingParams(repeat_penalty=1.1, repeat_last_n=-1)),
        ("dry_penalty_last_n", SamplingParams(dry_multiplier=0.8, dry_penalty_last_n=-1)),
        ("dry_penalty_last_n", SamplingParams(dry_multiplier=0.8, dry_penalty_last_n=INT32)),
    ],
)
def test_what_penalties_remember_is_limited_over_all_branches(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, field: str, params: SamplingParams
) -> None:
    monkeypatch.setattr(preparing, "MAX_REMEMBERED", 8 * model.n_ctx_seq)

    def ask(n: int, params: SamplingParams) -> Generate:
        return Generate("r", ("a",), tuple(BranchSpec(i, 5, sampling=params) for i in range(n)))

    Preparer(model, None).request(ask(8, params)).close()
    with pytest.raises(InvalidRequest, match=f"'{field}': asks 9 branches to consider {9 * model.n_ctx_seq} tokens"):
        Preparer(model, None).request(ask(9, params))
    twice = replace(params, samplers=(*params.samplers, "dry", "penalties"))
    with pytest.raises(InvalidRequest, match=f"'{field}': asks 5 branches"):
        Preparer(model, None).request(ask(5, twice))
    Preparer(model, None).request(ask(9, replace(params, samplers=("top_k",)))).close()
    assert model.open_samplers == 0


def test_sequence_breakers_are_limited_over_all_branches(model: FakeModel) -> None:
    breakers = tuple(chr(ord("!") + i) for i in range(60))
    params = SamplingParams(dry_multiplier=0.8, dry_sequence_breakers=breakers)

    def ask(n: int, params: SamplingParams) -> Generate:
        return Generate("r", ("a",), tuple(BranchSpec(i, 5, sampling=params) for i in range(n)))

    Preparer(model, None).request(ask(8, params)).close()
    with pytest.raises(InvalidRequest, match="60 entries for 9 branches; at most 512"):
        Preparer(model, None).request(ask(9, params))
    with pytest.raises(InvalidRequest, match="120 entries for 5 branches; at most 512"):
        Preparer(model, None).request(ask(5, replace(params, samplers=("dry", "dry"))))
    Preparer(model, None).request(ask(9, replace(params, dry_multiplier=0.0))).close()
    assert model.open_samplers == 0


def test_lanes_share_the_compiled_grammars_and_each_gets_its_own(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars_module, "MAX_KEPT_BYTES", 2 * grammars_module.ENTRY_BYTES)
    failures: list[Exception] = []

    def lane(digit: int) -> None:
        [token] = model.tokenize(str(digit), False, False)
        try:
            for turn in range(100):
                matcher = model.grammars.matcher(f'root ::= "{digit}" [a-z]{{{turn % 3}}}')
                assert matcher.allowed.tolist() == [token]
                matcher.accept(token)
                assert matcher.length == 1
        except Exception as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        lanes = [threading.Thread(target=lane, args=(digit,)) for digit in range(4)]
        for each in lanes:
            each.start()
        for each in lanes:
            each.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []


def test_a_grammar_is_compiled_once(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compile_one = model.grammars._compiled
    monkeypatch.setattr(model.grammars, "_compiled", lambda *given: made.append(given[0]) or compile_one(*given))
    for grammar in ("root ::= [a]", "root ::= [b]", "root ::= [a]"):
        model.grammars.matcher(grammar)
    assert len(made) == len(set(made)) == 2


@pytest.mark.parametrize("prompt", [(5,) * 64, (-7,) * 64, (INT32,) * 2_000_000])
def test_too_many_ids_are_refused_before_they_are_looked_at(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, prompt: tuple[int, ...]
) -> None:
    def look(*_: object) -> None:
        raise AssertionError("an id was looked at")

    monkeypatch.setattr(preparing, "ids_of", look)
    with pytest.raises(ContextExceeded, match=rf"^request \({len(prompt)} tokens\) exceeds") as caught:
        Preparer(model, None).request(Generate("a", prompt, (BranchSpec(1),)))
    assert caught.value.extra["n_prompt_tokens"] == len(prompt)


class Reading(FakeModel):
    """A FakeModel whose tokens may be long, and that counts the characters that it tokenizes."""

    characters = 0
    max_piece_bytes = 10**6

    def __init__(self, n_ctx: int) -> None:
        super().__init__(n_ctx=n_ctx)
        self.max_piece_bytes = 10**6

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        self.characters += len(text)
        return super().tokenize(text, add_special, parse_special)


PROSE = "the old king said " * 20_000


@pytest.mark.parametrize(
    ("prompt", "append"), [((PROSE,), ()), (("the", PROSE), ()), (("the",), (PROSE,)), (("the",), (5, PROSE))]
)
def test_a_text_is_read_no_further_than_a_context_has_room(prompt: tuple[Any, ...], append: tuple[Any, ...]) -> None:
    model = Reading(n_ctx=256)
    with pytest.raises(ContextExceeded, match=r"\(at least \d+ tokens\) exceeds"):
        Preparer(model, None).request(Generate("a", prompt, (BranchSpec(1, append=append),)))
    assert model.characters < 0.5 * len(PROSE)


@pytest.mark.parametrize(
    ("field", "ask"),
    [
        ("prompt", lambda preparer, text: preparer.tokenize((text,), True, True)),
        ("prompt", lambda preparer, text: preparer.request(Generate("a", (text,), (BranchSpec(1),)))),
        ("append", lambda preparer, text: preparer.request(Generate("a", ("x",), (BranchSpec(1, append=(text,)),)))),
        ("input", lambda preparer, text: preparer.embedding(Embed("a", ((text,),)))),
        ("query", lambda preparer, text: preparer.embedding(Rerank("a", text, ("x",)))),
        ("documents", lambda preparer, text: preparer.embedding(Rerank("a", "x", (text,)))),
    ],
)
def test_a_text_too_long_for_one_call_of_native_code_is_refused_unread_by_its_field(
    monkeypatch: pytest.MonkeyPatch, field: str, ask: Any
) -> None:
    monkeypatch.setattr("srb.engine.known_texts.MAX_RUN", 20_000)
    model = Reading(n_ctx=4096)
    preparer = Preparer(model, None)
    with pytest.raises(InvalidRequest, match=f"Field '{field}': has 20001 characters without a space") as caught:
        ask(preparer, "x" * 20_001)
    assert caught.value.extra["param"] == field
    assert model.characters < 100


def test_a_list_of_tokens_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "MAX_LISTED", 50)
    model = Reading(n_ctx=64)
    assert len(Preparer(model, None).tokenize((5,) * 50, False, True)) == 50
    model.characters = 0
    for parts in ((PROSE,), (5, 5, PROSE), (5,) * 51):
        with pytest.raises(InvalidRequest, match="Field 'prompt': has more than 50 tokens; send parts of it"):
            Preparer(model, None).tokenize(parts, True, True)
    assert model.characters < len(PROSE)
