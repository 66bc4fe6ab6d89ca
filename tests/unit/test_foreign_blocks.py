"""Items, blocks and media that other servers and models made: skipped, read as text, or refused by their place."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from tests import scripted
from tests.media import b64, png
from tests.scripted import ScriptedClient

PNG = b64(png(seed=1))
URL = f"data:image/png;base64,{PNG}"
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.fixture
def http() -> FlaskClient:
    """A server whose model reads text only."""
    settings = Settings()
    return create_app(settings, ScriptedClient(settings, scripted.count_to_three)).test_client()


def post(http: FlaskClient, path: str, **body: Any) -> Any:
    return http.post(path, data=orjson.dumps(body))


def said(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


# Media and files, by dialect: how a user's message has one, and how an error calls its place in the message `number`.
CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
UNREAD = [
    (CHAT, said("user", text("x"), {"type": "image_url", "image_url": {"url": URL}}), "message {}, part 1"),
    (CHAT, said("user", {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}), "message {}, part 0"),
    (CHAT, said("user", {"type": "file", "file": {"file_data": URL}}, text("x")), "message {}, part 0"),
    (RESPONSES, said("user", {"type": "input_image", "image_url": URL}), "item {}, part 0 of its content"),
    (
        RESPONSES,
        said("user", {"type": "input_text", "text": "x"}, {"type": "input_image", "file_id": "f"}),
        "item {}, part 1 of its content",
    ),
    (
        RESPONSES,
        said("user", {"type": "input_file", "filename": "a.pdf", "file_data": URL}),
        "item {}, part 0 of its content",
    ),
    (MESSAGES, said("user", text("x"), PICTURE), "message {}, block 1"),
    (MESSAGES, said("user", {"type": "image", "source": {"type": "file", "file_id": "f"}}), "message {}, block 0"),
    (MESSAGES, said("user", {"type": "document", "source": PDF}), "message {}, block 0"),
    (
        MESSAGES,
        said("user", {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}}),
        "message {}, block 0",
    ),
    (MESSAGES, said("user", {"type": "container_upload", "file_id": "f"}, text("x")), "message {}, block 0"),
    (
        MESSAGES,
        said("user", {"type": "document", "source": {"type": "content", "content": [text("x"), PICTURE]}}),
        "message {}, block 0, block 1",
    ),
    (OLLAMA, {"role": "user", "content": "x", "images": [PNG, PNG]}, "message {}, image 0"),
]


def ask(http: FlaskClient, path: str, messages: list[Any]) -> Any:
    name = "input" if path == RESPONSES else "messages"
    return post(http, path, **{name: messages, "model": "storyteller", "stream": False})


@pytest.mark.parametrize(("path", "message", "place"), UNREAD)
def test_what_cannot_be_read_is_refused_by_its_place_in_the_newest_turn(
    http: FlaskClient, path: str, message: dict[str, Any], place: str
) -> None:
    for number, before in enumerate([[], [{"role": "user", "content": "A"}]]):
        answer = ask(http, path, [*before, message])
        assert answer.status_code == 400
        assert f": {place.format(number)} is " in answer.text


@pytest.mark.parametrize(("path", "message", "place"), UNREAD)
def test_what_cannot_be_read_ends_no_conversation(
    http: FlaskClient, path: str, message: dict[str, Any], place: str
) -> None:
    turns = [message, {"role": "assistant", "content": "A"}, {"role": "user", "content": "Go on."}]
    assert ask(http, path, turns).status_code == 200


@pytest.mark.parametrize(("path", "message", "place"), UNREAD)
def test_a_reply_that_is_begun_hides_nothing_of_its_turn(
    http: FlaskClient, path: str, message: dict[str, Any], place: str
) -> None:
    answer = ask(http, path, [message, {"role": "assistant", "content": "It shows"}])
    assert answer.status_code == 400
    assert f": {place.format(0)} is " in answer.text


@pytest.mark.parametrize(
    ("path", "message", "place"),
    [
        (f"/apply-template of {CHAT}", *UNREAD[0][1:]),
        (f"{CHAT}/input_tokens of {CHAT}", *UNREAD[1][1:]),
        (f"{RESPONSES}/input_tokens of {RESPONSES}", *UNREAD[3][1:]),
        (f"{MESSAGES}/count_tokens of {MESSAGES}", *UNREAD[6][1:]),
    ],
)
def test_routes_that_show_or_count_a_prompt_refuse_what_its_request_would_be_refused_for(
    http: FlaskClient, path: str, message: dict[str, Any], place: str
) -> None:
    path, _, request = path.partition(" of ")
    name = "input" if request == RESPONSES else "messages"
    turns = [message, {"role": "assistant", "content": "A"}, {"role": "user", "content": "Go on."}]
    refused = post(http, path, **{name: [message], "model": "storyteller"})
    assert (refused.status_code, f": {place.format(0)} is " in refused.text) == (400, True)
    assert post(http, path, **{name: turns, "model": "storyteller"}).status_code == 200


CALL = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
ASKED = {"role": "user", "content": "Look."}


@pytest.mark.parametrize("block", [PICTURE, {"type": "document", "source": PDF}])
def test_a_result_of_messages_names_its_block(http: FlaskClient, block: dict[str, Any]) -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": [text("x"), block]}
    turns = [ASKED, said("assistant", CALL), said("user", result)]
    answer = ask(http, MESSAGES, turns)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "messages")
    assert ": message 2, block 0, block 1 is " in answer.text
    assert ask(http, MESSAGES, [*turns, said("assistant", text("A")), ASKED]).status_code == 200


@pytest.mark.parametrize("kind", ["function_call", "computer_call", "custom_tool_call"])
def test_a_result_of_responses_names_its_item(http: FlaskClient, kind: str) -> None:
    call = {"type": kind, "call_id": "a", "name": "look", "arguments": "{}"}
    shot = [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": URL}]
    turns = [ASKED, call, {"type": f"{kind}_output", "call_id": "a", "output": shot}]
    answer = ask(http, RESPONSES, turns)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "input")
    assert ": item 2, part 1 of its output is " in answer.text
    assert ask(http, RESPONSES, [*turns, {"role": "assistant", "content": "A"}, ASKED]).status_code == 200


def of_call(kind: str, output: Any, **fields: Any) -> list[dict[str, Any]]:
    return [{"type": kind, "call_id": "c", **fields}, {"type": f"{kind}_output", "call_id": "c", "output": output}]


OTHERS_ITEMS = [
    [{"type": "additional_tools", "tools": []}],
    [{"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}],
    [{"type": "code_interpreter_call", "id": "x", "code": "1", "container_id": "c", "outputs": None}],
    [{"type": "file_search_call", "id": "f", "queries": ["q"], "results": None}],
    [{"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "server_label": "s", "output": "r"}],
    [{"type": "image_generation_call", "id": "i", "result": PNG}],
    [{"type": "compaction", "encrypted_content": "x"}],
    [{"type": "not_known_yet", "x": 1}],
    of_call("local_shell_call", "a", action={"type": "exec", "command": ["ls"]}),
    of_call("custom_tool_call", "ok", name="apply_patch", input="*** Begin"),
    of_call(
        "shell_call",
        [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        action={"commands": ["ls"]},
    ),
    of_call("apply_patch_call", "ok", operation={"type": "create_file", "path": "a", "diff": "+"}),
    of_call("tool_search_call", None, arguments={"q": "x"}),
    of_call("tool_search_call", [{"type": "function", "name": "g"}], arguments={"q": "x"}),
    of_call("function_call", None, name="f", arguments="{}"),
    of_call("computer_call", {"type": "computer_screenshot", "file_id": "f"}, action={"type": "click"}),
]


@pytest.mark.parametrize("items", OTHERS_ITEMS, ids=lambda items: items[0]["type"])
def test_items_of_others_tools_end_no_response_wherever_they_stand(http: FlaskClient, items: list[Any]) -> None:
    for turns in ([ASKED, *items, ASKED], [*items, ASKED], [ASKED, *items]):
        answer = ask(http, RESPONSES, turns)
        assert answer.status_code == 200, answer.text


OTHERS_BLOCKS = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"type": "code_execution_result"}},
    {"type": "mcp_tool_use", "id": "s", "name": "n", "server_name": "q", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "s", "is_error": False, "content": [text("x")]},
    {"type": "not_known_yet", "x": 1},
]


@pytest.mark.parametrize("block", OTHERS_BLOCKS, ids=lambda block: block["type"])
def test_blocks_of_others_tools_end_no_message_wherever_they_stand(http: FlaskClient, block: dict[str, Any]) -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": [block, text("x")]}
    for turns in (
        [said("user", block, text("x"))],
        [ASKED, said("assistant", block, text("x")), ASKED],
        [ASKED, said("assistant", block), ASKED],
        [ASKED, said("assistant", CALL), said("user", result)],
    ):
        answer = ask(http, MESSAGES, turns)
        assert answer.status_code == 200, answer.text


def test_a_block_that_is_not_known_is_told_to_the_model(http: FlaskClient) -> None:
    skipped, told = (
        post(http, "/v1/messages/count_tokens", messages=[said("user", {"type": kind}, text("x"))]).json["input_tokens"]
        for kind in ("server_tool_use", "not_known_yet")
    )
    assert told > skipped
