"""Keys, host names, origins, prefix, files, HTTPS and sockets, over real gunicorn: what arrives there is not tidied."""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
import requests

from tests.processes import DEADLINE, PYTHON, Process, clean_environ, command_line, self_signed, wait_for
from tests.servers import MakeServer, Server, everything_ends, free_port

pytestmark = pytest.mark.e2e

KEY = "correct-horse-battery-staple"
BODY = {"prompt": "Once upon a time,", "n": 2, "max_tokens": 3}


def raw(server: Server, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Send a request as it stands; return its answer's status, headers and body."""
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as connection:
        connection.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1") + body)
        answer = http.client.HTTPResponse(connection, method=lines[0].split()[0])
        answer.begin()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with keys and a folder of files, behind a prefix."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"# of the house\n{KEY}\n")
    (folder / "files").mkdir()
    (folder / "files" / "index.html").write_text("<h1>mine</h1>")
    (folder / "files" / "app.js").write_text("let x")
    (folder / "files" / "out").symlink_to(folder / "keys")
    with Server(folder, api_key="key-1,key-2", api_key_file=folder / "keys", static_path=folder / "files",
                api_prefix="/llm", log_level="debug") as server:  # fmt: skip
        yield server.start()


# Keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /llm/v1/models", "GET //llm//v1//models", "GET /llm/%76%31/models", "GET /llm/%2e/v1/models", "HEAD /llm/slots",
        "GET /llm/health/../v1/models", "GET /llm/health%2f..%2fv1%2fmodels", "GET /llm/health/%2e%2e/v1/models",
        "GET /v1/models", "GET /llm/v1/models?key=key-1", "GET /llm/v1/models#/health", "GET http://localhost/llm/v1/models",
        "GET http://localhost/llm/health/../v1/models", "POST /llm/health", "PUT /llm/", "BREW /llm/v1/models",
        "GET /llm/out", "GET /llm/../keys", "GET /llm/%2e%2e/keys", "GET /llm/..%2fkeys", "DELETE /llm/app.js",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "header",
    ["", "Authorization: Bearer wrong", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "SCRIPT_NAME: /llm/v1",
     "Script-Name: /llm/v1", "Path-Info: /health", "X-Original-URL: /llm/health", "Authorization: Bearer key-1,key-2"],
    ids=lambda header: header.partition(":")[0] or "no header",
)  # fmt: skip
def test_without_a_key_everything_is_401(locked: Server, request_line: str, header: str) -> None:
    status, headers, body = raw(locked, f"{request_line} HTTP/1.1", "Host: localhost", *filter(None, [header]))
    assert status == 401, body
    assert headers["access-control-allow-origin"] == "*"
    assert b"Invalid API Key" in body or request_line.startswith("HEAD")


@pytest.mark.parametrize("size", [0, 20, 3_000_000])
def test_an_answer_401_ends_its_connection_and_reaches_a_client_that_still_sends(locked: Server, size: int) -> None:
    with socket.create_connection(("127.0.0.1", locked.port), DEADLINE) as client:
        head = f"POST /llm/v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
        client.sendall(head + b" " * size)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.status == 401
        assert answer.headers["Connection"] == "close"
        assert b"Invalid API Key" in answer.read()
        assert client.recv(1) == b""


def test_a_spoofed_host_does_not_help(locked: Server) -> None:
    for host in ("localhost", "evil.example", "127.0.0.1", ""):
        assert raw(locked, "GET /llm/v1/models HTTP/1.1", f"Host: {host}")[0] == 401


@pytest.mark.parametrize("key", ["key-1", "key-2", KEY])
def test_every_key_opens(locked: Server, key: str) -> None:
    assert locked.get("/llm/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert locked.get("/llm/v1/models", headers={"X-Api-Key": key}).status_code == 200
    answer = locked.post("/llm/v1/completions", BODY, headers={"X-Api-Key": key})
    assert answer.text.count('"event":"stop"') == 2


def test_health_and_the_page_need_no_key(locked: Server) -> None:
    for path, text in (("/llm/health", "ok"), ("/llm/v1/health", "ok"), ("/llm/", "mine"), ("/llm", "mine")):
        response = locked.get(path)
        assert response.status_code == 200
        assert text in response.text
    assert locked.get("/llm/app.js").text == "let x"
    assert locked.get("/llm/app.js", headers={"Range": "bytes=4-"}).text == "x"


def test_keys_appear_in_no_answer_log_or_command_line(locked: Server) -> None:
    locked.get("/llm/v1/models", headers={"X-Api-Key": KEY})
    locked.get("/llm/v1/models", headers={"X-Api-Key": "wrong"})
    headers = {"X-Api-Key": KEY}
    told = [
        locked.get(path, headers=headers).text for path in ("/llm/props", "/llm/slots", "/llm/metrics", "/llm/models")
    ]
    told += [locked.logs, *map(command_line, locked.all_pids())]
    told += [Path(f"/proc/{pid}/environ").read_text() for pid in (locked.supervisor, locked.engine)]
    for key in ("key-1", "key-2", KEY):
        assert not [text for text in told if key in text]


def test_preflight_needs_no_key(locked: Server) -> None:
    status, headers, _ = raw(
        locked, "OPTIONS /llm/v1/completions HTTP/1.1", "Host: localhost", "Origin: null",
        "Access-Control-Request-Headers: authorization,x-stainless-os", "Access-Control-Request-Private-Network: true",
    )  # fmt: skip
    assert status == 200
    assert headers["access-control-allow-origin"] == "null"
    assert headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert headers["access-control-allow-private-network"] == "true"


def test_every_answer_may_be_read_by_the_page_that_asked(locked: Server) -> None:
    headers = {"Origin": "https://example.org", "X-Api-Key": KEY}
    answers = [
        locked.get("/llm/health", headers=headers),
        locked.get("/llm/nowhere", headers=headers),
        locked.get("/elsewhere", headers=headers),
        locked.get("/llm/app.js", headers=headers),
        locked.get("/llm/slots", headers=headers | {"X-Api-Key": "wrong"}),
        locked.post("/llm/v1/completions", BODY, headers=headers),
        locked.post("/llm/v1/completions", {"prompt": 7}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 404, 200, 401, 200, 400]
    for answer in answers:
        assert answer.headers["Access-Control-Allow-Origin"] == "https://example.org"


# Host names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]"]
)
def test_a_local_server_without_keys_answers_to_no_foreign_name(server: Server, host: str) -> None:
    status, headers, body = raw(server, "GET /v1/models HTTP/1.1", f"Host: {host}", "X-Forwarded-Host: localhost")
    assert status == 403
    assert b"allowed_hosts" in body
    assert headers["server"] == "llama.cpp"


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:9090", "writer.localhost"])
def test_it_answers_to_its_own_names(server: Server, host: str) -> None:
    assert raw(server, "GET /v1/models HTTP/1.1", f"Host: {host}")[0] == 200


def test_two_host_headers_are_refused(server: Server) -> None:
    assert raw(server, "GET /v1/models HTTP/1.1", "Host: localhost", "Host: evil.example")[0] == 400


# Slow and odd requests ------------------------------------------------------------------------------------------------


IMPATIENT = {"client_timeout": 1, "keepalive": 1}


def test_a_body_that_does_not_arrive_is_408(server_with: MakeServer) -> None:
    server = server_with(**IMPATIENT)
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 408
        assert b"within 1 seconds" in answer.read()
        with suppress(ConnectionError):  # it may be closed already
            connection.sendall(b'"prompt": ')  # still too slow: the rest is not waited for
            assert connection.recv(1) == b""


def test_headers_that_do_not_arrive_end_the_connection(server_with: MakeServer) -> None:
    server = server_with(**IMPATIENT)
    for sent in (b"", b"GET /health HTTP/1.1\r\nHost: local"):
        # suppress: it may be closed already
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as connection, suppress(ConnectionError):
            connection.sendall(sent)
            assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        (["X: " + "y" * 10_000], {431}),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], {400}),
        (["Transfer-Encoding: sideways"], {400, 501}),
        (["Content-Length: -1"], {400}),
        (["Content-Length: 1", "Content-Length: 2"], {400}),
        (["no colon"], {400}),
    ],
    ids=lambda part: str(part)[:30],
)
def test_a_malformed_request_is_refused_by_the_web_server(
    server: Server, headers: list[str], statuses: set[int]
) -> None:
    assert raw(server, "POST /v1/completions HTTP/1.1", "Host: localhost", *headers)[0] in statuses


HOST = "Host: localhost"
MALFORMED = {
    "no Host": (400, ["GET {path} HTTP/1.1"]),
    "two Hosts": (400, ["GET {path} HTTP/1.1", HOST, HOST]),
    "an address too long": (414, ["GET {path}?{long} HTTP/1.1", HOST]),
    "a header too long": (431, ["GET {path} HTTP/1.1", HOST, "X: {long}"]),
    "too many headers": (431, ["GET {path} HTTP/1.1", HOST, *(["X: y"] * 1000)]),
    "no number as length": (400, ["POST {path} HTTP/1.1", HOST, "Content-Length: x"]),
    "two lengths": (400, ["POST {path} HTTP/1.1", HOST, "Content-Length: 1", "Content-Length: 2"]),
    "an unknown encoding": (501, ["POST {path} HTTP/1.1", HOST, "Transfer-Encoding: sideways"]),
    "an expectation": (417, ["POST {path} HTTP/1.1", HOST, "Expect: wonders"]),
    "an unknown version": (400, ["GET {path} HTTP/9.9", HOST]),
    "a method with a null byte": (400, ["g\x00et {path} HTTP/1.1", HOST]),
    "a folded header": (400, ["GET {path} HTTP/1.1", HOST, "X: y", " z"]),
    "a header without a colon": (400, ["GET {path} HTTP/1.1", HOST, "no colon"]),
}
ROUTES = [
    "/",
    "/health",
    "/v1/completions",
    "/v1/messages",
    "/api/chat",
    "/api/v1/generate",
    "/page/nowhere",
    "/nowhere",
]


@pytest.mark.parametrize(("status", "lines"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_refused_before_a_route_sees_it_is_json(server: Server, status: int, lines: list[str]) -> None:
    for path in ROUTES:
        given = [line.replace("{path}", path).replace("{long}", "x" * 10_000) for line in lines]
        answered, headers, body = raw(server, *given)
        error = orjson.loads(body)["error"]
        assert (answered, headers["content-type"]) == (status, "application/json"), path
        assert error["code"] == status or type(error["code"]) is str, path  # a word on OpenAI's routes
        assert error["message"], path
        assert error["type"] in ("invalid_request_error", "not_supported_error"), path
        assert headers["connection"] == "close", path


def test_http_1_0_needs_no_host(server: Server) -> None:
    assert raw(server, "GET /livez HTTP/1.0")[0] == 200


# Where it listens -----------------------------------------------------------------------------------------------------


def test_https_streams_and_notices_a_client_that_leaves(make_server: MakeServer, tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path)
    server = make_server(ssl_key_file=key, ssl_cert_file=certificate).start(wait=False)
    context = ssl.create_default_context(cafile=certificate)
    url = f"https://localhost:{server.port}"

    def reached() -> bool:
        try:
            return requests.get(f"{url}/health", verify=str(certificate), timeout=DEADLINE).status_code == 200
        except requests.ConnectionError:
            return False

    wait_for(lambda: server.has_ended or reached(), "GET /health answers 200")
    answer = requests.post(f"{url}/v1/completions", json=BODY, verify=str(certificate), timeout=DEADLINE)
    assert answer.text.count('"event":"stop"') == 2
    wait_for(lambda: f"page    https://127.0.0.1:{server.port}/" in server.logs, "the first screen names https")

    def running() -> float:
        text = requests.get(f"{url}/metrics", verify=str(certificate), timeout=DEADLINE).text
        found = [line for line in text.splitlines() if line.startswith("llamacpp:requests_processing ")]
        return float(found[0].split()[1]) if found else -1.0  # the engine has not answered in time

    connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=DEADLINE)
    connection.request("POST", "/v1/srb/completions", b'{"prompt": "x", "max_tokens": -1, "ignore_eos": true, "n": 2}')
    connection.getresponse().read(10)
    wait_for(lambda: running() == 1, "one request runs")
    connection.close()
    wait_for(lambda: running() == 0, "the branches of the client that left have ended")
    with everything_ends(server):
        assert server.stop() == 0


def test_a_socket_and_several_addresses_are_listened_to(make_server: MakeServer, tmp_path: Path) -> None:
    path = tmp_path / "srb.sock"
    server = make_server(host=f"127.0.0.1,127.0.0.2,{path}", trusted_proxies="unix").start()
    assert requests.get(f"http://127.0.0.2:{server.port}/health", timeout=DEADLINE).status_code == 200
    connection = http.client.HTTPConnection("any.name.at.all")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    headers = {"Host": "localhost", "X-Forwarded-For": "203.0.113.7"}
    connection.request("POST", "/v1/completions", b'{"prompt": "x", "n": 2, "max_tokens": 3}', headers)
    assert connection.getresponse().read().count(b'"event":"stop"') == 2
    connection.close()
    wait_for(lambda: "POST /v1/completions 203.0.113.7" in server.logs, "the client of the socket's proxy is logged")
    assert path.stat().st_mode & 0o777 == 0o777 & ~current_umask()
    assert server.stop() == 0


def test_a_socket_alone_is_enough_and_its_first_screen_works(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server(host=tmp_path / "srb.sock", model="storyteller", threads=1).start(wait=False)
    [command] = wait_for(lambda: re.findall(r"try it +(curl .*)", server.logs), "the first screen is shown")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout.count('"event":"stop"') == 8


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_llama_servers_command_starts_this_server_and_sigterm_ends_all_of_it(tmp_path: Path) -> None:
    port = free_port()
    command = [
        PYTHON, "-m", "srb.cli.main", "serve", "-m", "fake:", "-c", "4096", "--host", "127.0.0.1", "--port", port,
        "-np", "4", "-ngl", "99", "--api-key", KEY, "--metrics", "--temp", "0.7", "-n", "5", "--threads-http", "8",
        "--slots",
    ]  # fmt: skip
    environ = clean_environ(runtime_dir=tmp_path / "run", graceful_timeout=2) | {"LLAMA_ARG_ALIAS": "mine"}
    url = f"http://127.0.0.1:{port}"
    with Process(command, environ, tmp_path / "log") as process:

        def ready() -> bool:
            try:
                return requests.get(f"{url}/health", timeout=DEADLINE).status_code == 200
            except requests.ConnectionError:
                return False

        wait_for(lambda: process.popen.poll() is not None or ready(), "GET /health answers 200")
        assert KEY not in command_line(process.pid)
        assert process.logs.count("srb: --threads-http has no effect") == 1
        headers = {"X-Api-Key": KEY}
        props = requests.get(f"{url}/props", headers=headers, timeout=DEADLINE).json()
        assert props["default_generation_settings"]["params"]["temperature"] == 0.7
        assert props["model_alias"] == "mine"
        answer = requests.post(f"{url}/completion", json={"prompt": "x"}, headers=headers, timeout=DEADLINE).json()
        assert answer["tokens_predicted"] <= 5
        stream = requests.post(f"{url}/completion", headers=headers, stream=True, timeout=DEADLINE,
                               json={"prompt": "x", "stream": True, "n_predict": -1, "ignore_eos": True})  # fmt: skip
        next(stream.iter_lines())
        assert process.stop() == 0
        assert KEY not in process.logs
    assert not (tmp_path / "run").exists()
