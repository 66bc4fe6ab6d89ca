"""Pages of other origins on a server without keys: what they may use, none of it a writer's or everybody's."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import Application, create_app
from srb.web.openapi import Operation
from srb.wire.commands import (
    PAGE,
    AddBranches,
    Attach,
    ChangeBranch,
    EndReasoning,
    Generate,
    GetRequest,
    ListRequests,
    StopBranches,
)
from tests.scripted import ScriptedClient

EVIL = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
OTHER = {"Origin": "http://other.example", "Sec-Fetch-Site": "cross-site"}
CLOSED = {
    "GET /slots", "POST /slots/<slot>", "POST /props", "POST /lora-adapters", "GET /metrics", "GET /models/sse",
    "POST /models/load", "POST /models/unload", "POST /api/push", "POST /api/create", "POST /api/copy",
    "DELETE /api/delete", "GET /v1/srb/usage",
}  # fmt: skip
BODIES = [
    ("/v1/srb/completions", {"prompt": "x", "stream": False}),
    ("/v1/completions", {"prompt": "x"}),
    ("/completion", {"prompt": "x"}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    ("/api/generate", {"model": "storyteller", "prompt": "x", "stream": False}),
    ("/api/v1/generate", {"prompt": "x"}),
]
CONTROLS: list[tuple[str, str, dict[str, Any] | None, type]] = [
    ("GET", "/v1/srb/completions", None, ListRequests),
    ("GET", "/v1/srb/completions/r1", None, GetRequest),
    ("GET", "/v1/srb/completions/r1/events", None, Attach),
    ("DELETE", "/v1/srb/completions/r1", None, StopBranches),
    ("DELETE", "/v1/srb/completions/r1/branches/0", None, StopBranches),
    ("POST", "/v1/srb/completions/r1/branches", {}, AddBranches),
    ("PATCH", "/v1/srb/completions/r1/branches/0", {"max_tokens": 3}, ChangeBranch),
    ("POST", "/v1/chat/completions/control", {"id": "r1", "action": "reasoning_end"}, EndReasoning),
    ("POST", "/api/extra/abort", {}, ListRequests),
    ("GET", "/api/extra/generate/check", None, ListRequests),
]


class Door:
    """A server over a scripted engine, and the owners of the commands that it was sent."""

    def __init__(self, **settings: Any) -> None:
        chosen = Settings(stories="off", **settings)
        self.engine = ScriptedClient(chosen)
        self.app = create_app(chosen, self.engine)
        self.http: FlaskClient = self.app.test_client()

    def status(self, method: str, path: str, body: object = None, **headers: str) -> int:
        with self.http.open(path, method=method, json=body, headers=headers) as answer:
            return answer.status_code

    def owners(self, kind: type) -> list[str]:
        found = [each.owner for each in self.engine.sent if isinstance(each, kind)]
        self.engine.sent.clear()
        return found


@pytest.fixture(scope="module")
def door() -> Door:
    return Door(state_dir="/nowhere")


def declared(app: Application) -> dict[str, Operation | None]:
    found = {}
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            found[f"{method} {rule.rule}"] = getattr(app.view_functions[rule.endpoint], "operation", None)
    return found


def test_each_route_says_whether_foreign_pages_may_use_it(door: Door) -> None:
    routes = declared(door.app)
    assert [route for route, operation in routes.items() if operation is None] == []
    closed = {route for route, operation in routes.items() if operation is not None and not operation.foreign}
    assert {route for route in closed if "/v1/srb/stories" not in route} == CLOSED
    assert {route for route in routes if "/v1/srb/stories" in route} == closed - CLOSED


def test_a_route_without_a_declaration_is_closed() -> None:
    door = Door()
    door.app.add_url_rule("/new", "new", lambda: "x")
    assert (door.status("GET", "/new"), door.status("GET", "/new", **EVIL)) == (200, 403)


@pytest.mark.parametrize("route", sorted(CLOSED))
@pytest.mark.parametrize(
    "headers",
    [EVIL, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
     {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-origin, cross-site"},
     {"Sec-Fetch-Site": ""}],
    ids=["page", "image", "port", "old browser", "file", "twice", "empty"],
)  # fmt: skip
def test_what_is_everybodys_is_closed_to_them(door: Door, route: str, headers: dict[str, str]) -> None:
    method, path = route.split()
    path = path.replace("<slot>", "0?action=erase")
    door.engine.sent.clear()
    assert door.status(method, path, [{"id": 0, "scale": 1.0}] if "lora" in path else {}, **headers) == 403
    assert door.engine.sent == []


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"},
     {"Sec-Fetch-Site": "same-origin", "Origin": "https://srb.example"}],
    ids=["program", "own", "address bar", "own get", "behind a proxy that names itself"],
)  # fmt: skip
def test_the_own_page_and_programs_use_all_as_they_did(door: Door, headers: dict[str, str]) -> None:
    assert door.status("GET", "/slots", **headers) == 200
    assert door.status("POST", "/lora-adapters", [{"id": 0, "scale": 1.0}], **headers) == 200
    assert door.status("POST", "/v1/srb/completions", {"prompt": "x", "stream": False}, **headers) == 200
    assert door.owners(Generate) == ["127.0.0.1"]
    door.status("DELETE", "/v1/srb/completions/r1", **headers)
    assert door.owners(StopBranches) == [""]


@pytest.mark.parametrize(("path", "body"), BODIES, ids=[path for path, _ in BODIES])
def test_a_request_that_they_start_is_theirs(door: Door, path: str, body: dict[str, Any]) -> None:
    door.engine.sent.clear()
    owners = []
    for headers in (EVIL, EVIL, OTHER, {"Origin": "null"}, {"Origin": "null"}):
        assert door.status("POST", path, body, **headers) == 200
        owners += door.owners(Generate)
    assert all(owner.startswith(PAGE) for owner in owners)
    assert owners[0] == owners[1]
    assert len(set(owners)) == 4, "a file's page and one in a sandbox have one origin, and are not the same"


def test_an_origin_is_another_owner_at_another_address() -> None:
    door = Door(trusted_proxies="127.0.0.1")
    for address in ("192.0.2.1", "192.0.2.2"):
        assert door.status("POST", "/completion", {"prompt": "x"}, **EVIL, **{"X-Forwarded-For": address}) == 200
    assert len(set(door.owners(Generate))) == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"), CONTROLS, ids=[f"{each[0]} {each[1]}" for each in CONTROLS]
)
def test_controls_reach_only_requests_of_the_same_origin(
    door: Door, method: str, path: str, body: dict[str, Any] | None, kind: type
) -> None:
    assert door.status("POST", "/completion", {"prompt": "x"}, **EVIL) == 200
    [evil] = door.owners(Generate)
    for headers, own in ((EVIL, True), (OTHER, False), ({"Sec-Fetch-Site": "cross-site"}, False)):
        door.status(method, path, body, **headers)
        [owner] = set(door.owners(kind))
        assert owner.startswith(PAGE)
        assert (owner == evil) == own


def test_fields_that_change_what_is_everybodys_are_refused_to_them(door: Door) -> None:
    for path, body in (
        ("/completion", {"prompt": "x", "system_prompt": {"prompt": "evil"}}),
        ("/completion", {"system_prompt": {"prompt": "evil"}}),
        ("/completion", {"prompt": "x", "state": "mine"}),
        ("/v1/srb/completions", {"prompt": "x", "state": "mine", "stream": False}),
    ):
        assert door.status("POST", path, body, **EVIL) == 403, body
    assert door.owners(Generate) == []
    assert door.http.get("/props").json["system_prompt"] == ""  # type: ignore[index]


def test_they_read_no_system_prompt_and_no_slots() -> None:
    door = Door()
    assert door.status("POST", "/completion", {"prompt": "x", "system_prompt": {"prompt": "a writer's"}}) == 200
    for headers, seen in (({}, True), (EVIL, False)):
        assert ("a writer's" in door.http.get("/props", headers=headers).text) == seen
        assert ("slots" in (door.http.get("/health?include_slots", headers=headers).json or {})) == seen
        door.engine.sent.clear()
        assert door.status("POST", "/completion", {"prompt": "x"}, **headers) == 200
        assert any("a writer's" in each.prompt for each in door.engine.sent if isinstance(each, Generate)) == seen


def test_limits_count_them_with_their_address() -> None:
    door = Door(rate_limit=1)
    assert door.status("POST", "/completion", {"prompt": "x"}, **EVIL) == 200
    assert door.status("POST", "/completion", {"prompt": "x"}, **OTHER) == 429


def test_where_origins_are_listed_no_other_page_changes_anything() -> None:
    door = Door(cors_origins="http://mine.example, localhost")
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        for headers in (
            EVIL,
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://mine.example:81"},
        ):
            assert door.status(method, "/v1/srb/completions", {"prompt": "x"}, **headers) == 403
    assert door.engine.sent == []
    for origin in ("http://mine.example", "http://localhost:3000"):
        listed = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        assert door.status("POST", "/completion", {"prompt": "x", "state": "mine"}, **listed) == 200
        assert door.status("GET", "/slots", **listed) == 200
        assert door.owners(Generate) == ["127.0.0.1"]


def test_a_body_is_not_read_before_the_refusal() -> None:
    class Untouched:
        def read(self, *_: Any) -> bytes:
            raise AssertionError("the body was read")

    for settings, path in (({"cors_origins": "http://mine.example"}, "/completion"), ({}, "/lora-adapters")):
        door = Door(**settings)
        given = {"wsgi.input": Untouched(), "CONTENT_LENGTH": "1000", "HTTP_ORIGIN": "http://evil.example"}
        with door.http.open(path, method="POST", environ_overrides=given) as answer:
            assert answer.status_code == 403


def test_with_keys_a_key_decides() -> None:
    door = Door(api_key="k", cors_origins="http://mine.example")
    for path, body in (("/completion", {"prompt": "x", "state": "mine"}), ("/lora-adapters", [])):
        assert door.status("POST", path, body, **EVIL) == 401
        assert door.status("POST", path, body, Authorization="Bearer k", **EVIL) == 200
