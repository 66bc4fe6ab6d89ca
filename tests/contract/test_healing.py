"""The ends of prompts that are healed, in every kind of vocabulary."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from srb.engine.healing import Ending, Pieces, num_removed
from srb.engine.llama.model import LlamaModel
from srb.engine.tokens import tokens_of
from tests import vocabularies
from tests.contract.test_known_texts import PRE_TOKENIZERS
from tests.needs import need
from tools.real_models import path_of

SPACES = [" ", "  ", "   ", "     ", "\t", "\n\t", "\n ", "\n\n  ", " \u00a0", "\u00a0", "\u00a0 "]
SPACES += ["\n\n", "\n\n\n", ".\n\n"]


@pytest.fixture(params=["spm", "spm, no prefix", "smollm2", "gemma3", *PRE_TOKENIZERS])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LlamaModel:
    name, path = request.param, tmp_path / "vocabulary.gguf"
    if name in ("smollm2", "gemma3"):
        need(path_of(name).exists(), "the real models: make real-models fetches them")
        return vocabularies.load(path_of(name))
    if name.startswith("spm"):
        return vocabularies.load(vocabularies.write_spm(path, prefixes=name == "spm"))
    return vocabularies.load(vocabularies.write_bpe(path, name))


def test_a_word_after_spaces_has_the_tokens_that_it_has_in_texts(model: LlamaModel) -> None:
    """The tokens of a whole text are those of a cover, wherever its prompt has ended within spaces."""
    pieces = Pieces(model)
    for spaces, word in product(SPACES, ("king", "of", "\u2603")):
        whole = model.tokenize(f"the{spaces}{word}", add_special=False, parse_special=False)
        prompt = model.tokenize(f"the{spaces}", add_special=False, parse_special=False)
        count = num_removed(prompt, model)
        head, removed = prompt[: len(prompt) - count], prompt[len(prompt) - count :]
        ending = Ending(tokens_of(removed), pieces, model)
        assert b"".join(map(model.piece, ending.removed)) == b"".join(map(model.piece, removed))
        assert ending.num_sent == count
        assert any(
            whole[: len(head) + place] == [*head, *ending.removed[:place]] and whole[len(head) + place] in ids
            for place, ids in enumerate(ending.covers)
        ), (spaces, word)


def test_one_space_and_one_line_break_are_healed_as_they_are(model: LlamaModel) -> None:
    for spaces in (" ", "\n", ".\n", "\t"):
        tokens = tokens_of(model.tokenize(f"the{spaces}", add_special=False, parse_special=False)[-1:])
        assert Ending(tokens, Pieces(model), model).removed == tokens
