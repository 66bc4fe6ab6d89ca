"""The example for nginx: what it forwards arrives as it is made, and a client that leaves is noticed behind it."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from tests.e2e.streams import ENDLESS
from tests.processes import DEADLINE, ROOT, Process, clean_environ, self_signed, wait_for
from tests.servers import PACED, Server, free_port

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("nginx") is None, reason="nginx is not installed (Debian: apt install nginx-light)"
    ),
]

AROUND = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/srb.conf;
}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server behind a proxy, which the tests of this module share; do not kill any part of it."""
    settings = {
        "model": PACED,
        "allowed_hosts": "srb.example.org",
        "trusted_proxies": "127.0.0.1",
        "log_level": "debug",
    }
    with Server(tmp_path_factory.mktemp("behind"), **settings) as server:
        yield server.start()


@pytest.fixture(scope="module")
def plain() -> int:
    """The port for HTTP."""
    return free_port()


@pytest.fixture(scope="module")
def url(server: Server, plain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an nginx with the example's configuration before the server."""
    port, folder = free_port(), tmp_path_factory.mktemp("nginx")
    self_signed(folder, "srb.example.org")
    text = (ROOT / "config" / "nginx" / "srb.conf").read_text()
    text = text.replace("/etc/ssl/srb", str(folder))
    for name, own in (("443", port), ("80", plain)):
        text = text.replace(f"listen {name}", f"listen 127.0.0.1:{own}").replace(
            f"listen [::]:{name}", f"listen [::1]:{own}"
        )
    (folder / "srb.conf").write_text(text.replace("127.0.0.1:9090", f"127.0.0.1:{server.port}"))
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder))
    command = ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf")]
    subprocess.run([*command, "-t"], check=True, timeout=DEADLINE)
    with ExitStack() as stack:
        stack.enter_context(Process(command, clean_environ(), folder / "nginx.log"))
        url = f"https://127.0.0.1:{port}"
        wait_for(lambda: answers(url), "nginx listens")
        yield url


def answers(url: str) -> bool:
    try:
        return get(url + "/health").status_code == 200
    except requests.ConnectionError:
        return False


def get(url: str) -> requests.Response:
    return requests.get(url, headers={"Host": "srb.example.org"}, verify=False, timeout=DEADLINE)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_events_pass_one_by_one_and_a_client_that_leaves_ends_its_request(server: Server, url: str) -> None:
    options = {"headers": {"Host": "srb.example.org"}, "verify": False, "timeout": DEADLINE, "stream": True}
    with requests.post(f"{url}/v1/completions", json=ENDLESS, **options) as answer:
        lines = answer.iter_lines(chunk_size=1)
        assert b'"event":"start"' in next(lines)  # of a stream that has no end
        assert server.metric("requests_processing") == 1
    wait_for(lambda: server.metric("requests_processing") == 0, "its request has ended")


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_the_log_has_the_address_of_nginxs_client_whatever_the_client_says(server: Server, url: str) -> None:
    address = ("127.0.0.9", 0)  # of this machine, and no trusted proxy's
    with requests.Session() as session:
        session.mount("https://", From(address))
        headers = {"Host": "srb.example.org", "X-Forwarded-For": "6.6.6.6"}
        assert session.get(f"{url}/v1/models", headers=headers, verify=False, timeout=DEADLINE).status_code == 200
    wait_for(lambda: "GET /v1/models" in server.logs, "it is logged")
    assert re.search(r"GET /v1/models 127\.0\.0\.9 \w+: 200", server.logs)


class From(requests.adapters.HTTPAdapter):
    """Connections from one address of this machine."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, source_address=self._address, **options)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_http_leads_to_https_by_both_families(url: str, plain: int) -> None:
    for host in ("127.0.0.1", "[::1]"):
        http = f"http://{host}:{plain}/v1/models?x=1"
        answer = requests.post(http, headers={"Host": "srb.example.org"}, allow_redirects=False, timeout=DEADLINE)
        assert (answer.status_code, answer.headers["Location"]) == (308, "https://srb.example.org/v1/models?x=1")
        assert get(url.replace("127.0.0.1", host) + "/livez").status_code == 200


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_name_that_is_not_the_servers_is_refused_behind_nginx_too(url: str) -> None:
    answer = requests.get(f"{url}/v1/models", headers={"Host": "evil.example"}, verify=False, timeout=DEADLINE)
    assert answer.status_code == 403


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_stories_are_open_to_the_page_behind_nginx_and_to_no_other(url: str) -> None:
    host = f"srb.example.org:{url.rpartition(':')[2]}"
    body = {"nodes": {"a": {"text": "Once", "by": "person"}}}

    def post(origin: str) -> int:
        headers = {"Host": host, "Origin": origin}
        answer = requests.post(f"{url}/v1/srb/stories/x", json=body, headers=headers, verify=False, timeout=DEADLINE)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        return answer.status_code

    assert post(f"https://{host}") == 200
    for origin in (f"http://{host}", "https://srb.example.org", "https://evil.example", "null"):
        assert post(origin) == 403, origin


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_one_address_has_a_bounded_number_of_requests_at_once(url: str) -> None:
    found = re.search(r"limit_conn srb (\d+);", (ROOT / "config" / "nginx" / "srb.conf").read_text())
    assert found is not None
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    half = b"POST /v1/completions HTTP/1.1\r\nHost: srb.example.org\r\nContent-Length: 9\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(int(found[1])):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))))
            stack.enter_context(trusting.wrap_socket(sock)).sendall(half)
        wait_for(lambda: get(f"{url}/livez").status_code == 429, "there is no room for another")
    wait_for(lambda: get(f"{url}/livez").status_code == 200, "there is room again")
