"""Pictures through each dialect, with a real model and projector; a damaged one is refused with its field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import pytest
import requests

from tests.media import b64, bmp, jpeg, png, wav
from tests.models.random_gguf import write_llama
from tests.models.random_projectors import write_projector
from tests.processes import DEADLINE
from tests.servers import Server

pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

pytestmark = pytest.mark.e2e

NAME = "seer"
ALBUM = 9  # files below media_path, more than are read at once
TOKENS = 16  # of a picture, by this projector
PICTURE, DAMAGED = b64(png(40, 30, seed=1)), b64(png(40, 30, seed=1)[:60])


def _ollama(data: str) -> tuple[str, dict[str, Any]]:
    message = {"role": "user", "content": "saw", "images": [data]}
    return "/api/chat", {"model": NAME, "stream": False, "messages": [message], "options": {"num_predict": 4}}


def _ollama_generate(data: str) -> tuple[str, dict[str, Any]]:
    options = {"num_predict": 4}
    return "/api/generate", {"model": NAME, "stream": False, "prompt": "saw", "images": [data], "options": options}


def _ollama_raw(data: str) -> tuple[str, dict[str, Any]]:
    path, body = _ollama_generate(data)
    return path, {**body, "raw": True, "prompt": "the king saw [img-0]"}


def _kobold(data: str) -> tuple[str, dict[str, Any]]:
    return "/api/v1/generate", {"memory": "the old king ", "prompt": "saw", "images": [data], "max_length": 4}


def _messages(data: str) -> tuple[str, dict[str, Any]]:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return "/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [block]}]}


def _responses(data: str) -> tuple[str, dict[str, Any]]:
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    return "/v1/responses", {"max_output_tokens": 16, "input": [{"role": "user", "content": [part]}]}


def _chat(data: str) -> tuple[str, dict[str, Any]]:
    part = {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{data}"}}
    return "/v1/chat/completions", {"max_tokens": 4, "messages": [{"role": "user", "content": [part]}]}


def _completion(data: str) -> tuple[str, dict[str, Any]]:
    return "/completion", {"n_predict": 4, "prompt": {"prompt_string": "saw <__media__>", "multimodal_data": [data]}}


FORMS = [
    (_ollama, "messages"),
    (_ollama_generate, "images"),
    (_ollama_raw, "images"),
    (_kobold, "images"),
    (_messages, "messages"),
    (_responses, "input"),
]


@pytest.fixture(scope="module")
def seer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("seer")
    model, projector = write_llama(folder / "model.gguf"), write_projector(folder / "mmproj.gguf")
    (folder / "media").mkdir()
    for seed in range(ALBUM):
        (folder / "media" / f"{seed}.png").write_bytes(png(40, 30, seed=seed))
    settings = {"model": model, "mmproj": projector, "n_ctx": 4096, "alias": NAME, "chat_template": "chatml"}
    settings["media_path"] = folder / "media"
    with Server(folder, **settings).start() as server:
        yield server


def post(server: Server, path: str, body: dict[str, Any]) -> requests.Response:
    return requests.post(server.url + path, json=body, timeout=DEADLINE)


@pytest.mark.parametrize(("form", "field"), FORMS)
def test_a_picture_is_read_and_a_damaged_one_is_400_with_its_field(seer: Server, form: Any, field: str) -> None:
    answer = post(seer, *form(PICTURE))
    assert answer.status_code == 200, answer.text
    path, body = form(DAMAGED)
    streamed = path.replace("/api/v1/generate", "/api/extra/generate/stream"), {**body, "stream": True}
    for refused in (post(seer, path, body), post(seer, *streamed)):
        assert refused.status_code == 400, refused.text
        assert f"Field '{field}'" in refused.text


@pytest.mark.parametrize("form", [form for form, _ in FORMS] + [_chat, _completion])
def test_every_dialect_reads_a_picture_in_webp_and_refuses_a_damaged_one(seer: Server, form: Any) -> None:
    image = pytest.importorskip("PIL.Image", reason="the extra `images` is not installed")
    out = BytesIO()
    image.open(BytesIO(png(40, 30, seed=3))).save(out, "WEBP", lossless=True)
    before = seer.metric("srb:prompt_image_tokens_total")
    answer = post(seer, *form(b64(out.getvalue())))
    assert answer.status_code == 200, answer.text
    assert seer.metric("srb:prompt_image_tokens_total") == before + TOKENS
    refused = post(seer, *form(b64(out.getvalue()[:40])))
    assert refused.status_code == 400
    assert "is damaged" in refused.text


@pytest.mark.parametrize("form", [form for form, _ in FORMS] + [_chat, _completion])
@pytest.mark.parametrize("name", ["HEIC", "AVIF"])
def test_a_picture_that_no_decoder_reads_is_400_by_its_name(seer: Server, form: Any, name: str) -> None:
    refused = post(seer, *form(b64(b"\0\0\0\x18ftyp" + name.lower().encode() + b"\0\0\0\0mif1" + bytes(64))))
    assert refused.status_code == 400
    assert f"is a picture in {name}, which is not supported" in refused.text


def test_a_picture_of_almost_20_mib_is_taken(seer: Server) -> None:
    picture = bmp(2640, 2640)
    assert 19.9 * 2**20 < len(picture) < 20 * 2**20
    answer = post(seer, *_messages(b64(picture)))
    assert answer.status_code == 200, answer.text


def test_ollama_and_koboldcpp_say_that_the_model_sees(seer: Server) -> None:
    assert "vision" in post(seer, "/api/show", {"model": NAME}).json()["capabilities"]
    assert requests.get(f"{seer.url}/api/extra/version", timeout=DEADLINE).json()["vision"] is True


def test_the_files_that_a_chat_names_are_read_and_counted(seer: Server) -> None:
    def ask(*names: object) -> requests.Response:
        parts = [{"type": "image_url", "image_url": {"url": f"file:///{name}.png"}} for name in names]
        return post(seer, "/v1/chat/completions", {"max_tokens": 4, "messages": [{"role": "user", "content": parts}]})

    before = seer.metric("srb:media_encoded_total")
    usage = ask(*range(ALBUM)).json()["usage"]
    details = usage["prompt_tokens_details"]
    assert (details["image_tokens"], details["audio_tokens"]) == (ALBUM * TOKENS, 0)
    assert details["text_tokens"] == usage["prompt_tokens"] - ALBUM * TOKENS > 0
    assert ask(*range(ALBUM)).json()["usage"]["prompt_tokens_details"]["image_tokens"] == ALBUM * TOKENS
    assert before <= seer.metric("srb:media_encoded_total") <= before + ALBUM
    assert seer.metric("srb:media_reused_total") >= ALBUM
    refused = ask(0, "missing", 1)
    assert refused.status_code == 400
    assert "Field 'messages': message 0, part 1: file:///missing.png: the file cannot be read" in refused.text


@pytest.mark.parametrize(
    ("form", "path"), [(_messages, "/v1/messages/count_tokens"), (_responses, "/v1/responses/input_tokens")]
)
def test_a_count_is_the_prompt_of_the_answer_and_a_damaged_picture_is_400(seer: Server, form: Any, path: str) -> None:
    picture = b64(png(30, 40, seed=7))
    counted = post(seer, path, form(picture)[1]).json()["input_tokens"]
    usage = post(seer, *form(picture)).json()["usage"]
    assert counted == usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
    assert post(seer, path, form(picture)[1]).json()["input_tokens"] == counted  # of a file that is known
    assert post(seer, path, form(DAMAGED)[1]).status_code == 400


def test_eight_requests_at_once_about_a_new_picture_encode_it_once(seer: Server) -> None:
    prompt = {"prompt_string": "the king saw <__media__> and", "multimodal_data": [b64(png(33, 44, seed=80))]}
    before = seer.metric("srb:media_encoded_total")
    with ThreadPoolExecutor(8) as pool:
        body = {"prompt": prompt, "n": 8, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        answers = list(pool.map(lambda _: post(seer, "/v1/completions", body), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8, answers[0].text
    texts = {choice["text"] for answer in answers for choice in answer.json()["choices"]}
    assert len(texts) == 1
    assert seer.metric("srb:media_encoded_total") == before + 1


def text_of(answer: requests.Response) -> str:
    assert answer.status_code == 200, answer.text
    if "event-stream" in answer.headers["Content-Type"]:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        return "".join(event["text"] for event in events if event["event"] == "stream")
    body = answer.json()
    return str(body["content"] if "content" in body else body["choices"][0]["text"])


@pytest.mark.parametrize("path", ["/completion", "/v1/srb/completions", "/v1/completions"])
def test_both_forms_of_a_prompt_with_a_picture_have_one_text(seer: Server, path: str) -> None:
    """The seed's form and llama-server's, with a picture in three formats."""
    for data in (png(40, 30, seed=81), jpeg(), bmp(9, 7)):
        forms = [
            {"prompt": {"prompt_string": "saw <__media__> and", "multimodal_data": [b64(data)]}},
            {"prompt": "saw [img-12] and", "image_data": [{"data": b64(data), "id": 12}]},
        ]
        limits = {"n": 1, "max_tokens": 5, "temperature": 0, "ignore_eos": True}
        texts = [text_of(post(seer, path, {**form, **limits})) for form in forms]
        assert texts[0] == texts[1] != ""


def test_files_that_would_fill_the_memory_or_end_the_process_are_400_and_the_server_goes_on(seer: Server) -> None:
    engine = seer.engine
    files = {
        "50000 × 50000 pixels": png(50_000, 50_000, raw=b""),
        "unpacks to more": png(4, 4, raw=bytes(5_000_000)),
        "is too short": wav(1 / 16000),
        "announces 4294967280 bytes": wav(announced=2**32 - 16),
    }
    for why, data in files.items():
        prompt = {"prompt_string": "<__media__>", "multimodal_data": [b64(data)]}
        refused = post(seer, "/completion", {"prompt": prompt, "n_predict": 2})
        assert refused.status_code == 400
        assert why in refused.json()["error"]["message"]
    assert post(seer, *_responses(PICTURE)).status_code == 200
    assert seer.engine == engine
