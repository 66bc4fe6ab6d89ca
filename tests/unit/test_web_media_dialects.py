"""Pictures and sounds in the bodies of Ollama, KoboldCpp, Responses and Messages: their places, and each refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import Application, create_app
from srb.web.dialects.srb.answers import SRBCompletion
from srb.wire.commands import CountTokens, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, PromptDone
from tests import scripted
from tests.media import b64, png, wav
from tests.needs import need
from tests.official import anthropic, anthropic_over, openai, openai_over
from tests.scripted import ScriptedClient
from tests.shapes import read

try:
    import httpx
    import ollama
except ImportError:
    ollama = None

ONE, TWO, SOUND = b64(png(seed=1)), b64(png(seed=2)), b64(wav(0.01))
URL = f"data:image/png;base64,{ONE}"
REMOTE = "https://example.org/a.png"
OLLAMA = {"model": "storyteller", "stream": False}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, sees=True, hears=True))
    return ScriptedClient(Settings(), scripted.count_to_three)


@pytest.fixture
def app(engine: ScriptedClient) -> Application:
    return create_app(Settings(), engine)


@pytest.fixture
def http(app: Application) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def blind() -> Application:
    return create_app(Settings(), ScriptedClient(Settings(), scripted.count_to_three))


def post(http: FlaskClient, path: str, **body: Any) -> Any:
    return http.post(path, data=orjson.dumps(body))


def sent(engine: ScriptedClient) -> tuple[str, tuple[str, ...]]:
    """Return the one command's prompt, with `{place}` for each of its files, and the files."""
    [command] = engine.sent
    text = "".join(part if isinstance(part, str) else f"{{{-1 - part}}}" for part in command.prompt)
    return text, command.media


# Ollama ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "shown", "media"),
    [
        ("Which?", "{0}{1}Which?", (ONE, TWO)),
        ("A [img], B [img]?", "A {0}, B {1}?", (ONE, TWO)),
        ("Only [img]?", "{0}Only {1}?", (TWO, ONE)),
        ("[img][img] [img]", "{0}{1} [img]", (ONE, TWO)),
        ("", "{0}{1}", (ONE, TWO)),
    ],
)
def test_an_ollama_messages_pictures_stand_at_its_marks_or_before_its_text(
    engine: ScriptedClient, http: FlaskClient, content: str, shown: str, media: tuple[str, ...]
) -> None:
    message = {"role": "user", "content": content, "images": [ONE, TWO]}
    response = post(http, "/api/chat", messages=[{"role": "user", "content": "Hi"}, message], **OLLAMA)
    assert response.status_code == 200, response.text
    prompt, files = sent(engine)
    assert shown in prompt
    assert files == media


def test_ollamas_own_client_sends_pictures(engine: ScriptedClient, app: Application) -> None:
    need(ollama, "the package ollama")
    client = ollama.Client(host="http://localhost", transport=httpx.WSGITransport(app=app))
    picture = ollama.Image(value=png(seed=1))
    said = client.chat("storyteller", [ollama.Message(role="user", content="Which?", images=[picture])])
    assert said.message.content
    prompt, files = sent(engine)
    assert "{0}Which?" in prompt
    assert files == (ONE,)
    engine.sent.clear()
    assert client.generate("storyteller", "Which?", images=[png(seed=2)]).context is None
    assert sent(engine)[1] == (TWO,)
    assert "vision" in client.show("storyteller").capabilities


def test_ollamas_completion_has_its_pictures_in_the_users_message(engine: ScriptedClient, http: FlaskClient) -> None:
    response = post(http, "/api/generate", prompt="Which?", images=[ONE, TWO], **OLLAMA)
    assert response.status_code == 200, response.text
    assert "context" not in read("ollama.OllamaLine", response.data)
    prompt, media = sent(engine)
    assert "{0}{1}Which?" in prompt
    assert media == (ONE, TWO)
    assert engine.sent[0].media_field == "images"


def test_ollamas_completion_continues_a_context_with_a_picture(engine: ScriptedClient, http: FlaskClient) -> None:
    assert post(http, "/api/generate", prompt="Which?", images=[ONE], context=[5, 6], **OLLAMA).status_code == 200
    [command] = engine.sent
    assert command.prompt[:2] == (5, 6)
    assert -1 in command.prompt


def test_a_picture_alone_is_a_prompt_for_ollama(engine: ScriptedClient, http: FlaskClient) -> None:
    assert post(http, "/api/generate", images=[ONE], **OLLAMA).status_code == 200
    assert sent(engine)[1] == (ONE,)


@pytest.mark.parametrize(
    ("prompt", "shown", "media"),
    [("Which?", "{0}{1}Which?", (ONE, TWO)), ("[img-1] or [img-0]?", "{0} or {1}?", (TWO, ONE))],
)
def test_a_raw_prompt_has_pictures_at_its_marks_or_before_it(
    engine: ScriptedClient, http: FlaskClient, prompt: str, shown: str, media: tuple[str, ...]
) -> None:
    assert post(http, "/api/generate", prompt=prompt, raw=True, images=[ONE, TWO], **OLLAMA).status_code == 200
    assert sent(engine) == (shown, media)
    assert engine.sent[0].media_field == "images"


@pytest.mark.parametrize(
    "body",
    [{"raw": True, "prompt": "[img-1]"}, {"raw": True, "prompt": "[img-0] [img-1]"}, {"prompt": "a", "suffix": "b"}],
)
def test_pictures_without_a_place_in_ollamas_prompt_are_400(
    engine: ScriptedClient, http: FlaskClient, body: dict[str, Any]
) -> None:
    response = post(http, "/api/generate", images=[ONE], **body, **OLLAMA)
    assert response.status_code == 400
    assert "Field 'images'" in read("ollama.OllamaError", response.data)["error"]
    assert engine.sent == []


@pytest.mark.parametrize("sees", [True, False])
def test_ollama_says_whether_the_model_sees(monkeypatch: pytest.MonkeyPatch, http: FlaskClient, sees: bool) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, sees=sees))
    shown = read("ollama.Shown", http.post("/api/show", json={"model": "storyteller"}).data)
    assert ("vision" in shown["capabilities"]) is sees


# KoboldCpp ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/v1/generate", "/api/extra/generate/stream"])
def test_kobolds_files_stand_between_memory_and_prompt(engine: ScriptedClient, http: FlaskClient, path: str) -> None:
    body = {"memory": "A tale. ", "prompt": "Once", "images": [ONE, TWO], "audio": [SOUND]}
    assert post(http, path, **body).status_code == 200
    assert sent(engine) == ("A tale. {0}{1}{2}Once", (ONE, TWO, SOUND))
    assert engine.sent[0].media_field == "images, audio"


def test_kobolds_prompt_may_be_a_sound_alone(engine: ScriptedClient, http: FlaskClient) -> None:
    assert post(http, "/api/v1/generate", prompt="", audio=[SOUND]).status_code == 200
    assert sent(engine) == ("{0}", (SOUND,))
    assert engine.sent[0].media_field == "audio"


def test_kobolds_prompt_is_not_cut_beside_files(engine: ScriptedClient, http: FlaskClient) -> None:
    body = {"prompt": "Once upon a time. " * 20, "max_context_length": 40, "max_length": 8}
    response = post(http, "/api/v1/generate", images=[ONE], **body)
    assert response.status_code == 400
    assert (
        "Field 'prompt': is too long for max_context_length"
        in read("kobold.KoboldError", response.data)["detail"]["msg"]
    )
    assert not any(isinstance(command, Generate) for command in engine.sent)
    assert post(http, "/api/v1/generate", **body).status_code == 200


@pytest.mark.parametrize(("sees", "hears"), [(True, False), (False, True), (False, False)])
def test_koboldcpps_features_say_what_the_model_reads(
    monkeypatch: pytest.MonkeyPatch, http: FlaskClient, sees: bool, hears: bool
) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, sees=sees, hears=hears))
    features = read("kobold.Features", http.get("/api/extra/version").data)
    assert (features["vision"], features["audio"]) == (sees, hears)


# Messages -------------------------------------------------------------------------------------------------------------


def image(**source: str) -> Any:
    return {"type": "image", "source": source}


def embedded(data: str) -> Any:
    return image(type="base64", media_type="image/png", data=data)


def ask_anthropic(app: Application, *blocks: Any) -> anthropic.types.Message:
    messages: Any = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
        {"role": "user", "content": list(blocks)},
    ]
    return anthropic_over(app).messages.create(model="any", max_tokens=9, messages=messages)


def test_a_messages_pictures_stand_where_its_blocks_are(engine: ScriptedClient, app: Application) -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "Seen:"}, embedded(ONE)]}
    ask_anthropic(app, result, {"type": "text", "text": "And"}, image(type="url", url=f"data:image/png;base64,{TWO}"))
    prompt, media = sent(engine)
    assert media == (ONE, TWO)
    assert "Seen:{0}" in prompt
    assert prompt.index("Seen:{0}") < prompt.index("And{1}")


@pytest.mark.parametrize(
    ("block", "status", "words"),
    [
        (image(type="file", file_id="f"), 400, "message 2, block 0 is of type"),
        (image(type="files"), 400, "message 2, block 0: the 'source' of an image must be base64"),
        (image(type="url", url="ftp://a/b.png"), 400, "should be a data URL"),
        (image(type="url", url=REMOTE), 501, "media_hosts"),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ONE}},
            400,
            "document",
        ),
        ({"type": "tool_result", "tool_use_id": "a", "content": [image(type="url", url=REMOTE)]}, 501, "media_hosts"),
    ],
)
def test_a_picture_that_cannot_be_had_is_refused_by_messages(
    engine: ScriptedClient, app: Application, block: Any, status: int, words: str
) -> None:
    with pytest.raises(anthropic.APIStatusError) as refused:
        ask_anthropic(app, block)
    assert refused.value.status_code == status
    error = read("anthropic.AnthropicError", refused.value.response.content)["error"]
    assert words in error["message"]
    assert error["param"] == "messages"
    assert engine.sent == []


def counted(engine: ScriptedClient) -> CountTokens:
    [command] = [command for command in engine.sent if isinstance(command, CountTokens)]
    return command


def test_messages_count_the_tokens_of_pictures(engine: ScriptedClient, app: Application) -> None:
    messages: Any = [{"role": "user", "content": [embedded(ONE), {"type": "text", "text": "And"}, embedded(TWO)]}]
    count = anthropic_over(app).messages.count_tokens(model="any", messages=messages)
    command = counted(engine)
    assert command.media == (ONE, TWO)
    assert count.input_tokens == 1 + 9 * 2 + sum(
        len(part.encode()) if isinstance(part, str) else 1 for part in command.prompt
    )


def test_messages_without_a_projector_are_400_and_name_the_flag(blind: Application) -> None:
    with pytest.raises(anthropic.APIStatusError) as refused:
        ask_anthropic(blind, embedded(ONE))
    assert refused.value.status_code == 400
    assert "--mmproj" in read("anthropic.AnthropicError", refused.value.response.content)["error"]["message"]


# Responses ------------------------------------------------------------------------------------------------------------


def ask_openai(app: Application, *parts: Any, output: Any = "none") -> openai.types.responses.Response:
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": output},
        {"role": "user", "content": list(parts)},
    ]
    return openai_over(app).responses.create(model="any", input=cast(Any, items))


def input_image(**where: str) -> dict[str, str]:
    return {"type": "input_image", "detail": "auto", **where}


def test_a_responses_pictures_stand_where_its_parts_are(engine: ScriptedClient, app: Application) -> None:
    seen = [{"type": "input_text", "text": "Seen:"}, input_image(image_url=URL)]
    text = {"type": "input_text", "text": "And"}
    ask_openai(app, text, input_image(image_url=f"data:image/png;base64,{TWO}"), output=seen)
    prompt, media = sent(engine)
    assert media == (ONE, TWO)
    assert prompt.index("Seen:{0}") < prompt.index("And{1}")


@pytest.mark.parametrize(
    ("part", "status", "words"),
    [
        (input_image(file_id="f"), 400, "item 3, part 0 of its content is of type"),
        (input_image(image_url="ftp://a/b.png"), 400, "should be a data URL"),
        (input_image(image_url=REMOTE), 501, "media_hosts"),
        ({"type": "input_file", "file_data": URL, "filename": "a.pdf"}, 400, "input_file"),
    ],
)
def test_a_picture_that_cannot_be_had_is_refused_by_responses(
    engine: ScriptedClient, app: Application, part: Any, status: int, words: str
) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        ask_openai(app, part)
    assert (refused.value.status_code, refused.value.param) == (status, "input")
    assert words in refused.value.message
    assert "Field 'input'" in refused.value.message
    assert engine.sent == []


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/chat/completions/input_tokens"])
def test_input_tokens_count_pictures(engine: ScriptedClient, http: FlaskClient, path: str) -> None:
    part = {"type": "input_image", "image_url": URL}
    messages = [{"role": "user", "content": [{"type": "text", "text": "See"}, part]}]
    given = {"input": [{"role": "user", "content": [part]}]} if "responses" in path else {"messages": messages}
    response = http.post(path, json=given)
    assert response.status_code == 200
    assert counted(engine).media == (ONE,)
    assert response.json["input_tokens"] > 10


def test_responses_without_a_projector_are_400_and_name_the_flag(blind: Application) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        ask_openai(blind, input_image(image_url=URL))
    assert (refused.value.status_code, refused.value.param) == (400, "input")
    assert "--mmproj" in refused.value.message


# Usage ----------------------------------------------------------------------------------------------------------------


def see_and_hear(command: Generate) -> Any:
    """Script of a prompt of nine tokens, of which three are a picture's and one is a sound's."""
    request_id = command.request_id
    yield [Accepted(request_id, 9), PromptDone(request_id, 2, 0, 1.0, [0], 3, 1)]
    ends = [BranchEnded(request_id, index, "eos", 1) for index in range(len(command.branches))]
    told = [Delta(request_id, end.index, " a", [1]) for end in ends]
    yield [*told, *ends, Done(request_id, 9, 2, len(ends), 1.0, 1.0, image_tokens=3, audio_tokens=1)]


def test_usage_tells_a_prompts_tokens_of_pictures_and_sounds(engine: ScriptedClient) -> None:
    engine.script = see_and_hear
    app = create_app(Settings(), engine)
    client, http = openai_over(app), app.test_client()
    kinds = {"cached_tokens": 2, "text_tokens": 5, "image_tokens": 3, "audio_tokens": 1}

    chat = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hi"}])
    assert chat.usage is not None
    assert chat.usage.prompt_tokens_details is not None
    assert chat.usage.prompt_tokens_details.model_dump(exclude_none=True) == kinds
    stream = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Hi"}], stream=True, stream_options={"include_usage": True}
    )
    [usage] = [chunk.usage for chunk in stream if chunk.usage]
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.image_tokens == 3

    response = client.responses.create(model="any", input="Hi")
    assert response.usage is not None
    assert response.usage.input_tokens_details.model_dump(exclude_none=True) == {**kinds, "cache_write_tokens": 0}
    read("responses.Response", post(http, "/v1/responses", input="Hi").data)

    done = read(SRBCompletion, post(http, "/v1/srb/completions", prompt="Hi", stream=False).data)
    assert done["usage"]["prompt_tokens_details"] == kinds
    assert (done["timings"]["image_n"], done["timings"]["audio_n"]) == (3, 1)
    final = read("llamacpp.Final", post(http, "/completion", prompt="Hi", n=1).data)
    assert (final["timings"]["image_n"], final["timings"]["audio_n"]) == (3, 1)


def test_usage_of_a_text_names_no_pictures(engine: ScriptedClient, http: FlaskClient) -> None:
    answer = orjson.loads(post(http, "/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}]).data)
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert "image_n" not in answer["timings"]


# Templates ------------------------------------------------------------------------------------------------------------


def test_a_picture_that_the_template_leaves_out_is_400(engine: ScriptedClient) -> None:
    template = "{{ messages[-1].content }}"
    http = create_app(Settings(chat_template=template), engine).test_client()
    picture = {"type": "image_url", "image_url": {"url": URL}}
    messages = [
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": "A cat"},
        {"role": "user", "content": "Hi"},
    ]
    response = post(http, "/v1/chat/completions", messages=messages)
    assert (response.status_code, response.json["error"]["param"]) == (400, "messages")
    assert "no place for 1 of 1" in response.json["error"]["message"]
