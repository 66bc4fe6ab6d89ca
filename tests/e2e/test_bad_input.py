"""What people get wrong, on a whole server with a real model: the right status, the field's name, and no harm done."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import requests

from tests.processes import DEADLINE, wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

WELL = {"prompt": "Once upon a time,", "n": 2, "max_tokens": 2}


@pytest.fixture(autouse=True)
def nothing_else_is_harmed(storyteller: Server) -> Iterator[None]:
    """Check after each test that the same engine answers a good request and has nothing of the bad one in use."""
    engine = storyteller.engine
    yield
    answer = storyteller.post("/v1/srb/completions", WELL | {"stream": False})
    assert answer.status_code == 200
    assert len(answer.json()["completions"]) == 2
    assert storyteller.engine == engine
    wait_for(lambda: storyteller.metric("requests_processing") == 0, "nothing runs any more")


def send(server: Server, data: bytes | Iterator[bytes], path: str = "/v1/completions") -> requests.Response:
    return requests.post(server.url + path, data=data, timeout=DEADLINE)


def check_error(response: requests.Response, status: int, kind: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["type"] == kind
    assert type(error["code"]) is str or error["code"] == status  # a word on OpenAI's routes
    assert error["message"]
    return error


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b'{"prompt": "x"', b'{"prompt": "x"} and more', b"[]", b'"Once upon a time,"', b"null", b"prompt=x",
        b"{'prompt': 'x'}", b'{"prompt": "\xff"}', b'{"prompt": "\\ud8"}', b'\xfe\xff{"prompt": "x"}',
        b'{"prompt": "x", "temperature": NaN}', b'{"prompt": "x", "temperature": 1e999}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_a_json_object_is_400(storyteller: Server, data: bytes) -> None:
    error = check_error(send(storyteller, data), 400, "invalid_request_error")
    assert "body" in error["message"]


def test_a_form_is_refused_as_a_body(storyteller: Server) -> None:
    files = {"prompt": ("prompt.txt", b"Once upon a time,")}
    response = requests.post(f"{storyteller.url}/v1/completions", files=files, timeout=DEADLINE)
    check_error(response, 400, "invalid_request_error")


FIELDS: list[tuple[str, Any]] = [
    ("prompt", []), ("prompt", 7), ("prompt", {}), ("prompt", [1.5]), ("prompt", [-1]), ("prompt", [[]]),
    ("prompt", [10**6]), ("prompt", [True]),
    ("n", 0), ("n", -1), ("n", 65), ("n", 1.5), ("n", "3"), ("n", True), ("n", 1e9), ("n", 2**63), ("n", []), ("n", {}),
    ("max_tokens", -2), ("max_tokens", "many"), ("max_tokens", 2**31), ("n_predict", -2), ("max_tokens", 1.5),
    ("seed", 1.5), ("seed", "seven"),
    ("temperature", "hot"), ("temperature", 1e39), ("top_k", 0.5), ("top_p", []), ("repeat_penalty", 0),
    ("repeat_last_n", -2), ("dry_penalty_last_n", -2), ("dry_allowed_length", -1), ("dry_sequence_breakers", []),
    ("adaptive_decay", 1.0), ("min_keep", -1), ("presence_penalty", "1"),
    ("n_keep", -2), ("n_discard", -1), ("n_indent", -1), ("n_cache_reuse", -1),
    ("stop_at", "page"), ("stop_at", 1), ("stop_after", 0), ("stop_after", 2),
    ("stop", 7), ("stop", [7]), ("stop", ["x"] * 257), ("samplers", 7), ("stream", "yes"), ("ignore_eos", 1),
    ("logit_bias", 7), ("samplers", ["top_k", 3]), ("samplers", ["top_k"] * 33),
    ("logit_bias", [[i, 1] for i in range(1025)]),
    ("logprobs", -1), ("logprobs", 257), ("n_probs", "3"), ("top_logprobs", 1.5),
    ("grammar", "root ::= ("), ("grammar", "root ::= " + "(" * 200 + '"a"' + ")" * 200),
    ("grammar", 'root ::= "a"{1000000}'), ("grammar", "a" * 70_000), ("grammar", 7), ("grammar", "no-root ::= [a]"),
    ("grammar", 'root ::= root "a"'),
    ("stream_options", 7), ("best_of", 1), ("select", "diverse"), ("rank", "far"),
    ("cache_prompt", "no"),
    ("distinct_first", 1), ("distinct_first", "yes"), ("distinct_words", 1), ("distinct_words", []),
    ("explore", 1), ("explore", {"cutoff": -1}), ("explore", {"depth": 0}), ("explore", {"max_branches": "9"}),
    ("sibling_penalty", -1), ("sibling_penalty", 100.5), ("sibling_penalty", "2"), ("sibling_penalty", True),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=lambda part: repr(part)[:30])
def test_a_bad_value_is_400_and_named(storyteller: Server, field: str, value: Any) -> None:
    body = {**WELL, field: value}
    if field == "n_predict":
        del body["max_tokens"]
    error = check_error(send(storyteller, orjson.dumps(body)), 400, "invalid_request_error")
    assert field in error["message"]
    assert len(error["message"]) < 300


def test_the_prompt_may_not_be_missing(storyteller: Server) -> None:
    for body in (b"{}", b'{"prompt": null}', b'{"n": 3}'):
        error = check_error(send(storyteller, body), 400, "invalid_request_error")
        assert error["message"] == "Field 'prompt': is required"


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": -3}, {"top_p": 7}, {"top_p": -1}, {"top_k": -5}, {"min_p": 2}, {"mirostat": 9},
        {"dry_base": 0.1, "dry_multiplier": 1.0}, {"adaptive_target": 5.0}, {"samplers": ["top_k", "nonsense"]},
        {"an_unknown_field": {"of": ["any", "kind"]}}, {"temperature": None, "n": None, "stop": None}, {"stop": ["", ""]},
        {"logit_bias": [["the", False], ["x"], 7]}, {"temperature": 0}, {"temperature": 1e30},
        {"seed": 2**32 - 1}, {"seed": 2**64 - 1}, {"seed": -2},
        {"logit_bias": {"50256": -100}}, {"logit_bias": [[-1, 1], [2**40, False]]},
        {"dry_multiplier": 1.0, "dry_penalty_last_n": 2**31 - 1, "repeat_penalty": 1.1, "repeat_last_n": 2**31 - 1},
        {"dry_multiplier": 1.0, "dry_penalty_last_n": -1, "repeat_penalty": 1.1, "repeat_last_n": -1},
        {"samplers": ["xtc", "dry", "dry", "temp", "xtc", "temp"], "dry_multiplier": 1.0, "xtc_probability": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_what_llama_server_moves_into_range_or_skips_is_no_error(storyteller: Server, body: dict[str, Any]) -> None:
    response = send(storyteller, orjson.dumps(WELL | body), "/v1/srb/completions")
    assert response.status_code == 200, response.text
    assert '"event":"done"' in response.text


@pytest.mark.parametrize("field", ["json_schema", "t_max_predict_ms"])
def test_unsupported_fields_are_refused_and_not_ignored(storyteller: Server, field: str) -> None:
    body = WELL | {field: {"type": "object"} if field == "json_schema" else 100}
    response = send(storyteller, orjson.dumps(body))
    if response.status_code != 200:  # until it is there
        assert field in check_error(response, 501, "not_supported_error")["message"]


def test_a_prompt_longer_than_the_context_is_400_with_both_numbers(storyteller: Server) -> None:
    response = send(storyteller, orjson.dumps(WELL | {"prompt": "the sea " * 3000}))
    error = check_error(response, 400, "exceed_context_size_error")
    assert error["n_prompt_tokens"] > error["n_ctx"] == 2048  # what the bundled model was trained for
    assert str(error["n_prompt_tokens"]) in error["message"]
    assert str(error["n_ctx"]) in error["message"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
def test_another_method_is_405_and_says_which_there_are(storyteller: Server, method: str, path: str) -> None:
    response = requests.request(method, storyteller.url + path, timeout=DEADLINE)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    if method != "HEAD":
        check_error(response, 405, "invalid_request_error")


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/completions/7", "/../etc/passwd", "/%2e%2e/", "/v1%00"])
def test_an_unknown_path_is_404(storyteller: Server, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", storyteller.port, timeout=DEADLINE)
    connection.request("GET", path)  # as it stands: requests would tidy it
    response = connection.getresponse()
    assert response.status == 404
    assert orjson.loads(response.read())["error"]["type"] == "not_found_error"
    connection.close()


def test_slashes_too_many_are_no_error(storyteller: Server) -> None:
    for path in ("//v1//completions", "/v1/completions/"):
        assert send(storyteller, orjson.dumps(WELL), path).status_code == 200


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_too_large_is_413(storyteller: Server, chunked: bool) -> None:
    piece, pieces = b" " * 2**20, 33
    data = (piece for _ in range(pieces)) if chunked else piece * pieces
    try:
        response = send(storyteller, data)
    except requests.ConnectionError:
        return  # the server has answered and closed while we were still sending
    error = check_error(response, 413, "invalid_request_error")
    assert "33554432 bytes" in error["message"]
