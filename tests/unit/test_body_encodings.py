"""Bodies as clients send them: compressed, with a byte order mark, with half a character, or not in UTF-8."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
import zlib
from typing import Any

import brotli
import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.encodings import MAX_MEMBERS, PIECE, Decoder
from srb.wire.commands import Generate
from tests.scripted import ScriptedClient

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1024 * 1024
SETTINGS = Settings(max_body_bytes=LIMIT)
USER = {"role": "user", "content": "Hi"}
# A body of each dialect, whose text stands at "Hi".
BODIES: dict[str, Any] = {
    "/completion": {"prompt": "Hi"},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/chat/completions": {"messages": [USER]},
    "/v1/messages": {"messages": [USER], "max_tokens": 3},
    "/v1/responses": {"input": "Hi"},
    "/api/chat": {"model": "storyteller", "messages": [USER], "stream": False},
    "/api/v1/generate": {"prompt": "Hi"},
    "/tokenize": {"content": "Hi"},
}


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


ENCODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP, identity": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": raw_deflate,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": zstd.compress,
    "identity": bytes,
    "gzip, zstd": lambda data: zstd.compress(gzip.compress(data)),
    "br, deflate": lambda data: zlib.compress(brotli.compress(data)),
    "zstd,identity,br,gzip": lambda data: gzip.compress(brotli.compress(zstd.compress(data))),
}
BROKEN = ["gzip", "deflate", "br", "zstd", "br, zstd", "gzip, gzip"]  # and bombs are of these


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient(SETTINGS)


@pytest.fixture
def http(client: ScriptedClient) -> FlaskClient:
    return create_app(SETTINGS, client).test_client()


def send(http: FlaskClient, path: str, data: bytes, encoding: str = "") -> Any:
    return http.post(path, data=data, headers={"Content-Encoding": encoding} if encoding else {})


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_compressed_body_is_read(http: FlaskClient, path: str, encoding: str) -> None:
    data = orjson.dumps(BODIES[path])
    answer = send(http, path, ENCODINGS[encoding](data), encoding)
    assert answer.status_code == 200, answer.text


def pack(data: bytes, encoding: str) -> bytes:
    for name in encoding.split(", "):
        data = ENCODINGS[name](data)
    return data


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_two_members_are_one_body(http: FlaskClient, encoding: str) -> None:
    data = pack(b'{"content": ', encoding) + pack(b'"Hi"}', encoding)
    assert send(http, "/tokenize", data, encoding).json["tokens"] == [72, 105]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_members_without_a_byte_are_bounded(http: FlaskClient, encoding: str) -> None:
    body, nothing = pack(b'{"content": "Hi"}', encoding), pack(b"", encoding)
    assert send(http, "/tokenize", nothing * (MAX_MEMBERS - 1) + body, encoding).status_code == 200
    answer = send(http, "/tokenize", nothing * MAX_MEMBERS + body, encoding)
    assert answer.status_code == 400
    assert f"more than {MAX_MEMBERS} members" in answer.json["error"]["message"]


@pytest.mark.parametrize("encoding", ["compress", "lz4", "gzip, aws-chunked", "gzip, gzip, br, zstd, deflate"])
@pytest.mark.parametrize("path", BODIES)
def test_another_encoding_is_415_and_told_what_is_understood(http: FlaskClient, path: str, encoding: str) -> None:
    answer = send(http, path, b"\x28\xb5\x2f\xfd", encoding)
    assert answer.status_code == 415
    assert answer.headers["Accept-Encoding"] == "gzip, deflate, br, zstd"
    assert "Content-Encoding" in answer.text


@pytest.mark.parametrize("encoding", BROKEN)
def test_broken_compression_is_400(http: FlaskClient, encoding: str) -> None:
    packed = pack(orjson.dumps({"content": "Hi"}), encoding)
    for broken in (packed[:-3], b"\xff\xff" + packed[2:], packed + b"more", b'{"content": "Hi"}'):
        answer = send(http, "/tokenize", broken, encoding)
        assert answer.status_code == 400
        assert "Content-Encoding" in answer.json["error"]["message"]


@pytest.mark.parametrize("encoding", ["deflate", "deflate ", "gzip", "br", "zstd"])
@pytest.mark.parametrize("more", range(-2, 3))
def test_a_body_of_about_a_piece_is_decoded_whole(encoding: str, more: int) -> None:
    data = b"x" * (PIECE + more)
    decoder = Decoder(encoding, LIMIT)
    assert b"".join(decoder.feed(pack(data, encoding))) == data
    decoder.end()


@pytest.mark.parametrize("encoding", BROKEN)
def test_a_bomb_is_refused_before_it_is_decoded(http: FlaskClient, encoding: str) -> None:
    bomb = pack(b"[" * (40 * LIMIT), encoding)
    assert len(bomb) < LIMIT
    tracemalloc.start()
    answer = send(http, "/tokenize", bomb, encoding)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.status_code == 413
    assert f"larger than {LIMIT} bytes" in answer.json["error"]["message"]
    assert most < 8 * LIMIT


def test_a_layer_within_is_bounded_though_no_byte_comes_of_it(http: FlaskClient) -> None:
    endless_name = b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * (40 * LIMIT)
    assert send(http, "/tokenize", zstd.compress(endless_name), "gzip, zstd").status_code == 413


def test_the_limit_counts_the_decoded_bytes(http: FlaskClient) -> None:
    fits = b'{"content": "' + b"x" * (LIMIT - 15) + b'"}'
    assert len(fits) == LIMIT
    assert send(http, "/tokenize", gzip.compress(fits), "gzip").status_code == 200
    assert send(http, "/tokenize", gzip.compress(fits + b" "), "gzip").status_code == 413


@pytest.mark.parametrize("path", BODIES)
def test_a_byte_order_mark_before_a_body_is_no_part_of_it(http: FlaskClient, path: str) -> None:
    answer = send(http, path, b"\xef\xbb\xbf" + orjson.dumps(BODIES[path]))
    assert answer.status_code == 200, answer.text


HALVES = {
    r"tail \ud83d": ("tail \ufffd", 1),
    r"\ude00 head": ("\ufffd head", 1),
    r"\uD83D\uD83D\uDE00 \udc00\\ud800 \ud83d\n": ("\ufffd😀 \ufffd\\ud800 \ufffd\n", 3),
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("written", HALVES)
def test_half_a_character_is_replaced_and_told(
    client: ScriptedClient, http: FlaskClient, path: str, written: str
) -> None:
    text, count = HALVES[written]
    answer = send(http, path, orjson.dumps(BODIES[path]).replace(b"Hi", written.encode()))
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Replaced-Characters"] == str(count)
    if path == "/tokenize":
        assert bytes(answer.json["tokens"]).decode() == text
    else:
        prompts = [command.prompt for command in client.sent if isinstance(command, Generate)]
        assert text.strip() in "".join(map(str, prompts[-1]))


def test_whole_characters_are_not_told_of(http: FlaskClient) -> None:
    assert "X-Replaced-Characters" not in send(http, "/tokenize", rb'{"content": "\ud83d\ude00"}').headers


@pytest.mark.parametrize(("data", "place", "byte"), [(b'{"content": "caf\xe9"}', 16, "E9"), (b"\xff\xfe{", 0, "FF"),
                                                    ('{"content": "é'.encode() + b"\xed\xa0\x80", 15, "ED")])  # fmt: skip
def test_an_error_names_the_byte_that_is_not_utf8(http: FlaskClient, data: bytes, place: int, byte: str) -> None:
    answer = send(http, "/tokenize", data)
    assert answer.status_code == 400
    assert f"byte {place} is 0x{byte}" in answer.json["error"]["message"]
