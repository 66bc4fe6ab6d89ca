"""The requests that both servers get: every route of llama-server, with good bodies and bad ones, streamed and not."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

JSON = "application/json"
PROMPT = "Once upon a time, the old king said to the girl"
RANDOM = {"temperature": 0.9, "seed": 11}  # the same seed draws the same tokens


def _picture(width: int, height: int) -> str:
    """Return a PNG of slanting stripes as base64: servers with a projector (`--mmproj`) read it, others refuse it."""
    lines = b"".join(b"\0" + bytes(3 * x * y % 256 for x in range(width) for _ in "rgb") for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    return b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


PICTURES = [_picture(64, 48), _picture(30, 70)]
USER = {"role": "user", "content": "Tell me a story."}
PERSON = {"type": "object", "properties": {"old": {"type": "boolean"}}, "required": ["old"]}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}},
}

# Fields of each route's usual body.
COMPLETION = {"prompt": PROMPT, "n_predict": 8, "temperature": 0, "seed": 7}
TEXT = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "seed": 7, "model": "m"}
CHAT = {"messages": [USER], "max_tokens": 8, "temperature": 0, "seed": 7, "model": "m"}
INFILL = {"input_prefix": "Once upon a ", "input_suffix": " in the wood.", "n_predict": 8, "temperature": 0, "seed": 7}

# Changes of that body, on the routes that answer with a generated text.
ABSENT = object()  # removes a field
SAMPLING: dict[str, dict[str, Any]] = {
    "random": RANDOM,
    "top_k": RANDOM | {"top_k": 3},
    "top_p": RANDOM | {"top_p": 0.5},
    "min_p": RANDOM | {"min_p": 0.3},
    "typical_p": RANDOM | {"typical_p": 0.5},
    "top_n_sigma": RANDOM | {"top_n_sigma": 1.0},
    "xtc": RANDOM | {"xtc_probability": 0.5, "xtc_threshold": 0.05},
    "dynatemp": RANDOM | {"dynatemp_range": 0.5, "dynatemp_exponent": 1.2},
    "penalties": {"repeat_penalty": 1.5, "repeat_last_n": 64, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    "repeat_last_n -1": {"repeat_penalty": 1.5, "repeat_last_n": -1},
    "dry": {"dry_multiplier": 2.0, "dry_base": 1.8, "dry_allowed_length": 1, "dry_penalty_last_n": 64},
    "dry_sequence_breakers": {"dry_multiplier": 2.0, "dry_sequence_breakers": ["\n", "king"]},
    "dry_sequence_breakers empty": {"dry_multiplier": 2.0, "dry_sequence_breakers": []},
    "mirostat 1": RANDOM | {"mirostat": 1, "mirostat_tau": 4.0, "mirostat_eta": 0.2},
    "mirostat 2": RANDOM | {"mirostat": 2},
    "adaptive": RANDOM | {"adaptive_target": 0.4, "adaptive_decay": 0.8},
    "min_keep": RANDOM | {"min_keep": 3, "min_p": 0.9},
    "samplers": RANDOM | {"samplers": ["top_k", "temperature"], "top_k": 2},
    "samplers, alternative names": RANDOM | {"samplers": ["top-k", "typ", "temp"], "top_k": 2},
    "samplers as letters": RANDOM | {"samplers": "kt", "top_k": 2},
    "samplers empty": RANDOM | {"samplers": []},
    "samplers unknown": {"samplers": ["nonsense", "temperature"]},
    "samplers a number": {"samplers": 3},
    "ignore_eos": {"ignore_eos": True},
    "logit_bias of ids": {"logit_bias": [[100, 100], [101, False]]},
    "logit_bias of texts": {"logit_bias": [[" the", -5], [" king", False]]},
    "logit_bias object": {"logit_bias": {"100": 100, " the": -5}},
    "logit_bias beyond the vocabulary": {"logit_bias": [[10**6, 1]]},
    "logit_bias text": {"logit_bias": "x"},
    "logit_bias bad pair": {"logit_bias": [[1]]},
    "logit_bias true": {"logit_bias": [[100, True]]},
    "grammar": {"grammar": 'root ::= " yes" | " no"'},
    "grammar bad": {"grammar": "root ::= ("},
    "grammar without a root": {"grammar": 'start ::= "x"'},
    "grammar a number": {"grammar": 3},
    "json_schema": {"json_schema": PERSON, "n_predict": 30, "max_tokens": 30},
    "json_schema empty": {"json_schema": {}},
    "json_schema bad type": {"json_schema": {"type": "nothing"}},
    "json_schema text": {"json_schema": "x"},
    "json_schema bad reference": {"json_schema": {"$ref": "#/nowhere"}},
    "grammar and json_schema": {"grammar": 'root ::= " yes"', "json_schema": PERSON},
    "temperature negative": {"temperature": -1},
    "temperature text": {"temperature": "hot"},
    "temperature null": {"temperature": None},
    "top_k text": {"top_k": "x"},
    "top_k a fraction": {"top_k": 2.7},
    "top_k negative": {"top_k": -1},
    "top_p 2": {"top_p": 2},
    "top_p a bool": {"top_p": True},
    "repeat_last_n -2": {"repeat_last_n": -2},
    "dry_base 0.5": {"dry_base": 0.5},
    "dry_sequence_breakers text": {"dry_sequence_breakers": "x"},
    "mirostat 3": {"mirostat": 3},
    "min_keep negative": {"min_keep": -1},
    "adaptive_decay 1": {"adaptive_decay": 1.0},
    "seed text": {"seed": "x"},
    "seed large": {"seed": 2**32 - 2},
    "backend_sampling": {"backend_sampling": True},
}
GENERAL: dict[str, dict[str, Any]] = {
    "plain": {},
    "n_predict 0": {"n_predict": 0, "max_tokens": 0},
    "n_predict -5": {"n_predict": -5, "max_tokens": -5},
    "n_predict text": {"n_predict": "x", "max_tokens": "x"},
    "n_predict null": {"n_predict": None, "max_tokens": None, "stop": [" "]},
    "max_tokens and n_predict": {"max_tokens": 3, "n_predict": 5},
    "max_completion_tokens": {"n_predict": ABSENT, "max_tokens": ABSENT, "max_completion_tokens": 4},
    "stop": {"stop": ["e"]},
    "stop a text": {"stop": "e"},
    "stop two": {"stop": ["zzz", "a"]},
    "stop empty text": {"stop": [""]},
    "stop empty list": {"stop": []},
    "stop a number": {"stop": 3},
    "stop a list of numbers": {"stop": [3]},
    "stop null": {"stop": None},
    "n 2": {"n": 2},
    "n 0": {"n": 0},
    "n text": {"n": "x"},
    "cache_prompt false": {"cache_prompt": False},
    "cache_prompt text": {"cache_prompt": "x"},
    "id_slot 0": {"id_slot": 0},
    "id_slot -1": {"id_slot": -1},
    "id_slot 99": {"id_slot": 99},
    "id_slot text": {"id_slot": "x"},
    "return_tokens": {"return_tokens": True},
    "return_tokens text": {"return_tokens": "x"},
    "timings_per_token": {"timings_per_token": True},
    "return_progress": {"return_progress": True, "cache_prompt": False},
    "response_fields": {"response_fields": ["content", "tokens_predicted", "nothing"]},
    "response_fields nested": {"response_fields": ["generation_settings/n_predict", "timings"]},
    "response_fields empty": {"response_fields": []},
    "response_fields text": {"response_fields": "content"},
    "response_fields of numbers": {"response_fields": [1]},
    "t_max_predict_ms": {"t_max_predict_ms": 60000},
    "n_keep -1": {"n_keep": -1},
    "n_keep -2": {"n_keep": -2},
    "n_discard -1": {"n_discard": -1},
    "n_indent": {"n_indent": 2},
    "n_indent text": {"n_indent": "x"},
    "verbose": {"verbose": True},
    "sse_ping_interval": {"sse_ping_interval": 1},
    "sse_ping_interval -2": {"sse_ping_interval": -2},
    "model number": {"model": 3},
    "user": {"user": "somebody"},
    "unknown field": {"nonsense": {"a": [1]}},
    "reasoning_format": {"reasoning_format": "none"},
    "reasoning_format unknown": {"reasoning_format": "nonsense"},
    "include_usage": {"stream_options": {"include_usage": True}},
    "stream_options text": {"stream_options": "x"},
    "stream_options null": {"stream_options": None},
}
# Last of all, and computed anew: llama-server goes on with the KV of other scales.
LORA: dict[str, dict[str, Any]] = {
    "lora none": {"lora": []},
    "lora scaled": {"lora": [{"id": 0, "scale": 0.5}]},
    "lora unknown": {"lora": [{"id": 7, "scale": 1.0}]},
    "lora text": {"lora": "x"},
    "lora without id": {"lora": [{"scale": 1.0}]},
}
PROBABILITIES: dict[str, dict[str, Any]] = {
    "n_probs": {"n_probs": 3},
    "n_probs and post_sampling_probs": {"n_probs": 3, "post_sampling_probs": True},
    "n_probs, post_sampling_probs and a temperature": RANDOM | {"n_probs": 3, "post_sampling_probs": True},
    "n_probs with a stop": {"n_probs": 2, "stop": ["e"]},
    "n_probs 0": {"n_probs": 0},
    "n_probs -1": {"n_probs": -1},
    "n_probs text": {"n_probs": "x"},
    "post_sampling_probs alone": {"post_sampling_probs": True},
    "logprobs 2": {"logprobs": 2},
    "logprobs 0": {"logprobs": 0},
    "logprobs true": {"logprobs": True},
    "logprobs true, top_logprobs 2": {"logprobs": True, "top_logprobs": 2},
    "logprobs text": {"logprobs": "x"},
    "top_logprobs alone": {"top_logprobs": 2},
}
PROMPTS: dict[str, dict[str, Any]] = {
    "prompt of tokens": {"prompt": [1, 290, 291, 292]},
    "prompt of tokens and texts": {"prompt": [1, "the old king", 290, " said"]},
    "prompts": {"prompt": ["the old king", "a girl"]},
    "prompts of tokens": {"prompt": [[1, 290, 291], [1, 292]]},
    "prompts of one": {"prompt": ["the old king"]},
    "prompt empty": {"prompt": ""},
    "prompt empty list": {"prompt": []},
    "prompt missing": {"prompt": ABSENT},
    "prompt null": {"prompt": None},
    "prompt number": {"prompt": 3},
    "prompt bool": {"prompt": True},
    "prompt object": {"prompt": {"prompt_string": "the old king"}},
    "prompt object without text": {"prompt": {"x": 1}},
    "prompt with an image": {"prompt": {"prompt_string": "<__media__>", "multimodal_data": ["QUJD"]}},
    "prompt with a picture": {"prompt": {"prompt_string": "the <__media__> king", "multimodal_data": PICTURES[:1]}},
    "prompt with two pictures": {
        "prompt": {"prompt_string": "a <__media__> and <__media__> of the king", "multimodal_data": PICTURES}
    },
    "prompt of a bad token": {"prompt": [10**6]},
    "prompt of a negative token": {"prompt": [-1]},
    "prompt of a fraction": {"prompt": [1.5]},
    "prompt with special tokens": {"prompt": "<s>the old</s> king"},
    "prompt beyond ASCII": {"prompt": "naïve — 雪 🦊"},
}


def _content(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def _begun(content: Any, *more: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", "content": content}, *more]}


CHATS: dict[str, dict[str, Any]] = {
    "system": {"messages": [{"role": "system", "content": "Be brief."}, USER]},
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
    "parts": _content([{"type": "text", "text": "Tell"}, {"type": "text", "text": "me"}]),
    "image": _content([{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]),
    "picture": _content(
        [
            {"type": "text", "text": "Tell me of"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURES[1]}"}},
        ]
    ),
    "sound": _content([{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}]),
    "part of an unknown type": _content([{"type": "nonsense", "text": "x"}]),
    "part without type": _content([{"text": "x"}]),
    "part no object": _content(["x"]),
    "no parts": _content([]),
    "messages missing": {"messages": ABSENT},
    "messages null": {"messages": None},
    "messages text": {"messages": "x"},
    "messages empty": {"messages": []},
    "message no object": {"messages": ["x"]},
    "message without role": {"messages": [{"content": "x"}]},
    "message without content": {"messages": [{"role": "user"}]},
    "message with content null": _content(None),
    "message with content number": _content(3),
    "role number": {"messages": [{"role": 3, "content": "x"}]},
    "role unknown": {"messages": [{"role": "nonsense", "content": "x"}]},
    "conversation": _begun("Once", {"role": "user", "content": "Go on."}),
    "continued": _begun("Once upon"),
    "continued by parts": _begun([{"type": "text", "text": "Once upon"}]),
    "continued without content": _begun(None),
    "two assistants last": _begun("A", {"role": "assistant", "content": "B"}),
    "continue_final_message": _begun("Once upon") | {"continue_final_message": True, "add_generation_prompt": False},
    "continue_final_message and add_generation_prompt":
        _begun("Once") | {"continue_final_message": True, "add_generation_prompt": True},
    "continue_final_message content": _begun("Once") | {"continue_final_message": "content", "add_generation_prompt": False},
    "continue_final_message of a user": {"continue_final_message": True, "add_generation_prompt": False},
    "add_generation_prompt false": {"add_generation_prompt": False},
    "add_generation_prompt text": {"add_generation_prompt": "x"},
    "tools": {"tools": [WEATHER]},
    "tools empty": {"tools": []},
    "tools text": {"tools": "x"},
    "tool without function": {"tools": [{"type": "function"}]},
    "tool without name": {"tools": [{"type": "function", "function": {"parameters": {}}}]},
    "tool of an unknown type": {"tools": [{"type": "nonsense"}]},
    "tool_choice none": {"tools": [WEATHER], "tool_choice": "none"},
    "tool_choice required": {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 40},
    "tool_choice named": {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}},
    "tool_choice unknown": {"tools": [WEATHER], "tool_choice": "nonsense"},
    "tool_choice without tools": {"tool_choice": "required"},
    "tools and a grammar": {"tools": [WEATHER], "grammar": 'root ::= "x"'},
    "parallel_tool_calls": {"tools": [WEATHER], "parallel_tool_calls": True},
    "tool's answer": {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Rome"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ],
        "tools": [WEATHER],
    },
    "response_format text": {"response_format": {"type": "text"}},
    "response_format json_object": {"response_format": {"type": "json_object"}},
    "response_format json_object with a schema":
        {"response_format": {"type": "json_object", "schema": PERSON}, "max_tokens": 30},
    "response_format json_schema":
        {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}},
    "response_format json_schema without schema": {"response_format": {"type": "json_schema"}},
    "response_format unknown": {"response_format": {"type": "nonsense"}},
    "response_format a text": {"response_format": "json_object"},
    "response_format and grammar": {"response_format": {"type": "json_object"}, "grammar": 'root ::= "x"'},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": False}},
    "chat_template_kwargs text": {"chat_template_kwargs": "x"},
    "reasoning_effort": {"reasoning_effort": "low"},
    "thinking_budget_tokens": {"thinking_budget_tokens": 0},
    "echo": {"echo": True},
    "prompt too": {"prompt": "x"},
    "documents": {"documents": [{"title": "t", "text": "x"}]},
}  # fmt: skip
TEXTS: dict[str, dict[str, Any]] = {
    "echo": {"echo": True},
    "echo and no tokens": {"echo": True, "max_tokens": 0, "logprobs": 1},
    "suffix": {"suffix": "the end"},
    "best_of": {"best_of": 2},
    "without other fields": {"model": ABSENT},
    "messages too": {"messages": [USER]},
}
INFILLS: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "small "},
    "extra": {"input_extra": [{"filename": "f.txt", "text": "A story."}]},
    "extra empty": {"input_extra": []},
    "extra text": {"input_extra": "x"},
    "extra without text": {"input_extra": [{}]},
    "extra with a bad name": {"input_extra": [{"filename": 3, "text": "x"}]},
    "prefix missing": {"input_prefix": ABSENT},
    "suffix missing": {"input_suffix": ABSENT},
    "prefix number": {"input_prefix": 3},
    "prompt number": {"prompt": 3},
    "n_probs": {"n_probs": 2},
    "stop": {"stop": ["e"]},
    "n_predict -5": {"n_predict": -5},
}

# Other routes: path, and the bodies by name.
TOKENS: dict[str, dict[str, dict[str, Any]]] = {
    "/tokenize": {
        "plain": {"content": PROMPT},
        "add_special": {"content": PROMPT, "add_special": True},
        "with_pieces": {"content": "naïve — 雪", "with_pieces": True},
        "parse_special": {"content": "<s>x</s>", "parse_special": True},
        "parse_special false": {"content": "<s>x</s>", "parse_special": False},
        "of tokens and texts": {"content": [1, "the old", 290]},
        "empty": {"content": ""},
        "missing": {},
        "null": {"content": None},
        "number": {"content": 3},
        "list of lists": {"content": [[1]]},
        "add_special text": {"content": "x", "add_special": "x"},
    },
    "/detokenize": {
        "plain": {"tokens": [290, 291, 292]},
        "special": {"tokens": [1, 290, 2]},
        "empty": {"tokens": []},
        "missing": {},
        "null": {"tokens": None},
        "text": {"tokens": "x"},
        "texts": {"tokens": ["x"]},
        "beyond the vocabulary": {"tokens": [10**6]},
        "negative": {"tokens": [-1]},
        "fraction": {"tokens": [1.5]},
    },
}
EMBEDDINGS: dict[str, dict[str, Any]] = {
    "text": {"input": PROMPT},
    "texts": {"input": ["the old king", "a girl"]},
    "tokens": {"input": [290, 291]},
    "lists of tokens": {"input": [[290, 291], [292]]},
    "content": {"content": PROMPT},
    "contents": {"content": ["the old king", "a girl"]},
    "input and content": {"input": "the old king", "content": "a girl"},
    "empty": {"input": ""},
    "empty list": {"input": []},
    "list with an empty text": {"input": ["x", ""]},
    "missing": {},
    "null": {"input": None},
    "number": {"input": 3},
    "bad token": {"input": [10**6]},
    "object": {"input": {"prompt_string": "the old king"}},
    "base64": {"input": PROMPT, "encoding_format": "base64"},
    "float": {"input": PROMPT, "encoding_format": "float"},
    "encoding unknown": {"input": PROMPT, "encoding_format": "nonsense"},
    "encoding number": {"input": PROMPT, "encoding_format": 3},
    "embd_normalize -1": {"input": PROMPT, "embd_normalize": -1},
    "embd_normalize 0": {"input": PROMPT, "embd_normalize": 0},
    "embd_normalize 1": {"input": PROMPT, "embd_normalize": 1},
    "embd_normalize 3": {"input": PROMPT, "embd_normalize": 3},
    "embd_normalize text": {"input": PROMPT, "embd_normalize": "x"},
    "dimensions": {"input": PROMPT, "dimensions": 2},
    "model and user": {"input": PROMPT, "model": "m", "user": "somebody"},
}
RANKINGS: dict[str, dict[str, Any]] = {
    "plain": {"query": "the king", "documents": ["the old king", "a boat", "the sea"]},
    "top_n": {"query": "the king", "documents": ["the old king", "a boat", "the sea"], "top_n": 2},
    "top_n 0": {"query": "the king", "documents": ["the old king", "a boat"], "top_n": 0},
    "top_n large": {"query": "the king", "documents": ["the old king"], "top_n": 9},
    "top_n text": {"query": "the king", "documents": ["the old king"], "top_n": "x"},
    "return_text": {"query": "the king", "documents": ["the old king"], "return_text": True},
    "texts": {"query": "the king", "texts": ["the old king", "a boat", "the sea"]},
    "texts with return_text": {"query": "the king", "texts": ["the old king", "a boat"], "return_text": True},
    "texts and documents": {"query": "the king", "texts": ["x"], "documents": ["y"]},
    "query missing": {"documents": ["x"]},
    "query number": {"query": 3, "documents": ["x"]},
    "query empty": {"query": "", "documents": ["x"]},
    "documents missing": {"query": "x"},
    "documents empty": {"query": "x", "documents": []},
    "documents text": {"query": "x", "documents": "y"},
    "documents of numbers": {"query": "x", "documents": [3]},
    "document empty": {"query": "x", "documents": [""]},
}
NO_BODIES = {  # by name: bytes that are no JSON object
    "malformed JSON": b'{"prompt": ',
    "JSON and more": b'{"prompt": "x"} x',
    "no body": b"",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"3",
    "JSON null": b"null",
    "bad UTF-8": b'{"prompt": "\xff"}',
    "an empty object": b"{}",
}
POSTS = (
    *("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions", "/infill"),
    *("/embedding", "/embeddings", "/v1/embeddings", "/rerank", "/reranking", "/v1/rerank", "/v1/reranking"),
    *("/tokenize", "/detokenize", "/apply-template", "/props", "/lora-adapters"),
    *("/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"),
)
GETS = ("/health", "/v1/health", "/metrics", "/props", "/models", "/v1/models", "/slots", "/lora-adapters")
ELSEWHERE = (  # method and path of what no other list has
    *(("GET", path) for path in ("/", "/nowhere", "/v1", "/slots?fail_on_no_slot=1", "/props?model=x", "/slots/0")),
    *(("POST", path) for path in ("/nowhere", "/slots/0", "/v1/chat/completions/control", "/responses")),
    *(("POST", path) for path in ("/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/tools")),
    *(("POST", path) for path in ("/responses/input_tokens", "/v1/responses/input_tokens", "/v1/streams/lookup")),
    *(("POST", path) for path in ("/models/load", "/models/unload", "/cors-proxy")),
    *(("POST", path) for path in ("/audio/transcriptions", "/v1/audio/transcriptions")),
    *(("GET", path) for path in ("/v1/stream", "/tools", "/cors-proxy", "/models/sse", "/v1/models/x")),
    *(("DELETE", path) for path in ("/v1/stream", "/models", "/completion")),
    *(("OPTIONS", path) for path in ("/completion", "/nowhere")),
    *(("HEAD", path) for path in ("/health", "/completion", "/nowhere")),
    *(("PUT", path) for path in ("/completion", "/props")),
    *(("GET", path) for path in ("/health/", "//health", "/completion/", "/HEALTH")),
)


@dataclass(frozen=True)
class Case:
    """One request, and the name under which its differences stand."""

    name: str
    method: str
    path: str
    data: bytes = b""
    type: str = JSON


def cases(n_ctx: int) -> list[Case]:
    """Return all requests, for servers whose prompts may have up to `n_ctx` tokens."""
    too_long = "a b " * n_ctx
    return [
        *(Case(f"GET {path}", "GET", path) for path in GETS),
        *_bodies("/completion", COMPLETION, GENERAL | SAMPLING | PROBABILITIES | PROMPTS),
        *_bodies("/v1/completions", TEXT, GENERAL | PROBABILITIES | PROMPTS | TEXTS),
        *_bodies("/v1/chat/completions", CHAT, GENERAL | PROBABILITIES | CHATS),
        *_bodies("/infill", INFILL, INFILLS),
        *_bodies("/completion", COMPLETION, {"too long": {"prompt": too_long}}),
        *_bodies("/v1/completions", TEXT, {"too long": {"prompt": too_long}}),
        *_bodies("/v1/chat/completions", CHAT, {"too long": {"messages": [USER | {"content": too_long}]}}),
        *_bodies("/infill", INFILL, {"too long": {"input_prefix": too_long}}),
        _post("/infill", "without stream", INFILL),
        _post("/completion", "stream text", COMPLETION | {"stream": "x"}),
        _post("/completion", "stream null", COMPLETION | {"stream": None}),
        *(_post(path, name, _with({"messages": [USER]}, change))
          for path in ("/apply-template", "/v1/chat/completions/input_tokens") for name, change in CHATS.items()),
        *(_post(path, name, body) for path, bodies in TOKENS.items() for name, body in bodies.items()),
        *(_post(path, name, body) for path in ("/embedding", "/embeddings", "/v1/embeddings")
          for name, body in (EMBEDDINGS | {"too long": {"input": too_long}}).items()),
        *(_post(path, name, body) for path in ("/rerank", "/v1/rerank")
          for name, body in (RANKINGS | {"too long": {"query": "x", "documents": [too_long]}}).items()),
        Case("POST /completion as text", "POST", "/completion", json.dumps(COMPLETION).encode(), "text/plain"),
        *(Case(f"POST {path}: {name}", "POST", path, data) for path in POSTS for name, data in NO_BODIES.items()
          if (path, name) != ("/lora-adapters", "a list")),
        *(Case(f"POST {path} as a form", "POST", path, b"prompt=x", "application/x-www-form-urlencoded")
          for path in ("/completion", "/v1/chat/completions")),
        *(Case(f"GET {path}", "GET", path) for path in POSTS if path not in GETS),
        *(Case(f"POST {path}", "POST", path, b"{}") for path in GETS if path not in POSTS),
        *(Case(f"{method} {path}", method, path, b"{}" if method == "POST" else b"") for method, path in ELSEWHERE),
        *(_post(f"/slots/0?action={action}", "plain", {"filename": "s.bin"})
          for action in ("save", "restore", "erase", "x")),
        _post("/slots/99?action=erase", "plain", {}),
        _post("/slots/x?action=erase", "plain", {}),
        _post("/slots/0?action=save", "bad name", {"filename": "../s.bin"}),
        _post("/slots/0?action=save", "no name", {}),
        *_bodies("/completion", COMPLETION | {"cache_prompt": False}, LORA),
        *_bodies("/v1/completions", TEXT | {"cache_prompt": False}, LORA),
        *_bodies("/v1/chat/completions", CHAT | {"cache_prompt": False}, LORA),
        *_adapters(),
    ]  # fmt: skip


def _bodies(path: str, usual: dict[str, Any], changes: dict[str, dict[str, Any]]) -> Iterator[Case]:
    """Yield each change of a body twice: answered at once, and streamed."""
    for name, change in changes.items():
        body = _with(usual, change)
        yield _post(path, name, body | {"stream": False})
        yield _post(path, f"{name}, streamed", body | {"stream": True})


def _with(body: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (body | change).items() if value is not ABSENT}


def _post(path: str, name: str, body: Any) -> Case:
    return Case(f"POST {path}: {name}", "POST", path, json.dumps(body).encode())


def _adapters() -> Iterator[Case]:
    """Yield changes of the LoRA scales, and after each that is allowed the text and the scales that follow."""
    for name, body in (
        ("scaled", [{"id": 0, "scale": 0.5}]), ("none", []), ("unknown", [{"id": 7, "scale": 1.0}]),
        ("without scale", [{"id": 0}]), ("id a text", [{"id": "x", "scale": 1.0}]), ("no objects", [3]),
        ("scale a text", [{"id": 0, "scale": "x"}]),
    ):  # fmt: skip
        yield _post("/lora-adapters", name, body)
        yield Case(f"GET /lora-adapters after {name}", "GET", "/lora-adapters")
        yield _post("/completion", f"with adapters {name}", COMPLETION | {"cache_prompt": False})
