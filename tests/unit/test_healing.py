"""Token healing: a branch draws what the model makes of the prompt's characters, and its text begins right behind them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from srb.engine import healing
from srb.engine.fake import BOS, EOS, FakeModel
from srb.engine.healing import MAX_REMOVED, Pieces, num_removed
from srb.engine.model import Batch
from srb.wire.events import Delta, PromptDone
from tests.engine_helpers import Driver, Outcome, plain

CUT = "the old king and the ga"  # " garden" is a word of the fake; " ", "g" and "a" are bytes


def heal(
    prompt: Any, n: int = 1, seed: int = 1, driver: Driver | None = None, **options: Any
) -> tuple[Driver, Outcome]:
    driver = driver or Driver(FakeModel(n_ctx=4096, n_seq_max=80))
    request_id = driver.submit(prompt, n, seed, token_healing=True, **options)
    driver.run()
    return driver, driver.result(request_id)


def text_of(model: FakeModel, tokens: Any) -> str:
    return b"".join(model.piece(token) for token in tokens).decode()


def logprobs_after(model: FakeModel, tokens: list[int]) -> Any:
    """Return the log-probabilities behind tokens, by a decode alone."""
    batch = Batch()
    row = batch.add(0, 0, tokens, True)
    model.decode(batch)
    logits = model.logits(row).astype(np.float64)
    model.clear()
    finite = np.where(np.isfinite(logits), logits, -np.inf)
    return finite - np.logaddexp.reduce(finite)


def chances(prompt: str) -> dict[str, float]:
    """Return the chance of each text that the first token behind a prompt's characters may make, by all covers."""
    model = FakeModel(n_ctx=4096)
    tokens = model.tokenize(prompt, True, True)
    count = num_removed(tokens, model)
    head, removed = tokens[:-count], tokens[-count:]
    found: Counter[str] = Counter()
    for place in range(count):
        rest = text_of(model, removed[place:]).encode()
        before = sum(logprobs_after(model, head + removed[:at])[removed[at]] for at in range(place))
        logprobs = logprobs_after(model, head + removed[:place])
        for token in range(model.n_vocab):
            if (piece := model.piece(token)).startswith(rest):
                found[piece[len(rest) :].decode("latin-1")] += float(np.exp(before + logprobs[token]))
    total = sum(found.values())
    return {text: chance / total for text, chance in found.items() if chance}


@pytest.mark.parametrize("prompt", [CUT, "the old king ", "the lamp under the r", "a river and ", "the fox said the o"])
def test_first_tokens_have_the_chances_of_the_prompts_characters(prompt: str) -> None:
    """Whether a text goes on within the word, for 400 seeds; the exact end of the prompt may be followed by either."""
    expected = chances(prompt)
    driver = Driver(FakeModel(n_ctx=4096, n_seq_max=80))
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    goes_on = 0
    for first in range(0, 400, 50):
        request_id = driver.submit(prompt, 50, first, max_tokens=1, token_healing=True, **sampling)
        driver.run()
        goes_on += sum(bool(text) and not text.startswith(" ") for text in driver.result(request_id).texts.values())
    least = sum(chance for text, chance in expected.items() if text and not text.startswith(" "))
    assert least - 0.1 <= goes_on / 400 <= least + expected.get("", 0.0) + 0.1


def test_a_word_that_the_prompt_begins_is_completed() -> None:
    driver, outcome = heal(CUT, n=8, temperature=0)
    best = max(chances(CUT).items(), key=lambda each: each[1])
    assert best[0] == "rden"
    assert outcome.texts[0].startswith("rden")
    assert driver.engine.stats()["requests_total"] == 1


@pytest.mark.parametrize(
    "prompt", [CUT, "the old king ", "the king", "the fox said. ", "☃ snow", "the letter\n\n", "x"]
)
def test_the_text_goes_on_exactly_behind_the_prompt(prompt: str) -> None:
    driver, outcome = heal(prompt, n=6, seed=3)
    for index in range(6):
        whole = text_of_bytes(driver.model, outcome.tokens[index])
        behind = [whole[size:] for size in range(len(whole) + 1) if prompt.encode().endswith(whole[:size])]
        assert outcome.texts[index] in {text.decode("utf-8", "replace") for text in behind}


def text_of_bytes(model: FakeModel, tokens: list[int]) -> bytes:
    return b"".join(model.piece(token) for token in tokens)


def test_a_branch_is_the_same_alone_and_among_others() -> None:
    _, together = heal(CUT, n=6, seed=20)
    for index in range(6):
        _, alone = heal(CUT, seed=20 + index)
        assert together.texts[index] == alone.texts[0]


def test_a_prompt_that_was_computed_as_it_is_heals_as_any_other() -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    driver.submit(CUT, 4)
    driver.run()
    _, outcome = heal(CUT, n=4, driver=driver)
    assert outcome.texts == heal(CUT, n=4)[1].texts


def test_usage_counts_the_prompt_as_it_was_sent() -> None:
    model = FakeModel()
    sent = len(model.tokenize(CUT, True, True))
    for healed in (False, True):
        driver = Driver(FakeModel(n_ctx=4096))
        request_id = driver.submit(CUT, 4, token_healing=healed)
        driver.run()
        [done] = driver.result(request_id).terminal
        assert done.prompt_tokens == sent
        assert 0 <= done.cached_tokens <= sent


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("append", [(), (" and the ga",), (" r",)])
@pytest.mark.parametrize("healed", [True, False])
@pytest.mark.parametrize("prompt", [CUT, "the old king ", "the king"])
def test_computed_tokens_are_those_that_were_decoded(
    prompt: str, healed: bool, append: tuple[str, ...], n: int
) -> None:
    """Of a new and of a known prompt. A branch of one token decodes none of its own."""
    model = FakeModel(n_ctx=4096, n_seq_max=40)
    driver = Driver(model)
    sent = len(model.tokenize(prompt, True, True)) + n * len(model.tokenize("".join(append), False, True))
    for attempt in range(3):
        before = model.n_tokens_decoded
        request_id = driver.submit(prompt, n, 10 * attempt, max_tokens=1, append=append, token_healing=healed)
        driver.run()
        outcome = driver.result(request_id)
        [done] = outcome.terminal
        [told] = [event for event in outcome.events if isinstance(event, PromptDone)]
        assert done.computed_tokens == model.n_tokens_decoded - before
        assert done.computed_tokens == told.computed_tokens + sum(end.given_computed for end in outcome.ends.values())
        assert done.prompt_tokens == sent
        assert done.cached_tokens + done.computed_tokens == sent or healed


def test_a_known_prompt_that_is_healed_is_said_to_compute_nothing() -> None:
    driver, first = heal(CUT, n=8, temperature=0)
    _, again = heal(CUT, n=8, temperature=0, driver=driver)
    assert [outcome.terminal[0].computed_tokens > 0 for outcome in (first, again)] == [True, False]


@pytest.mark.parametrize("prompt", [CUT, "the old king ", "the king", "the lamp under the r"])
def test_a_prompt_that_is_asked_again_needs_no_decode_before_its_first_tokens(prompt: str) -> None:
    """Neither where its last characters begin a longer token, nor where tokens end as it does."""
    counts, texts = [], []
    driver = Driver(FakeModel(n_ctx=4096, n_seq_max=80))
    for _ in range(2):
        before = driver.model.n_decodes
        texts.append(heal(prompt, n=24, driver=driver, max_tokens=1)[1].texts)
        counts.append(driver.model.n_decodes - before)
    assert counts[1] == 0 < counts[0]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("prompt", ["the old king ", "the king"])
def test_what_a_known_prompt_writes_is_what_a_new_one_does(prompt: str) -> None:
    """The longer text, too; with other sampling, and when what follows the prompt has left the KV store."""
    driver = Driver(FakeModel(n_ctx=512, n_seq_max=80))
    heal(prompt, n=16, driver=driver)
    for options in (
        {"seed": 9},
        {"seed": 9, "temperature": 1.5},
        {"seed": 3, "top_k": 2},
        {"seed": 3, "cache_prompt": False},
    ):
        new = heal(prompt, n=16, max_tokens=12, **options)[1].texts  # type: ignore[arg-type]
        assert heal(prompt, n=16, driver=driver, max_tokens=12, **options)[1].texts == new  # type: ignore[arg-type]
    driver.submit("a river " * 200)
    driver.run()
    again = heal(prompt, n=16, driver=driver, max_tokens=12, seed=9)[1].texts
    assert again == heal(prompt, n=16, max_tokens=12, seed=9)[1].texts


def test_what_is_remembered_of_prompts_is_bounded_and_they_heal_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "KNOWN_BYTES", 3 * 4 * FakeModel().n_vocab)
    driver = Driver(FakeModel(n_ctx=4096, n_seq_max=80))
    for prompt in [CUT, "the old king ", "the lamp under the r", "a river and ", "the fox said the o", CUT, CUT]:
        for temperature in (0.5, 0.8, 1.1, 1.4, 1.7, 2.0):
            options: dict[str, Any] = {"n": 4, "temperature": temperature, "max_tokens": 3}
            assert heal(prompt, driver=driver, **options)[1].texts == heal(prompt, **options)[1].texts
            known = driver.engine._branches._known_endings._known
            kept = sum(len(each.drawn) for each in known.values())
            assert 0 < kept <= healing.MAX_DRAWN * len(known)
            assert (
                len(known) == 1 or sum(each.nbytes for each in known.values()) <= healing.KNOWN_BYTES + known_at_most()
            )


def known_at_most() -> int:
    """Return the bytes that the newest prompt may add after the older ones were counted."""
    return (healing.MAX_DRAWN + 1) * 4 * 2 * FakeModel().n_vocab


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ((*FakeModel().tokenize(CUT, True, True),), {}),  # ids are taken as they are
        (CUT, {"grammar": 'root ::= "x"'}),
        (CUT, {"prompt_logprobs": True}),
        (("the ga", EOS), {}),
    ],
    ids=["ids", "grammar", "prompt_logprobs", "control"],
)
def test_what_is_not_healed_is_as_without(prompt: Any, options: dict[str, Any]) -> None:
    outcomes = []
    for healed in (False, True):
        driver = Driver(FakeModel(n_ctx=4096))
        request_id = driver.submit(prompt, 3, token_healing=healed, **options)
        driver.run()
        outcomes.append(driver.result(request_id))
    assert outcomes[0].texts == outcomes[1].texts
    assert outcomes[0].tokens == outcomes[1].tokens


def test_each_append_is_healed_by_itself() -> None:
    driver, outcome = heal("the old king", n=3, append=(" and the ga",), temperature=0)
    assert {outcome.texts[index][:4] for index in range(3)} == {"rden"}
    assert driver.engine.stats()["sequences_used"] == driver.engine.stats()["sequences_idle"]


def test_banned_strings_see_the_healed_word() -> None:
    _, outcome = heal(CUT, n=8, banned_strings=(" garden",), temperature=1.0)
    assert not any(outcome.texts[index].startswith("rden") for index in range(8))


def test_stop_strings_see_the_text_behind_the_prompt() -> None:
    _, outcome = heal(CUT, temperature=0, stop=("rden",))
    assert outcome.texts[0] == ""
    assert outcome.ends[0].reason == "word"


@pytest.mark.parametrize("where", [{"token": 0}, {"token": 1}, {"token": 3}, {"character": 0}, {"character": 2}, {}])
def test_a_fork_goes_on_behind_the_same_characters(where: dict[str, int]) -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id = driver.submit(CUT, 1, 5, max_tokens=-1, token_healing=True, can_grow=True, temperature=0)
    for _ in range(12):
        driver.step()
    shown = driver.result(request_id).texts[0]
    assert shown.startswith("rden")
    [index] = driver.add(request_id, plain(9, max_tokens=3), origin=0, **where)
    beginning = driver.result(request_id).texts[index]
    branch = driver.request(request_id).branches[index]
    request = driver.request(request_id)
    given = text_of_bytes(driver.model, [*request.prefix.tokens, *branch.tokens])
    assert given == (CUT + beginning).encode()
    assert shown.startswith(beginning)
    driver.cancel(request_id)
    driver.run()


def test_a_fork_of_a_fork_within_the_healed_word_has_no_character_twice() -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id = driver.submit(CUT, 1, 5, max_tokens=-1, token_healing=True, can_grow=True, temperature=0)
    for _ in range(12):
        driver.step()
    [first] = driver.add(request_id, plain(9, max_tokens=-1), origin=0, character=3)
    for _ in range(5):
        driver.step()
    for at in range(4):
        [second] = driver.add(request_id, plain(9, max_tokens=-1), origin=first, character=at)
        branch, prefix = driver.request(request_id).branches[second], driver.request(request_id).prefix.tokens
        assert text_of_bytes(driver.model, [*prefix, *branch.tokens]) == (CUT + "rden"[:at]).encode()
    driver.cancel(request_id)
    driver.run()


def forked(driver: Driver, prompt: str, *entries: Any, steps: int = 12, **where: Any) -> tuple[str, list[int]]:
    """Fork the branch of a new request after some steps; return the request and the forks, which have begun."""
    request_id = driver.submit(prompt, 1, 5, max_tokens=-1, token_healing=True, can_grow=True, temperature=0)
    for _ in range(steps):
        driver.step()
    return request_id, driver.add(request_id, *entries, origin=0, **where)


def written(driver: Driver, request_id: str, index: int) -> str:
    """Return all that a branch is to begin behind: the bytes of its tokens, and of those that it has not drawn yet."""
    request = driver.request(request_id)
    branch = request.branches[index]
    rest = branch.ending.rests[0] if branch.ending is not None else b""
    return (text_of_bytes(driver.model, [*request.prefix.tokens, *branch.tokens]) + rest).decode()


@pytest.mark.parametrize("append", [" th", " the lamp. ", " a", " r"])
def test_a_forks_append_has_the_chances_of_its_characters(append: str) -> None:
    driver = Driver(FakeModel(n_ctx=8192, n_seq_max=80))
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    entries = [plain(seed, (append,), sampling, max_tokens=1) for seed in range(400)]
    request_id, forks = forked(driver, CUT, *entries, token=3)
    beginning = driver.result(request_id).texts[forks[0]]
    assert beginning.endswith(append)
    driver.stop(request_id, 0)
    driver.run()
    texts = [driver.result(request_id).texts[fork].removeprefix(beginning) for fork in forks]
    expected = chances(CUT + beginning)
    exact = expected.pop("", 0.0)  # what follows comes from logits of its own
    for text, chance in expected.items():
        assert chance - 0.1 <= texts.count(text) / len(texts) <= chance + exact + 0.1


@pytest.mark.parametrize("append", [(" and the ga",), (" ",), (" the lamp. ",), ("☃",), ("ga",)])
@pytest.mark.parametrize("where", [{"token": 4}, {"character": 5}, {}])
def test_a_fork_with_an_append_is_a_branch_that_was_given_both(where: dict[str, int], append: tuple[str, ...]) -> None:
    """The fork's beginning is given as ids: these are taken as they are, and only the text behind them is healed."""
    prompt = "the old king said "
    driver = Driver(FakeModel(n_ctx=4096))
    request_id, [fork] = forked(driver, prompt, plain(9, append, {"temperature": 0.8}, max_tokens=8), **where)
    branch, beginning = driver.request(request_id).branches[fork], driver.result(request_id).texts[fork]
    assert beginning.endswith("".join(append))
    assert branch.ending is not None
    given = [*driver.request(request_id).prefix.tokens, *branch.ending.before, *branch.ending.removed]
    assert text_of(driver.model, given) == prompt + beginning
    before = given[: len(given) - len(driver.model.tokenize("".join(append), False, False))]
    driver.stop(request_id, 0)
    driver.run()
    _, alone = heal(before, seed=9, max_tokens=8, append=append, temperature=0.8)
    assert driver.result(request_id).texts[fork] == beginning + alone.texts[0]
    assert driver.result(request_id).tokens[fork] == alone.tokens[0]


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("append", [(" and the ga",), ()])
@pytest.mark.parametrize("healed", [True, False])
def test_a_fork_has_all_of_the_prompt_however_early_it_comes(steps: int, append: tuple[str, ...], healed: bool) -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id, [fork] = forked(driver, CUT, plain(9, append, token_healing=healed), steps=steps)
    assert written(driver, request_id, fork) == CUT + driver.result(request_id).texts[fork]
    driver.cancel(request_id)
    driver.run()


@pytest.mark.parametrize("steps", [0, 1, 12])
def test_a_fork_of_a_fork_within_its_healed_append_has_no_character_twice(steps: int) -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id, [first] = forked(driver, CUT, plain(9, (" and the ga",), max_tokens=-1), character=4)
    for _ in range(steps):
        driver.step()
    text = driver.result(request_id).texts[first]
    for at in range(len(text) + 1):
        for append in ((), (" ga",)):
            [second] = driver.add(request_id, plain(9, append, max_tokens=4), origin=first, character=at)
            beginning = driver.result(request_id).texts[second]
            assert beginning == text[:at] + "".join(append)
            assert written(driver, request_id, second) == CUT + beginning
    driver.attach(request_id)
    driver.cancel(request_id)
    driver.run()


def test_forks_with_the_same_append_compute_it_once() -> None:
    driver = Driver(FakeModel(n_ctx=4096, n_seq_max=40))
    request_id, forks = forked(driver, CUT, *[plain(seed, (" and the ga",), max_tokens=1) for seed in range(20)])
    endings = {id(driver.request(request_id).branches[fork].ending) for fork in forks}
    assert len(endings) == 1
    driver.cancel(request_id)
    driver.run()


def test_added_branches_heal_as_the_first_ones_do() -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id = driver.submit(CUT, 1, 5, max_tokens=-1, token_healing=True, can_grow=True, temperature=0)
    driver.step()
    driver.step()
    indices = driver.add(request_id, plain(6, max_tokens=3), plain(7, (" and the ga",), max_tokens=3))
    for _ in range(30):
        driver.step()
    outcome = driver.result(request_id)
    assert [outcome.texts[index][:4] for index in indices] == ["rden", "rden"]
    driver.cancel(request_id)
    driver.run()


def test_others_draw_when_the_pilot_is_cancelled() -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id = driver.submit(CUT, 4, 5, token_healing=True, temperature=0)
    while driver.request(request_id).prefix.logits is None:
        driver.step()
    assert driver.request(request_id).branches[0].ending is not None
    driver.cancel(request_id, 0)
    driver.run()
    outcome = driver.result(request_id)
    assert [outcome.texts[index][:4] for index in range(1, 4)] == ["rden"] * 3


def test_few_sequences_and_cells_suffice() -> None:
    driver = Driver(FakeModel(n_ctx=80, n_seq_max=2, n_batch=8, n_ubatch=4))
    ids = [driver.submit(CUT, 5, 10 * each, token_healing=True) for each in range(3)]
    driver.run()
    for each, request_id in enumerate(ids):
        for index in range(5):
            _, alone = heal(CUT, seed=10 * each + index)
            assert driver.result(request_id).texts[index] == alone.texts[0]


@pytest.mark.parametrize("memory", [{"has_states": True}, {"decodes_ahead": True}])
def test_every_kind_of_memory_heals_alike(memory: dict[str, bool]) -> None:
    for prompt in (CUT, "the old king "):
        driver = Driver(FakeModel(n_ctx=4096, **memory))
        _, outcome = heal(prompt, n=5, driver=driver)
        _, plain_memory = heal(prompt, n=5)
        assert outcome.texts == plain_memory.texts


def test_memory_that_cannot_be_cut_reads_the_prompt_as_it_is() -> None:
    texts = []
    for healed in (False, True):
        driver = Driver(FakeModel(n_ctx=4096, supports_partial_reuse=False))
        request_id = driver.submit(CUT, 3, token_healing=healed)
        driver.run()
        texts.append(driver.result(request_id).texts)
    assert texts[0] == texts[1]


def test_log_probabilities_are_those_of_what_was_written() -> None:
    driver, outcome = heal(CUT, n=1, max_tokens=1, n_probs=3, temperature=0)
    [delta] = [event for event in outcome.events if isinstance(event, Delta) and event.probs]
    assert delta.probs is not None
    [prob] = delta.probs
    assert prob["token"] == "rden" == bytes(prob["bytes"]).decode()
    assert np.exp(prob["logprob"]) == pytest.approx(chances(CUT)["rden"], rel=1e-3)
    assert prob["top_logprobs"][0]["token"] == "rden"
    del driver


def test_a_word_is_removed_back_to_its_space() -> None:
    model = FakeModel()
    cases = [("the old king", " king"), (CUT, " ga"), ("the old king ", " "), ("the king.", " king.")]
    # Spaces of other kinds, of several bytes, are spaces.
    cases += [("the king\u00a0", "\u00a0"), ("the king\u00a0ga", "\u00a0ga"), ("the king \u202f", " \u202f")]
    cases += [("x\u3000ga", "\u3000ga")]
    for text, removed in cases:
        tokens = model.tokenize(text, True, True)
        assert text_of(model, tokens[len(tokens) - num_removed(tokens, model) :]) == removed
    long = model.tokenize("the " + "x" * 40, True, True)
    assert num_removed(long, model) == MAX_REMOVED
    assert num_removed([BOS], model) == 0


def test_pieces_are_all_that_begin_with_the_bytes() -> None:
    model = FakeModel()
    pieces = Pieces(model)
    for head in (b" ", b" g", b" ga", b"g", b"\xff", b" the"):
        ids, num_whole = pieces.beginning_with(head)
        expected = {token for token in range(model.n_vocab) if model.piece(token).startswith(head)}
        assert set(ids.tolist()) == expected
        assert [model.piece(token) == head for token in ids.tolist()] == [
            place < num_whole for place in range(len(ids))
        ]
