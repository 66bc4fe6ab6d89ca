"""Schemas against a validator: what comes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from srb.engine.grammar.schemas import prepared
from srb.engine.llama.model import LlamaModel
from srb.protocol import SamplingParams
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
