"""Schemas against a validator: what comes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from tests import vocabularies
from tests.made_schemas import MADE, validator_of


@pytest.mark.parametrize("name", MADE)
def test_every_whole_answer_at_a_high_temperature_follows_its_schema(llama: LlamaModel, name: str) -> None:
    schema = MADE[name]
    validator = validator_of(schema)
    made = prepared(json.dumps(schema), "json_schema")
    params = SamplingParams(grammar="root ::= schema-0", grammar_schemas=(made.text,), temperature=1.5)
    closing = [token for token in range(llama.n_vocab) if llama.piece(token) in (b'"', b"]", b"}")]
    whole = 0
    for seed in range(8):
        sampler, text = llama.new_sampler(params, seed, []), b""
        for row in np.random.default_rng(seed).standard_normal((400, llama.n_vocab)).astype(np.float32):
            row[closing] += 5.0
            row[llama.eog_token_list] += 50.0
            if llama.is_eog(token := sampler.sample_from(row)):
                validator.validate(json.loads(text))
                whole += 1
                break
            text += llama.piece(token)
        sampler.close()
    assert whole >= 6


LETTERS = "".join(filter(str.isalpha, map(chr, range(0x80, 0xD7FF, 3))))  # a third of all, of each script


@pytest.fixture(scope="module")
def of_many_scripts(tmp_path_factory: pytest.TempPathFactory) -> LlamaModel:
    return vocabularies.load(vocabularies.write_signs(tmp_path_factory.mktemp("signs") / "signs.gguf", LETTERS))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\p{L}{1,4}$", "Øяあ"), (r"^\p{Lu}\p{Ll}{2,20}$", "Ørøя"), (r"^[\p{L}\s'-]{1,50}$", "Ø' я-あ"),
        (r"^\w{3,16}$", "abc_9"), (r"^\p{L}[\p{L}\p{N}]*$", "ж9ц"), (r"^[\p{L}\p{N}\p{P}]{1,200}$", "«ж9»!"),
    ],
)  # fmt: skip
def test_a_class_of_unicode_is_no_bomb_on_a_vocabulary_of_many_scripts(
    of_many_scripts: LlamaModel, pattern: str, text: str
) -> None:
    made = prepared(json.dumps({"type": "string", "pattern": pattern}), "json_schema")
    matcher = of_many_scripts.grammars.matcher("root ::= schema-0", (made.text,), "json_schema")
    for token in of_many_scripts.tokenize(json.dumps(text, ensure_ascii=False), False, False):
        assert token in matcher.allowed
        matcher.accept(token)
    assert of_many_scripts.grammars._vocabulary.ends <= set(matcher.allowed.tolist())
    assert made.remarks == ()
