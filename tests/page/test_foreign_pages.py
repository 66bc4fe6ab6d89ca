"""Pages of other origins in a real browser: they read and change no story, and no request but their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, Page

from tests.needs import chromium
from tests.servers import Server
from tests.stories import person

pytestmark = pytest.mark.e2e

STORIES = "/v1/srb/stories"
ONE = f"{STORIES}/lighthouse"
EVIL = '{"nodes": {"evil": {"text": "x", "by": "person"}}}'
JSON = {"Content-Type": "application/json"}
PLAIN = {"Content-Type": "text/plain"}
FETCH = """async ([url, options]) => {
  try {
    const answer = await fetch(url, options);
    return `${answer.type} ${answer.status} ${await answer.text()}`;
  } catch (error) {
    return error.name;
  }
}"""
SEND_FORM = """([url, name, value]) => new Promise((resolve) => {
  const frame = Object.assign(document.createElement("iframe"), { name: "answer" });
  const field = Object.assign(document.createElement("input"), { name, value });
  const form = document.createElement("form");
  Object.assign(form, { action: url, method: "post", enctype: "text/plain", target: "answer" });
  form.append(field);
  document.body.append(frame, form);
  frame.onload = () => resolve(true);
  form.submit();
})"""
RESTING = {"prompt": "Once upon", "max_tokens": 5, "stream": False, "linger": 60}  # seconds that it can be controlled
REQUESTS = "/v1/srb/completions"
LOAD_SCRIPT = """(url) => new Promise((resolve) => {
  const script = Object.assign(document.createElement("script"), { src: url });
  script.onload = () => resolve("loaded");
  script.onerror = () => resolve("refused");
  document.body.append(script);
})"""


class Elsewhere(BaseHTTPRequestHandler):
    """Answers every request by an empty page."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>Elsewhere</title><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is as open as its settings allow, with a story."""
    folder = tmp_path_factory.mktemp("open")
    with Server(folder, host="0.0.0.0", cors_origins="*") as server:
        server.start()
        assert server.post(ONE, {"nodes": {"mine": person("Once upon a time,")}}).status_code == 200
        yield server


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of a page on another port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{other.server_port}/"
        other.shutdown()


@pytest.fixture
def foreign(browser: Browser, elsewhere: str) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(elsewhere)
        yield page


def assert_unchanged(server: Server) -> None:
    assert list(server.get(ONE).json()["nodes"]) == ["mine"]
    assert [story["id"] for story in server.get(STORIES).json()["stories"]] == ["lighthouse"]


def test_a_foreign_page_sees_and_ends_no_request_but_its_own(foreign: Page, server: Server) -> None:
    def ask(path: str, **options: Any) -> tuple[str, str]:
        kind, _, text = foreign.evaluate(FETCH, [server.url + path, options]).partition(" ")
        return f"{kind} {text[:3]}", text[4:]

    writers = server.post(REQUESTS, RESTING).json()["id"]
    began, answer = ask(REQUESTS, method="POST", body=json.dumps(RESTING), headers=JSON)
    own = json.loads(answer)["id"]
    assert began == "cors 200"
    assert [each["id"] for each in json.loads(ask(REQUESTS)[1])["completions"]] == [own]
    assert (ask(f"{REQUESTS}/{own}")[0], ask(f"{REQUESTS}/{writers}")[0]) == ("cors 200", "cors 404")
    for method, path in (("GET", "/events"), ("DELETE", ""), ("DELETE", "/branches/0")):
        assert ask(f"{REQUESTS}/{writers}{path}", method=method)[0] == "cors 404", path
    assert ask(f"{REQUESTS}/{writers}/branches", method="POST", body="{}")[0] == "cors 404"
    assert ask(f"{REQUESTS}/{own}", method="DELETE")[0] == "cors 200"
    assert [each["id"] for each in server.get(REQUESTS).json()["completions"]] == [writers]
    for method, path in (("GET", "/slots"), ("POST", "/slots/0?action=erase"), ("POST", "/lora-adapters")):
        assert ask(path, method=method)[0] == "cors 403", path
        assert ask(path, method=method, mode="no-cors")[0].startswith("opaque"), path
    assert requests.delete(f"{server.url}{REQUESTS}/{writers}").status_code == 200


def test_where_origins_are_listed_a_foreign_page_starts_nothing(foreign: Page, tmp_path: Path) -> None:
    with Server(tmp_path, cors_origins="http://mine.example") as server:
        server.start()
        for options in ({"headers": JSON}, {"mode": "no-cors"}, {"mode": "no-cors", "headers": PLAIN}):
            sent = {"method": "POST", "body": json.dumps(RESTING), **options}
            assert foreign.evaluate(FETCH, [server.url + REQUESTS, sent]) in ("opaque 0 ", "TypeError"), options
        assert server.get(REQUESTS).json() == {"completions": []}


def test_a_link_of_another_page_leads_to_the_page(foreign: Page, server: Server) -> None:
    foreign.set_content(f'<a href="{server.url}/">write</a>')
    foreign.click("a")
    foreign.wait_for_url(f"{server.url}/**")
    assert foreign.evaluate(FETCH, ["/slots", {}]).startswith("basic 200 ")


def test_a_foreign_page_may_ask_for_models_and_not_for_stories(foreign: Page, server: Server) -> None:
    assert foreign.evaluate(FETCH, [f"{server.url}/v1/models", {}]).startswith("cors 200 ")
    for path in (STORIES, ONE, f"{ONE}/export", f"{STORIES}?deleted=1"):
        assert foreign.evaluate(FETCH, [server.url + path, {}]) == "TypeError", path
        assert foreign.evaluate(FETCH, [server.url + path, {"mode": "no-cors"}]) in ("opaque 0 ", "TypeError"), path


@pytest.mark.parametrize(
    "options",
    [
        {"method": "POST", "body": EVIL},
        {"method": "POST", "body": EVIL, "headers": PLAIN, "mode": "no-cors"},
        {"method": "POST", "body": EVIL, "headers": JSON},
        {"method": "POST", "body": EVIL, "headers": JSON, "mode": "no-cors"},
        {"method": "POST", "body": EVIL, "headers": JSON, "credentials": "include"},
        {"method": "DELETE"},
    ],
    ids=["simple", "text", "json", "json without cors", "json with credentials", "delete"],
)
def test_a_foreign_page_changes_no_story(foreign: Page, server: Server, options: dict[str, Any]) -> None:
    assert foreign.evaluate(FETCH, [server.url + ONE, options]) in ("opaque 0 ", "TypeError")
    assert_unchanged(server)


def test_a_foreign_form_or_script_tag_gets_nothing(foreign: Page, server: Server) -> None:
    name, _, value = EVIL.replace("}}}", '}}, "x": "=" }').partition("=")  # as forms of plain text send it
    assert foreign.evaluate(SEND_FORM, [server.url + ONE, name, value])
    assert_unchanged(server)
    assert foreign.evaluate(LOAD_SCRIPT, f"{server.url}/completion.js") == "loaded"
    assert foreign.evaluate(LOAD_SCRIPT, f"{server.url}{ONE}/export") == "refused"


def test_a_foreign_name_that_is_pointed_at_the_server_reads_no_story(browser: Browser, server: Server) -> None:
    """DNS rebinding: for the browser the page and the stories then have one origin."""
    rebound = browser.browser_type.launch(
        executable_path=chromium(), args=["--host-resolver-rules=MAP evil.example 127.0.0.1"]
    )
    try:
        page = rebound.new_page()
        page.goto(f"http://evil.example:{server.port}/v1/models")
        assert page.evaluate(FETCH, ["/v1/models", {}]).startswith("basic 200 ")
        for path, options in (
            (ONE, {}),
            (ONE, {"method": "POST", "body": EVIL, "headers": JSON}),
            (ONE, {"method": "DELETE"}),
        ):
            assert page.evaluate(FETCH, [path, options]).startswith("basic 403 "), options
    finally:
        rebound.close()
    assert_unchanged(server)
