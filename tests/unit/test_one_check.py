"""A body is checked once: before its model is known, and what was checked becomes its command."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.errors import InvalidRequest
from srb.web.bodies.completion import CompletionBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.wire.commands import Generate
from tests.unit.test_web_chat import USER, serve

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [USER], "n": 4, "branches": None},
    "/v1/responses": {"input": "Hi", "n": 4},
    "/v1/messages": {"messages": [USER], "max_tokens": 9},
    "/api/chat": {"model": "storyteller", "messages": [USER], "n": 4, "stream": False},
    "/api/generate": {"model": "storyteller", "prompt": "Hi", "n": 4, "stream": False},
    "/api/v1/generate": {"prompt": "Hi", "n": 4},
    "/completion": {"prompt": "Hi", "n": 4},
    "/v1/completions": {"prompt": "Hi", "n": 4, "stop": "."},
}


class Counts:
    """How often bodies were parsed, and their branches made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drafts = self.chats = 0
        draft, fields = CompletionBody.draft, ChatBody._parse_fields.__func__  # type: ignore[attr-defined]

        def drafted(body: CompletionBody, *args: Any, **options: Any) -> Any:
            self.drafts += 1
            return draft(body, *args, **options)

        def parsed(cls: Any, body: dict[str, Any]) -> Any:
            self.chats += 1
            return fields(cls, body)

        monkeypatch.setattr(CompletionBody, "draft", drafted)
        monkeypatch.setattr(ChatBody, "_parse_fields", classmethod(parsed))


@pytest.mark.parametrize("path", BODIES)
def test_a_request_makes_its_branches_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    http, engine = serve()
    counts = Counts(monkeypatch)
    answer = http.post(path, data=orjson.dumps(BODIES[path]))
    assert answer.status_code == 200, answer.data
    (command,) = (each for each in engine.sent if isinstance(each, Generate))
    assert len(command.branches) == BODIES[path].get("n", 1)
    assert counts.drafts == 1
    assert counts.chats <= 1


def test_each_of_several_prompts_has_random_seeds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(monkeypatch)
    body, settings = CompletionBody.parse({"prompt": ["a", "b"], "n": 2}), Settings()
    draft = body.draft(settings, n=1, max_tokens=9)
    first, second = body.commands(settings, n=1, max_tokens=9, draft=draft)
    assert first.branches == draft.command.branches
    assert {branch.seed for branch in first.branches}.isdisjoint(branch.seed for branch in second.branches)
    assert (first.prompt, second.prompt) == (("a",), ("b",))
    assert first.request_id != second.request_id
    assert counts.drafts == 2


def test_a_draft_is_made_anew_when_the_settings_have_changed() -> None:
    body, settings = CompletionBody.parse({"prompt": "a", "n": 3, "seed": 5}), Settings(n=1, max_n=3)
    draft = body.draft(settings, n=1, max_tokens=9)
    assert body.commands(settings, n=1, max_tokens=9, draft=draft)[0].branches == draft.command.branches
    with pytest.raises(InvalidRequest, match="'n'"):
        body.commands(Settings(n=1, max_n=2), n=1, max_tokens=9, draft=draft)


def test_a_bad_chat_of_ollama_is_refused_before_its_model_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    http, engine = serve()
    monkeypatch.setattr(type(engine), "check_ready", lambda _: pytest.fail("the model was asked for"))
    for path, body in (("/api/chat", {"messages": [{"role": 3}]}), ("/api/generate", {"prompt": "x", "n": 0})):
        assert http.post(path, data=orjson.dumps({"model": "storyteller", **body})).status_code == 400
