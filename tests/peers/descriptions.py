"""Answers against the documents that OpenAI, Ollama and KoboldCpp publish: their schemas hold for what comes.

No package has these documents: PEER_DESCRIPTIONS is a folder with clones of openai/openai-openapi, ollama/ollama and
LostRuins/koboldcpp, each under the repository's name. Tests of one that is not there are skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from jsonschema import Draft202012Validator

URL = os.environ.get("PEER_URL", "http://127.0.0.1:9090")
FOLDER = Path(os.environ.get("PEER_DESCRIPTIONS") or "none")
MODEL = "smollm2"
SECONDS = 300

USER = [{"role": "user", "content": "Name a colour."}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "The weather in a city", "parameters": WEATHER}
ASKED: dict[str, dict[str, dict[str, Any]]] = {
    "/chat/completions": {
        "plain": {},
        "two": {"n": 2},
        "log-probabilities": {"logprobs": True, "top_logprobs": 2},
        "forced call": {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "required"},
        "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": WEATHER}}},
        "stop": {"stop": ["e"]},
        "usage": {"stream_options": {"include_usage": True}},
    },
    "/completions": {
        "plain": {},
        "two prompts": {"prompt": ["a", "b"], "n": 2},
        "log-probabilities": {"logprobs": 2, "echo": True},
        "best of": {"best_of": 3},
        "usage": {"stream_options": {"include_usage": True}},
    },
    "/responses": {
        "plain": {},
        "items": {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
        "log-probabilities": {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        "forced call": {"tools": [{"type": "function", "strict": False, **TOOL}], "tool_choice": "required"},
        "schema": {"text": {"format": {"type": "json_schema", "name": "a", "schema": WEATHER}}},
        "instructions": {"instructions": "Be brief.", "metadata": {"a": "b"}, "user": "u"},
    },
    "/embeddings": {"plain": {}, "two": {"input": ["a", "b"]}, "base64": {"encoding_format": "base64"}},
}
BASES: dict[str, dict[str, Any]] = {
    "/chat/completions": {"messages": USER, "max_completion_tokens": 24},
    "/completions": {"prompt": "Once upon a time", "max_tokens": 8},
    "/responses": {"input": "Name a colour.", "max_output_tokens": 24},
    "/embeddings": {"input": "a"},
}
STREAMED = {
    "/chat/completions": "CreateChatCompletionStreamResponse",
    "/completions": "CreateCompletionResponse",
    "/responses": "ResponseStreamEvent",
}
REFUSED: dict[str, tuple[str, Any]] = {
    "temperature": ("/chat/completions", {"messages": USER, "temperature": "hot"}),
    "no messages": ("/chat/completions", {}),
    "n": ("/completions", {"prompt": "a", "n": 0}),
    "no input": ("/responses", {}),
    "no route": ("/nowhere", {}),
    "no JSON": ("/chat/completions", "{"),
    "empty embeddings": ("/embeddings", {"input": []}),
}


def with_null(schema: Any) -> Any:
    """Return a schema in which `nullable`, a word of OpenAPI 3.0 that these documents use, is one of JSON Schema."""
    if isinstance(schema, list):
        return [with_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: with_null(each) for name, each in schema.items()}
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made


@cache
def openai() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "openai-openapi" / "openapi.json").read_text("utf-8"))
    return {**found, "components": with_null(found["components"])}


def check(document: dict[str, Any], schema: dict[str, Any], answer: Any) -> None:
    """Assert that an answer is as a schema of an OpenAPI document says."""
    validator = Draft202012Validator({**schema, "components": document["components"]})
    problems = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(answer)]
    assert problems == []


def events(answer: requests.Response) -> Iterator[Any]:
    """Yield the JSON of the events of a stream, of server-sent events or of lines."""
    for line in answer.iter_lines():
        text = line.decode().removeprefix("data:").strip()
        if text.startswith("{"):
            yield json.loads(text)


needs_openai = pytest.mark.skipif(not (FOLDER / "openai-openapi").exists(), reason="no clone of openai-openapi")
needs_ollama = pytest.mark.skipif(not (FOLDER / "ollama").exists(), reason="no clone of ollama")
needs_kobold = pytest.mark.skipif(not (FOLDER / "koboldcpp").exists(), reason="no clone of koboldcpp")
CASES = [
    pytest.param(path, body, id=f"{path}-{name}") for path, bodies in ASKED.items() for name, body in bodies.items()
]


@needs_openai
@pytest.mark.parametrize(("path", "body"), CASES)
def test_an_answer_is_as_openais_description_says(path: str, body: dict[str, Any]) -> None:
    given = {name: each for name, each in body.items() if name != "stream_options"}
    answer = requests.post(f"{URL}/v1{path}", json={"model": MODEL, **BASES[path], **given}, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    described = openai()["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    check(openai(), described, answer.json())


@needs_openai
@pytest.mark.parametrize(("path", "body"), [case for case in CASES if case.values[0] in STREAMED])
def test_each_event_is_as_openais_description_says(path: str, body: dict[str, Any]) -> None:
    if "best_of" in body:
        body = {"n": 2}
    asked = {"model": MODEL, **BASES[path], **body, "stream": True}
    answer = requests.post(f"{URL}/v1{path}", json=asked, timeout=SECONDS, stream=True)
    assert answer.status_code == 200, answer.text
    found = list(events(answer))
    assert len(found) > 2
    for event in found:
        check(openai(), {"$ref": f"#/components/schemas/{STREAMED[path]}"}, event)


@needs_openai
@pytest.mark.parametrize("name", REFUSED)
def test_an_error_is_as_openais_description_says(name: str) -> None:
    path, body = REFUSED[name]
    data = body if isinstance(body, str) else json.dumps(body)
    answer = requests.post(f"{URL}/v1{path}", data=data, timeout=SECONDS)
    assert answer.status_code in (400, 404)
    check(openai(), {"$ref": "#/components/schemas/ErrorResponse"}, answer.json())


@needs_openai
def test_models_are_as_openais_description_says() -> None:
    answer = requests.get(f"{URL}/v1/models", timeout=SECONDS).json()
    check(openai(), {"$ref": "#/components/schemas/ListModelsResponse"}, answer)
    check(openai(), {"$ref": "#/components/schemas/Model"}, answer["data"][0])


# Ollama ---------------------------------------------------------------------------------------------------------------

_CURL = re.compile(
    r"^curl (?:(?:-X (\w+)|-H \"[^\"]*\") ?)*\s*http://localhost:11434(/\S+)(?: -H \"[^\"]*\")*(?: -d '(.*?)')?$",
    re.S | re.M,
)


def requests_of_ollama() -> list[Any]:
    """Return the requests of Ollama's api.md, with the keys of the answer that it shows behind each."""
    path = FOLDER / "ollama" / "docs" / "api.md"
    if not path.exists():
        return []
    found = []
    text = path.read_text("utf-8")
    matches = list(_CURL.finditer(text))
    for number, match in enumerate(matches):
        end = matches[number + 1].start() if number + 1 < len(matches) else len(text)
        shown = re.findall(r"```json\n(\{.*?\n\})\n```", text[match.end() : end], re.S)
        heading = re.findall(r"^#+ (.+)$", text[: match.start()], re.M)
        title = next(each for each in reversed(heading) if "Request" not in each[:7] or len(each) > 9)
        answers = [each for each in shown if '"model"' in each] or shown
        keys = set(re.findall(r'^  "(\w+)":', answers[-1], re.M)) if answers else set()
        method = match[1] or ("POST" if match[3] else "GET")
        found.append(pytest.param(method, match[2], match[3], keys, id=f"{number} {method} {match[2]} {title}"))
    return found


@needs_ollama
@pytest.mark.parametrize(("method", "path", "data", "keys"), requests_of_ollama())
def test_a_request_of_ollamas_document_is_answered_as_it_shows(
    method: str, path: str, data: str | None, keys: set[str]
) -> None:
    sent = re.sub(r'("model": ?)"[^"]*"', rf'\1"{MODEL}"', data) if data else None
    if sent and path in ("/api/generate", "/api/chat"):
        limited = json.loads(sent)
        limited.setdefault("options", {}).setdefault("num_predict", 24)
        sent = json.dumps(limited)
    answer = requests.request(method, f"{URL}{path}", data=sent, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    *_, last = [json.loads(line) for line in answer.text.splitlines() if line]
    assert keys - last.keys() == set()


@cache
def ollama() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "ollama" / "docs" / "openapi.yaml").read_text("utf-8"))
    return found


@needs_ollama
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/generate", {"prompt": "Once"}),
        ("/api/generate", {"prompt": "Once", "logprobs": True, "top_logprobs": 2}),
        ("/api/chat", {"messages": USER}),
        ("/api/chat", {"messages": USER, "format": WEATHER}),
        ("/api/embed", {"input": ["a", "b"]}),
        ("/api/show", {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_as_ollamas_description_says(path: str, body: dict[str, Any], stream: bool) -> None:
    described = ollama()["paths"][path]["post"]["responses"]["200"]["content"]
    asked = {"model": MODEL, **body, "stream": stream, "options": {"num_predict": 12}}
    answer = requests.post(f"{URL}{path}", json=asked, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    kind = "application/x-ndjson" if stream and "application/x-ndjson" in described else "application/json"
    for each in events(answer) if stream else [answer.json()]:
        check(ollama(), described[kind]["schema"], each)


@needs_ollama
@pytest.mark.parametrize("path", ["/api/tags", "/api/ps", "/api/version"])
def test_a_list_is_as_ollamas_description_says(path: str) -> None:
    described = ollama()["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    check(ollama(), described, requests.get(f"{URL}{path}", timeout=SECONDS).json())


# KoboldCpp ------------------------------------------------------------------------------------------------------------


@cache
def kobold() -> dict[str, Any]:
    """Return the description in KoboldCpp's page, an object of JavaScript, whose commas at the end YAML reads."""
    [path] = (FOLDER / "koboldcpp").rglob("kcpp_docs.embd")
    text = path.read_text("utf-8").partition("let spec =")[2].partition("</script>")[0]
    found: dict[str, Any] = yaml.safe_load(text.rpartition("};")[0].replace("\t", " ") + "}")
    return found


def routes_of_kobold() -> list[Any]:
    if not (FOLDER / "koboldcpp").exists():
        return []
    return [
        pytest.param(method, path, id=f"{method} {path}") for path, each in kobold()["paths"].items() for method in each
    ]


@needs_kobold
@pytest.mark.parametrize(("method", "path"), routes_of_kobold())
def test_a_route_is_as_koboldcpps_description_says(method: str, path: str) -> None:
    described = kobold()["paths"][path][method]
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = content.get("example")
    if isinstance(body, dict) and "max_length" in body:
        body = {**body, "max_length": 8}
    answer = requests.request(method.upper(), f"{URL}{path}", json=body, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    told = described["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
    if told and "stream" not in path:
        check(kobold(), told, answer.json())
