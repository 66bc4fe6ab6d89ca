"""Pictures and sounds in bodies: each form becomes one prompt with its places and base64, or an error of its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from tests import scripted
from tests.media import b64, png, wav
from tests.scripted import ScriptedClient

PICTURE, OTHER, SOUND = b64(png(seed=1)), b64(png(seed=2)), b64(wav(0.01))
URL = f"data:image/png;base64,{PICTURE}"
COMPLETIONS = ["/completion", "/v1/completions", "/v1/srb/completions"]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, sees=True, hears=True))
    return ScriptedClient(Settings(), scripted.count_to_three)


def serve(engine: ScriptedClient, **settings: Any) -> FlaskClient:
    return create_app(Settings(**settings), engine).test_client()


def post(http: FlaskClient, path: str, **body: Any) -> Any:
    return http.post(path, data=orjson.dumps(body))


def chat(http: FlaskClient, *parts: Any, path: str = "/v1/chat/completions") -> Any:
    return post(http, path, messages=[{"role": "user", "content": list(parts)}])


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def picture(url: str = URL) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("path", COMPLETIONS)
def test_marks_in_a_prompt_string_are_the_places_of_the_files(engine: ScriptedClient, path: str) -> None:
    prompt = {"prompt_string": "a <__media__> and <__media__>!", "multimodal_data": [PICTURE, SOUND]}
    assert post(serve(engine), path, prompt=prompt).status_code == 200
    [command] = engine.sent
    assert (command.prompt, command.media) == (("a ", -1, " and ", -2, "!"), (PICTURE, SOUND))


@pytest.mark.parametrize("path", COMPLETIONS)
def test_image_data_stand_where_their_ids_are(engine: ScriptedClient, path: str) -> None:
    data = [{"data": OTHER, "id": 7}, {"data": PICTURE, "id": 12}]
    response = post(serve(engine), path, prompt="[img-12] is not [img-7], says [img-12]", image_data=data)
    assert response.status_code == 200
    [command] = engine.sent
    assert (command.prompt, command.media) == ((-1, " is not ", -2, ", says ", -1), (PICTURE, OTHER))
    assert command.media_field == "image_data"


def test_each_of_several_prompts_has_its_own_files(engine: ScriptedClient) -> None:
    prompts = [
        {"prompt_string": f"{i}<__media__>", "multimodal_data": [data]} for i, data in enumerate((PICTURE, SOUND))
    ]
    assert post(serve(engine), "/completion", prompt=[*prompts, "no picture"]).status_code == 200
    assert [(each.prompt, each.media) for each in engine.sent] == [
        (("0", -1), (PICTURE,)),
        (("1", -1), (SOUND,)),
        (("no picture",), ()),
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": {"prompt_string": "<__media__>", "multimodal_data": []}, "image_data": 3}, "image_data"),
        ({"prompt": {"prompt_string": "no mark", "multimodal_data": [PICTURE]}}, "prompt"),
        ({"prompt": {"prompt_string": "<__media__>" * 2, "multimodal_data": [PICTURE]}}, "prompt"),
        ({"prompt": {"prompt_string": "<__media__>", "multimodal_data": [3]}}, "prompt"),
        ({"prompt": {"prompt_string": "<__media__>", "multimodal_data": "x"}}, "prompt"),
        ({"prompt": {"prompt_string": "<__media__>" * 65, "multimodal_data": [PICTURE] * 65}}, "prompt"),
        ({"prompt": "[img-1]", "image_data": [{"data": PICTURE, "id": 2}]}, "image_data"),
        ({"prompt": "none", "image_data": [{"data": PICTURE, "id": 2}]}, "image_data"),
        ({"prompt": "[img-2]", "image_data": [{"data": PICTURE, "id": 2}] * 2}, "image_data"),
        ({"prompt": "[img-2]", "image_data": [{"data": 3, "id": 2}]}, "image_data"),
        ({"prompt": "[img-2]", "image_data": [[]]}, "image_data"),
    ],
)
def test_files_without_a_place_and_places_without_a_file_are_400(
    engine: ScriptedClient, body: dict[str, Any], param: str
) -> None:
    response = post(serve(engine), "/completion", **body)
    assert (response.status_code, response.json["error"]["param"]) == (400, param)
    assert engine.sent == []


def test_a_prompt_of_negative_ids_reaches_no_file(engine: ScriptedClient) -> None:
    assert post(serve(engine), "/completion", prompt=["a", -1]).status_code == 400


def test_a_chats_pictures_and_sounds_stand_where_the_template_has_them(engine: ScriptedClient) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
    assert chat(serve(engine), text("look:"), picture(), text("and hear"), sound).status_code == 200
    [command] = engine.sent
    assert command.media == (PICTURE, SOUND)
    first, one, between, two, _ = command.prompt
    assert (one, two) == (-1, -2)
    assert isinstance(first, str)
    assert first.endswith("look:")
    assert between == "and hear"


def test_a_clients_text_is_never_taken_for_a_picture(engine: ScriptedClient) -> None:
    assert chat(serve(engine), text("<__media__> <__media_0__>"), picture()).status_code == 200
    [command] = engine.sent
    assert len(command.media) == 1
    assert "<__media__> <__media_0__>" in "".join(map(str, command.prompt))


def test_a_rendered_conversation_shows_the_mark(engine: ScriptedClient) -> None:
    response = chat(serve(engine), text("look:"), picture(), path="/apply-template")
    assert "look:<__media__>" in response.json["prompt"]


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ({"type": "image_url", "image_url": {}}, 400),
        ({"type": "image_url"}, 400),
        ({"type": "input_audio", "input_audio": {"data": 3}}, 400),
        ({"type": "input_audio", "input_audio": {"data": SOUND, "format": "aiff"}}, 400),
        (picture("ftp://a/b.png"), 400),
        (picture("data:image/png,notbase64"), 400),
        (picture("https://example.org/a.png"), 501),
        (picture("file:///etc/passwd"), 501),
        ({"type": "video_url", "video_url": {"url": "x"}}, 400),
    ],
)
def test_parts_that_cannot_be_read_name_the_messages(engine: ScriptedClient, part: Any, status: int) -> None:
    response = chat(serve(engine), part)
    assert (response.status_code, response.json["error"]["param"]) == (status, "messages")
    assert engine.sent == []


def test_a_chat_without_a_projector_is_400_and_names_the_flag() -> None:
    engine = ScriptedClient(Settings(), scripted.count_to_three)
    response = chat(serve(engine), picture())
    assert (response.status_code, response.json["error"]["param"]) == (400, "messages")
    assert "--mmproj" in response.json["error"]["message"]


def test_props_and_models_say_what_the_model_reads(engine: ScriptedClient) -> None:
    http = serve(engine)
    assert http.get("/props").json["modalities"] == {"vision": True, "video": False, "audio": True}
    assert http.get("/v1/models").json["models"][0]["capabilities"] == ["completion", "multimodal"]


def test_the_prompt_in_the_answer_shows_the_mark(engine: ScriptedClient) -> None:
    prompt = {"prompt_string": "a <__media__>!", "multimodal_data": [PICTURE]}
    assert post(serve(engine), "/completion", prompt=prompt).json["prompt"].endswith("a <__media__>!")
    echoed = post(serve(engine), "/v1/completions", prompt=prompt, echo=True).json["choices"][0]["text"]
    assert echoed.startswith("a <__media__>!")
