"""Schemas of generators and servers, on real models at a temperature at which they write much nonsense."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.made_schemas import MADE, validator_of
from tests.servers import Server

SECONDS = 600  # for all, on a machine that does much else
pytestmark = pytest.mark.timeout(SECONDS)

AT_ONCE = 6  # requests; more branches than 48 do not make a step of one thread faster
LONGEST = 40  # tokens; an answer that goes on is not judged


def answers(server: Server, schema: dict[str, Any]) -> list[str]:
    """Return those of eight answers that ended by themselves."""
    body = {"prompt": "JSON:\n", "json_schema": schema, "n": 8, "temperature": 1.5, "seed": 3, "max_tokens": LONGEST}
    said = requests.post(f"{server.url}/v1/completions", json={**body, "stream": False}, timeout=SECONDS)
    assert said.status_code == 200, said.text
    return [each["text"] for each in said.json()["choices"] if each["finish_reason"] == "stop"]


@pytest.mark.parametrize("model", ["smollm2", pytest.param("gemma3", marks=pytest.mark.long)])
def test_every_whole_answer_follows_its_schema(model: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(model)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        whole = dict(zip(MADE, pool.map(lambda schema: answers(server, schema), MADE.values()), strict=True))
    for name, texts in whole.items():
        validator = validator_of(MADE[name])
        for text in texts:
            validator.validate(json.loads(text))
    ended = {name: len(texts) for name, texts in whole.items()}
    assert sum(ended.values()) > 3 * len(MADE), ended
