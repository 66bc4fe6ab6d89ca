"""Writes of an answer: in pieces that each have write_timeout, so that a reader may be slow, but may not stand still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from srb.serve.gunicorn_worker import Response


class Connection:
    """A connection that notes its writes, and the timeout that each has."""

    def __init__(self) -> None:
        self.timeout: float | None = 99
        self.writes: list[tuple[bytes, float | None]] = []

    def gettimeout(self) -> float | None:
        return self.timeout

    def settimeout(self, timeout: float | None) -> None:
        self.timeout = timeout

    def sendall(self, data: bytes) -> None:
        if len(self.writes) == 9:
            raise TimeoutError
        self.writes.append((bytes(data), self.timeout))


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def response(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Response, "write_timeout", 7)
    request = SimpleNamespace(method="POST", version=(1, 1), should_close=lambda: False)
    response = Response(request, connection, SimpleNamespace(sendfile=False, is_ssl=False))
    response.headers_sent, response.status, response.status_code = True, "200 OK", 200
    return response


def test_a_large_answer_is_written_in_pieces_with_a_timeout_each(response: Any, connection: Connection) -> None:
    answer = bytes(range(256)) * 300
    response.response_length = len(answer)
    response.write(answer)
    assert b"".join(data for data, _ in connection.writes) == answer
    assert len(connection.writes) == 5
    assert {timeout for _, timeout in connection.writes} == {7}
    assert connection.timeout == 99


def test_a_chunk_is_framed_and_written_at_once(response: Any, connection: Connection) -> None:
    response.chunked = True
    response.write(b"hello")
    assert connection.writes == [(b"5\r\nhello\r\n", 7)]


def test_the_headers_and_the_end_of_a_chunked_answer_have_the_timeout_too(
    response: Any, connection: Connection
) -> None:
    response.headers_sent, response.chunked = False, True
    response.default_headers = lambda: ["HTTP/1.1 200 OK\r\n"]
    response.close()
    assert connection.writes == [(b"HTTP/1.1 200 OK\r\n\r\n", 7), (b"0\r\n\r\n", 7)]
    assert connection.timeout == 99


@pytest.fixture
def unsent(response: Any) -> Any:
    """A response whose headers are not sent yet."""
    response.headers_sent, response.headers = False, [("X-Name", "\xe9")]
    response.default_headers = lambda: ["HTTP/1.1 200 OK\r\n"]
    return response


HEAD = b"HTTP/1.1 200 OK\r\nX-Name: \xe9\r\n\r\n"


def test_the_headers_and_the_first_chunk_are_one_write(unsent: Any, connection: Connection) -> None:
    unsent.chunked = True
    unsent.write(b"hello")
    unsent.write(b"you")
    assert connection.writes == [(HEAD + b"5\r\nhello\r\n", 7), (b"3\r\nyou\r\n", 7)]


def test_the_headers_of_a_large_answer_are_part_of_its_first_piece(unsent: Any, connection: Connection) -> None:
    answer = bytes(range(256)) * 128
    unsent.response_length = len(answer)
    unsent.write(answer)
    assert b"".join(data for data, _ in connection.writes) == HEAD + answer
    assert [len(data) for data, _ in connection.writes] == [16384, 16384, len(HEAD)]


@pytest.mark.parametrize("omitted", [b"", b"a body that HEAD does not have"])
def test_headers_without_a_body_are_written_at_once_and_once(
    unsent: Any, connection: Connection, omitted: bytes
) -> None:
    unsent.chunked = not omitted
    unsent._omits_body = bool(omitted)
    unsent.write(omitted)
    assert connection.writes == [(HEAD, 7)]
    unsent.chunked = False
    unsent.close()
    assert connection.writes == [(HEAD, 7)]


def test_after_a_piece_that_nobody_takes_the_timeout_is_the_old_one(response: Any, connection: Connection) -> None:
    with pytest.raises(TimeoutError):
        response.write(b"x" * 2**20)
    assert connection.timeout == 99
