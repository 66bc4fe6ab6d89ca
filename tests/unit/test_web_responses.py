"""OpenAI's Responses over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.errors import InvalidRequest, NotSupported
from srb.web.dialects.responses.body import ResponsesBody
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchAdded, BranchEnded, Delta, Done, Event, Failed, Progress
from tests.official import application, openai, openai_over
from tests.shapes import read
from tests.unit.test_web_chat import CALL, writes

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: dict[str, Any] = {"type": "function", "name": "weather", "parameters": PARAMETERS}
OTHER: dict[str, Any] = {"type": "function", "name": "time", "parameters": {"type": "object"}}
REPLY = ("<think>", "hm", "m</think>", "Hello ", "you", CALL, " there")


def serve(*texts: str, **how: Any) -> FlaskClient:
    return application(writes(*texts, **how))[0].test_client()


def post(http: FlaskClient, path: str = "/v1/responses", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps({"input": "Hi", **body}))


def events(text: str) -> list[dict[str, Any]]:
    """Return the data of each event; its name is its type, and the numbers count on."""
    found = []
    for number, part in enumerate(text.removesuffix("\n\n").split("\n\n")):
        name, data = part.split("\n")
        value = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        assert value["sequence_number"] == number
        found.append(value)
    return found


def parsed(**body: Any) -> ResponsesBody:
    return ResponsesBody.parse({"input": "Hi", **body})


# The conversation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"input": "Hi"}, [{"role": "user", "content": "Hi"}]),
        ({"input": "Hi", "instructions": "Be brief."}, [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        ]),
        ({"input": [{"role": "developer", "content": "D"}, {"role": "user", "content": "U"}], "instructions": "I"}, [
            {"role": "system", "content": "I\n\nD"}, {"role": "user", "content": "U"},
        ]),
        ({"input": [{"role": "user", "content": "U"}, {"role": "developer", "content": "D"}]}, [
            {"role": "user", "content": "U"}, {"role": "developer", "content": "D"},
        ]),
        ({"input": [{"type": "message", "role": "user", "status": None, "content": [
            {"type": "input_text", "text": "a"}, {"type": "text", "text": "b"},
        ]}]}, [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
        ({"input": [
            {"role": "user", "content": "U"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "I ask.", "annotations": []}, {"type": "refusal", "refusal": "No."},
            ]},
            {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "time", "arguments": "{}", "id": "fc_1", "branch": 1},
            {"type": "function_call_output", "call_id": "a", "output": "rain"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "noon"}]},
        ]}, [
            {"role": "user", "content": "U"},
            {
                "role": "assistant", "reasoning_content": "hm",
                "content": [{"type": "text", "text": "I ask."}, {"type": "text", "text": "No."}],
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "rain"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "noon"}]},
        ]),
        ({"input": [
            {"role": "user", "content": "U"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "x"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "x", "content": None},
            {"role": "assistant", "content": "A"},
            {"role": "assistant", "content": "B"},
        ]}, [
            {"role": "user", "content": "U"},
            {
                "role": "assistant", "reasoning_content": "s\n\nt", "content": "A\n\nB",
            },
        ]),
    ],
)  # fmt: skip
def test_items_become_the_messages_of_a_chat(body: dict[str, Any], messages: list[Any]) -> None:
    assert ResponsesBody.parse(body).messages == messages


def test_fields_become_those_of_a_chat() -> None:
    body = parsed(
        tools=[TOOL, {"type": "web_search"}, OTHER], tool_choice={"type": "function", "name": "time"}, n=3,
        max_output_tokens=9, reasoning={"effort": "low", "summary": None}, prompt_cache_key="s", parallel_tool_calls=False,
    )  # fmt: skip
    assert body.tools == [
        {"type": "function", "function": {"description": "", **{name: tool[name] for name in ("name", "parameters")}}}
        for tool in (TOOL, OTHER)
    ]
    assert body.tool_choice == "=time"
    assert (body.n, body.n_predict, body.reasoning_effort, body.session) == (3, 9, "low", "s")
    assert body.parallel_tool_calls is False


@pytest.mark.parametrize(
    ("choice", "wanted", "tools"),
    [
        ("auto", "auto", 2), ("none", "none", 2), ("required", "required", 2),
        ({"type": "function", "name": "time"}, "=time", 2),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "time"}]}, "required", 1),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "auto", 0),
    ],
)  # fmt: skip
def test_every_form_of_a_tool_choice(choice: Any, wanted: str, tools: int) -> None:
    body = parsed(tools=[TOOL, OTHER], tool_choice=choice)
    assert body.tool_choice == wanted
    assert len(body.tools) == tools


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ({"format": {"type": "text"}, "verbosity": "low"}, ""),
        ({"format": {"type": "json_object"}}, '{"type":"object"}'),
        ({"format": {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "array"}}}, '{"type":"array"}'),
        ({"format": None, "verbosity": None}, ""),
    ],
)  # fmt: skip
def test_a_text_format_is_the_schema_of_the_reply(text: Any, schema: str) -> None:
    app, engine = application()
    assert post(app.test_client(), text=text).status_code == 200
    assert engine.sent[0].branches[0].sampling.json_schema == schema


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": []}, "input"),
        ({"input": [3]}, "input"),
        ({"input": [{}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input"),
        ({"input": [{"role": "user", "content": 3}]}, "input"),
        ({"input": [{"role": "user", "content": [{"text": "what"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file": "f"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": 3, "output": "x"}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": 3}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": [{}]}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"name": "f"}]}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search_preview"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "none"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"include": "logprobs"}, "include"),
        ({"top_logprobs": 3, "tools": [TOOL], "stream": True}, "include"),
        ({"metadata": {"a": 3}}, "metadata"),
        ({"truncation": "middle"}, "truncation"),
        ({"store": "yes"}, "store"),
        ({"verbose": True}, "verbose"),
        ({"return_tokens": True}, "return_tokens"),
        ({"instructions": 3}, "instructions"),
        ({"n": 0}, "n"),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_by_its_own_name(body: dict[str, Any], field: str) -> None:
    http = serve("a")
    for path in ("/v1/responses", "/responses/input_tokens"):
        if field == "n" and path != "/v1/responses":
            continue  # the number of branches does not matter there
        answer = post(http, path, **body)
        assert answer.status_code == 400, answer.text
        assert answer.json["error"]["param"] == field
        assert f"Field '{field}'" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]}, "input"),
        ({"background": True}, "background"),
    ],
)
def test_what_the_server_cannot_do_is_said_with_the_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises((InvalidRequest, NotSupported)) as refused:
        parsed(**body)
    assert refused.value.extra["param"] == field


def test_a_template_that_refuses_the_messages_names_the_input() -> None:
    app, _ = application(chat_template="{{ raise_exception('no') }}")
    error = post(app.test_client()).json["error"]
    assert error["param"] == "input"
    assert error["message"].startswith("Field 'input': refused by the chat template")


# The answer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [TOOL]},
        {"n": 3, "rank": True, "include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"stop": "x"},
    ],
)
def test_answers_and_events_have_the_shapes_that_the_document_says(body: dict[str, Any]) -> None:
    http = serve(*REPLY, probs="include" in body)
    read("responses.Response", post(http, **body).data)
    for event in events(post(http, stream=True, **body).text):
        read("responses.StreamEvent", orjson.dumps(event))


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_an_answer_has_an_item_for_each_part_of_the_reply(path: str) -> None:
    answer = post(serve(*REPLY), path, tools=[TOOL], metadata={"a": "b"}, seed=7, temperature=0.5).json
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call", "message"]
    thought, text, call, after = answer["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hmm"}]
    assert text["content"][0]["text"] == "Hello you"
    assert (call["name"], orjson.loads(call["arguments"])) == ("weather", {"city": "Oslo"})
    assert after["content"][0]["text"] == " there"
    assert answer["status"] == "completed"
    assert answer["branches"] == [{"index": 0, "seed": 7, "finish_reason": "tool_calls", "stop_reason": ""}]
    assert (answer["metadata"], answer["temperature"], answer["store"]) == ({"a": "b"}, 0.5, False)
    assert answer["usage"]["input_tokens_details"]["cached_tokens"] == 2
    assert answer["usage"]["total_tokens"] == 12


def test_n_branches_have_their_items_one_after_the_other() -> None:
    app, _ = application()
    answer = post(app.test_client(), n=3, seed=7).json
    assert [item.get("branch", 0) for item in answer["output"]] == [0, 1, 2]
    assert [item["content"][0]["text"] for item in answer["output"]] == [f" {i}.0 {i}.1 {i}.2" for i in range(3)]
    assert [branch["seed"] for branch in answer["branches"]] == [7, 8, 9]
    assert answer["usage"]["output_tokens"] == 9
    assert len({item["id"] for item in answer["output"]}) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_branch_that_its_limit_ends_makes_the_response_incomplete(stream: bool) -> None:
    answer = post(serve("a", "b", reason="limit"), stream=stream)
    if stream:
        last = events(answer.text)[-1]
        assert last["type"] == "response.incomplete"
    response = last["response"] if stream else answer.json
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in response["output"]] == ["incomplete"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["limit", "eos"])
def test_a_call_that_breaks_off_is_incomplete(reason: str, stream: bool) -> None:
    http = serve(CALL, '<tool_call>{"name": "weather", "arguments": {"city": "Os', reason=reason)
    answer = post(http, tools=[TOOL], stream=stream)
    response = events(answer.text)[-1]["response"] if stream else answer.json
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert [item["type"] for item in response["output"]] == ["function_call"] * 2
    alone = post(serve('<tool_call>{"name": "weather", "arguments": {"city": "Os'), tools=[TOOL], stream=stream)
    response = events(alone.text)[-1]["response"] if stream else alone.json
    assert [branch["finish_reason"] for branch in response["branches"]] == ["stop"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_forced_call_that_is_cut_before_its_name_is_no_text(stream: bool) -> None:
    http = serve('<tool_call>\n{"name": "wea', reason="limit")
    answer = post(http, tools=[TOOL], tool_choice="required", stream=stream)
    response = events(answer.text)[-1]["response"] if stream else answer.json
    assert (response["output"], response["status"]) == ([], "incomplete")


def fails(*failing: int) -> Any:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5)]
        for index in range(len(command.branches)):
            yield [Delta(request_id, index, "a", [1])]
            if index in failing:
                yield [BranchEnded(request_id, index, "error", 1, code="grammar_dead_end", message="no token fits")]
            else:
                yield [BranchEnded(request_id, index, "eos", 1)]
        yield [Done(request_id, 5, 2, 2, 10.0, 30.0)]

    return script


@pytest.mark.parametrize("stream", [False, True])
def test_a_branch_that_fails_says_so_and_the_others_are_answered(stream: bool) -> None:
    answer = post(application(fails(1))[0].test_client(), n=2, stream=stream)
    response = events(answer.text)[-1]["response"] if stream else answer.json
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert response["branches"][1]["error"]["message"] == "no token fits"
    assert (response["status"], response["incomplete_details"]) == ("failed", None)
    assert (response["error"]["code"], response["error"]["message"]) == ("invalid_prompt", "no token fits")
    assert response["usage"]["output_tokens"] == 2


def test_a_stream_of_which_all_branches_fail_ends_with_the_error() -> None:
    http = application(fails(0, 1))[0].test_client()
    last = events(post(http, n=2, stream=True).text)[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {
        "code": "invalid_prompt",
        "message": "no token fits",
        "type": "invalid_request_error",
    }
    assert post(http, n=2).status_code == 400


def test_an_engine_that_is_lost_is_an_event_that_the_client_understands() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, "a", [1])]
        yield [Failed(command.request_id, "engine_restarted", "gone")]

    app, _ = application(script)
    with openai_over(app).responses.create(model="m", input="Hi", stream=True) as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"


def test_progress_of_the_prompt_is_an_event() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5), Progress(request_id, 5, 2, 3, 1.5)]
        yield [BranchEnded(request_id, 0, "eos", 0), Done(request_id, 5, 2, 0, 10.0, 0.0)]

    found = events(post(application(script)[0].test_client(), stream=True, return_progress=True).text)
    progress = [event for event in found if "prompt_progress" in event]
    assert [event["type"] for event in progress] == ["response.in_progress"]
    assert progress[0]["prompt_progress"]["total"] == 5
    for event in found:
        read("responses.StreamEvent", orjson.dumps(event))


def test_a_branch_that_is_added_has_items_of_its_own() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5), Delta(request_id, 0, "a", [1])]
        yield [BranchAdded(request_id, 1, 9, origin=0, token=1, text="a", tokens=[1]), Delta(request_id, 1, "b", [2])]
        yield [BranchEnded(request_id, index, "eos", 1 + index) for index in range(2)]
        yield [Done(request_id, 5, 2, 3, 10.0, 30.0)]

    http = application(script)[0].test_client()
    for response in (post(http, explore={}).json, events(post(http, explore={}, stream=True).text)[-1]["response"]):
        assert [item["content"][0]["text"] for item in response["output"]] == ["a", "ab"]
        assert [branch["seed"] for branch in response["branches"]][1:] == [9]


def test_a_branch_that_goes_on_after_its_end_loses_no_text() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5), Delta(request_id, 0, "a", [1]), BranchEnded(request_id, 0, "limit", 1)]
        yield [BranchAdded(request_id, 0, 9, resumed=True), Delta(request_id, 0, "b", [2])]
        yield [BranchEnded(request_id, 0, "eos", 2), Done(request_id, 5, 2, 2, 10.0, 30.0)]

    response = events(post(application(script)[0].test_client(), stream=True).text)[-1]["response"]
    assert [item["content"][0]["text"] for item in response["output"]] == ["a", "b"]


def test_log_probabilities_are_those_of_the_text() -> None:
    http = serve("<think>", "x</think>", "a", "b", probs=True)
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    whole = post(http, **asked).json["output"][1]["content"][0]["logprobs"]
    assert [entry["token"] for entry in whole] == ["<think>", "x</think>", "a", "b"]
    found = events(post(http, stream=True, **asked).text)
    sent = [entry for event in found if event["type"] == "response.output_text.delta" for entry in event["logprobs"]]
    assert sent == whole
    [done] = [event for event in found if event["type"] == "response.output_text.done"]
    assert done["logprobs"] == whole


def test_input_tokens_are_those_of_the_prompt() -> None:
    app, engine = application()
    http = app.test_client()
    post(http)
    (prompt,) = engine.sent[0].prompt
    for path in ("/v1/responses/input_tokens", "/responses/input_tokens"):
        assert post(http, path).json == {"input_tokens": len(prompt) + 1, "object": "response.input_tokens"}


def test_the_official_client_knows_the_errors() -> None:
    client = openai_over(application(api_key="secret")[0])
    with pytest.raises(openai.AuthenticationError):
        client.responses.create(model="m", input="Hi")
    allowed = openai_over(application(api_key="secret")[0], "secret")
    with pytest.raises(openai.BadRequestError) as refused:
        allowed.responses.create(model="m", input="Hi", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError):
        allowed.responses.retrieve("resp_1")


def test_a_schema_that_the_official_client_makes_is_parsed_by_it() -> None:
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str

    app, engine = application(writes('{"city": ', '"Oslo"}'))
    found = openai_over(app).responses.parse(model="m", input="Hi", text_format=Place)
    assert found.output_parsed == Place(city="Oslo")
    assert '"city"' in engine.sent[0].branches[0].sampling.json_schema


def test_errors_of_a_chat_name_the_fields_of_a_response() -> None:
    with pytest.raises(InvalidRequest, match=r"^Field 'text\.format': cannot be used together with grammar"):
        parsed(grammar="root ::= [a-z]+", text={"format": {"type": "json_object"}})


def test_limits_of_a_client_name_the_field_of_a_response() -> None:
    app, _ = application(max_request_tokens=10)
    error = post(app.test_client(), max_output_tokens=11).json["error"]
    assert error["param"] == "max_output_tokens"


def test_a_stream_that_grows_too_large_ends_with_the_error() -> None:
    app, _ = application(writes(*["word " * 40_000] * 6), max_body_bytes=2**17)
    last = events(post(app.test_client(), stream=True).text)[-1]
    assert last["type"] == "response.failed"
    assert "max_body_bytes" in last["response"]["error"]["message"]


def test_a_type_that_is_no_string_is_refused() -> None:
    for item in ({"type": ["message"]}, {"role": "user", "content": [{"type": ["text"]}]}):
        answer = post(serve("x"), input=[item])
        assert (answer.status_code, answer.json["error"]["param"]) == (400, "input")


# Items of tools that others run ---------------------------------------------------------------------------------------

SHELL = {"type": "local_shell_call", "id": "x", "call_id": "a", "status": "completed", "action": {"command": ["ls"]}}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "results": None},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c", "outputs": []},
        {"type": "additional_tools", "tools": []},
        {"type": "something_new", "id": "n_1", "text": "x"},
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_item_that_only_its_server_reads_is_skipped_wherever_it_stands(item: dict[str, Any], place: int) -> None:
    items: list[Any] = [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]
    plain = parsed(input=items).messages
    assert parsed(input=[*items[:place], item, *items[place:]]).messages == plain


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        (SHELL, "local_shell", '{"command":["ls"]}'),
        ({"type": "custom_tool_call", "call_id": "a", "name": "apply", "input": "x"}, "apply", '{"input":"x"}'),
        (
            {"type": "computer_call", "call_id": "a", "action": {"type": "screenshot"}},
            "computer",
            '{"type":"screenshot"}',
        ),
        ({"type": "tool_search_call", "call_id": "a", "arguments": {"q": "x"}}, "tool_search", '{"q":"x"}'),
    ],
)
@pytest.mark.parametrize("output", ["done", [{"type": "input_text", "text": "done"}], {"exit": 0}, None])
def test_a_call_of_another_tool_and_its_output_stay_in_the_history(
    call: dict[str, Any], name: str, arguments: str, output: Any
) -> None:
    result = {"type": call["type"] + "_output", "call_id": "a", "output": output}
    asked, called, told = parsed(input=[{"role": "user", "content": "U"}, call, result]).messages
    assert asked["content"] == "U"
    assert called["tool_calls"][0]["function"] == {"name": name, "arguments": arguments}
    assert told["role"] == "tool"
    assert told["tool_call_id"] == "a"


@pytest.mark.parametrize(("namespace", "offered"), [("mcp__sky__", "mcp__sky__weather"), ("sky", "sky__weather")])
def test_tools_of_a_namespace_are_offered_by_name_and_called_back(namespace: str, offered: str) -> None:
    inner = [{"type": "function", "name": "weather", "parameters": TOOL["parameters"]}, {"type": "custom", "name": "x"}]
    tools = [{"type": "namespace", "name": namespace, "tools": inner}, OTHER]
    assert [tool["function"]["name"] for tool in parsed(tools=tools).tools] == [offered, "time"]
    written = f'<tool_call>\n{{"name": "{offered}", "arguments": {{"city": "Oslo"}}}}\n</tool_call>'
    [call] = post(serve(written), tools=tools).json["output"]
    assert (call["name"], call["namespace"], call["arguments"]) == ("weather", namespace, '{"city": "Oslo"}')
    streamed = [
        event["item"] for event in events(post(serve(written), tools=tools, stream=True).text) if "item" in event
    ]
    assert {(item["name"], item["namespace"]) for item in streamed} == {("weather", namespace)}
    told = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    again = parsed(input=[{"role": "user", "content": "U"}, call, told], tools=tools).messages[1]
    assert again["tool_calls"][0]["function"]["name"] == offered
    own = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
    assert "namespace" not in post(serve(own), tools=tools).json["output"][0]


def function(name: str, **more: str) -> dict[str, Any]:
    return {"type": "function", "name": name, **more}


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


@pytest.mark.parametrize(
    ("choice", "chosen", "offered"),
    [
        (function("weather", namespace="sky"), "=sky__weather", ["sky__weather", "sky__time", "time"]),
        (function("weather"), "=sky__weather", ["sky__weather", "sky__time", "time"]),
        (function("sky__weather"), "=sky__weather", ["sky__weather", "sky__time", "time"]),
        (function("time"), "=time", ["sky__weather", "sky__time", "time"]),
        (function("time", namespace="sky"), "=sky__time", ["sky__weather", "sky__time", "time"]),
        ({"type": "namespace", "name": "sky"}, "required", ["sky__weather", "sky__time"]),
        (allowed("auto", function("weather", namespace="sky"), {"type": "web_search"}), "auto", ["sky__weather"]),
        (allowed("required", {"type": "namespace", "name": "sky"}), "required", ["sky__weather", "sky__time"]),
        (allowed("auto", function("time")), "auto", ["time"]),
    ],
)
def test_a_choice_names_tools_of_a_namespace(choice: dict[str, Any], chosen: str, offered: list[str]) -> None:
    inner = [{"type": "function", "name": name, "parameters": TOOL["parameters"]} for name in ("weather", "time")]
    body = parsed(tools=[{"type": "namespace", "name": "sky", "tools": inner}, OTHER], tool_choice=choice)
    assert body.tool_choice == chosen
    assert [tool["function"]["name"] for tool in body.offered_tools] == offered


@pytest.mark.parametrize(
    "choice",
    [function("rain", namespace="sky"), function("weather", namespace="sea"), {"type": "namespace", "name": "sea"}],
)
def test_a_choice_of_an_unknown_tool_of_a_namespace_is_refused(choice: dict[str, Any]) -> None:
    inner = [{"type": "function", "name": "weather", "parameters": TOOL["parameters"]}]
    answer = post(serve("a"), tools=[{"type": "namespace", "name": "sky", "tools": inner}], tool_choice=choice)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "tool_choice")


@pytest.mark.parametrize("metadata", [{"a": None}, {"a": "x", "b": None}, None])
def test_a_null_in_an_object_is_absent(metadata: Any) -> None:
    answer = post(serve("a"), metadata=metadata, text={"format": None, "verbosity": None}, reasoning={"effort": None})
    assert answer.json["metadata"] == {name: value for name, value in (metadata or {}).items() if value is not None}


@pytest.mark.parametrize("field", ["functions", "function_call"])
def test_fields_of_2023_are_refused(field: str) -> None:
    answer = post(serve("a"), **{field: [{"name": "f"}]})
    assert (answer.status_code, answer.json["error"]["param"]) == (400, field)


@pytest.mark.parametrize("tools", [None, [], [{"type": "function"}], [7]])
def test_a_namespace_without_functions_offers_none(tools: Any) -> None:
    assert parsed(tools=[{"type": "namespace", "name": "n", "tools": tools}]).tools == []
