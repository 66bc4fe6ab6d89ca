"""A server with a draft model or a head: the same texts, its figures, and the refusal of a file that does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.random_gguf import TINY, write_glm4_moe, write_llama
from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

EXACT = {"n_ctx": 2048, "threads": 1, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}
PROMPT = "the old king said to the girl"


def texts(server: Server, n: int) -> list[str]:
    body = {"prompt": PROMPT, "n": n, "max_tokens": 60, "seed": 3, "temperature": 0.0, "ignore_eos": True}
    answer = server.post("/v1/completions", body).json()
    return [choice["text"] for choice in answer["choices"]]


def test_texts_are_the_same_and_drafts_are_counted(make_server: MakeServer, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model.gguf", TINY)
    plain = make_server(model=model, **EXACT).start()
    drafting = make_server(model=model, spec_draft_model=model, **EXACT).start()
    assert texts(drafting, 3) == texts(plain, 3)
    body = {"prompt": PROMPT, "n_predict": 60, "seed": 3, "temperature": 0.0, "ignore_eos": True}
    alone = plain.post("/completion", body).json()["content"]

    def has_drafted() -> bool:  # a first draft that took long puts off the next one
        assert drafting.post("/completion", body).json()["content"] == alone
        return drafting.metric("spec_decode_num_draft_tokens_total") > 0

    wait_for(has_drafted, "tokens are drafted")
    assert drafting.metric("spec_decode_draft_model_tokens_total") > 0


def test_a_head_of_the_model_drafts_under_llama_servers_name(make_server: MakeServer, tmp_path: Path) -> None:
    model = write_glm4_moe(tmp_path / "model.gguf", TINY)
    plain = make_server(model=model, **EXACT).start()
    drafting = make_server(model=model, spec_type="mtp", **EXACT).start()
    assert texts(drafting, 3) == texts(plain, 3)
    assert drafting.get("/props").json()["default_generation_settings"]["params"]["speculative.types"] == "draft-mtp"
    wait_for(lambda: texts(drafting, 1) and drafting.metric("spec_decode_num_draft_tokens_total") > 0, "it drafts")


def test_a_model_without_a_head_stops_the_start_with_its_name(make_server: MakeServer, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model.gguf", TINY)
    server = make_server(model=model, spec_type="mtp", **EXACT).start(wait=False)
    wait_for(lambda: server.status.get("state") == "failed" or server.has_ended, "the engine gives up")
    assert f"spec_type mtp: {model} has no head that drafts" in server.logs


def test_a_draft_model_with_other_words_stops_the_start_with_both_names(
    make_server: MakeServer, tmp_path: Path
) -> None:
    model, other = write_llama(tmp_path / "model.gguf"), write_llama(tmp_path / "other.gguf", replace(TINY, vocab=900))
    server = make_server(model=model, spec_draft_model=other, **EXACT).start(wait=False)
    wait_for(lambda: server.status.get("state") == "failed" or server.has_ended, "the engine gives up")
    assert f"spec_draft_model: {other} has another vocabulary than the model {model}" in server.logs
